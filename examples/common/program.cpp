// program.cpp - see program.hpp.
#include "common/program.hpp"

#include <cstdio>
#include <exception>
#include <string_view>

namespace examples {

int run_program(const char* name, const char* usage, int argc, char** argv,
                const std::function<int()>& body) {
  try {
    if (argc == 2 && std::string_view(argv[1]) == "--help") {
      std::fputs(usage, stdout);
      return exit_good;
    }
    return body();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s: %s\n", name, error.what());
    return exit_wrong_input;
  }
}

}  // namespace examples
