// refused_operands.cpp - the messages for complex operands of functions of real numbers, for operands that
// were given names, and for cotangents of integers: word by word, with the user's location.
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "support.hpp"

namespace tidu::test::refused_operands_cases {
namespace {

std::string here(int line) { return std::string(__FILE__) + ":" + std::to_string(line); }

using Function = std::function<Array(const Array&)>;

// Functions that order numbers, round them or are known for real numbers alone, by the name in messages.
const std::vector<std::pair<std::string, Function>>& functions_of_real_numbers() {
  static const std::vector<std::pair<std::string, Function>> table{
      {"floor", [](const Array& x) { return floor(x); }},
      {"round", [](const Array& x) { return round(x); }},
      {"erf", [](const Array& x) { return erf(x); }},
      {"lgamma", [](const Array& x) { return lgamma(x); }},
      {"cbrt", [](const Array& x) { return cbrt(x); }},
      {"relu", [](const Array& x) { return relu(x); }},
      {"softplus", [](const Array& x) { return softplus(x); }},
      {"logsumexp", [](const Array& x) { return logsumexp(x); }},
      {"softmax", [](const Array& x) { return softmax(x); }},
      {"max", [](const Array& x) { return max(x); }},
      {"argmax", [](const Array& x) { return argmax(x); }},
      {"cummax", [](const Array& x) { return cummax(x); }},
      {"standardize", [](const Array& x) { return standardize(x); }},
      {"leaky_relu", [](const Array& x) { return leaky_relu(x); }},
      {"elu", [](const Array& x) { return elu(x); }},
      {"hypot", [](const Array& x) { return hypot(x, x); }},
      {"logaddexp", [](const Array& x) { return logaddexp(x, x); }},
      {"maximum", [](const Array& x) { return maximum(x, x); }},
      {"atan2", [](const Array& x) { return atan2(x, x); }},
      {"mod", [](const Array& x) { return mod(x, x); }},
      {"floor_divide", [](const Array& x) { return floor_divide(x, x); }},
      {"less", [](const Array& x) { return x < x; }},
  };
  return table;
}

TEST_CASE("functions of real numbers refuse complex ones in their own name") {
  for (const DType dtype : {c64, c128}) {
    const Array x = array({1.0, 2.0}).to(dtype);
    for (const auto& entry : functions_of_real_numbers()) {
      const std::string& name = entry.first;
      const Function& function = entry.second;
      const std::string start = "[" + name + "] expected real numbers, got complex ones, " +
                                std::string(to_string(dtype)) + "[2]\n  in " + name;
      const std::string plain = error_of([&] { (void)function(x); });
      CHECK_MESSAGE(plain.starts_with(start), name << ": " << plain);
      CHECK_MESSAGE(contains(plain, "refused_operands.cpp:"), name << ": " << plain);
      const std::string traced = error_of([&] { (void)compile(function)(x); });
      CHECK_MESSAGE(traced.starts_with(start), name << ": " << traced);
      CHECK_NOTHROW((void)function(real(x)));
    }
  }
  const Array z = array({1.0, 2.0}).to(c128);
  const int line = __LINE__ + 1;
  const std::string refused = error_of([&] { (void)logaddexp(z, array({1.0, 2.0})); });
  CHECK(refused ==
        "[logaddexp] expected real numbers, got complex ones, c128[2]\n  in logaddexp(c128[2], f64[2]), " +
            here(line));
  // Other errors have their usual message, also for complex numbers.
  CHECK(contains(error_of([&] {
                   (void)(z + array({1.0, 2.0, 3.0}));
                 }),
                 "[add] expected shapes that broadcast"));
  CHECK(contains(error_of([&] { (void)z.to(f64); }), "(real or imag take a part)"));
}

TEST_CASE("operands that have names are named where they are refused") {
  Array w = array({1.0, 2.0}), v = array({1.0, 2.0, 3.0});
  w.set_requires_grad().set_name("weights");
  int line = __LINE__ + 1;
  const std::string in_sum = error_of([&] { (void)(w + v); });
  CHECK(in_sum ==
        "[add] expected shapes that broadcast together, got [2] and [3]: 2 and 3 differ, and neither is 1\n"
        "  in add(\"weights\" f64[2], f64[3]), " +
            here(line));
  Array hidden = w * 2.0;
  hidden.set_name("hidden");
  CHECK(contains(error_of([&] { (void)matmul(hidden, v); }), "in matmul(\"hidden\" f64[2], f64[3]), "));
  CHECK(contains(error_of([&] { (void)compile([](const Array& a, const Array& b) { return a + b; })(w, v); }),
                 "in add(f64[2], f64[3]), "));  // traced Arrays have no names
  // A value that backward reads and that was changed, or freed.
  const Array loss = sum(w * w * v[0]);
  w.assign(array({2.0, 4.0}));
  const std::string changed = error_of([&] { loss.backward(); });
  CAPTURE(changed);
  CHECK(contains(changed, "\"weights\" (f64[2]) as it was when it was recorded"));
}

TEST_CASE("anomaly mode names the inputs of an operation") {
  Array w = array({1.0, 0.0});
  w.set_requires_grad().set_name("weights");
  const AnomalyGuard guard;
  const std::string backward = error_of([&] { sum(sqrt(w)).backward(); });
  CHECK(contains(backward, "the cotangent of its input 0 \"weights\" f64[2] has 1 infinity, at [1]"));
  const std::string forward = error_of([&] { (void)log(w); });
  CHECK(contains(forward, "\n  its input 0 \"weights\" f64[2] has 1 zero, at [1]"));
}

TEST_CASE("the error for an operand that was changed in place suggests a copy by a function of Arrays") {
  Array x = array({1.0, 2.0});
  x.set_requires_grad();
  const Array y = sum(x * x);
  x.assign(array({2.0, 3.0}));
  CHECK(contains(error_of([&] { y.backward(); }),
                 "it was changed in place and backward reads it (change a copy of it instead)"));
  const std::string condition = error_of([] {
    (void)compile([](const Array& a) {
      if (a > 0.0) return a;
      return -a;
    })(Array(1.0));
  });
  CHECK(contains(condition,
                 "choose between values by where() or maximum(), between computations by cond(), or"));
}

TEST_CASE("a backward that gives a cotangent of integers gets an error that names the input") {
  const auto scaled = [](const Array& a, const Array& n) { return a * n.to(f64); };
  const auto forward = [](const Array& a, const Array& n) { return std::pair(a * n.to(f64), n); };
  const Array x = array({1.0, 2.0}), three(std::int64_t{3});
  const auto both = custom_vjp(scaled, forward, [](const Array& n, const Array& ct) {
    return std::pair(ct * n.to(f64), zeros_like(n));
  });
  CHECK(error_of([&] { (void)both(x, three); })
            .starts_with(
                "[custom_vjp_call] expected 1 outputs of graph backward (\"backward\"), a cotangent of each "
                "floating or complex input and none of input 1, i64[], got 2\n"
                "  in operation 0 of \"custom_vjp\", refused_operands.cpp:"));
  Array leaf = array({1.0, 2.0});
  leaf.set_requires_grad();
  const auto one =
      custom_vjp(scaled, forward, [](const Array& n, const Array& ct) { return ct * n.to(f64); });
  sum(one(leaf, three)).backward();
  CHECK(distance(*leaf.grad(), array({3.0, 3.0})) == 0);
}

}  // namespace
}  // namespace tidu::test::refused_operands_cases
