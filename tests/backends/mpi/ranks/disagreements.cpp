// Ranks that do not run the same, or of which one cannot: each of them gets an error, and none waits.
#include <doctest/doctest.h>

#include <functional>
#include <string>
#include <vector>

#include "mpi/ranks/large_requests.hpp"
#include "mpi/ranks/session.hpp"
#include "support/probe.hpp"
#include "tidu/graph/builder.hpp"
#include "tidu/primitives/collectives.hpp"

namespace tidu::test {
namespace {

using Collective = std::function<Value(Value x, std::int64_t axis_size)>;

struct Named {
  std::string name;
  Collective collective;
};
std::vector<Named> collectives() {
  return {
      {"psum", [](Value x, std::int64_t n) { return ops::psum(x, "ranks", n); }},
      {"all_gather", [](Value x, std::int64_t n) { return ops::all_gather(x, "ranks", n, 1); }},
      {"reduce_scatter", [](Value x, std::int64_t n) { return ops::reduce_scatter(x, "ranks", n, 1, true); }},
      {"ppermute", [](Value x, std::int64_t n) { return ops::ppermute(x, "ranks", n, {}); }}};
}

// The error of running it, on each executor.
std::vector<std::string> messages(const Collective& collective, Type type, std::int64_t axis_size) {
  static const auto on_reference = with_axes(reference(), {{"ranks", (session(), MPI_COMM_WORLD)}});
  static const auto on_cpu = with_axes(cpu(), {{"ranks", MPI_COMM_WORLD}});
  GraphBuilder builder("collective", standard_primitives());
  const Graph graph = builder.build({collective(builder.input("x", type), axis_size)});
  const Tensor x(type);
  return {message_of([&] { (void)on_reference.run(graph, {x}); }),
          message_of([&] { (void)on_cpu.run(graph, {x}); })};
}

TEST_CASE("the last rank takes the axis for a larger one") {
  const std::int64_t n = session().size();
  const bool wrong = session().rank() == n - 1;
  const Type type(f64, {2, n * (n + 1)});
  for (const Named& one : collectives()) {
    const std::string& name = one.name;
    const Collective& collective = one.collective;
    for (const std::string& message : messages(collective, type, wrong ? n + 1 : n)) {
      INFO(name, ": ", message);
      CHECK(message.starts_with('[' + name + "] expected " +
                                (wrong ? "a communicator of " : "all ranks of axis \"ranks\" to run one")));
    }
    for (const std::string& message : messages(collective, type, n)) CHECK(message == "no error");
  }
}

TEST_CASE("the last rank has no memory for its exchange") {
  const std::int64_t n = session().size();
  const bool refused = session().rank() == n - 1;
  const Type type(f64, {2, 1000 * n});
  for (const Named& one : collectives()) {
    const std::string& name = one.name;
    const Collective& collective = one.collective;
    if (name != "psum" && name != "reduce_scatter") continue;  // of which each takes twice the operand
    const auto enough = messages(collective, type, n);
    if (refused) refuse_requests_from(2 * type.bytes());
    const auto too_little = messages(collective, type, n);
    refuse_requests_from(0);
    for (const std::string& message : enough) CHECK(message == "no error");
    for (const std::string& message : too_little) {
      INFO(name, ": ", message);
      CHECK(message != "no error");
      if (!refused) CHECK(message.starts_with('[' + name + "] expected all ranks of axis \"ranks\""));
    }
    for (const std::string& message : messages(collective, type, n)) CHECK(message == "no error");
  }
}

}  // namespace
}  // namespace tidu::test
