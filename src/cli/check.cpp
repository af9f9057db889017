// check.cpp - the command check: are the derivatives of this graph right, and if not, which rule is wrong?
#include "tidu/check/check_gradients.hpp"

#include <ostream>

#include "cli/commands.hpp"
#include "cli/job.hpp"

namespace tidu::cli {

int run_check(const Session& session) {
  const Job job(session);
  const CheckReport report = job.derive(
      [&job](const Graph& graph) { return check_gradients(graph, job.tensors(), job.executor()); });
  session.out << to_text(report);
  return report.ok ? 0 : 3;
}

}  // namespace tidu::cli
