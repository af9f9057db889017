// wide_accumulation.cpp - gradients of Arrays of 16 bits that a program uses thousands of times: in loops of
// the program and in loops as operations, on the tape, lazily, on hot paths, compiled and mapped. The oracle
// is the sum of the coefficients, which are numbers of the dtype, in double precision.
#include <cmath>
#include <random>

#include "support.hpp"

namespace tidu::test::wide_accumulation_cases {
namespace {

using Function = std::function<Array(const Array&)>;

double ulp(DType dtype, double x) { return std::ldexp(1.0, std::ilogb(x) - (dtype == bf16 ? 7 : 10)); }

struct Case {
  std::string what;
  Function f;
  double exact;
};

/// Functions of a scalar x: sums of c_i x, in various ways.
std::vector<Case> cases(DType dtype) {
  constexpr std::int64_t n = 1000;
  std::mt19937_64 engine(11);
  std::vector<double> numbers;
  for (std::int64_t i = 0; i < n; ++i)
    numbers.push_back(0.5 + std::ldexp(static_cast<double>(engine() >> 12), -52));
  const Array c = astype(array(numbers, {n}), dtype), zero = zeros({}, dtype);
  double exact = 0.0;
  for (const double each : elements(c)) exact += each;
  const auto step = [](const Array& x) {
    return [x](const Array& sum, const Array& each) { return std::pair(sum + x * each, std::nullopt); };
  };
  const Function loop = [=](const Array& x) { return scan(step(x), zero, c).first; };
  std::vector<Array> each;
  for (std::int64_t i = 0; i < n; ++i) each.push_back(c[i]);
  const auto written_out = [=](const Array& x) {
    Array sum = zero;
    for (const Array& factor : each) sum = sum + x * factor;
    return sum;
  };
  std::vector<Case> all;
  all.push_back({"a loop of the program", written_out, exact});
  all.push_back({"a loop of the program over an intermediate value",
                 [=](const Array& x) { return written_out(x * 1.0); }, exact});
  all.push_back({"scan", loop, exact});
  all.push_back(
      {"scan in reverse", [=](const Array& x) { return scan(step(x), zero, c, n, true).first; }, exact});
  all.push_back({"scan in a checkpoint", checkpoint(loop), exact});
  all.push_back({"a scan of checkpoints",
                 [=](const Array& x) {
                   const auto term = checkpoint([](const Array& a, const Array& b) { return a * b; });
                   return scan(
                              [&](const Array& sum, const Array& factor) {
                                return std::pair(sum + term(x, factor), std::nullopt);
                              },
                              zero, c)
                       .first;
                 },
                 exact});
  all.push_back({"a scan in a scan",
                 [=](const Array& x) {
                   return scan(
                              [&](const Array& sum, const Array& row) {
                                return std::pair(scan(step(x), sum, row).first, std::nullopt);
                              },
                              zero, reshape(c, {50, 20}))
                       .first;
                 },
                 exact});
  all.push_back({"a scan that hands x on",
                 [=](const Array& x) {
                   const auto [last, ys] = scan(
                       [](const std::pair<Array, Array>& carry, const Array& factor) {
                         return std::pair(std::pair(carry.first, carry.second + carry.first * factor),
                                          carry.first * factor);
                       },
                       std::pair(x, zero), c);
                   return last.second + sum(ys);
                 },
                 2 * exact});
  all.push_back({"while with max_steps",
                 [=](const Array& x) {
                   using Carry = std::pair<Array, Array>;
                   return while_loop(
                              [](const Carry& at) { return at.first < 1000; },
                              [&](const Carry& at) { return Carry(at.first + 1, at.second + x * 0.75); },
                              Carry(Array(0), zero), 1010)
                       .second;
                 },
                 750});
  all.push_back({"fori_loop",
                 [=](const Array& x) {
                   return fori_loop(
                       0, 1000, [&](const Array&, const Array& sum) { return sum + x * 0.75; }, zero);
                 },
                 750});
  all.push_back({"broadcasting", [=](const Array& x) { return sum(x * c); }, exact});
  all.push_back(
      {"stack", [=](const Array& x) { return sum(stack(std::vector<Array>(1000, x)) * c); }, exact});
  all.push_back({"take",
                 [=](const Array& x) {
                   return sum(take(stack(std::vector<Array>{x, x * 0.0}), zeros({1000}, i32), 0) * c);
                 },
                 exact});
  return all;
}

Array on_tape(const Function& f, const Array& at, const BackwardOptions& options = {}) {
  const Array x = leaf(at);
  f(x).backward(options);
  return *x.grad();
}

TEST_CASE("gradients of Arrays of 16 bits are rounded once, however they are made") {
  for (const DType dtype : {f16, bf16}) {
    const Array one = ones({}, dtype);
    for (const Case& each : cases(dtype)) {
      CAPTURE(to_string(dtype));
      CAPTURE(each.what);
      const auto close = [&](const Array& gradient) {
        CHECK(gradient.dtype() == dtype);
        for (const double got : elements(gradient))
          CHECK(std::abs(got - each.exact) <= ulp(dtype, each.exact));
      };
      const Array eager = on_tape(each.f, one);
      close(eager);
      close(grad(each.f)(one));
      close(compile(grad(each.f))(one));
      close(vmap(grad(each.f))(ones({3}, dtype)));
      {
        const Lazy lazy;
        CHECK(elements(on_tape(each.f, one)) == elements(eager));
      }
    }
  }
}

TEST_CASE("with the option off each partial sum is rounded, as it shows") {
  BackwardOptions narrow;
  narrow.wide_accumulation = false;
  for (const Case& each : cases(bf16)) {
    CAPTURE(each.what);
    const double got = elements(on_tape(each.f, ones({}, bf16), narrow))[0];
    const bool sums_at_once = each.what == "broadcasting" || each.what == "take";
    CHECK((std::abs(got - each.exact) <= ulp(bf16, each.exact)) == sums_at_once);
  }
}

TEST_CASE("elements that many indices name get sums that are rounded once") {
  for (const DType dtype : {f16, bf16}) {
    const Array row = zeros({3000}, i32), column = zeros({3000, 1}, i32);
    const std::vector<Function> all{[&](const Array& x) { return sum(take(x, row, 0) * 0.75); },
                                    [&](const Array& x) {
                                      return sum(take_along_axis(reshape(x, {2, 1}), column, 0) * 0.75);
                                    }};
    for (const Function& f : all) {
      const Array x = ones({2}, dtype);
      const std::vector<double> exact{dtype == f16 ? 2250.0 : 2256.0, 0.0};  // 2250 in bf16
      CHECK(elements(on_tape(f, x)) == exact);
      CHECK(elements(grad(f)(x)) == exact);
      const ExecutorGuard plain(reference());
      CHECK(elements(on_tape(f, x)) == exact);
    }
  }
}

TEST_CASE("hot paths accumulate as they did before they were hot, and follow the option") {
  const Case loop = cases(bf16)[0];
  const Array one = ones({}, bf16);
  const double exact = elements(on_tape(loop.f, one))[0];
  BackwardOptions narrow;
  narrow.wide_accumulation = false;
  const double old = elements(on_tape(loop.f, one, narrow))[0];
  CHECK(std::abs(old - exact) > 4 * ulp(bf16, exact));
  const HotPaths hot;
  for (int repetition = 0; repetition < 12; ++repetition) {
    const bool wide = repetition < 8;
    CHECK(elements(on_tape(loop.f, one, wide ? BackwardOptions() : narrow))[0] == (wide ? exact : old));
  }
}

TEST_CASE("second derivatives of Arrays of 16 bits are rounded once for each derivative") {
  for (const Case& each : cases(bf16)) {
    CAPTURE(each.what);
    const Function f = [&](const Array& x) { return each.f(x * x) * 0.5; };
    const Array one = ones({}, bf16);
    CHECK(std::abs(elements(grad(grad(f))(one))[0] - each.exact) <= 2 * ulp(bf16, each.exact));
    const Array x = leaf(one);
    BackwardOptions options;
    options.create_graph = true;
    const Array first = *grad_of(f(x), {x}, options)[0];
    CHECK(std::abs(elements(*grad_of(first, {x})[0])[0] - each.exact) <= 2 * ulp(bf16, each.exact));
  }
}

TEST_CASE("slots of Arrays in f32: gradients of many backward calls lose nothing") {
  const Array w = leaf(ones({2}, bf16));
  BackwardOptions options;
  options.wide_slots = true;
  for (int i = 0; i < 1000; ++i) sum(w * 0.75).backward(options);
  CHECK(w.grad()->dtype() == f32);
  CHECK(elements(*w.grad()) == std::vector<double>{750, 750});
  w.set_grad(*w.grad() * 0.5f);
  sum(w).backward();
  CHECK(elements(*w.grad()) == std::vector<double>{376, 376});
  w.zero_grad();
  for (int i = 0; i < 1000; ++i) sum(w * 0.75).backward();
  CHECK(w.grad()->dtype() == bf16);
  CHECK(elements(*w.grad())[0] < 300);
  w.set_grad(ones({2}, bf16));
  CHECK(contains(error_of([&] { w.set_grad(ones({2}, f64)); }), "expected bf16[2], got f64[2]"));
}

}  // namespace
}  // namespace tidu::test::wide_accumulation_cases
