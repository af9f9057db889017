// nn.cpp - activations, normalisation and losses, against their formulas in plain C++; gradients against
// differences; and far out, where formulas overflow.
#include <cmath>

#include "support.hpp"

namespace tidu::test {
namespace nn_cases {
namespace {

namespace own_names {
namespace {
// As somebody has them who began before tidu did.
Array gelu(const Array& x) { return 7 * x; }
Array standardize(Array x) { return 8 * x; }
double inner(const Array&, const Array&) { return 9; }
}  // namespace

TEST_CASE("functions of one's own are called, not tidu's of the same name") {
  const Array x = tidu::array({1.0, 2.0});
  CHECK(gelu(x).tensor().at(1).real() == 14);
  CHECK(standardize(x).tensor().at(1).real() == 16);
  CHECK(inner(x, x) == 9);
}

}  // namespace own_names

TEST_CASE("far out gelu has its derivatives in every dtype, and standardize takes no complex numbers") {
  for (const DType dtype : {f16, bf16, f32, f64}) {
    for (const double far : {300.0, 20000.0}) {
      const auto slope = [](const Array& x) { return grad([](const Array& y) { return gelu(y); })(x); };
      CHECK(slope(Array(far).to(dtype)).item() == 1);
      CHECK(slope(Array(-far).to(dtype)).item() == 0);
    }
  }
  CHECK(gelu(Array(1e20F)).item<float>() == 1e20F);
  CHECK_THROWS_AS((void)standardize(complex(zeros({3}), ones({3}))), Error);
}

TEST_CASE("activations and products of numbers are those of scalars, which take the dtype that they meet") {
  CHECK(tidu::gelu(0.5).item() == tidu::gelu(tidu::array(0.5)).item());
  CHECK(tidu::relu6(7).item() == 6);
  const Array x = tidu::array({1.5, -2.0}, f32);
  CHECK(tidu::inner(x, 2.0).dtype() == f32);
  CHECK(tidu::kron(2, x).dtype() == f32);
  CHECK(tidu::allclose(x, x + 1e-9).item<bool>());
  CHECK(tidu::isclose(x, 1.5).tensor().at(1).real() == 0);
  CHECK(tidu::median(3.5).item() == 3.5);
}

TEST_CASE("activations: values, gradients, and far out") {
  struct Row {
    const char* name;
    Function f;
    double (*oracle)(double);
  };
  const auto logistic = [](double x) { return 1 / (1 + std::exp(-x)); };
  static const auto sigmoid_of = logistic;
  const Row rows[] = {
      {"silu", [](const Array& x) { return silu(x); }, [](double x) { return x * sigmoid_of(x); }},
      {"swish", [](const Array& x) { return swish(x); }, [](double x) { return x * sigmoid_of(x); }},
      {"gelu", [](const Array& x) { return gelu(x); },
       [](double x) {
         return x / 2 * (1 + std::tanh(std::sqrt(2 / std::acos(-1.0)) * (x + 0.044715 * x * x * x)));
       }},
      {"gelu by erfc", [](const Array& x) { return gelu(x, false); },
       [](double x) { return x / 2 * std::erfc(-x / std::sqrt(2.0)); }},
      {"leaky_relu", [](const Array& x) { return leaky_relu(x); },
       [](double x) { return x >= 0 ? x : 0.01 * x; }},
      {"leaky_relu 0.3", [](const Array& x) { return leaky_relu(x, 0.3); },
       [](double x) { return x >= 0 ? x : 0.3 * x; }},
      {"elu", [](const Array& x) { return elu(x); }, [](double x) { return x > 0 ? x : std::expm1(x); }},
      {"elu 0.5", [](const Array& x) { return elu(x, 0.5); },
       [](double x) { return x > 0 ? x : 0.5 * std::expm1(x); }},
      {"selu", [](const Array& x) { return selu(x); },
       [](double x) { return 1.0507009873554805 * (x > 0 ? x : 1.6732632423543772 * std::expm1(x)); }},
      {"log_sigmoid", [](const Array& x) { return log_sigmoid(x); },
       [](double x) { return std::log(sigmoid_of(x)); }},
      {"relu6", [](const Array& x) { return relu6(x); },
       [](double x) { return std::min(std::max(x, 0.0), 6.0); }},
  };
  unsigned seed = 200;
  for (const Row& row : rows) {
    CAPTURE(row.name);
    const Array x = 3.0 * random_array({3, 4}, ++seed);
    std::vector<double> wanted;
    for (const double v : elements(x)) wanted.push_back(row.oracle(v));
    CHECK(distance(row.f(x), array(wanted, {3, 4})) < 1e-13);
    CHECK(distance(vmap(row.f)(x), row.f(x)) < 1e-15);
    check_gradient(row.name, row.f, x, 1e-5);
    const auto slope = [&](const Array& v) { return grad([&](const Array& u) { return sum(row.f(u)); })(v); };
    if (std::string(row.name).find("relu") == std::string::npos) check_gradient(row.name, slope, x, 1e-4);
    const Array far = array({-1e4, -800.0, 800.0, 1e4});
    CHECK(bool(all(isfinite(row.f(far)))));
    CHECK(bool(all(isfinite(slope(far)))));
    CHECK(row.f(x.to(f32)).dtype() == f32);
    CHECK(row.f(arange(3)).dtype() == f64);
  }
  CHECK(log_sigmoid(Array(-800.0)).item() == -800);
  CHECK(elements(grad([](const Array& x) { return sum(relu6(x)); })(array({-1.0, 0.0, 3.0, 6.0, 7.0}))) ==
        std::vector<double>{0, 0, 1, 0, 0});
  CHECK(grad(grad([](const Array& x) { return log_sigmoid(x); }))(0.0).item() == -0.25);
}

TEST_CASE("standardize: mean 0 and variance 1 over axes") {
  const Array x = 5.0 + 2.0 * random_array({4, 3, 6}, 1);
  for (const Axes& axes : {Axes(-1), Axes(0), Axes({0, 2}), Axes()}) {
    const Array y = standardize(x, axes);
    CHECK(distance(y, (x - mean(x, axes, true)) / sqrt(var(x, axes, 0, true) + 1e-5)) < 1e-13);
    check_gradient(
        "standardize", [&](const Array& v) { return standardize(v, axes); }, x, 1e-5);
  }
  CHECK(distance(standardize(x, -1, 0.5), (x - mean(x, -1, true)) / sqrt(var(x, -1, 0, true) + 0.5)) < 1e-13);
  const Array many = full({70000}, 100.0, f16);
  CHECK(standardize(many).dtype() == f16);
  CHECK(bool(all(standardize(many) == 0)));
  CHECK(distance(vmap([](const Array& v) { return standardize(v); })(x), standardize(x)) < 1e-14);
  CHECK(contains(error_of([&] { (void)standardize(x, 3); }), "[standardize] expected an axis"));
}

TEST_CASE("cross entropy of logits with labels") {
  const Array logits = random_array({5, 4}, 2);
  const Array labels = array({0, 3, 1, 2, 3});
  const auto f = [](const Array& x, const Array& y) {
    return softmax_cross_entropy_with_integer_labels(x, y);
  };
  const Array expected = -sum(one_hot(labels, 4) * log_softmax(logits), 1);
  CHECK(distance(f(logits, labels), expected) < 1e-14);
  CHECK(distance(compile(f)(logits, labels), expected) < 1e-14);
  CHECK(distance(vmap(f)(logits, labels), expected) < 1e-14);
  check_gradient(
      "cross entropy", [&](const Array& x) { return f(x, labels); }, logits, 1e-5);
  const Array gradient = grad([&](const Array& x) { return sum(f(x, labels)); })(logits);
  CHECK(distance(gradient, softmax(logits) - one_hot(labels, 4)) < 1e-14);
  CHECK(elements(f(array({{1000.0, 0.0}}), array({1}))) == std::vector<double>{1000});
  CHECK(f(logits.to(f32), labels.to(i32)).type() == Type(f32, {5}));
  const std::string error = error_of([&] { (void)f(logits, labels.slice({{0, 3}})); });
  CHECK(contains(error, "expected logits [..., classes] and integer labels [...], got f64[5,4] and i64[3]"));
  CHECK(contains(error_of([&] { (void)f(logits, labels.to(f64)); }), "and integer labels"));
}

}  // namespace
}  // namespace nn_cases
}  // namespace tidu::test
