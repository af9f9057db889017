// main.cpp - the `tidu` command on the standard primitives.
#include "tidu/cli/cli.hpp"

int main(int argc, char** argv) { return tidu::cli_main(argc, argv); }
