// main.cpp - a `tidu` command with the primitives of this project: the same words, options and messages.
#include <tidu/cli/cli.hpp>

#include "kernels.hpp"
#include "primitives.hpp"

int main(int argc, char** argv) {
  const std::vector<tidu::CliExecutor> executors = {
      {"cpu",
       [](const tidu::CliExecutorOptions& options) {
         tidu::CpuOptions cpu;
         cpu.threads = options.threads;
         return std::make_shared<tidu::CpuExecutor>(demo::with_kernels(tidu::CpuExecutor(cpu)));
       }},
      {"reference", [](const tidu::CliExecutorOptions&) {
         return std::make_shared<tidu::ReferenceExecutor>(demo::with_kernels(tidu::reference()));
       }}};
  return tidu::cli_main(argc, argv, demo::primitives(), executors);
}
