// arguments.hpp - the arguments of the command, parsed and checked.
#pragma once

#include <iosfwd>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tidu/graph/error.hpp"

namespace tidu::cli {

[[noreturn]] inline void refuse(const std::string& message) {
  throw Error(ErrorKind::invalid_argument, message);
}

struct Arguments {
  std::string command;
  std::string graph_file;
  std::optional<std::string> inputs_file, tangents_file, cotangents_file;
  std::optional<std::vector<std::string>> wrt, batched;
  std::string mode = "reverse";
  std::optional<std::string> backend;
  int threads = 0;
  std::string stage = "primal";
  std::string format = "text";
  bool keys = false;
  bool eager = false;
  std::optional<std::string> profile_file;
  bool help = false;
};

/// Throws Error (invalid_argument) for an option or word that the command does not have.
Arguments parse_arguments(std::span<const std::string> words);
/// The text of `program --help` or `program COMMAND --help`; `command` may be empty. `backends`: the
/// arguments of --backend, the default first.
void print_help(std::ostream& out, std::string_view program, std::string_view command,
                std::span<const std::string> backends);

}  // namespace tidu::cli
