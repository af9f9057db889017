// while_loop and fori_loop of functions of Arrays: eager, lazy, compiled, differentiated in both modes and
// twice if possible, mapped, nested, compared with the same loop written in C++.
#include <cmath>
#include <functional>
#include <limits>
#include <map>

#include "frontend/support.hpp"
#include "tidu/frontend/control_flow.hpp"
#include "tidu/frontend/custom.hpp"

namespace tidu {
namespace {

namespace while_loop_cases {

using test::distance;
using test::elements;
using test::error_of;
using test::random_array;

void same(const Array& got, const Array& expected, double tolerance = 1e-12) {
  REQUIRE(got.type() == expected.type());
  CHECK(distance(got, expected) <= tolerance);
}

using Bound = std::optional<std::int64_t>;
using Function = std::function<Array(const Array&)>;

// Newton's method for sqrt(a), elementwise, until nothing changes much.
Array newton(const Array& a, Bound bound) {
  using State = std::pair<Array, Array>;
  return while_loop([](const State& s) { return max(abs(s.first - s.second)) > 1e-10; },
                    [&](const State& s) {
                      return State{0.5 * (s.first + a / s.first), s.first};
                    },
                    State{a, a + 1.0}, bound)
      .first;
}
// A loop of C++ reads data: its number of steps is computed first, outside of traces.
int steps_for(const Array& a) {
  Array x = a, last = a + 1.0;
  int steps = 0;
  for (; max(abs(x - last)).item() > 1e-10; ++steps) {
    last = x;
    x = 0.5 * (last + a / last);
  }
  return steps;
}
Array newton_loop(const Array& a, int steps) {
  Array x = a;
  for (int i = 0; i < steps; ++i) x = 0.5 * (x + a / x);
  return x;
}

TEST_CASE("while_loop: value and derivatives are those of the unrolled loop") {
  const Array a = abs(random_array({4}, 1)) + 0.5, v = random_array({4}, 2), u = random_array({4}, 3);
  const int steps = steps_for(a);
  for (const bool lazily : {false, true}) {
    std::optional<Lazy> lazy;
    if (lazily) lazy.emplace();
    for (const Bound bound : {Bound(), Bound(30)}) {
      const auto loop = [&](const Array& x) { return sum(newton(x, bound) * u); };
      const auto written = [&](const Array& x) { return sum(newton_loop(x, steps) * u); };
      same(newton(a, bound), sqrt(a), 1e-9);
      same(loop(a), written(a));
      same(jvp(loop, a, v).second, jvp([&](const Array& x) { return sum(sqrt(x) * u); }, a, v).second, 1e-9);
      same(jvp(compile(loop), a, v).second, jvp(loop, a, v).second);
      const auto slope = [&](const Array& x) { return jvp(loop, x, v).second; };
      same(jvp(slope, a, v).second, sum(-0.25 * u * v * v / (a * sqrt(a))), 1e-8);
      same(jacfwd([&](const Array& x) { return newton(x, bound); })(a), diag(0.5 / sqrt(a)), 1e-9);
      if (!bound) continue;
      same(grad(loop)(a), grad(written)(a), 1e-11);
      same(compile(grad(loop))(a), grad(written)(a), 1e-11);
      same(grad(compile(loop))(a), grad(written)(a), 1e-11);
      same(hvp(loop, a, v), hvp(written, a, v), 1e-9);
      same(hessian(loop)(a), hessian(written)(a), 1e-9);
      Array leaf = test::leaf(a);
      loop(leaf).backward();
      same(*leaf.grad(), grad(written)(a), 1e-11);
    }
  }
}

TEST_CASE("while_loop: without a bound reverse mode is refused, when a gradient is asked for") {
  const Array a = array({2.0, 3.0});
  const auto loop = [](const Array& x) { return sum(newton(x, {})); };
  const auto refused = [](const std::function<void()>& body) {
    try {
      body();
    } catch (const Error& error) {
      CHECK(error.kind() == ErrorKind::ad_rule);
      const std::string text = error.what();
      CHECK_MESSAGE(text.find("Give it max_steps, or use scan, or fori_loop") != std::string::npos, text);
      return;
    }
    FAIL_CHECK("no error");
  };
  refused([&] { grad(loop)(a); });
  refused([&] { jacrev(loop)(a); });
  Array leaf = test::leaf(a);
  Array y = loop(leaf);
  CHECK(distance(y, sum(sqrt(a))) < 1e-9);
  refused([&] { y.backward(); });
  // Fixed carries need no check.
  const auto counted = [](const Array& x) {
    return x *
           while_loop([](const Array& n) { return n < 5; }, [](const Array& n) { return n + 2; }, Array(0));
  };
  CHECK(grad(counted)(Array(3.0)).item() == 6.0);
}

TEST_CASE("while_loop: mapped examples end apart, each where it would alone") {
  const Array many = abs(random_array({5, 3}, 4)) * array({0.01, 1.0, 100.0}) + 0.001;
  for (const Bound bound : {Bound(), Bound(60)}) {
    const auto root = [&](const Array& x) { return newton(x, bound); };
    same(vmap(jacfwd(root))(many), vmap(jacfwd([](const Array& x) { return sqrt(x); }))(many), 1e-6);
    for (std::int64_t i = 0; i < 5; ++i)
      same(vmap(root)(many)[i], newton_loop(many[i], steps_for(many[i])), 1e-13);
    if (!bound) continue;
    const auto loss = [&](const Array& x) { return sum(square(root(x))); };
    same(vmap(grad(loss))(many), ones({5, 3}), 1e-8);
    same(grad([&](const Array& x) { return sum(vmap(loss)(x)); })(many), vmap(grad(loss))(many), 1e-12);
  }
  // Collatz: numbers of steps that have nothing to do with one another.
  const auto steps = [](const Array& n) {
    using State = std::pair<Array, Array>;
    return while_loop([](const State& s) { return s.first != 1; },
                      [](const State& s) {
                        return State{where(mod(s.first, 2) == 0, floor_divide(s.first, 2), s.first * 3 + 1),
                                     s.second + 1};
                      },
                      State{n, Array(0)})
        .second;
  };
  CHECK(steps(Array(27)).item<int>() == 111);
  const Array numbers = array({1, 2, 3, 7, 27, 97});
  CHECK(elements(vmap(steps)(numbers)) == std::vector<double>{0, 1, 7, 16, 111, 118});
  const Array table = array({27, 1, 2, 3, 7, 97}).reshape({2, 3});
  CHECK(elements(vmap(vmap(steps))(table)) == std::vector<double>{111, 0, 1, 7, 16, 118});
}

struct Walker {
  Array at, count;
  int stride;
};

// The steps that an example does not take are computed for others, and the root of a negative number in one
// of them must not reach the derivative through shared values.
TEST_CASE("while_loop: a number that examples share has the sum of their derivatives") {
  const Array many = array({5.0, 1.5, 0.5});
  const auto last = [](const Array& x, const Array& w) {
    return while_loop([](const Array& c) { return c > 1.0; }, [&](const Array& c) { return sqrt(c - w); }, x,
                      12);
  };
  const auto all = [&](const Array& w) { return sum(vmap(last, {0, std::nullopt})(many, w)); };
  const auto captured = [&](const Array& w) {
    return sum(vmap([&](const Array& x) { return last(x, w); })(many));
  };
  const Array w(0.999);
  double expected = 0;
  for (std::int64_t i = 0; i < 3; ++i)
    expected += grad([&](const Array& at) { return last(many[i], at); })(w).item();
  CHECK(std::isfinite(expected));
  CHECK(grad(all)(w).item() == doctest::Approx(expected));
  CHECK(grad(captured)(w).item() == doctest::Approx(expected));
  CHECK(compile(grad(all))(w).item() == doctest::Approx(expected));
  CHECK(jacfwd(all)(w).item() == doctest::Approx(expected));
}

TEST_CASE("while_loop: carries of any form, no step, captured Arrays in both functions") {
  const Array limit = array({10.0, 20.0}), pace = array({1.0, 2.0});
  const auto walk = [&](const Array& to, const Array& by) {
    return while_loop([&](const Walker& w) { return sum(w.at) < sum(to); },
                      [&](const Walker& w) {
                        return Walker{w.at + w.stride * by * to / 10.0, w.count + 1, w.stride};
                      },
                      Walker{zeros({2}), Array(0), 2}, 100);
  };
  const Walker end = walk(limit, pace);
  CHECK(end.stride == 2);
  CHECK(end.count.item<int>() == 3);
  CHECK(elements(end.at) == std::vector{6.0, 24.0});
  const auto total = [&](const Array& to) { return sum(walk(to, pace).at); };
  CHECK(elements(grad(total)(limit)) == std::vector{0.6, 1.2});
  CHECK(elements(grad([&](const Array& by) { return sum(walk(limit, by).at); })(pace)) ==
        std::vector{6.0, 12.0});
  CHECK(walk(-limit, pace).count.item<int>() == 0);
  CHECK(elements(grad(total)(-limit)) == std::vector{0.0, 0.0});
  CHECK(while_loop([](const Array& x) { return x < 100.0; }, [](const Array& x) { return x * 2.0; }, 3.0, 2)
            .item() == 12.0);
  const std::map<std::string, Array> state{{"a", Array(1.0)}, {"b", Array(2.0)}};
  const auto swapped = while_loop([](const auto& s) { return s.at("a") < s.at("b"); },
                                  [](const std::map<std::string, Array>& s) {
                                    return std::map<std::string, Array>{{"a", s.at("b")}, {"b", s.at("a")}};
                                  },
                                  state);
  CHECK(swapped.at("a").item() == 2.0);
  CHECK(swapped.at("b").item() == 1.0);
}

TEST_CASE("fori_loop: of numbers a scan, of Arrays a while") {
  const Array x = random_array({3}, 6), v = random_array({3}, 7);
  const auto body = [&](const Array& i, const Array& c) { return sin(c) * x + astype(i, f64); };
  const auto written = [&](std::int64_t lower, std::int64_t upper) {
    return [&body, lower, upper](const Array& at) {
      Array c = at;
      for (std::int64_t i = lower; i < upper; ++i) c = body(Array(static_cast<int>(i)), c);
      return sum(c * c);
    };
  };
  for (const auto& bounds : {std::pair{0, 5}, {-2, 3}, {3, 3}, {4, 1}}) {
    const int lower = bounds.first, upper = bounds.second;
    const auto expected = written(lower, upper);
    const auto squared = [&](auto from, auto to, Bound most) -> Function {
      return [&body, from, to, most](const Array& at) {
        const Array c = fori_loop(from, to, body, at, most);
        return sum(c * c);
      };
    };
    for (const Function& f :
         {squared(lower, upper, {}), squared(Array(lower), Array(upper), 9), squared(lower, Array(upper), 6),
          squared(Array(std::int64_t{lower}), upper, 7)}) {
      same(f(x), expected(x));
      same(grad(f)(x), grad(expected)(x));
      same(jvp(f, x, v).second, jvp(expected, x, v).second);
      same(hvp(f, x, v), hvp(expected, x, v), 1e-11);
    }
    const Function loop = squared(Array(lower), Array(upper), {});
    same(loop(x), expected(x));
    same(jvp(loop, x, v).second, jvp(expected, x, v).second);
  }
  CHECK(elements(fori_loop(
            0, 10, [](const Array&, const Array& c) { return c + 1.0; }, zeros({2}), 4)) ==
        std::vector{4.0, 4.0});
  // The number of steps is traced.
  const auto power = [](const Array& base, const Array& n) {
    return fori_loop(
        0, n, [&](const Array&, const Array& c) { return c * base; }, 1.0);
  };
  const auto compiled = compile(power);
  CHECK(compiled(Array(2.0), Array(10)).item() == 1024.0);
  CHECK(compiled(Array(2.0), Array(3)).item() == 8.0);
  CHECK(compiled.num_traced() == 1);
  CHECK(elements(vmap(power, {std::nullopt, 0})(Array(3.0), array({0, 1, 4}))) ==
        std::vector{1.0, 3.0, 81.0});
  CHECK(jvp([&](const Array& b) { return power(b, Array(5)); }, Array(2.0), Array(1.0)).second.item() ==
        80.0);
  const auto factorial = fori_loop(
      1, 6,
      [](const Array& i, const std::pair<Array, int>& c) {
        return std::pair{c.first * i, c.second};
      },
      std::pair{Array(1), 7});
  CHECK(factorial.first.item<int>() == 120);
  CHECK(factorial.second == 7);
}

TEST_CASE("loops: nested in each other, in scan, checkpoint and compile") {
  const Array x = random_array({3}, 8), v = random_array({3}, 9), xs = random_array({4, 3}, 10);
  const auto inner = [](const Array& c, const Array& w) {  // 2 or 3 steps
    using State = std::pair<Array, Array>;
    return while_loop([&](const State& s) { return s.second < 2 + astype(sum(c) > 0.0, i32); },
                      [&](const State& s) {
                        return State{sin(s.first * w) + 0.1, s.second + 1};
                      },
                      State{c, Array(0)}, 5)
        .first;
  };
  const auto inner_loop = [](const Array& c, const Array& w) {
    const Array two = sin(sin(c * w) * w + 0.1 * w) + 0.1, three = sin(two * w) + 0.1;
    return where(sum(c) > 0.0, three, two);
  };
  const auto over = [&](const auto& step) {
    return [&xs, step](const Array& w) {
      const auto [last, ys] = scan(
          [&](const Array& c, const Array& row) {
            const Array next = step(c + row, w);
            return std::pair(next, sum(next * row));
          },
          w, xs);
      return sum(last) + sum(ys * ys);
    };
  };
  const auto written = [&](const Array& w) {
    Array c = w, total(0.0);
    for (int i = 0; i < 4; ++i) {
      c = inner_loop(c + xs[i], w);
      const Array y = sum(c * xs[i]);
      total = total + y * y;
    }
    return sum(c) + total;
  };
  const auto plain = over(inner);
  const auto kept = over([&](const Array& c, const Array& w) { return checkpoint(inner)(c, w); });
  const auto twice = [&](const Array& w) {
    const auto next = [&](const Array& i, const Array& c) {
      return fori_loop(
                 0, 2, [&](const Array&, const Array& d) { return inner(d + xs[0], w); }, c) +
             astype(i, f64);
    };
    return sum(while_loop(
        [](const Array& c) { return sum(abs(c)) < 100.0; },
        [&](const Array& c) { return fori_loop(Array(0), Array(2), next, c, 3) * 2.0 + 1.0; }, w, 8));
  };
  for (const Function& f : {Function(plain), Function(kept)}) {
    same(f(x), written(x), 1e-11);
    same(grad(f)(x), grad(written)(x), 1e-10);
    same(jvp(f, x, v).second, jvp(written, x, v).second, 1e-10);
    same(hvp(f, x, v), hvp(written, x, v), 1e-8);
    same(compile(grad(f))(x), grad(written)(x), 1e-10);
  }
  const auto difference = (twice(x + 1e-6 * v) - twice(x - 1e-6 * v)) / 2e-6;
  CHECK(jvp(twice, x, v).second.item() == doctest::Approx(difference.item()).epsilon(1e-6));
  CHECK(sum(grad(twice)(x) * v).item() == doctest::Approx(jvp(twice, x, v).second.item()).epsilon(1e-12));
}

TEST_CASE("while_loop: a rule of one's own for a loop without a bound has reverse mode, and may hold loops") {
  const Array a = abs(random_array({4}, 11)) + 0.5, v = random_array({4}, 12);
  const auto root = [](const Array& x) { return newton(x, {}); };
  // The implicit function: y y = x.
  const auto implicit = custom_jvp(root, [root](const Array& x, const Array& dx) {
    const Array y = root(x);
    return std::pair(y, 0.5 * dx / y);
  });
  const auto loss = [&](const Array& x) { return sum(implicit(x) * v); };
  same(grad(loss)(a), 0.5 * v / sqrt(a), 1e-9);
  same(vmap(grad([&](const Array& x) { return sum(implicit(x)); }))(a), 0.5 / sqrt(a), 1e-9);
  // The tangent halved by a loop that counts: linear in it, and without a bound for forward mode alone.
  const auto looped = [root](Bound bound) {
    return custom_jvp(root, [root, bound](const Array& x, const Array& dx) {
      using State = std::pair<Array, Array>;
      const Array y = root(x), half = while_loop([](const State&s) { return s.second < 2.5; },
                                                 [](const State&s) {
                                                   return State{s.first * 0.5, s.second + 1.0};
                                                 },
                                                 State{dx, 1.5 + 0.0 * sum(x)}, bound)
                                          .first;
      return std::pair(y, half / y);
    });
  };
  same(jvp(looped({}), a, v).second, 0.5 * v / sqrt(a), 1e-9);
  same(jvp(looped(3), a, v).second, 0.5 * v / sqrt(a), 1e-9);
  same(grad([&](const Array& x) { return sum(looped(3)(x) * v); })(a), 0.5 * v / sqrt(a), 1e-9);
}

TEST_CASE("loops: signatures that do not fit are refused, with the expected one") {
  const auto says = [](const auto& body, const std::string& text) {
    const std::string message = error_of(body);
    CHECK_MESSAGE(message.find(text) != std::string::npos, message);
  };
  const auto below = [](const Array& c) { return c < 3.0; };
  const auto more = [](const Array& c) { return c + 1.0; };
  says([&] { while_loop([](const Array& c) { return c; }, more, 0.0); },
       "[while_loop] expected a condition of type bool[], got f64[]");
  says([&] { while_loop(below, more, zeros({2})); },
       "[while_loop] expected a condition of type bool[], got bool[2]");
  says([&] { while_loop(below, more, 0.0, -1); }, "[while_loop] expected max_steps >= 0, got -1");
  says(
      [&] {
        while_loop(
            below,
            [](const Array& c) {
              return stack({c, c});
            },
            0.0);
      },
      "[while_loop] expected a function that returns a carry of the types that it gets, f64[] for Array 0 of "
      "it, got "
      "f64[2]");
  says(
      [&] {
        while_loop([](const Array& c) { return c < 3; }, [](const Array& c) { return c + 1.5; }, Array(0));
      },
      "i32[] for Array 0 of it, got f64[]");
  says([&] { while_loop([](int) { return Array(false); }, [](int c) { return c; }, 0); },
       "make init an Array of it");
  says([&] { while_loop(below, more, Array()); }, "while_loop");
  says([&] { while_loop([](const Array& c) { return c.item() < 3.0; }, more, 0.0); }, "traced");
  using List = std::vector<Array>;
  says(
      [&] {
        while_loop([](const List& c) { return c[0] < 1.0; },
                   [](const List& c) {
                     return List{c[0], c[0]};
                   },
                   List{Array(0.0)});
      },
      "[while_loop] expected a function that returns a carry of the structure that it gets");
  const auto add = [](const Array&, const Array& c) { return c + 1.0; };
  says([&] { fori_loop(0, std::int64_t{1} << 40, add, 0.0); },
       "[fori_loop] expected bounds that i32 holds, or Arrays of i64, got 1099511627776");
  says([&] { fori_loop(std::int64_t{1} << 40, Array(5), add, 0.0); },
       "[fori_loop] expected bounds that i32 holds, the dtype of the other, got 1099511627776");
  says([&] { fori_loop(Array(0), (std::int64_t{1} << 32) + 3, add, 0.0); },
       "[fori_loop] expected bounds that i32 holds, the dtype of the other, got 4294967299");
  CHECK(fori_loop(Array(std::int64_t{1} << 40), (std::int64_t{1} << 40) + 3, add, 0.0).item() == 3.0);
  says([&] { fori_loop(std::numeric_limits<std::uint64_t>::max(), 3, add, 0.0); },
       "[fori_loop] expected bounds that i32 holds");
  says([&] { fori_loop(Array(0.0), 3, add, 0.0); },
       "[fori_loop] expected bounds that are integers without axes, got f64[]");
  says([&] { fori_loop(Array(0), Array(std::int64_t{3}), add, 0.0); },
       "[fori_loop] expected bounds of one dtype, got i32[] and i64[]");
  says(
      [&] {
        fori_loop(
            0, 3, [](const Array& i, const Array&) { return i; }, 0.0);
      },
      "[fori_loop] expected a function that returns a carry of the types that it gets, f64[] for Array 0 of "
      "it, got "
      "i32[]");
  says(
      [&] {
        fori_loop(
            Array(0), 3, [](const Array& i, const Array&) { return i; }, 0.0);
      },
      "f64[] for Array 0 of it, got i32[]");
  says([&] { fori_loop(0, 3, add, 0.0, -2); }, "[fori_loop] expected max_steps >= 0, got -2");
}

}  // namespace while_loop_cases
}  // namespace
}  // namespace tidu
