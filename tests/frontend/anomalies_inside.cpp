// anomalies_inside.cpp - anomaly mode names the step of a loop, the branch and the operation inside where a
// value first is not finite, forward and backward.
#include <string>
#include <utility>

#include "support.hpp"

namespace tidu::test::anomalies_inside_cases {
namespace {

std::string here(int line) { return "anomalies_inside.cpp:" + std::to_string(line); }

// The lines that begin with "within", of the error of f.
template <class F>
std::string within(const F& f) {
  const std::string error = error_of(f);
  const std::size_t at = error.find("\n  within");
  if (at == std::string::npos) return "none in: " + error;
  const std::size_t end = error.find("\n  in ", at);
  return error.substr(at, end - at);
}

struct Setting {
  AnomalyGuard guard;
  Array x = array({1.0, 4.0, 0.0, 9.0}), w = Array(1.0);
  Setting() { w.set_requires_grad(); }
};

TEST_CASE("in a scan, the step and the operation") {
  const Setting s;
  int line = __LINE__ + 1;  // of the step, one on of the scan
  const auto logs = [&](const Array& c, const Array& v) { return std::pair(c + log(v * s.w), c); };
  const auto sum_of_logs = [&] { (void)scan(logs, Array(0.0), s.x); };
  const std::string forward = within(sum_of_logs);
  CHECK(forward == "\n  within it first in operation 0, scan (" + here(line + 1) +
                       "), at step 2\n  within it first in operation 1, log (" + here(line) +
                       "): its result f64[] has 1 infinity");
  line = __LINE__ + 2;
  const auto roots = [&](const Array& c, const Array& v) {
    return std::pair(c + sqrt(v * s.w), std::nullopt);
  };
  const std::string backward = within([&] { scan(roots, Array(0.0), s.x).first.backward(); });
  CHECK(backward ==
        "\n  within it first in operation 0, scan, at step 2\n  within it first in the derivative of "
        "operation 1, sqrt (" +
            here(line) + "): the result of div f64[] has 1 infinity");
}

TEST_CASE("in a reverse scan the step is that of its slices, in one of carries alone it is counted") {
  const Setting s;
  CHECK(contains(within([&] {
                   (void)scan([&](const Array& c, const Array& v) { return std::pair(c + log(v * s.w), c); },
                              Array(0.0), s.x, std::nullopt, true);
                 }),
                 ", at step 2\n  within it first in operation 1, log ("));
  CHECK(contains(within([&] {
                   (void)fori_loop(
                       0, 6, [&](const Array&, const Array& c) { return c - 1.0 + 0.0 * log(c * s.w); },
                       Array(3.0));
                 }),
                 ", at step 3\n  within it first in operation "));
}

TEST_CASE("in a while_loop, the step and the operation") {
  const Setting s;
  const int line = __LINE__ + 3;
  const std::string forward = within([&] {
    (void)while_loop([](const Array& c) { return c < 10.0; },
                     [&](const Array& c) { return c + 1.0 + 0.0 * log(3.0 - c * s.w); }, Array(0.0), 20);
  });
  CHECK(contains(forward, "while"));
  CHECK(contains(forward, "), at step 3\n  within it first in operation "));
  CHECK(contains(forward, "log (" + here(line) + "): its result f64[] has 1 infinity"));
}

TEST_CASE("in cond the branch, and in a called graph the operation, at any depth") {
  const Setting s;
  const std::string branch = within([&] {
    (void)cond(
        s.w > 0.0, [](const Array& a) { return log(a - 1.0); }, [](const Array& a) { return a; }, s.w);
  });
  CAPTURE(branch);
  CHECK(contains(branch, ", in branch 1\n  within it first in operation 2, log ("));
  const auto inner = [&](const Array& c, const Array& v) {
    return std::pair(c + log(v * s.w), std::nullopt);
  };
  const auto outer = compile([&](const Array& a) { return scan(inner, Array(0.0), a * 1.0).first; });
  const std::string nested = within([&] { (void)outer(s.x); });
  CHECK(contains(nested, ", at step 2\n  within it first in operation 1, log ("));
  const auto rows = [&](const Array& c, const Array& row) {
    return std::pair(c + scan(inner, Array(0.0), row).first, std::nullopt);
  };
  CHECK(contains(within([&] {
                   (void)scan(rows, Array(0.0), stack({s.x + 1.0, s.x}));
                 }),
                 ", at step 1\n  within it first in operation 0, scan ("));
}

TEST_CASE("inner values that are finite are not accused, and operations of one primitive need no such line") {
  const Setting s;
  CHECK(contains(within([&] { sum(sqrt(s.w - 1.0)).backward(); }), "none in: "));
  CHECK_NOTHROW(
      scan([&](const Array& c, const Array& v) { return std::pair(c + sqrt((v + 1.0) * s.w), std::nullopt); },
           Array(0.0), s.x)
          .first.backward());
}

}  // namespace
}  // namespace tidu::test::anomalies_inside_cases
