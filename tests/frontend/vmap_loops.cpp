// vmap_loops.cpp - loops without a bound inside parts that only some of the mapped examples run: in branches,
// in steps after an example's end, at any depth. Without a gate they would not end.
#include <functional>

#include "support.hpp"

namespace tidu::test {
namespace {

namespace vmap_loop_cases {

using Function = std::function<Array(const Array&)>;

// x doubled until it is not less than 10; for ever where it is 0 or less.
Array doubled(const Array& x, const Array& by) {
  return while_loop([](const Array& z) { return z < 10.0; }, [&](const Array& z) { return z * by; }, x);
}

Function chosen(const Function& f) {
  return [f](const Array& x) {
    return cond(
        x > 0.0, f, [](const Array& y) { return -y * y; }, x);
  };
}

Array each(const Function& f, const Array& xs) {
  std::vector<Array> all;
  for (std::int64_t i = 0; i < xs.shape(0); ++i) all.push_back(f(xs[i]));
  return stack(all);
}

const std::vector<std::pair<std::string, Function>>& loops() {
  static const Array two(2.0);
  static const Function plain = [](const Array& x) { return doubled(x, two); };
  static const std::vector<std::pair<std::string, Function>> all{
      {"plain", plain},
      {"of what the branch computes",
       [](const Array& x) {
         const Array y = exp(sin(x));
         return doubled(y, y + 1.0) * x;
       }},
      {"in a checkpoint", checkpoint(plain)},
      {"in a checkpoint that keeps values", [](const Array& x) { return checkpoint(plain)(sin(x) + 1.0); }},
      {"in a compiled function", compile(plain)},
      {"in a branch of a branch",
       [](const Array& x) {
         return cond(
             x < 2.0, [](const Array& y) { return doubled(3.0 * y, two); }, plain, x);
       }},
      {"in a scan",
       [](const Array& x) {
         return scan([](const Array& c, const Array& a) { return std::pair(doubled(a * c, two) / 5.0, c); },
                     x, array({1.0, 2.0, 0.5}))
             .first;
       }},
      {"in a loop with a bound",
       [](const Array& x) {
         return while_loop([](const Array& z) { return z < 30.0; },
                           [](const Array& z) { return doubled(z / 7.0, two) + z; }, x, 20);
       }},
      {"in a loop without",
       [](const Array& x) {
         return while_loop([](const Array& z) { return z < 30.0; },
                           [](const Array& z) { return doubled(z / 7.0, two) + z; }, x);
       }},
      {"in a condition",
       [](const Array& x) {
         return while_loop([](const Array& z) { return doubled(z, two) < 17.0; },
                           [](const Array& z) { return z * 1.3; }, x);
       }},
      {"with a rule for tangents", custom_jvp(plain,
                                              [](const Array& x, const Array& t) {
                                                const Array y = plain(x);
                                                return std::pair(y, t * y / x);
                                              })},
      {"with a rule for cotangents", custom_vjp(
                                         plain, [](const Array& x) { return std::pair(plain(x), x); },
                                         [](const Array& x, const Array& ct) { return ct * plain(x) / x; })}};
  return all;
}

TEST_CASE("vmap: loops without a bound end in branches that an example does not take") {
  const Array xs = array({1.0, -3.0, 0.0, 3.0, 0.3}), ts = array({1.0, 0.5, -2.0, 3.0, 1.5});
  for (const auto& each_loop : loops()) {
    const std::string& name = each_loop.first;
    const Function& loop = each_loop.second;
    CAPTURE(name);
    const Function f = chosen(loop);
    CHECK(distance(vmap(f)(xs), each(f, xs)) < 1e-12);
    const auto slope = [&f](const Array& x) { return jvp(f, x, Array(1.0)).second; };
    const auto curvature = [&slope](const Array& x) { return jvp(slope, x, Array(1.0)).second; };
    const Array slopes = each(slope, xs);
    CHECK(distance(vmap(slope)(xs), slopes) < 1e-12);
    CHECK(distance(jvp([&f](const Array& x) { return vmap(f)(x); }, xs, ts).second, slopes * ts) < 1e-12);
    CHECK(distance(vmap(jacfwd(f))(xs), slopes) < 1e-12);
    CHECK(distance(vmap(curvature)(xs), each(curvature, xs)) < 1e-11);
    CHECK(distance(vmap(vmap(f))(stack(std::vector{xs, ts})), stack(std::vector{vmap(f)(xs), vmap(f)(ts)})) <
          1e-12);
    // Against differences, where f is smooth.
    const Array h = (vmap(f)(xs + 1e-7) - vmap(f)(xs - 1e-7)) / 2e-7;
    CHECK(distance(h * array({1.0, 1.0, 0.0, 1.0, 1.0}), slopes * array({1.0, 1.0, 0.0, 1.0, 1.0})) < 1e-5);
  }
}

TEST_CASE("vmap: a rule for a loop without a bound has reverse mode in a branch") {
  const Array xs = array({1.0, -3.0, 0.0, 3.0, 0.3});
  for (const auto& each_loop : loops()) {
    const std::string& name = each_loop.first;
    const Function& loop = each_loop.second;
    if (name.rfind("with a rule", 0) != 0) continue;
    CAPTURE(name);
    const Function f = chosen(loop);
    const Array expected = each(grad(f), xs);
    CHECK(distance(vmap(grad(f))(xs), expected) < 1e-12);
    CHECK(distance(grad([&f](const Array& x) { return sum(vmap(f)(x)); })(xs), expected) < 1e-12);
  }
}

TEST_CASE("vmap: loops without a bound end in steps after an example's end") {
  // The inner loop would not end on the final carry of the outer one: 0 is even.
  const auto ones = [](const Array& n, std::optional<std::int64_t> bound) {
    using State = std::pair<Array, Array>;
    return while_loop([](const State& s) { return s.first != 0; },
                      [](const State& s) {
                        const Array odd =
                            while_loop([](const Array& k) { return mod(k, 2) == 0; },
                                       [](const Array& k) { return floor_divide(k, 2); }, s.first);
                        return State{odd - 1, s.second + 1};
                      },
                      State{n, Array(0)}, bound)
        .second;
  };
  const Array numbers = array({0, 1, 255, 6, 64});
  for (const std::optional<std::int64_t> bound : {std::optional<std::int64_t>(), {10}}) {
    const auto f = [&](const Array& n) { return ones(n, bound); };
    CHECK(elements(vmap(f)(numbers)) == std::vector<double>{0, 1, 8, 2, 1});
  }
}

}  // namespace vmap_loop_cases
}  // namespace
}  // namespace tidu::test
