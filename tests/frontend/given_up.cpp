// given_up.cpp - Arrays that are moved into a compiled function, whose results use their memory (donation).
#include <set>

#include "cpu/vector_units.hpp"
#include "support.hpp"

namespace tidu::test {
namespace {

using Arrays = std::vector<Array>;

Arrays moments_and_parameters(const Array& m, const Array& w, const Array& x) {
  const Array next = 0.9 * m + tanh(w * x);
  return {next, w - 0.1 * next};
}

std::set<const void*> places(const Arrays& arrays) {
  std::set<const void*> result;
  for (const Array& each : arrays) result.insert(each.tensor().bytes());
  return result;
}

TEST_CASE("an Array that is moved into a compiled function and has no other reference is overwritten") {
  if (units().empty()) return;
  const auto step = compile(moments_and_parameters);
  const Array x = random_array({120, 90}, 1);
  Arrays state{zeros({120, 90}, f64), random_array({120, 90}, 2)}, plain = state;
  state = {state[0] + 0.0, state[1] + 0.0};
  const std::set<const void*> before = places(state);
  for (int i = 0; i < 5; ++i) {
    plain = step(plain[0], plain[1], x);
    state = step(std::move(state[0]), std::move(state[1]), x);
    CHECK(places(state) == before);
    for (std::size_t k = 0; k < 2; ++k) CHECK(elements(state[k]) == elements(plain[k]));
  }
  // The same of a list that is moved.
  const auto of_list = compile(
      [](const Arrays& both, const Array& at) { return moments_and_parameters(both[0], both[1], at); });
  plain = of_list(plain, x);
  state = of_list(std::move(state), x);
  CHECK(places(state) == before);
  for (std::size_t k = 0; k < 2; ++k) CHECK(elements(state[k]) == elements(plain[k]));
}

TEST_CASE("an Array with another reference, or whose gradient may be needed, is kept") {
  const auto step = compile(moments_and_parameters);
  const Array x = random_array({120, 90}, 1), m = random_array({120, 90}, 3), w = random_array({120, 90}, 2);
  const Arrays expected = step(m, w, x);
  const auto check = [&](const Arrays& got, const Arrays& kept) {
    for (std::size_t k = 0; k < 2; ++k) CHECK(elements(got[k]) == elements(expected[k]));
    CHECK(elements(kept[0]) == elements(m));
    CHECK(elements(kept[1]) == elements(w));
  };
  check(step(m, w, x), {m, w});
  Array again = w;  // another handle
  check(step(m, std::move(again), x), {m, w});
  const Tensor tensor = w.tensor();  // or its elements
  again = Array(tensor);
  check(step(m, std::move(again), x), {m, Array(tensor)});
  const Array view = (w + 0.0).reshape({90, 120});
  again = view.reshape({120, 90});
  check(step(m, std::move(again), x), {m, view.reshape({120, 90})});
  // The same Array twice.
  again = w + 0.0;
  Array same = again;
  const auto twice = compile([](const Array& a, const Array& b) { return a - sin(b); });
  CHECK(elements(twice(std::move(again), std::move(same))) == elements(w - sin(w)));

  // An Array that is also used by the function itself; a failed call takes nothing.
  again = w + 0.0;
  CHECK(elements(twice(again, std::move(again))) == elements(w - sin(w)));
  again = w + 0.0;
  const auto by_itself = compile([&](const Array& a) { return a * again; });
  CHECK(elements(by_itself(std::move(again))) == elements(w * w));
  again = w + 0.0;
  CHECK(error_of([&] { (void)step(m, std::move(again), random_array({7}, 1)); }) != "");
  check(step(m, again, x), {m, again});

  Array leaf = w + 0.0;
  leaf.set_requires_grad();
  const Arrays recorded = step(m, leaf, x);
  sum(recorded[1]).backward();
  Array other = w + 0.0;
  other.set_requires_grad();
  const Array other_leaf = other;
  sum(step(m, std::move(other), x)[1]).backward();
  CHECK(elements(*other_leaf.grad()) == elements(*leaf.grad()));
  // A value that the tape keeps is not donated, though it has no other reference.
  const auto product = compile([](const Array& a, const Array& b) { return a * b; });
  leaf.zero_grad();
  sum(product(w + 0.0, leaf)).backward();
  CHECK(elements(*leaf.grad()) == elements(w));
  // While nothing is recorded a leaf is a parameter like others, but has a gradient.
  leaf.zero_grad();
  const Array handle = leaf;
  {
    const NoGrad guard;
    check(step(m, std::move(leaf), x), {m, handle});
  }
}

TEST_CASE("an Array that is moved into a compiled function in lazy mode, or traced, has the same values") {
  const auto step = compile(moments_and_parameters);
  const Array x = random_array({120, 90}, 1), m = random_array({120, 90}, 3), w = random_array({120, 90}, 2);
  const Arrays expected = step(m, w, x);
  const auto fresh = [](const Array& of) { return of + 0.0; };
  {
    const Lazy guard;
    const Arrays got = step(fresh(m), fresh(w), x);
    CHECK(elements(got[1]) == elements(expected[1]));
  }
  const auto outer = compile([&](Array a, const Array& at) { return step(std::move(a), w, at)[1]; });
  CHECK(elements(outer(fresh(m), x)) == elements(expected[1]));
  // The elements that a function uses from outside are its own.
  const auto uses = compile([&](const Array& a) { return a * w; });
  CHECK(elements(uses(fresh(m))) == elements(m * w));
  CHECK(elements(uses(fresh(m))) == elements(m * w));
}

}  // namespace
}  // namespace tidu::test
