// check.cpp - the command check: are the derivatives of this graph right, and if not, whose rule is at fault?
#include <ostream>

#include "cli/commands.hpp"
#include "cli/io.hpp"
#include "tidu/check/check_gradients.hpp"
#include "tidu/graph/error.hpp"

namespace tidu::cli {

int run_check(const Session& session) {
  const Graph graph = read_graph(session.arguments.graph_file, session.set);
  const std::string& file = *session.arguments.inputs_file;
  const auto executor = make_executor(session);
  const NamedTensors given = read_named_tensors(file);
  std::vector<NamedTensor> named(given.begin(), given.end());
  const CheckReport report = check_gradients(graph, arrange_inputs(graph, named), *executor);
  session.out << to_text(report);
  return report.ok ? 0 : 3;
}

}  // namespace tidu::cli
