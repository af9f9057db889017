// scan of functions of Arrays: eager, lazy, compiled, differentiated in both modes and twice, mapped, nested,
// compared with the unrolled loop.
#include "tidu/frontend/control_flow.hpp"

#include <functional>
#include <map>

#include "frontend/support.hpp"

namespace tidu {
namespace {

namespace control_flow_cases {

using test::distance;
using test::elements;
using test::error_of;
using test::random_array;

// A recurrent cell, whose weights the step captures.
struct Cell {
  Array w, u;
};
Array loss_of_scan(const Cell& cell, const Array& h, const Array& xs) {
  const auto [last, ys] = scan(
      [&](const Array& state, const Array& x) {
        const Array next = tanh(matmul(state, cell.w) + x * cell.u);
        return std::pair(next, sum(next * x));
      },
      h, xs);
  return sum(last * last) + sum(ys * ys);
}
Array loss_of_loop(const Cell& cell, const Array& h, const Array& xs) {
  Array state = h, total(0.0);
  for (std::int64_t i = 0; i < xs.shape()[0]; ++i) {
    state = tanh(matmul(state, cell.w) + xs[i] * cell.u);
    const Array y = sum(state * xs[i]);
    total = total + y * y;
  }
  return sum(state * state) + total;
}

void same(const Array& got, const Array& expected, double tolerance = 1e-12) {
  REQUIRE(got.type() == expected.type());
  CHECK(distance(got, expected) <= tolerance);
}

struct Problem {
  Cell cell{random_array({3, 3}, 1, 0.5), random_array({3}, 2)};
  Array h = random_array({3}, 3), xs = random_array({5, 3}, 4);
  Cell dcell{random_array({3, 3}, 5), random_array({3}, 6)};
  Array dh = random_array({3}, 7), dxs = random_array({5, 3}, 8);
};

TEST_CASE("scan: value and derivatives are those of the unrolled loop") {
  const Problem p;
  for (const bool lazily : {false, true}) {
    std::optional<Lazy> lazy;
    if (lazily) lazy.emplace();
    same(loss_of_scan(p.cell, p.h, p.xs), loss_of_loop(p.cell, p.h, p.xs));
    const auto by_cell = grad<0>(loss_of_scan)(p.cell, p.h, p.xs);
    const auto expected = grad<0>(loss_of_loop)(p.cell, p.h, p.xs);
    same(by_cell.w, expected.w);
    same(by_cell.u, expected.u);
    same(grad<1>(loss_of_scan)(p.cell, p.h, p.xs), grad<1>(loss_of_loop)(p.cell, p.h, p.xs));
    same(grad<2>(loss_of_scan)(p.cell, p.h, p.xs), grad<2>(loss_of_loop)(p.cell, p.h, p.xs));
    const auto by_w = [&](const auto& loss) {
      return [&p, &loss](const Array& w) { return loss(Cell{w, p.cell.u}, p.h, p.xs); };
    };
    const auto scanned = by_w(loss_of_scan), looped = by_w(loss_of_loop);
    same(jvp(scanned, p.cell.w, p.dcell.w).second, jvp(looped, p.cell.w, p.dcell.w).second);
    same(hvp(scanned, p.cell.w, p.dcell.w), hvp(looped, p.cell.w, p.dcell.w));
    same(hessian(scanned)(p.cell.w), hessian(looped)(p.cell.w), 1e-11);
    same(grad(compile(scanned))(p.cell.w), expected.w);
    same(compile(grad(scanned))(p.cell.w), expected.w);
    const auto curve = [&](const auto& f) {
      return grad([&f, &p](const Array& w) { return sum(grad(f)(w) * p.dcell.w); })(p.cell.w);
    };
    same(curve(scanned), curve(looped));
    Array leaf = test::leaf(p.cell.w);
    scanned(leaf).backward();
    same(*leaf.grad(), expected.w);
  }
}

TEST_CASE("scan: mapped over any of its operands, and derivatives of each example") {
  const Problem p;
  const Array hs = random_array({4, 3}, 9), many = random_array({4, 5, 3}, 10);
  const auto by_h = [&](const Array& h, const Array& xs) { return loss_of_scan(p.cell, h, xs); };
  const auto loop = [&](const Array& h, const Array& xs) { return loss_of_loop(p.cell, h, xs); };
  same(vmap(by_h)(hs, many), vmap(loop)(hs, many));
  same(vmap(by_h, {0, std::nullopt})(hs, p.xs), vmap(loop, {0, std::nullopt})(hs, p.xs));
  same(vmap(by_h, {std::nullopt, 0})(p.h, many), vmap(loop, {std::nullopt, 0})(p.h, many));
  same(vmap(grad(by_h))(hs, many), vmap(grad(loop))(hs, many));
  const Array ws = random_array({4, 3, 3}, 11, 0.5);
  const auto by_w = [&](const Array& w) { return loss_of_scan(Cell{w, p.cell.u}, p.h, p.xs); };
  const auto by_w_loop = [&](const Array& w) { return loss_of_loop(Cell{w, p.cell.u}, p.h, p.xs); };
  same(vmap(by_w)(ws), vmap(by_w_loop)(ws));
  same(vmap(grad(by_w))(ws), vmap(grad(by_w_loop))(ws));
  same(grad([&](const Array& w) { return sum(vmap(by_w)(w)); })(ws), vmap(grad(by_w_loop))(ws));
}

struct State {
  Array position, velocity;
};

TEST_CASE("scan: carries and slices of any form, without xs, without ys, in reverse, of no step") {
  const auto [last, path] = scan(
      [](const State& s, std::nullopt_t) {
        const State next{s.position + s.velocity * 0.1, s.velocity - s.position * 0.1};
        return std::pair(next, next.position);
      },
      State{Array(1.0), Array(0.0)}, std::nullopt, 50);
  double position = 1.0, velocity = 0.0;
  for (int i = 0; i < 50; ++i) {
    const double next = position + velocity * 0.1;
    velocity -= position * 0.1;
    position = next;
    CHECK(path[i].item<double>() == doctest::Approx(position).epsilon(1e-14));
  }
  CHECK(last.velocity.item<double>() == doctest::Approx(velocity).epsilon(1e-14));

  const std::map<std::string, Array> table{{"a", array({1.0, 2.0, 3.0})}, {"b", array({4.0, 5.0, 6.0})}};
  const auto horner = [](const Array& c, const std::map<std::string, Array>& x) {
    return std::tuple(c * 2.0 + x.at("a"), std::vector{c, x.at("b") * c});
  };
  const auto forward = scan(horner, 0.0, table);
  CHECK(std::get<0>(forward).item<double>() == 11.0);
  CHECK(elements(std::get<1>(forward)[0]) == std::vector{0.0, 1.0, 4.0});
  const auto backward = scan(horner, 0.0, table, 3, true);
  CHECK(std::get<0>(backward).item<double>() == 17.0);
  CHECK(elements(std::get<1>(backward)[0]) == std::vector{8.0, 3.0, 0.0});
  CHECK(elements(std::get<1>(backward)[1]) == std::vector{32.0, 15.0, 0.0});

  const auto total = [](const Array& xs) {
    return scan([](const Array& c, const Array& x) { return std::pair(c + x * x, std::nullopt); }, 0.0, xs)
        .first;
  };
  CHECK(total(array({1.0, 2.0})).item<double>() == 5.0);
  CHECK(elements(grad(total)(array({1.0, 2.0}))) == std::vector{2.0, 4.0});
  const Array none = zeros({0});
  CHECK(total(none).item<double>() == 0.0);
  CHECK(grad(total)(none).shape() == Shape{0});
  const auto only_ys = scan([](std::nullopt_t, const Array& x) { return std::pair(std::nullopt, sin(x)); },
                            std::nullopt, array({1.0, 2.0}));
  CHECK(distance(only_ys.second, sin(array({1.0, 2.0}))) == 0.0);
}

TEST_CASE("scan: nested, within a checkpoint and of one, with a custom rule inside") {
  const Array w = random_array({3}, 20), a = random_array({4, 3}, 21), v = random_array({3}, 22);
  const auto twice = [&](const auto& wrap) {
    return [&, wrap](const Array& at) {
      const auto outer = [&](const Array& c, const Array& x) {
        const auto inner = [&](const Array& d, const Array& y) { return std::pair(sin(d * at) + y, d * y); };
        const auto step = [&](const Array& given) {
          const auto [e, ys] = scan(inner, given, stack({x, x * c}));
          return std::pair(e, sum(ys));
        };
        return wrap(step)(c);
      };
      const auto [last, ys] = scan(outer, at, a);
      return sum(last) + sum(ys * ys);
    };
  };
  const auto plain = twice([](const auto& f) { return f; });
  const auto kept = twice([](const auto& f) { return checkpoint(f); });
  const auto loop = [&](const Array& at) {
    Array c = at, total(0.0);
    for (int i = 0; i < 4; ++i) {
      Array d = c, ys(0.0);
      for (const Array& y : {Array(a[i]), Array(a[i] * c)}) {
        ys = ys + sum(d * y);
        d = sin(d * at) + y;
      }
      total = total + ys * ys;
      c = d;
    }
    return sum(c) + total;
  };
  for (const std::function<Array(const Array&)>& f : {std::function<Array(const Array&)>(plain), {kept}}) {
    same(f(w), loop(w), 1e-11);
    same(grad(f)(w), grad(loop)(w), 1e-10);
    same(jvp(f, w, v).second, jvp(loop, w, v).second, 1e-10);
    same(hvp(f, w, v), hvp(loop, w, v), 1e-8);
    same(hessian(f)(w), hessian(loop)(w), 1e-8);
  }
  const auto clipped =
      custom_vjp([](const Array& x) { return x * x; }, [](const Array& x) { return std::pair(x * x, x); },
                 [](const Array& x, const Array& ct) { return clip(2.0 * x * ct, -1.0, 1.0); });
  const auto f = [&](const Array& x) {
    return scan([&](const Array& c, std::nullopt_t) { return std::pair(clipped(c), std::nullopt); }, x,
                std::nullopt, 2)
        .first;
  };
  CHECK(f(Array(3.0)).item<double>() == 81.0);
  CHECK(grad(f)(Array(3.0)).item<double>() == 1.0);
}

TEST_CASE("scan: signatures that do not fit are refused, with the expected one") {
  const auto sums = [](const Array& c, const Array& x) { return std::pair(c + x, c); };
  const auto says = [](const auto& body, const std::string& text) {
    const std::string message = error_of(body);
    CHECK_MESSAGE(message.find(text) != std::string::npos, message);
  };
  says([&] { scan(sums, 0.0, Array(1.0)); }, "[scan] expected xs with a leading axis, got f64[]");
  says([&] { scan(sums, 0.0, zeros({3}), 4); }, "[scan] expected xs with 4 slices, the length, got f64[3]");
  says([&] { scan(sums, 0.0, zeros({3}), -1); }, "[scan] expected length >= 0, got -1");
  says([&] { scan([](const Array& c, std::nullopt_t) { return std::pair(c, c); }, 0.0, std::nullopt); },
       "[scan] expected xs or a length, got neither");
  says(
      [&] {
        scan(sums, 0.0, zeros({3, 2}));
      },
      "[scan] expected body \"step\" to give carry 0 as it came in, f64[], got f64[2]");
  says(
      [&] {
        scan([](const Array& c, const Array& x) { return std::pair(std::vector{c, x}, c); }, 0.0, zeros({2}));
      },
      "[scan] expected a function that returns a carry of 1 Arrays, as it gets, got 2");
  says(
      [&] {
        scan([](const Array& c, const Array& x) { return std::pair(c * x.item<double>(), c); }, 0.0,
             zeros({2}));
      },
      "traced");
  says([&] { scan(sums, 0, zeros({2})); }, "make init an Array of it");
}

namespace {
struct Counted {
  Array sum;
  int steps;
};
}  // namespace

TEST_CASE("scan: a carry of another structure is refused, and so is one whose plain members change") {
  const auto refused = [](const auto& body) {
    CHECK(error_of(body).find("a carry of the structure that it gets") != std::string::npos);
  };
  refused([] {
    scan(
        [](const Counted& c, const Array& x) {
          return std::pair(Counted{c.sum + x, c.steps + 1}, x);
        },
        Counted{Array(0.0), 1}, zeros({2}));
  });
  refused([] {
    using Named = std::map<std::string, Array>;
    scan(
        [](const Named& c, const Array& x) {
          return std::pair(Named{{"z", c.at("a")}}, x);
        },
        Named{{"a", Array(1.0)}}, zeros({2}));
  });
  refused([] {
    using Rows = std::vector<std::vector<Array>>;
    scan(
        [](const Rows& c, const Array& x) {
          return std::pair(Rows{{c[0][0]}, {c[0][1], c[1][0]}}, x);
        },
        Rows{{Array(1.0), Array(2.0)}, {Array(3.0)}}, zeros({2}));
  });
  const auto [last, ys] = scan(
      [](const Counted& c, const Array& x) {
        return std::pair(Counted{c.sum + c.steps * x, c.steps}, x);
      },
      Counted{Array(0.0), 3}, ones({2}));
  CHECK(last.sum.item() == 6);
  CHECK(last.steps == 3);
}

}  // namespace control_flow_cases
}  // namespace
}  // namespace tidu
