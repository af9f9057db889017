// masked_slopes.cpp - functions whose slope is infinite or NaN at some points, with a mask of these points
// before them (no tangent goes in) or after them (no cotangent comes in): first and second derivatives there
// are 0 in every mode, and at the points beside them those of the function without a mask.
#include <limits>

#include "support.hpp"

namespace tidu::test::masked_slopes_cases {
namespace {

struct SingularFunction {
  std::string name;
  Function f;                   // element by element
  std::vector<double> outside;  // where it is masked
  double inside;                // an ordinary point
};

constexpr double unlimited = std::numeric_limits<double>::infinity(),
                 undefined = std::numeric_limits<double>::quiet_NaN();

Function of_array(Array (*f)(const Array&, Where)) {
  return [f](const Array& x) { return f(x, Where{}); };
}

std::vector<SingularFunction> singular_functions() {
  return {
      {"sqrt", of_array(sqrt), {0.0, -0.0, -1.0, undefined}, 2.0},
      {"rsqrt", of_array(rsqrt), {0.0, -0.0, -1.0}, 2.0},
      {"cbrt", of_array(cbrt), {0.0, -0.0}, 2.0},
      {"reciprocal", of_array(reciprocal), {0.0, -0.0, undefined}, 2.0},
      {"log", of_array(log), {0.0, -0.0, -1.0, undefined}, 2.0},
      {"log2", of_array(log2), {0.0, -0.0, -1.0}, 2.0},
      {"log10", of_array(log10), {0.0, -0.0, -1.0}, 2.0},
      {"log1p", of_array(log1p), {-1.0, -2.0}, 2.0},
      {"asin", of_array(asin), {1.0, -1.0, 1.5, -1.5}, 0.5},
      {"acos", of_array(acos), {1.0, -1.0, 1.5, -1.5}, 0.5},
      {"acosh", of_array(acosh), {1.0, 0.5, -1.0, -2.0}, 2.0},
      {"atanh", of_array(atanh), {1.0, -1.0, 1.5, -1.5}, 0.5},
      {"erf_inv", of_array(erf_inv), {1.0, -1.0, 1.5, undefined}, 0.5},
      {"lgamma", of_array(lgamma), {0.0, -1.0, -2.0}, 2.5},
      {"digamma", of_array(digamma), {0.0, -1.0, -2.0}, 2.5},
      {"polygamma", [](const Array& x) { return polygamma(2, x); }, {0.0, -1.0}, 2.5},
      {"x^0.5", [](const Array& x) { return pow(x, 0.5); }, {0.0, -0.0, -1.0}, 2.0},
      {"x^1.5", [](const Array& x) { return pow(x, 1.5); }, {0.0, -1.0}, 2.0},
      {"x^-1.5", [](const Array& x) { return pow(x, -1.5); }, {0.0, -1.0}, 2.0},
      {"x^-2", [](const Array& x) { return integer_pow(x, -2); }, {0.0, -0.0, undefined}, 2.0},
      {"x^x", [](const Array& x) { return pow(x, x); }, {-1.5, -0.5}, 2.0},
      {"0^x", [](const Array& x) { return pow(zeros_like(x), x); }, {-0.5, -1.5}, 2.0},
      {"atan2", [](const Array& x) { return atan2(x, zeros_like(x)); }, {0.0, -0.0}, 2.0},
      {"atan2 of both", [](const Array& x) { return atan2(x, x * 2.0); }, {0.0, -0.0}, 2.0},
      {"1 / x", [](const Array& x) { return 1.0 / x; }, {0.0, -0.0, undefined}, 2.0},
      {"x / x", [](const Array& x) { return x / (x + x * x); }, {0.0, -1.0}, 2.0},
      {"sin x / x", [](const Array& x) { return sin(x) / x; }, {0.0, -0.0}, 2.0},
      {"mod", [](const Array& x) { return mod(full_like(x, 5.0), x); }, {0.0}, 2.25},
      {"rem", [](const Array& x) { return rem(full_like(x, 5.0), x); }, {0.0}, 2.25},
      {"logit", [](const Array& x) { return log(x / (1.0 - x)); }, {0.0, 1.0, 1.5}, 0.25},
      {"sqrt log", [](const Array& x) { return sqrt(log(x)); }, {1.0, 0.5, 0.0}, 3.0},
      {"sqrt(1 - x^2)", [](const Array& x) { return sqrt(1.0 - square(x)); }, {1.0, -1.0, 1.5}, 0.5},
  };
}

struct Masked {
  Array keep;  // bool: is it not masked?
  Array x;     // the masked points, each beside the ordinary one
};
Masked masked(const SingularFunction& row, DType dtype) {
  std::vector<double> at, kept;
  for (const double outside : row.outside) {
    at.insert(at.end(), {outside, row.inside});
    kept.insert(kept.end(), {0.0, 1.0});
  }
  // Long enough for vector units too.
  while (at.size() < 40) {
    at.push_back(row.inside);
    kept.push_back(1.0);
  }
  const Shape shape{static_cast<std::int64_t>(at.size())};
  return {array(kept, shape).to(bool_), array(at, shape).to(dtype)};
}

// `expected` where nothing is masked, else 0.
void check_masked(const std::string& mode, const Array& got, const Array& keep, double expected,
                  double tolerance) {
  CAPTURE(mode);
  for (std::int64_t i = 0; i < got.size(); ++i) {
    CAPTURE(i);
    const std::complex<double> each = got.tensor().at(i);
    if (keep.tensor().at(i).real() == 0.0) {
      CHECK(each == 0.0);
    } else {
      CHECK(std::abs(each - expected) <= tolerance * (1 + std::abs(expected)));
    }
  }
}

// First derivatives of sum(f) in every mode.
void check_first(const Function& f, const Masked& at, double expected, double tolerance) {
  const auto total = [&](const Array& x) { return sum(f(x)); };
  const Array ones = ones_like(at.x);
  check_masked("tape", grad(total)(at.x), at.keep, expected, tolerance);
  check_masked("compiled", compile(grad(total))(at.x), at.keep, expected, tolerance);
  check_masked("forward", jvp(f, at.x, ones).second, at.keep, expected, tolerance);
  const auto forward = [&](const Array& x) { return jvp(f, x, ones).second; };
  check_masked("forward, compiled", compile(forward)(at.x), at.keep, expected, tolerance);
  const Shape one_row{1, at.x.size()};
  const Array mapped = vmap(grad(total))(reshape(at.x, one_row));
  check_masked("vmap", reshape(mapped, at.x.shape()), at.keep, expected, tolerance);
  Array leaf_of_x = leaf(at.x);
  sum(f(leaf_of_x)).backward();
  check_masked("backward", *leaf_of_x.grad(), at.keep, expected, tolerance);
}

// Second derivatives of sum(f) along all ones, which are those of each element.
void check_second(const Function& f, const Masked& at, double expected, double tolerance) {
  const auto total = [&](const Array& x) { return sum(f(x)); };
  const Array ones = ones_like(at.x);
  const auto gradient = [&](const Array& x) { return grad(total)(x); };
  const auto along = [&](const Array& x) { return jvp(f, x, ones).second; };
  const auto forward_reverse = [&](const Array& x) { return jvp(gradient, x, ones).second; };
  const auto forward_forward = [&](const Array& x) { return jvp(along, x, ones).second; };
  const auto reverse_reverse = [&](const Array& x) {
    return grad([&](const Array& y) { return sum(gradient(y)); })(x);
  };
  const auto reverse_forward = [&](const Array& x) {
    return grad([&](const Array& y) { return sum(along(y)); })(x);
  };
  const std::pair<std::string, Function> modes[] = {
      {"forward over reverse", forward_reverse},
      {"forward over forward", forward_forward},
      {"reverse over reverse", reverse_reverse},
      {"reverse over forward", reverse_forward},
      {"hvp", [&](const Array& x) { return hvp(total, x, ones); }}};
  for (const auto& [name, mode] : modes) {
    check_masked(name, mode(at.x), at.keep, expected, tolerance);
    check_masked(name, compile(mode)(at.x), at.keep, expected, tolerance);
  }
}

// f with a mask of the points before it, and after it.
std::vector<std::pair<std::string, Function>> with_masks(const SingularFunction& row, const Masked& at) {
  return {{"before", [&](const Array& x) { return row.f(where(at.keep, x, at.x.detach())); }},
          {"after", [&](const Array& x) { return where(at.keep, row.f(x), 0.0); }}};
}

void check_functions(DType dtype, double tolerance, bool second) {
  for (const SingularFunction& row : singular_functions()) {
    CAPTURE(row.name);
    const Masked at = masked(row, dtype);
    const Array inside = Array(row.inside).to(dtype);
    const double slope = grad(row.f)(inside).item(), bend = grad(grad(row.f))(inside).item();
    for (const auto& masked_function : with_masks(row, at)) {
      CAPTURE(masked_function.first);
      const auto& f = masked_function.second;
      check_first(f, at, slope, tolerance);
      if (second) check_second(f, at, bend, tolerance);
    }
  }
}

TEST_CASE("masked slopes are 0 to second order in every mode: f64 and f32") {
  check_functions(f64, 1e-13, true);
  check_functions(f32, 1e-5, true);
}

TEST_CASE("masked slopes are 0 in 16 bits") {
  check_functions(f16, 4e-3, false);
  check_functions(bf16, 4e-2, false);
}

TEST_CASE("masked slopes are 0 on the reference executor") {
  const ExecutorGuard guard(reference());
  check_functions(f64, 1e-13, true);
}

TEST_CASE("masked slopes of complex functions are 0") {
  using C = std::complex<double>;
  const std::pair<std::string, Function> functions[] = {
      {"log", of_array(log)},
      {"sqrt", of_array(sqrt)},
      {"rsqrt", of_array(rsqrt)},
      {"log1p", [](const Array& z) { return log1p(z - 1.0); }},
      {"reciprocal", of_array(reciprocal)},
      {"1 / z", [](const Array& z) { return 1.0 / z; }},
      {"asin", [](const Array& z) { return asin(z + 1.0); }},
      {"acos", [](const Array& z) { return acos(z + 1.0); }},
      {"acosh", [](const Array& z) { return acosh(z + 1.0); }},
      {"atanh", [](const Array& z) { return atanh(z + 1.0); }},
      {"atan", [](const Array& z) { return atan(z + C(0, 1)); }},
      {"asinh", [](const Array& z) { return asinh(z + C(0, 1)); }},
      {"z^-2", [](const Array& z) { return integer_pow(z, -2); }},
      {"z^0.5", [](const Array& z) { return pow(z, 0.5); }},
  };
  const C inside(0.75, 0.5);
  for (const DType dtype : {c128, c64}) {
    const Array z = stack({Array(C(0, 0)), Array(inside), Array(C(0, 0)), Array(inside)}).to(dtype);
    const Array keep = array({0.0, 1.0, 0.0, 1.0}).to(bool_);
    for (const auto& function : functions) {
      CAPTURE(function.first);
      const auto& f = function.second;
      const auto value = [&g = f](const Array& x) { return sum(real(g(x))); };
      const auto before = [&](const Array& x) { return value(where(keep, x, z)); };
      const auto after = [&, &g = f](const Array& x) { return sum(real(where(keep, g(x), 0.0))); };
      const C slope = grad([&, &g = f](const Array& x) { return real(g(x)); })(Array(inside)).tensor().at(0);
      const Array ones = ones_like(z);
      for (const Function& masked_f : {Function(before), Function(after)}) {
        for (const Array& gradient : {grad(masked_f)(z), compile(grad(masked_f))(z)}) {
          for (std::int64_t i = 0; i < 4; ++i) {
            const C want = i % 2 == 0 ? C(0) : slope;
            CHECK(std::abs(gradient.tensor().at(i) - want) <= (dtype == c64 ? 1e-5 : 1e-13));
          }
        }
        CHECK(std::abs(jvp(masked_f, z, ones).second.item() - 2 * slope.real()) <=
              (dtype == c64 ? 1e-4 : 1e-12));
        const auto gradient = [&](const Array& x) { return grad(masked_f)(x); };
        const Array second = jvp(gradient, z, ones).second;
        const Array again = grad([&](const Array& x) { return sum(real(gradient(x))); })(z);
        for (std::int64_t i = 0; i < 4; i += 2) {
          CHECK(second.tensor().at(i) == C(0));
          CHECK(again.tensor().at(i) == C(0));
        }
        CHECK(std::isfinite(second.tensor().at(1).real()));
      }
    }
  }
}

TEST_CASE("clip before and where after singular functions") {
  const auto before = [](const Array& w) { return acos(clip(w, -1.0, 1.0)); };
  const auto after = [](const Array& x) { return where(x > 0.0, log(x), 0.0); };
  for (const double w : {1.5, 1.0, -1.0, -7.0}) {
    CHECK(grad(before)(Array(w)).item() == 0.0);
    CHECK(jacfwd(before)(Array(w)).item() == 0.0);
    CHECK(hessian(before)(Array(w)).item() == 0.0);
  }
  for (const double x : {0.0, -1.0}) {
    CHECK(grad(after)(Array(x)).item() == 0.0);
    CHECK(jacfwd(after)(Array(x)).item() == 0.0);
    CHECK(hessian(after)(Array(x)).item() == 0.0);
  }
}

TEST_CASE("a slope that nothing masks stays infinite") {
  CHECK(grad(of_array(log))(Array(0.0)).item() == unlimited);
  CHECK(grad(of_array(sqrt))(Array(0.0)).item() == unlimited);
  CHECK(jacfwd(of_array(sqrt))(Array(0.0)).item() == unlimited);
  CHECK(grad([](const Array& x) { return 1.0 / x; })(Array(0.0)).item() == -unlimited);
  CHECK(std::isnan(grad(of_array(sqrt))(Array(-1.0)).item()));
  // The zero is 1 / inf here, no mask: the derivative is 1, and 0 would be wrong.
  CHECK(std::isnan(grad([](const Array& x) { return log1p(exp(x)); })(Array(1000.0)).item()));
}

}  // namespace
}  // namespace tidu::test::masked_slopes_cases
