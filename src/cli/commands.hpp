// commands.hpp - the commands, each from parsed arguments to an exit status.
#pragma once

#include <iosfwd>
#include <memory>
#include <vector>

#include "cli/arguments.hpp"
#include "tidu/cli/cli.hpp"

namespace tidu::cli {

struct Session {
  const Arguments& arguments;
  const PrimitiveSet& set;
  const std::vector<CliExecutor>& executors;
  std::ostream& out;
  std::ostream& err;         // for notes: errors are thrown
  std::string_view program;  // by which it was called
};

/// The executor that --backend names, or the first. Throws Error (invalid_argument).
std::shared_ptr<const Executor> make_executor(const Session& session);

int run_eval(const Session& session);
int run_jvp(const Session& session);
int run_vjp(const Session& session);
int run_grad(const Session& session);
int run_hvp(const Session& session);
int run_jac(const Session& session);
// The same with --eager.
int run_eager_eval(const Session& session);
int run_eager_jvp(const Session& session);
int run_eager_vjp(const Session& session);
int run_eager_grad(const Session& session);
int run_eager_hvp(const Session& session);
int run_eager_jac(const Session& session);
int run_check(const Session& session);
int run_dump(const Session& session);
int run_ops(const Session& session);

}  // namespace tidu::cli
