// cond and switch_case of functions of Arrays: eager, lazy, compiled, differentiated in both modes and twice,
// mapped, nested, against the function chosen by the host.
#include <array>
#include <functional>
#include <limits>
#include <map>

#include "frontend/support.hpp"
#include "tidu/frontend/control_flow.hpp"
#include "tidu/frontend/custom.hpp"

namespace tidu {
namespace {

namespace conditional_cases {

using test::elements;
using test::error_of;
using test::random_array;

void same(const Array& got, const Array& expected, double tolerance = 1e-12) {
  REQUIRE(got.type() == expected.type());
  CHECK(test::distance(got, expected) <= tolerance);
}

// Both capture w, and one of them u.
struct Weights {
  Array w, u;
};
Array loss_of_cond(const Weights& p, const Array& x) {
  return cond(
      sum(x) > 0.0, [&](const Array& a) { return sum(sin(matmul(a, p.w)) * p.u); },
      [&](const Array& a) { return sum(exp(a * p.w)); }, x);
}
Array loss_of_host(bool positive, const Weights& p, const Array& x) {
  return positive ? sum(sin(matmul(x, p.w)) * p.u) : sum(exp(x * p.w));
}

struct Problem {
  Weights p{random_array({3, 3}, 1, 0.5), random_array({3}, 2)},
      dp{random_array({3, 3}, 3), random_array({3}, 4)};
  Array x = random_array({3}, 5) + 2.0, dx = random_array({3}, 6);
};

TEST_CASE("cond: value and derivatives are those of the function that is chosen") {
  const Problem q;
  for (const bool lazily : {false, true}) {
    std::optional<Lazy> lazy;
    if (lazily) lazy.emplace();
    for (const bool positive : {true, false}) {
      const Array x = positive ? q.x : -q.x;
      const auto host = [positive](const Weights& p, const Array& at) {
        return loss_of_host(positive, p, at);
      };
      same(loss_of_cond(q.p, x), host(q.p, x));
      const Weights got = grad<0>(loss_of_cond)(q.p, x), expected = grad<0>(host)(q.p, x);
      same(got.w, expected.w);
      same(got.u, expected.u);
      same(grad<1>(loss_of_cond)(q.p, x), grad<1>(host)(q.p, x));
      const auto chosen = [&](const Array& w) { return loss_of_cond({w, q.p.u}, x); };
      const auto direct = [&](const Array& w) { return host({w, q.p.u}, x); };
      same(jvp(chosen, q.p.w, q.dp.w).second, jvp(direct, q.p.w, q.dp.w).second);
      same(hvp(chosen, q.p.w, q.dp.w), hvp(direct, q.p.w, q.dp.w));
      same(hessian(chosen)(q.p.w), hessian(direct)(q.p.w), 1e-11);
      same(grad(compile(chosen))(q.p.w), expected.w);
      same(compile(grad(chosen))(q.p.w), expected.w);
      same(grad(checkpoint(chosen))(q.p.w), expected.w);
      const auto curve = [&](const auto& f) {
        return grad([&](const Array& w) { return sum(grad(f)(w) * q.dp.w); })(q.p.w);
      };
      same(curve(chosen), curve(direct));
      Array leaf = test::leaf(q.p.w);
      chosen(leaf).backward();
      same(*leaf.grad(), expected.w);
    }
  }
  // One compiled function for both.
  const auto compiled = compile([](const Weights& p, const Array& x) { return loss_of_cond(p, x); });
  same(compiled(q.p, q.x), loss_of_host(true, q.p, q.x));
  same(compiled(q.p, -q.x), loss_of_host(false, q.p, -q.x));
  CHECK(compiled.num_traced() == 1);
}

TEST_CASE("cond: mapped over operands, over the predicate, and derivatives of each example") {
  const Problem q;
  const Array xs = random_array({6, 3}, 7);
  const auto by_x = [&](const Array& x) { return loss_of_cond(q.p, x); };
  std::vector<Array> values, gradients;
  for (std::int64_t i = 0; i < 6; ++i) {
    const Array x = xs[i];
    const bool positive = sum(x).item<double>() > 0;
    const auto host = [&](const Array& at) { return loss_of_host(positive, q.p, at); };
    values.push_back(host(x));
    gradients.push_back(grad(host)(x));
  }
  same(vmap(by_x)(xs), stack(values));
  same(vmap(grad(by_x))(xs), stack(gradients));
  same(grad([&](const Array& all) { return sum(vmap(by_x)(all)); })(xs), stack(gradients));
  const auto fixed = [&](const Array& flag, const Array& x) {
    return cond(
        flag, [](const Array& a) { return a * a; }, [](const Array& a) { return -a; }, x);
  };
  same(vmap(fixed, {std::nullopt, 0})(Array(true), xs), xs * xs);
  same(vmap(fixed, {0, std::nullopt})(array({true, false}), q.x), stack({q.x * q.x, -q.x}));
}

struct State {
  Array position;
  std::map<std::string, Array> rest;
  int steps;
};

TEST_CASE("cond: predicates and operands of any form, results of structures, common captures") {
  const auto twice = [](const Array& x) { return x * 2.0; };
  const auto half = [](const Array& x) { return x * 0.5; };
  CHECK(cond(true, twice, half, 3.0).item<double>() == 6.0);
  CHECK(cond(false, twice, half, 3.0).item<double>() == 1.5);
  CHECK(cond(2, twice, half, 3.0).item<double>() == 6.0);
  CHECK(cond(0.0, twice, half, 3.0).item<double>() == 1.5);
  CHECK(cond(Array(-1.5), twice, half, 3.0).item<double>() == 6.0);
  CHECK(cond(sum(array({1, -1})), twice, half, 3.0).item<double>() == 1.5);
  const State s{array({1.0, 2.0}), {{"a", Array(3.0)}}, 4};
  const auto step = [](const State& from, const Array& by) {
    return State{from.position + by * from.steps, {{"a", from.rest.at("a") * by}}, from.steps};
  };
  const auto stay = [](const State& from, const Array&) { return from; };
  const State moved = cond(true, step, stay, s, 2.0), stayed = cond(false, step, stay, s, 2.0);
  CHECK(elements(moved.position) == std::vector{9.0, 10.0});
  CHECK(moved.rest.at("a").item<double>() == 6.0);
  CHECK(moved.steps == 4);
  CHECK(elements(stayed.position) == std::vector{1.0, 2.0});
  const auto none = cond(
      true, [] { return std::pair(Array(1.0), 2); }, [] { return std::pair(Array(3.0), 2); });
  CHECK(none.first.item<double>() == 1.0);
  const Array captured(5.0);
  const auto both = [&](const Array& at) {
    return cond(
        at > 0.0, [&] { return at * captured; }, [&] { return captured * captured * at; });
  };
  CHECK(grad(both)(Array(2.0)).item<double>() == 5.0);
  CHECK(grad(both)(Array(-2.0)).item<double>() == 25.0);
  // Neither value nor derivative of the other branch.
  const auto safe = [](const Array& x) {
    return cond(
        x > 0.0, [](const Array& a) { return log(a); }, [](const Array& a) { return a * 0.0; }, x);
  };
  CHECK(safe(Array(0.0)).item<double>() == 0.0);
  CHECK(grad(safe)(Array(0.0)).item<double>() == 0.0);
  CHECK(grad(safe)(Array(4.0)).item<double>() == 0.25);
}

TEST_CASE("cond: computations on captured Arrays alone are part of the function") {
  const auto log_or_zero = [&](const Array& x) {
    return cond(
        x > 0.0, [&] { return log(x); }, [&] { return x * 0.0; });
  };
  CHECK(log_or_zero(Array(0.0)).item<double>() == 0.0);
  for (const bool lazily : {false, true}) {
    std::optional<Lazy> lazy;
    if (lazily) lazy.emplace();
    CHECK(grad(log_or_zero)(Array(0.0)).item<double>() == 0.0);
    CHECK(grad(log_or_zero)(Array(4.0)).item<double>() == 0.25);
    CHECK(hvp(log_or_zero, Array(0.0), Array(1.0)).item<double>() == 0.0);
    CHECK(hvp(log_or_zero, Array(4.0), Array(1.0)).item<double>() == -0.0625);
    CHECK(grad(compile(log_or_zero))(Array(0.0)).item<double>() == 0.0);
    CHECK(compile(grad(log_or_zero))(Array(0.0)).item<double>() == 0.0);
  }
  CHECK(trace(log_or_zero, f64).num_operations() == 3);
  Array leaf = test::leaf(Array(3.0));
  cond(
      true, [&] { return leaf * leaf; }, [&] { return sqrt(leaf - 3.0); })
      .backward();
  CHECK(leaf.grad()->item<double>() == 6.0);
  // The other branch does not run: this loop would not end.
  const auto endless = [] {
    return while_loop([](const Array& n) { return n < 3; }, [](const Array& n) { return n * 1; }, Array(0));
  };
  CHECK(cond(false, endless, [] { return Array(7); }).item<int>() == 7);
  // Transforms and functions with custom rules in a branch, on captured Arrays.
  const auto nested = [](const Array& x) {
    const Array k = array({2.0, 3.0});
    return cond(
        x > 0.0,
        [&] {
          const auto ruled = custom_vjp([&](const Array& y) { return y * sum(k); },
                                        [&](const Array& y) { return std::pair(y * sum(k), y); },
                                        [&](const Array&, const Array& ct) { return ct * sum(k * k); });
          return ruled(x) + jvp([](const Array& y) { return sqrt(y); }, x, x).second +
                 hvp([](const Array& y) { return y * log(y); }, x, x) +
                 vjp([](const Array& y) { return log(y); }, x).second(x);
        },
        [&] {
          const auto once = compile([&](const Array& y) { return y * sum(k) * x; });
          return sum(vmap(grad([](const Array& y) { return y * y * y; }))(stack({x, x}))) + once(x) +
                 checkpoint([&](const Array& y) { return y * sum(k) * x; })(x);
        });
  };
  CHECK(nested(Array(4.0)).item<double>() == doctest::Approx(20.0 + 1.0 + 1.0 + 1.0));
  CHECK(nested(Array(-1.0)).item<double>() == doctest::Approx(6.0 + 5.0 + 5.0));
  CHECK(grad(nested)(Array(4.0)).item<double>() == doctest::Approx(13.0 + 0.125));
  CHECK(grad(nested)(Array(-1.0)).item<double>() == doctest::Approx(-12.0 - 10.0 - 10.0));
  CHECK(grad(nested)(Array(0.0)).item<double>() == 0.0);
  CHECK(error_of([] {
          const Array x(1.0);
          cond(
              true, [&] { return x * (x + 1.0).item<double>(); }, [&] { return x; });
        }).find("traced") != std::string::npos);
}

TEST_CASE("switch_case: of a tuple, a vector or an array of functions, with the index clamped to the range") {
  const auto sines = [](const Array& x) { return sin(x); };
  const auto squares = [](const Array& x) { return x * x; };
  const auto zero = [](const Array& x) { return zeros(x.shape()); };
  const Array x = random_array({3}, 8);
  const std::vector<Array> values{sin(x), x * x, zeros({3})}, slopes{cos(x), 2.0 * x, zeros({3})};
  const std::vector<std::function<Array(const Array&)>> list{sines, squares, zero};
  const std::array<Array (*)(const Array&), 3> pointers{+sines, +squares, +zero};
  for (const auto& [index, at] :
       {std::pair<std::int64_t, std::size_t>{0, 0}, {1, 1}, {2, 2}, {9, 2}, {-1, 0}}) {
    const auto of_tuple = [&, i = index](const Array& y) {
      return switch_case(i, std::tuple(sines, squares, zero), y);
    };
    same(of_tuple(x), values[at]);
    same(switch_case(index, list, x), values[at]);
    same(switch_case(index, pointers, x), values[at]);
    same(switch_case(astype(Array(static_cast<double>(index)), i32), list, x), values[at]);
    same(grad([&](const Array& y) { return sum(of_tuple(y)); })(x), slopes[at]);
  }
  same(switch_case(std::int64_t{1} << 33, list, x), values[2]);
  same(switch_case(Array(true) * 1, std::vector{list[1], list[0]}, x), values[0]);
  same(switch_case(3, std::tuple(squares), x), values[1]);
  const Array xs = random_array({5, 3}, 9), indices = array({0, 1, 2, -7, 7});
  const auto by_index = [&](const Array& i, const Array& y) { return switch_case(i, list, y); };
  same(vmap(by_index)(indices, xs),
       stack({sin(Array(xs[0])), xs[1] * xs[1], zeros({3}), sin(Array(xs[3])), zeros({3})}));
  same(vmap(grad<1>([&](const Array& i, const Array& y) { return sum(by_index(i, y)); }))(indices, xs),
       stack({cos(Array(xs[0])), 2.0 * xs[1], zeros({3}), cos(Array(xs[3])), zeros({3})}));
}

TEST_CASE("cond: in scans, scans in it, in itself, with a custom rule inside") {
  const Array w = random_array({3}, 20), a = random_array({4, 3}, 21), v = random_array({3}, 22);
  const auto chosen = [&](const Array& at) {
    const auto step = [&](const Array& c, const std::pair<Array, Array>& x) {
      const Array next = switch_case(x.second,
                                     std::tuple([&](const Array& d) { return sin(d * at) + x.first; },
                                                [&](const Array& d) {
                                                  const auto inner = [&](const Array& e, const Array& y) {
                                                    return std::pair(tanh(e + y * at), e);
                                                  };
                                                  return scan(inner, d, stack({x.first, x.first * d})).first;
                                                },
                                                [&](const Array& d) {
                                                  return cond(
                                                      sum(d) > 0.0, [&](const Array& e) { return e * at; },
                                                      [](const Array& e) { return e * e; }, d);
                                                }),
                                     c);
      return std::pair(next, sum(next));
    };
    const auto [last, ys] = scan(step, at, std::pair(a, array({1, 0, 2, 2})));
    return sum(last * last) + sum(ys);
  };
  const auto loop = [&](const Array& at) {
    Array c = at, total(0.0);
    const int which[] = {1, 0, 2, 2};
    for (int i = 0; i < 4; ++i) {
      const Array x = a[i];
      if (which[i] == 0) c = sin(c * at) + x;
      if (which[i] == 1) {
        const Array second = x * c;
        c = tanh(c + x * at);
        c = tanh(c + second * at);
      }
      if (which[i] == 2)
        c = cond(
            sum(c) > 0.0, [&](const Array& e) { return e * at; }, [](const Array& e) { return e * e; }, c);
      total = total + sum(c);
    }
    return sum(c * c) + total;
  };
  same(chosen(w), loop(w), 1e-11);
  same(grad(chosen)(w), grad(loop)(w), 1e-10);
  same(jvp(chosen, w, v).second, jvp(loop, w, v).second, 1e-10);
  same(hvp(chosen, w, v), hvp(loop, w, v), 1e-8);
  same(grad(checkpoint(chosen))(w), grad(loop)(w), 1e-10);
  same(hessian(chosen)(w), hessian(loop)(w), 1e-8);
  const auto clipped =
      custom_vjp([](const Array& x) { return x * x; }, [](const Array& x) { return std::pair(x * x, x); },
                 [](const Array& x, const Array& ct) { return clip(2.0 * x * ct, -1.0, 1.0); });
  const auto f = [&](const Array& x) {
    return cond(
        x > 0.0, [&](const Array& y) { return clipped(y); }, [](const Array& y) { return y; }, x);
  };
  CHECK(grad(f)(Array(3.0)).item<double>() == 1.0);
  CHECK(grad(f)(Array(-3.0)).item<double>() == 1.0);
}

TEST_CASE("cond: a custom rule may choose, for tangents and for values") {
  const auto f = custom_jvp(
      [](const Array& x) {
        return cond(
            x > 0.0, [](const Array& y) { return y * y; }, [](const Array& y) { return -y; }, x);
      },
      [](const std::tuple<Array>& at, const std::tuple<Array>& t) {
        const Array x = std::get<0>(at);
        return cond(
            x > 0.0, [](const Array& y, const Array& s) { return std::pair(y * y, 2.0 * y * s); },
            [](const Array& y, const Array& s) { return std::pair(-y, 7.0 * s); }, x, std::get<0>(t));
      });
  CHECK(f(Array(3.0)).item<double>() == 9.0);
  CHECK(grad(f)(Array(3.0)).item<double>() == 6.0);
  CHECK(grad(f)(Array(-3.0)).item<double>() == 7.0);
  CHECK(jvp(f, Array(-3.0), Array(2.0)).second.item<double>() == 14.0);
  CHECK(hvp(f, Array(3.0), Array(1.0)).item<double>() == 2.0);
}

// The other branch has infinite derivatives, at a point or of a residual.
TEST_CASE("gradients under vmap have nothing of branches and steps that are not taken") {
  const auto rows_alone = [](const auto& f, const Array& m) {
    std::vector<Array> rows;
    for (std::int64_t i = 0; i < m.shape(0); ++i) rows.push_back(grad(f)(m[i]));
    return stack(rows);
  };
  const auto check = [&](const auto& f, const Array& m, double tolerance = 1e-13) {
    const Array expected = rows_alone(f, m);
    const auto total = [&f](const Array& a) { return sum(vmap(f)(a)); };
    CHECK(test::distance(grad(total)(m), expected) < tolerance);
    CHECK(test::distance(compile(grad(total))(m), expected) < tolerance);
    CHECK(test::distance(vmap(grad(f))(m), expected) < tolerance);
  };
  const Array m = array({{0.5, 0.1}, {-0.4, -0.7}, {0.3, -0.1}});
  const auto root = [](const Array& x) {
    return cond(
        x > 0.0, [](const Array& y) { return sqrt(y); }, [](const Array& y) { return 3.0 * y; }, x);
  };
  check(root, array({4.0, 0.0, 1.0, -2.0}));
  const auto several = [](const Array& x) {
    return switch_case(astype(x, i32),
                       std::tuple([](const Array& y) { return log(y - 1.0); },
                                  [](const Array& y) { return 1.0 / (y - 2.0); },
                                  [](const Array& y) { return sqrt(y - 1.0); }),
                       x);
  };
  check(several, array({1.0, 2.0}));
  check(several, array({1.5, 2.5, 3.0}));

  const auto branch = [](const Array& v) {
    return cond(
        sum(v) > 0.0, [](const Array& y) { return y * logsumexp(y); }, [](const Array& y) { return y * y; },
        v);
  };
  const auto penalty = [&](const Array& v) {
    return sum(square(grad([&](const Array& y) { return sum(branch(y)); })(v)));
  };
  check(penalty, m);
  const auto loop = [](const Array& v) {
    return while_loop([](const Array& y) { return sum(y) > 0.0; },
                      [](const Array& y) { return y * logsumexp(y) - 2.0; }, v, 3);
  };
  check([&](const Array& v) { return sum(jvp(loop, v, v).second); }, m);
  check([&](const Array& v) { return sum(loop(v)); }, m);

  const Array two(2.0);
  const auto quotient = [&](const Array& x) {
    return cond(
        sum(x) > 0.0, [&](const Array& y) { return y / (square(two) - 2.0 + square(y)); },
        [](const Array& y) { return y * y; }, x);
  };
  const auto own = custom_jvp(quotient, [&](const Array& x, const Array& t) { return jvp(quotient, x, t); });
  check([&](const Array& x) { return sum(own(x)); }, m);
  // A captured number is one of each example.
  const auto of_number = [&](const Array& c) {
    return sum(vmap([&](const Array& x) {
      return cond(
          x > 0.0, [&](const Array& y) { return log(c - 1.0) * y; }, [&](const Array& y) { return c * y; },
          x);
    })(array({-1.0, -3.0})));
  };
  CHECK(grad(of_number)(Array(1.0)).item<double>() == -4.0);
}

TEST_CASE("cond: signatures that do not fit are refused, with the expected one") {
  const auto says = [](const auto& body, const std::string& text) {
    const std::string message = error_of(body);
    CHECK_MESSAGE(message.find(text) != std::string::npos, message);
  };
  const auto same_as = [](const Array& x) { return x; };
  const auto summed = [](const Array& x) { return sum(x); };
  const Array x = zeros({3});
  says([&] { cond(x, same_as, same_as, x); }, "[cond] expected a scalar as the predicate, got f64[3]");
  says([&] { cond(Array(std::complex<double>(1, 2)), same_as, same_as, x); },
       "[cond] expected a predicate that is a bool or a real number, got c128[]");
  says([&] { cond(true, same_as, summed, x); },
       "[cond] expected f64[] for output 0 of branch 1 (\"true_fn\"), as in branch 0 (\"false_fn\"), got "
       "f64[3]");
  says(
      [&] {
        cond(
            true,
            [](const Array& y) {
              return std::vector{y, y};
            },
            [](const Array& y) { return std::vector{y}; }, x);
      },
      "[cond] expected branches that return the same structure");
  says(
      [&] {
        cond(
            true, [](const Array& y) { return std::pair(y, 1); },
            [](const Array& y) { return std::pair(y, 2); }, x);
      },
      "with what is no Array in it equal, got another in branch 1 than in branch 0");
  says(
      [&] {
        cond(
            true, [](const Array& y) { return y * y.item<double>(); }, same_as, Array(1.0));
      },
      "traced");
  says([&] { switch_case(0.5, std::tuple(same_as, same_as), x); },
       "[switch_case] expected an index that is an integer, got f64[]");
  says(
      [&] {
        switch_case(array({1, 2}), std::tuple(same_as), x);
      },
      "[switch_case] expected a scalar as the index, got i64[2]");
  says([&] { switch_case(0, std::vector<std::function<Array(const Array&)>>(), x); },
       "[switch_case] expected one branch or more, got none");
  says([&] { cond(Array(), same_as, same_as, x); }, "cond");
  says([&] { cond(true, same_as, same_as, Array()); }, "cond");
}

}  // namespace conditional_cases
}  // namespace
}  // namespace tidu
