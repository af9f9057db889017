// no_gradient.cpp - the messages when no gradient flows: of backward from a root that depends on its leaf
// through operations without derivative alone, and of explain() for a detached Array.
#include <string>

#include "support.hpp"

namespace tidu::test::no_gradient_cases {
namespace {

std::string here(int line) { return std::string(__FILE__) + ":" + std::to_string(line); }

using Cause = eager::Explanation::Cause;

Array leaf_named(const char* name) {
  Array leaf = array({1.25, 2.75});
  leaf.set_requires_grad().set_name(name);
  return leaf;
}

TEST_CASE(
    "backward from a root that reaches its leaf only through operations without derivative names them") {
  const Array w = leaf_named("w");
  const std::string start =
      "[Array::backward] expected an Array that depends on a leaf which requires a gradient, got f64[] that "
      "does "
      "not";
  SUBCASE("under an ExplainGuard those of this Array") {
    const ExplainGuard guard;
    (void)ceil(w);
    const int first = __LINE__ + 1;
    const Array rounded = floor(w);
    const Array loss = sum(rounded) + sum(w.to(i32)).to(f64);
    const std::string error = error_of([&] { loss.backward(); });
    CHECK(error.starts_with(start + ": \"w\" reaches the root only through "));
    CHECK(contains(error, "floor (operation "));
    CHECK(contains(error, here(first)));
    CHECK(contains(error, "astype (operation "));
    CHECK(contains(error, here(first + 1)));
    CHECK(contains(error, ", which have no derivative\n  in Array::backward, " + here(first + 2)));
    CHECK_FALSE(contains(error, "ceil"));
  }
  SUBCASE("without one the last that got an Array with a gradient") {
    const int first = __LINE__ + 1;
    for (int i = 0; i < 3; ++i) (void)(w > 1.0);
    (void)argmax(w);
    const Array loss = sum(round(w));
    const std::string error = error_of([&] { loss.backward(); });
    CHECK(contains(error, "greater (" + here(first) + "), argmax (" + here(first + 1) + ") and round (" +
                              here(first + 2) +
                              ") (under an ExplainGuard it is known which of them this one comes from)\n"
                              "  in Array::backward, " +
                              here(first + 3)));
  }
  SUBCASE("of an Array that was detached") {
    const ExplainGuard guard;
    const int line = __LINE__ + 1;
    const std::string error = error_of([&] { sum(w.detach()).backward(); });
    CHECK(error.starts_with(start + ": \"w\" reaches the root only where sum (operation "));
    CHECK(contains(error, here(line) + ") takes it as a constant (it was detached, or recording was off)\n"));
  }
}

TEST_CASE("explain says where an Array was detached") {
  const ExplainGuard guard;
  const Array w = leaf_named("w"), v = leaf_named("v");
  const auto says = [&](const Array& loss, Cause cause, const std::string& text) {
    const eager::Explanation why = explain(w, loss);
    CHECK(why.status == eager::Explanation::Status::absent);
    CHECK(why.cause == cause);
    CHECK(contains(why.text, text));
  };
  const std::string constant = ") takes it as a constant (it was detached, or recording was off)";
  int line = __LINE__ + 1;
  const Array product = sin(w).detach() * v;
  says(sum(product), Cause::detached, "absent: \"w\" reaches the root only where multiply (operation ");
  says(sum(product), Cause::detached, here(line) + constant);
  says(sum(w.detach() * v), Cause::detached, constant);
  says(sum(no_grad([&] { return exp(w); }) * v), Cause::detached, "only where exp (operation ");
  says(sum(no_grad([&] { return sum(exp(w) * 2.0); }) * v), Cause::detached, "only where exp (operation ");
  says(no_grad([&] { return compile([](const Array& a) { return sum(a * a); })(w); }) * v[0], Cause::detached,
       "only where compiled (operation ");
  says(sum(v * sum(w).item()), Cause::no_dependency, "no root depends on \"w\"");
  // A second way, on which a gradient flows.
  CHECK(explain(w, sum(w.detach() * w)).status == eager::Explanation::Status::present);
}

TEST_CASE("a detached Array under an ExplainGuard is a constant as usual") {
  const ExplainGuard guard;
  Array w = leaf_named("w");
  Array constant = w.detach(), computed = sin(w).detach();
  CHECK_FALSE(constant.requires_grad());
  CHECK_FALSE(computed.requires_grad());
  CHECK(contains(error_of([&] { constant.set_name("c"); }), "expected an Array that requires a gradient"));
  CHECK(contains(error_of([&] { computed.set_name("c"); }), "expected an Array that requires a gradient"));
  sum(constant * w).backward();
  CHECK(distance(*w.grad(), array({1.25, 2.75})) == 0);
  computed.set_requires_grad().set_name("computed");
  sum(computed * 2.0).backward();
  CHECK(distance(*computed.grad(), array({2.0, 2.0})) == 0);
  CHECK(distance(*w.grad(), array({1.25, 2.75})) == 0);
}

}  // namespace
}  // namespace tidu::test::no_gradient_cases
