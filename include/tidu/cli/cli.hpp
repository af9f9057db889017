// cli.hpp - the `tidu` command as a function, so that a project with its own primitives has such a command
// too.
#pragma once

#include <functional>
#include <iosfwd>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tidu/graph/primitive_set.hpp"
#include "tidu/tensor/executor.hpp"

namespace tidu {

/// The options of the command that concern an executor.
struct CliExecutorOptions {
  int threads = 0;    ///< 0: the executor's own choice
  bool runs = false;  ///< it will run something: a backend without its device says so now
};

/// A backend that `--backend` can name.
struct CliExecutor {
  std::string name;  ///< the argument of --backend
  std::function<std::shared_ptr<const Executor>(const CliExecutorOptions&)>
      make;  ///< makes one with these options
};

/// "cpu" (the default of --backend), "reference", and "cuda" where it was built, with the kernels of the
/// standard primitives.
std::vector<CliExecutor> standard_executors();

/// Runs the command on primitives of `set`. The first executor is the default of --backend. Results go to
/// standard output as one line of JSON or as text, errors to standard error. Returns the exit status: 0; 1
/// for a missing rule or kernel, a failure while running, or no memory; 2 for anything wrong with arguments,
/// files, types or names; 3 when `check` found a fault. Throws nothing.
int cli_main(int argc, const char* const* argv, const PrimitiveSet& set = standard_primitives(),
             const std::vector<CliExecutor>& executors = standard_executors());
/// The same with the arguments after the program's name, and streams of the caller's.
int cli_main(std::span<const std::string> arguments, std::ostream& out, std::ostream& err,
             std::string_view program_name, const PrimitiveSet& set,
             const std::vector<CliExecutor>& executors);

}  // namespace tidu
