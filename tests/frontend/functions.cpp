// functions.cpp - every function of Arrays: values against plain loops or closed forms, gradients against
// central differences in random directions.
#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "support.hpp"

namespace tidu::test {
namespace {

TEST_CASE("element by element: values and gradients") {
  struct Row {
    const char* name;
    Function f;
    double (*oracle)(double);
    double shift, scale;  // domain: shift + scale * normal
  };
  const Row rows[] = {
      {"exp", [](const Array& x) { return exp(x); }, [](double x) { return std::exp(x); }, 0, 1},
      {"exp2", [](const Array& x) { return exp2(x); }, [](double x) { return std::exp2(x); }, 0, 1},
      {"expm1", [](const Array& x) { return expm1(x); }, [](double x) { return std::expm1(x); }, 0, 1},
      {"log", [](const Array& x) { return log(x); }, [](double x) { return std::log(x); }, 4, 0.5},
      {"log1p", [](const Array& x) { return log1p(x); }, [](double x) { return std::log1p(x); }, 4, 0.5},
      {"sqrt", [](const Array& x) { return sqrt(x); }, [](double x) { return std::sqrt(x); }, 4, 0.5},
      {"rsqrt", [](const Array& x) { return rsqrt(x); }, [](double x) { return 1 / std::sqrt(x); }, 4, 0.5},
      {"cbrt", [](const Array& x) { return cbrt(x); }, [](double x) { return std::cbrt(x); }, 4, 0.5},
      {"sin", [](const Array& x) { return sin(x); }, [](double x) { return std::sin(x); }, 0, 1},
      {"cos", [](const Array& x) { return cos(x); }, [](double x) { return std::cos(x); }, 0, 1},
      {"tan", [](const Array& x) { return tan(x); }, [](double x) { return std::tan(x); }, 0, 0.2},
      {"asin", [](const Array& x) { return asin(x); }, [](double x) { return std::asin(x); }, 0, 0.2},
      {"acos", [](const Array& x) { return acos(x); }, [](double x) { return std::acos(x); }, 0, 0.2},
      {"atan", [](const Array& x) { return atan(x); }, [](double x) { return std::atan(x); }, 0, 1},
      {"sinh", [](const Array& x) { return sinh(x); }, [](double x) { return std::sinh(x); }, 0, 1},
      {"cosh", [](const Array& x) { return cosh(x); }, [](double x) { return std::cosh(x); }, 0, 1},
      {"tanh", [](const Array& x) { return tanh(x); }, [](double x) { return std::tanh(x); }, 0, 1},
      {"asinh", [](const Array& x) { return asinh(x); }, [](double x) { return std::asinh(x); }, 0, 1},
      {"acosh", [](const Array& x) { return acosh(x); }, [](double x) { return std::acosh(x); }, 4, 0.5},
      {"atanh", [](const Array& x) { return atanh(x); }, [](double x) { return std::atanh(x); }, 0, 0.2},
      {"sigmoid", [](const Array& x) { return sigmoid(x); }, [](double x) { return 1 / (1 + std::exp(-x)); },
       0, 1},
      {"softplus", [](const Array& x) { return softplus(x); },
       [](double x) { return std::log1p(std::exp(x)); }, 0, 1},
      {"erf", [](const Array& x) { return erf(x); }, [](double x) { return std::erf(x); }, 0, 1},
      {"erfc", [](const Array& x) { return erfc(x); }, [](double x) { return std::erfc(x); }, 0, 1},
      {"lgamma", [](const Array& x) { return lgamma(x); }, [](double x) { return std::lgamma(x); }, 4, 0.5},
      {"reciprocal", [](const Array& x) { return reciprocal(x); }, [](double x) { return 1 / x; }, 4, 0.5},
      {"square", [](const Array& x) { return square(x); }, [](double x) { return x * x; }, 0, 1},
      {"abs", [](const Array& x) { return abs(x); }, [](double x) { return std::abs(x); }, 0, 1},
      {"relu", [](const Array& x) { return relu(x); }, [](double x) { return x > 0 ? x : 0.0; }, 0, 1},
      {"negative", [](const Array& x) { return -x; }, [](double x) { return -x; }, 0, 1},
      {"pow 3", [](const Array& x) { return pow(x, 3); }, [](double x) { return x * x * x; }, 0, 1},
      {"pow -2", [](const Array& x) { return pow(x, -2); }, [](double x) { return 1 / (x * x); }, 4, 0.5},
      {"pow 1.5", [](const Array& x) { return pow(x, 1.5); }, [](double x) { return std::pow(x, 1.5); }, 4,
       0.5},
      {"2 pow", [](const Array& x) { return pow(2.0, x); }, [](double x) { return std::pow(2.0, x); }, 0, 1},
      {"1 - x / 2", [](const Array& x) { return 1 - x / 2; }, [](double x) { return 1 - x / 2; }, 0, 1},
      {"2 / x", [](const Array& x) { return 2 / x; }, [](double x) { return 2 / x; }, 4, 0.5},
      {"maximum", [](const Array& x) { return maximum(x, 0.3); }, [](double x) { return std::max(x, 0.3); },
       0, 1},
      {"minimum", [](const Array& x) { return minimum(0.3, x); }, [](double x) { return std::min(x, 0.3); },
       0, 1},
      {"clip", [](const Array& x) { return clip(x, -0.5, 0.5); },
       [](double x) { return std::clamp(x, -0.5, 0.5); }, 0, 1},
      {"where", [](const Array& x) { return where(x > 0, x * x, -x); },
       [](double x) { return x > 0 ? x * x : -x; }, 0, 1},
      {"atan2", [](const Array& x) { return atan2(x, 2.0); }, [](double x) { return std::atan2(x, 2.0); }, 0,
       1},
  };
  unsigned seed = 100;
  for (const Row& row : rows) {
    const Array x = row.shift + row.scale * random_array({3, 4}, ++seed);
    CAPTURE(row.name);
    std::vector<double> wanted;
    for (const double v : elements(x)) wanted.push_back(row.oracle(v));
    CHECK(distance(row.f(x), array(wanted, {3, 4})) < 1e-12);
    check_gradient(row.name, row.f, x, 1e-5);
  }
}

TEST_CASE("functions without a gradient") {
  const Array x = array({-1.5, 0.0, 0.5, 1.5, 2.5});
  CHECK(elements(sign(x)) == std::vector<double>{-1, 0, 1, 1, 1});
  CHECK(elements(floor(x)) == std::vector<double>{-2, 0, 0, 1, 2});
  CHECK(elements(ceil(x)) == std::vector<double>{-1, 0, 1, 2, 3});
  CHECK(elements(round(x)) == std::vector<double>{-2, 0, 0, 2, 2});
  CHECK(elements(rem(x, 1.0)) == std::vector<double>{-0.5, 0, 0.5, 0.5, 0.5});
  CHECK(elements(x > 0) == std::vector<double>{0, 0, 1, 1, 1});
  CHECK(elements(x >= 0) == std::vector<double>{0, 1, 1, 1, 1});
  CHECK(elements(0 < x) == std::vector<double>{0, 0, 1, 1, 1});
  CHECK(elements(x == 0.5) == std::vector<double>{0, 0, 1, 0, 0});
  CHECK(elements(x != 0.5) == std::vector<double>{1, 1, 0, 1, 1});
  CHECK(elements(!(x > 0)) == std::vector<double>{1, 1, 0, 0, 0});
  CHECK(elements((x > 0) & (x < 2)) == std::vector<double>{0, 0, 1, 1, 0});
  CHECK(elements((x < 0) | (x > 2)) == std::vector<double>{1, 0, 0, 0, 1});
  CHECK(elements(isfinite(x / x)) == std::vector<double>{1, 0, 1, 1, 1});
  CHECK(bool(all(x > -2)));
  CHECK_FALSE(bool(all(x > 0)));
  CHECK(bool(any(x > 2)));
  Array leaf = array({1.0, 2.0});
  leaf.set_requires_grad();
  CHECK_FALSE(sign(leaf).requires_grad());
  CHECK_FALSE(stop_gradient(leaf).requires_grad());
  CHECK_FALSE((leaf > 1).requires_grad());
}

TEST_CASE("NaN stays NaN in relu, in all modes") {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const auto f = [](const Array& x) { return relu(x); };
  const Array x = array({-1.0, nan, -0.0, 2.0});
  for (const Array& y : {relu(x), compile(f)(x), vmap(f, {0})(x)}) {
    const std::vector<double> at = elements(y);
    CHECK(std::isnan(at[1]));
    CHECK_FALSE(std::signbit(at[2]));
    CHECK(std::vector<double>{at[0], at[2], at[3]} == std::vector<double>{0, 0, 2});
  }
  const auto slope = grad([](const Array& y) { return sum(relu(y)); });
  CHECK(elements(slope(array({-1.0, -0.0, 0.0, 2.0}))) == std::vector<double>{0, 0, 0, 1});
}

TEST_CASE("the greatest and the least of bools, and where they stand") {
  const Array x = array({{false, true, true}, {false, false, false}});
  CHECK(max(x).type() == Type(bool_));
  CHECK(elements(max(x, 1)) == std::vector<double>{1, 0});
  CHECK(elements(min(x, 0, true)) == std::vector<double>{0, 0, 0});
  CHECK(bool(min(!x[1])));
  CHECK(elements(argmax(x, 1)) == std::vector<double>{1, 0});
  CHECK(elements(argmin(x, -1)) == std::vector<double>{0, 0});
  CHECK(argmax(x).item<int>() == 1);
}

TEST_CASE("sums and products of bools are whether there is one, and whether both are") {
  const Array x = array({false, false, true, true}), y = array({false, true, false, true});
  const auto both = [](const Array& a, const Array& b) { return a * b; };
  const auto one = [](const Array& a, const Array& b) { return a + b; };
  for (const Array& z : {both(x, y), compile(both)(x, y), vmap(both, {0, 0})(x, y), minimum(x, y)}) {
    CHECK(z.dtype() == bool_);
    CHECK(elements(z) == std::vector<double>{0, 0, 0, 1});
  }
  for (const Array& z : {one(x, y), compile(one)(x, y), vmap(one, {0, 0})(x, y), maximum(x, y)}) {
    CHECK(z.dtype() == bool_);
    CHECK(elements(z) == std::vector<double>{0, 1, 1, 1});
  }
  Array z = x;
  z *= y;
  z += true;
  CHECK(bool(all(z == true)));
  CHECK((x * 2).dtype() == i32);
  CHECK((x + 0.5).dtype() == f64);
  CHECK((x * arange(4)).dtype() == i64);
}

TEST_CASE("matrix products of bools are whether there is a pair of which both are true") {
  const auto truths = [](const Shape& shape, unsigned seed) { return random_array(shape, seed) > 0.8; };
  const Array a = truths({3, 5}, 31), b = truths({5, 4}, 32), c = truths({2, 4, 5}, 33);
  const auto same = [](const Array& bools, const Array& counts) {
    return bools.dtype() == bool_ && bool(all(bools == (counts > 0)));
  };
  const Array n = a.to(i64), m = b.to(i64), k = c.to(i64);
  const auto f = [](const Array& x, const Array& y) { return matmul(x, y); };
  CHECK(same(matmul(a, b), matmul(n, m)));
  CHECK(same(compile(f)(a, b), matmul(n, m)));
  CHECK(same(vmap(f, {0, std::nullopt})(a, b), matmul(n, m)));
  CHECK(same(matmul(c, b), matmul(k, m)));
  CHECK(same(matmul(b, c), matmul(m, k)));
  CHECK(same(dot(a[0], a[1]), dot(n[0], n[1])));
  CHECK(same(dot(a[0][1], b), dot(n[0][1], m)));
  CHECK(same(outer(a[0], b), outer(n[0], m)));
  CHECK(same(tensordot(a, b, 1), tensordot(n, m, 1)));
  for (const char* spec : {"ij,jk->ik", "ij,jk->", "ij,kl->ijkl", "ij,jk->i"})
    CHECK(same(einsum(spec, {a, b}), einsum(spec, {n, m})));
  CHECK(same(einsum("ij,jk,lkj->il", {a, b, c}), einsum("ij,jk,lkj->il", {n, m, k})));
  CHECK(same(einsum("ij->j", {a}), einsum("ij->j", {n})));
  const Array square = matmul(a, a.T());
  CHECK(same(einsum("ii->i", {square}), einsum("ii->i", {square.to(i64)})));
  CHECK(matmul(a, m).dtype() == i64);
  // More pairs than f32 counts one by one.
  const Array many = ones({(std::int64_t{1} << 24) + 3}, bool_);
  CHECK(bool(dot(many, many)));
  CHECK(matmul(zeros({2, 0}, bool_), zeros({0, 2}, bool_)).type() == Type(bool_, {2, 2}));
  CHECK_FALSE(bool(any(matmul(zeros({2, 0}, bool_), zeros({0, 2}, bool_)))));
}

TEST_CASE("repeated and tiled, and axes moved") {
  const Array x = array({{1, 2}, {3, 4}});
  const auto is = [](const Array& got, const Array& wanted) {
    return got.type() == wanted.type() && elements(got) == elements(wanted);
  };
  CHECK(is(repeat(x, 2, 0), array({{1, 2}, {1, 2}, {3, 4}, {3, 4}})));
  CHECK(is(repeat(x, 2, -1), array({{1, 1, 2, 2}, {3, 3, 4, 4}})));
  CHECK(is(repeat(x, 2), array({1, 1, 2, 2, 3, 3, 4, 4})));
  CHECK(repeat(x, 0, 1).shape() == Shape{2, 0});
  CHECK(is(tile(x, {2}), array({{1, 2, 1, 2}, {3, 4, 3, 4}})));
  CHECK(is(tile(x, {2, 1}), array({{1, 2}, {3, 4}, {1, 2}, {3, 4}})));
  CHECK(is(tile(x[0], {2, 2}), array({{1, 2, 1, 2}, {1, 2, 1, 2}})));
  CHECK(is(tile(x, {}), x));
  CHECK(tile(x, {2, 1, 0}).shape() == Shape{2, 2, 0});
  CHECK(is(tile(x[0][0], {3}), array({1, 1, 1})));
  const Array z = arange(24).reshape({2, 3, 4});
  CHECK(is(moveaxis(z, 0, -1), transpose(z, {1, 2, 0})));
  CHECK(is(moveaxis(z, -1, 0), transpose(z, {2, 0, 1})));
  CHECK(is(moveaxis(z, 1, 1), z));
  CHECK(
      contains(error_of([&] { (void)repeat(x, -1, 0); }), "[repeat] expected a count of 0 or more, got -1"));
  CHECK(contains(error_of([&] { (void)tile(x, {-2}); }), "[tile] expected a count of 0 or more, got -2"));
  CHECK(contains(error_of([&] { (void)moveaxis(x, 2, 0); }), "[moveaxis]"));
  const std::int64_t large = std::int64_t{1} << 62;
  CHECK_FALSE(error_of([&] { (void)repeat(x, large, 0); }).empty());
  CHECK_FALSE(error_of([&] { (void)tile(x, {large}); }).empty());
}

TEST_CASE("reductions: values and gradients") {
  const Array x = random_array({3, 4}, 21);
  const std::vector<double> v = elements(x);
  double total = 0, product = 1, exps = 0;
  for (const double e : v) total += e, product *= e, exps += std::exp(e);
  double spread = 0;
  for (const double e : v) spread += (e - total / 12) * (e - total / 12);
  CHECK(sum(x).item() == doctest::Approx(total));
  CHECK(mean(x).item() == doctest::Approx(total / 12));
  CHECK(prod(x).item() == doctest::Approx(product));
  CHECK(max(x).item() == *std::max_element(v.begin(), v.end()));
  CHECK(min(x).item() == *std::min_element(v.begin(), v.end()));
  CHECK(var(x).item() == doctest::Approx(spread / 12));
  CHECK(var(x, {}, 1).item() == doctest::Approx(spread / 11));
  CHECK(stddev(x).item() == doctest::Approx(std::sqrt(spread / 12)));
  CHECK(logsumexp(x).item() == doctest::Approx(std::log(exps)));
  CHECK(argmax(x).item<int>() == std::max_element(v.begin(), v.end()) - v.begin());
  CHECK(argmin(x, 1).type() == Type(i32, {3}));
  CHECK(sum(x, 1).shape() == Shape{3});
  CHECK(sum(x, -1, true).shape() == Shape{3, 1});
  CHECK(sum(x, {0, 1}).shape() == Shape{});
  CHECK(mean(x, 0).shape() == Shape{4});
}

TEST_CASE("softmax: every element within the roundings of its formula, and one division for a row") {
  for (const DType dtype : {f32, f64}) {
    const double eps = dtype == f32 ? std::ldexp(1, -24) : std::ldexp(1, -53);
    for (const double size : {1.0, 30.0, 3000.0}) {
      const Array x = astype(size * random_array({7, 50}, 35), dtype);
      const auto values = elements(x), got = elements(softmax(x));
      for (std::size_t row = 0; row < 7; ++row) {
        const auto first = values.begin() + static_cast<std::ptrdiff_t>(50 * row);
        const long double greatest = *std::max_element(first, first + 50);
        long double sum = 0;
        for (auto it = first; it != first + 50; ++it) sum += std::exp(*it - greatest);
        for (std::size_t i = 50 * row; i < 50 * row + 50; ++i) {
          // The difference's rounding counts as often as it is long; sums round 49 times at most.
          const long double difference = values[i] - greatest, exact = std::exp(difference) / sum;
          const auto bound = static_cast<double>((60 - difference) * eps * exact);
          CHECK(std::abs(got[i] - static_cast<double>(exact)) <= bound + std::numeric_limits<float>::min());
        }
      }
    }
  }
  const Graph graph = trace([](const Array& a) { return softmax(a); }, random_array({7, 50}, 36).type());
  for (std::size_t i = 0; i < graph.num_operations(); ++i) {
    const bool divides = graph.operation(i).name() == "div" || graph.operation(i).name() == "reciprocal";
    if (divides) CHECK(num_elements(graph.type(graph.operation(i).output()).shape()) == 7);
  }
}

TEST_CASE("log_softmax keeps differences of large numbers") {
  const double first = -std::log1p(std::exp(-1.0));
  for (const double base : {0.0, 1e4, -1e4, 4e6}) {
    const auto y = elements(log_softmax(array({base, base - 1}, f32)));
    CHECK(y[0] == doctest::Approx(first).epsilon(1e-6));
    CHECK(y[1] == doctest::Approx(first - 1).epsilon(1e-6));
  }
  for (const double y : elements(log_softmax(full({4}, 1e30, f32))))
    CHECK(y == doctest::Approx(-std::log(4.0)).epsilon(1e-6));
  const auto masked = elements(log_softmax(array({-HUGE_VAL, 2.0, 2.0})));
  CHECK(masked[0] == -HUGE_VAL);
  CHECK(masked[1] == doctest::Approx(-std::log(2.0)));
  CHECK(std::isnan(elements(log_softmax(array({HUGE_VAL, 2.0})))[1]));
}

TEST_CASE("gradients of reductions, products and shapes") {
  const Array x = random_array({3, 4}, 31), y = random_array({4, 2}, 32), z = random_array({2, 3, 4}, 33);
  const auto rows = array({2, 0, 2});
  const std::pair<const char*, Function> cases[] = {
      {"sum", [](const Array& a) { return sum(a); }},
      {"sum 0", [](const Array& a) { return sum(a, 0); }},
      {"sum keepdims", [](const Array& a) { return sum(a, -1, true); }},
      {"mean 1", [](const Array& a) { return mean(a, 1); }},
      {"prod 1", [](const Array& a) { return prod(a, 1); }},
      {"max 0", [](const Array& a) { return max(a, 0); }},
      {"min 1", [](const Array& a) { return min(a, 1); }},
      {"var", [](const Array& a) { return var(a, 0, 1); }},
      {"stddev", [](const Array& a) { return stddev(a, 1); }},
      {"logsumexp", [](const Array& a) { return logsumexp(a, 1); }},
      {"softmax", [](const Array& a) { return softmax(a); }},
      {"softmax 0", [](const Array& a) { return softmax(a, 0); }},
      {"log_softmax", [](const Array& a) { return log_softmax(a, 1); }},
      {"cumsum", [](const Array& a) { return cumsum(a, 1); }},
      {"cumsum back", [](const Array& a) { return cumsum(a, 0, true); }},
      {"matmul left", [&](const Array& a) { return matmul(a, y); }},
      {"matmul right", [&](const Array& a) { return matmul(y.T(), a.T()); }},
      {"matmul vector",
       [&](const Array& a) {
         return matmul(a, y[std::int64_t{0}] + flatten(y.slice({{}, {0, 1}})));
       }},
      {"matmul batch", [&](const Array& a) { return matmul(z, a.T()); }},
      {"matmul batch left", [&](const Array& a) { return matmul(a, swapaxes(z, 1, 2)); }},
      {"dot", [&](const Array& a) { return dot(a, y); }},
      {"outer", [&](const Array& a) { return outer(a, y); }},
      {"reshape",
       [](const Array& a) {
         return a.reshape({2, -1});
       }},
      {"T", [](const Array& a) { return a.T(); }},
      {"transpose",
       [](const Array& a) {
         return transpose(expand_dims(a, 0), {2, 0, 1});
       }},
      {"squeeze",
       [](const Array& a) {
         return squeeze(expand_dims(a, {0, 2}));
       }},
      {"broadcast_to",
       [](const Array& a) {
         return broadcast_to(a, {2, 3, 4});
       }},
      {"flip", [](const Array& a) { return flip(a, 1); }},
      {"moveaxis", [](const Array& a) { return moveaxis(a, 0, -1) * a.T(); }},
      {"repeat", [](const Array& a) { return repeat(a, 3, 1) * 2; }},
      {"tile",
       [](const Array& a) {
         return tile(a, {2, 1, 3}) * a.sum();
       }},
      {"roll", [](const Array& a) { return roll(a, 3, 1) * a; }},
      {"roll back", [](const Array& a) { return roll(a, -5) * a; }},
      {"concatenate",
       [](const Array& a) {
         return concatenate({a, 2 * a, a}, 1);
       }},
      {"stack",
       [](const Array& a) {
         return stack({a, square(a)}, 1);
       }},
      {"slice",
       [](const Array& a) {
         return a.slice({{1, 3}, {{}, {}, 2}});
       }},
      {"slice back",
       [](const Array& a) {
         return a.slice({{}, {{}, {}, -1}});
       }},
      {"index", [](const Array& a) { return a[-1] * a[0]; }},
      {"split", [](const Array& a) { return split(a, 2, 1)[1]; }},
      {"take", [&](const Array& a) { return take(a, rows); }},
      {"take 1", [&](const Array& a) { return take(a, rows, 1); }},
      {"take_along_axis",
       [](const Array& a) {
         return take_along_axis(a, array({{0}, {3}, {1}}), 1);
       }},
      {"astype", [](const Array& a) { return a.to(f64).copy(); }},
  };
  for (const auto& [name, f] : cases) {
    // The vector of the product with one has as many elements as y has rows.
    if (std::string(name) == "matmul vector") continue;
    check_gradient(name, f, x);
  }
  check_gradient(
      "matmul with a vector",
      [&](const Array& a) {
        return matmul(a, flatten(y.slice({{}, {0, 1}})));
      },
      x);
  check_gradient(
      "vector by vector",
      [](const Array& a) {
        return matmul(a, array({1.0, 2.0, 3.0}));
      },
      array({0.5, -1.0, 2.0}));
}

TEST_CASE("values of products and shapes") {
  const Array x = array({{1.0, 2}, {3, 4}, {5, 6}});
  CHECK(elements(x.T()) == std::vector<double>{1, 3, 5, 2, 4, 6});
  CHECK(elements(x[1]) == std::vector<double>{3, 4});
  CHECK(x[-1][0].item() == 5);
  CHECK(elements(x.slice({{{}, {}, -2}})) == std::vector<double>{5, 6, 1, 2});
  CHECK(elements(x.slice({{-2, {}}, {1, 2}})) == std::vector<double>{4, 6});
  CHECK(x.slice({{2, 1}}).shape() == Shape{0, 2});
  const std::int64_t most = std::numeric_limits<std::int64_t>::max();
  for (const std::int64_t step : {-most - 1, -most, most})
    CHECK(elements(arange(5).slice({{3, {}, step}})) == std::vector<double>{3});
  CHECK(elements(arange(3).slice({{most, -most - 1, -1}})) == std::vector<double>{2, 1, 0});
  CHECK(elements(matmul(x, array({1.0, 1}))) == std::vector<double>{3, 7, 11});
  CHECK(elements(matmul(array({1.0, 1, 1}), x)) == std::vector<double>{9, 12});
  CHECK(matmul(zeros({5, 1, 2, 3}), zeros({4, 3, 6})).shape() == Shape{5, 4, 2, 6});
  CHECK(matmul(zeros({3}), zeros({4, 3, 6})).shape() == Shape{4, 6});
  CHECK(matmul(zeros({4, 2, 3}), zeros({3})).shape() == Shape{4, 2});
  CHECK(dot(zeros({2, 3}), zeros({4, 3, 6})).shape() == Shape{2, 4, 6});
  CHECK(elements(outer(array({1.0, 2}), array({3.0, 4}))) == std::vector<double>{3, 4, 6, 8});
  CHECK(elements(take(x, array({2, 0}))) == std::vector<double>{5, 6, 1, 2});
  CHECK(elements(concatenate({x[0], x[2]})) == std::vector<double>{1, 2, 5, 6});
  CHECK(elements(stack({x[0], x[2]}, 1)) == std::vector<double>{1, 5, 2, 6});
  CHECK(elements(cumsum(array({1, 2, 3}))) == std::vector<double>{1, 3, 6});
  CHECK(swapaxes(zeros({2, 3, 4}), 0, -1).shape() == Shape{4, 3, 2});
  CHECK(sum(array({true, true, false})).dtype() == i64);
}

TEST_CASE("broadcasting: values and gradients of every pair of shapes") {
  const Shape shapes[] = {{}, {1}, {3}, {2, 1}, {1, 3}, {2, 3}, {4, 1, 1}, {4, 2, 3}, {1, 1, 1}};
  using Binary = std::function<Array(const Array&, const Array&)>;
  const Binary functions[] = {[](const Array& a, const Array& b) { return a + b; },
                              [](const Array& a, const Array& b) { return a - b; },
                              [](const Array& a, const Array& b) { return a * b; },
                              [](const Array& a, const Array& b) { return a / b; },
                              [](const Array& a, const Array& b) { return pow(a, b); },
                              [](const Array& a, const Array& b) { return maximum(a, b); }};
  unsigned seed = 500;
  for (const Shape& left : shapes) {
    for (const Shape& right : shapes) {
      const Array a = 2.0 + abs(random_array(left, ++seed)), b = 2.0 + abs(random_array(right, ++seed));
      for (const Binary& f : functions) {
        const Array y = f(a, b);
        const Array weights = random_array(y.shape(), ++seed);
        const auto scalar = [&](const Array& p, const Array& q) { return sum(weights * f(p, q)); };
        const auto gradients = grad(scalar, {0, 1})(a, b);
        REQUIRE(gradients[0].type() == a.type());
        REQUIRE(gradients[1].type() == b.type());
        // Against explicit broadcasting, without the broadcast in the operation.
        const Array full_a = broadcast_to(a, y.shape()).copy(), full_b = broadcast_to(b, y.shape()).copy();
        const auto full = grad(scalar, {0, 1})(full_a, full_b);
        const auto reduced = [](const Array& g, const Shape& shape) {
          Array result = g;
          while (result.ndim() > shape.size()) result = sum(result, 0);
          for (std::size_t i = 0; i < shape.size(); ++i)
            if (shape[i] == 1) result = sum(result, static_cast<int>(i), true);
          return result;
        };
        CHECK(distance(gradients[0], reduced(full[0], left)) < 1e-11);
        CHECK(distance(gradients[1], reduced(full[1], right)) < 1e-11);
      }
    }
  }
}

}  // namespace
}  // namespace tidu::test
