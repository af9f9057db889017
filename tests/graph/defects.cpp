// defects.cpp - an error in internal steps of the library is an Error of kind internal, and no mistake of the
// caller.
#include <doctest/doctest.h>

#include <string>
#include <tidu/graph/builder.hpp>
#include <vector>

#include "graph/copying.hpp"
#include "graph/defect.hpp"
#include "support/test_primitives.hpp"

namespace tidu::defects_cases {
namespace {

using test::test_set;

template <class Body>
void says(const Body& body, ErrorKind kind, const std::string& message) {
  const auto result = detail::capture(body);
  REQUIRE_FALSE(result.has_value());
  CHECK(result.error().kind() == kind);
  CHECK(std::string(result.error().what()) == message);
}

TEST_CASE("an operand that was never given is the caller's mistake, one that was not made is a defect") {
  GraphBuilder f("f", test_set());
  const Value x = f.input("x", f64), y = f.input("y", f64);
  const Graph graph = f.build({test::mul(test::sin(x), y)});
  GraphBuilder g("g", test_set());
  const Value given = g.input("x", f64);
  says(
      [&] {
        return inline_graph(g, graph, std::vector<Value>{given, Value()});
      },
      ErrorKind::invalid_argument,
      "[mul] expected a value for operand 1 (%1), got an unset one\n  in operation 1 of \"f\"");
  std::vector<Value> values(graph.num_values());
  values[0] = values[1] = given;
  detail::OperationCopier copier(g, graph, values);
  says(
      [&] {
        copier.copy(1);  // before operation 0, which it reads
        return 0;
      },
      ErrorKind::internal,
      "[mul] expected a value for operand 0 (%2), got an unset one\n  in operation 1 of \"f\"");
}

TEST_CASE("an error of a public function within a step of the library is a defect of the library") {
  const auto step = [](ErrorKind kind) {
    return [kind] {
      return detail::own_step("closing a pullback",
                              [kind]() -> int { throw Error(kind, "expected 2 inputs, got 1"); });
    };
  };
  const std::string defect =
      "expected 2 inputs, got 1\n  in closing a pullback: a defect of tidu, not of the program that calls it";
  says(step(ErrorKind::invalid_argument), ErrorKind::internal, defect);
  says(step(ErrorKind::type), ErrorKind::internal, defect);
  for (const ErrorKind kind : {ErrorKind::out_of_memory, ErrorKind::cancelled, ErrorKind::execution})
    says(step(kind), kind, "expected 2 inputs, got 1");
  CHECK(detail::own_step("nothing", [] { return 3; }) == 3);
  // It keeps its type when a location is added.
  const detail::Defect error("x");
  CHECK(dynamic_cast<const detail::Defect*>(error.with_message("y").get()) != nullptr);
  CHECK_THROWS_AS(error.raise(), detail::Defect);
}

}  // namespace
}  // namespace tidu::defects_cases
