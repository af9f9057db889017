// cli.cpp - from words to an exit status: selects the command and reports errors.
#include "tidu/cli/cli.hpp"

#include <iostream>
#include <ostream>

#include "cli/commands.hpp"
#include "tidu/cpu/executor.hpp"
#ifdef TIDU_WITH_CUDA
#include "tidu/cuda.hpp"
#endif
#include "tidu/graph/error.hpp"
#include "tidu/reference/executor.hpp"

namespace tidu {
namespace {

int status_of(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::invalid_argument:
    case ErrorKind::type:
    case ErrorKind::attribute:
    case ErrorKind::unknown_primitive:
    case ErrorKind::dump: return 2;
    default: return 1;
  }
}

int dispatch(const cli::Session& session) {
  using Run = int (*)(const cli::Session&);
  struct Entry {
    std::string_view name;
    Run run;
    Run run_eager = nullptr;
  };
  constexpr Entry table[] = {
      {"eval", cli::run_eval, cli::run_eager_eval},
      {"jvp", cli::run_jvp, cli::run_eager_jvp},
      {"vjp", cli::run_vjp, cli::run_eager_vjp},
      {"grad", cli::run_grad, cli::run_eager_grad},
      {"hvp", cli::run_hvp, cli::run_eager_hvp},
      {"jac", cli::run_jac, cli::run_eager_jac},
      {"check", cli::run_check},
      {"dump", cli::run_dump},
      {"ops", cli::run_ops},
  };
  for (const Entry& entry : table) {
    if (session.arguments.command == entry.name)
      return session.arguments.eager ? entry.run_eager(session) : entry.run(session);
  }
  throw Error(ErrorKind::internal, detail::str("the command ", session.arguments.command, " is in no table"));
}

}  // namespace

std::vector<CliExecutor> standard_executors() {
  std::vector<CliExecutor> executors{{"cpu",
                                      [](const CliExecutorOptions& options) {
                                        CpuOptions cpu_options;
                                        cpu_options.threads = options.threads;
                                        return std::make_shared<CpuExecutor>(cpu_options);
                                      }},
                                     {"reference", [](const CliExecutorOptions&) {
                                        return std::make_shared<ReferenceExecutor>(reference());
                                      }}};
#ifdef TIDU_WITH_CUDA
  executors.push_back({"cuda", [](const CliExecutorOptions& options) {
                         auto executor = std::make_shared<CudaExecutor>();
                         if (options.runs) executor->open();
                         return executor;
                       }});
#endif
  return executors;
}

std::shared_ptr<const Executor> cli::make_executor(const Session& session) {
  if (session.executors.empty())
    throw Error(ErrorKind::invalid_argument, "expected at least one executor, got none");
  const std::string name = session.arguments.backend.value_or(session.executors[0].name);
  std::vector<std::string_view> known;
  for (const CliExecutor& executor : session.executors) {
    if (executor.name == name) return executor.make({session.arguments.threads, true});
    known.push_back(executor.name);
  }
  throw Error(ErrorKind::invalid_argument, detail::str("--backend: expected one of ", detail::list(known),
                                                       ", got ", detail::in_quotes(name)));
}

int cli_main(std::span<const std::string> words, std::ostream& out, std::ostream& err,
             std::string_view program, const PrimitiveSet& set, const std::vector<CliExecutor>& executors) {
  try {
    const cli::Arguments arguments = cli::parse_arguments(words);
    if (arguments.help) {
      std::vector<std::string> backends;
      for (const CliExecutor& executor : executors) backends.push_back(executor.name);
      cli::print_help(out, program, arguments.command, backends);
    }
    const int status = arguments.help ? 0 : dispatch({arguments, set, executors, out, err, program});
    out.flush();
    if (!out) {
      err << program << ": expected to write the result, standard output refused it\n";
      return 1;
    }
    return status;
  } catch (const Error& error) {
    err << program << ": " << error.what() << '\n';
    return status_of(error.kind());
  } catch (const std::bad_alloc&) {
    err << program << ": out of memory\n";
  } catch (const std::exception& error) {
    err << program << ": " << error.what() << '\n';
  } catch (...) {
    err << program << ": something was thrown that is no std::exception\n";
  }
  return 1;
}

int cli_main(int argc, const char* const* argv, const PrimitiveSet& set,
             const std::vector<CliExecutor>& executors) {
  const std::string_view path = argc > 0 ? argv[0] : "tidu";
  const std::size_t slash = path.find_last_of('/');
  const std::string program = detail::printable(path.substr(slash + 1));  // npos + 1 is 0
  const std::vector<std::string> words(argv + (argc > 0 ? 1 : 0), argv + argc);
  return cli_main(words, std::cout, std::cerr, program, set, executors);
}

}  // namespace tidu
