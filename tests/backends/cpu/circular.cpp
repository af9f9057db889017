// sin and cos in generated code: compared with long double over all magnitudes, symmetric, and with the same
// bits alone, both together, beside any other element, among many live values, and on rows.
#include <algorithm>
#include <bit>
#include <functional>

#include "cpu/compare.hpp"
#include "cpu/vector_units.hpp"

using namespace tidu;
using namespace tidu::test;

namespace circular_cases {
namespace {

CpuExecutor with_units(VectorUnits units, bool fuse = true) {
  CpuOptions options;
  options.vector_units = units;
  options.program.fuse = fuse;
  options.program.block = false;  // which adds block by block
  return cpu().with_options(options);
}

template <class T>
double ulps(T got, long double expected) {
  const T size = std::fmax(std::fabs(static_cast<T>(expected)), std::numeric_limits<T>::min());
  const long double unit = size - std::nextafter(size, T(0));
  return static_cast<double>(std::fabs(static_cast<long double>(got) - expected) / unit);
}

// Over all magnitudes; half of them where most are used; and multiples of pi / 2, where r is small.
template <class T>
std::vector<T> angles() {
  using Bits = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;
  constexpr std::size_t count = 200000;
  std::vector<T> all;
  const auto spread = [&](T from, T until) {
    const Bits first = std::bit_cast<Bits>(from), stride = (std::bit_cast<Bits>(until) - first) / count;
    for (std::size_t i = 0; i < count; ++i)
      all.push_back(std::bit_cast<T>(first + static_cast<Bits>(i) * stride));
  };
  spread(T(0), std::numeric_limits<T>::infinity());
  spread(T(0x1p-12), T(0x1p21));
  for (int n = 1; n < 50000; ++n) {
    const auto multiple = static_cast<T>(static_cast<long double>(n) * std::numbers::pi_v<long double> / 2);
    all.push_back(multiple);
    all.push_back(std::nextafter(multiple, T(0)));
  }
  const std::size_t half = all.size();
  for (std::size_t i = 0; i < half; ++i) all.push_back(-all[i]);
  return all;
}

template <class T>
Tensor of(const std::vector<T>& x) {
  return Tensor::from<T>(Shape{static_cast<std::int64_t>(x.size())}, x);
}
using Outputs = std::function<std::vector<Value>(Value)>;
std::vector<Tensor> results(const CpuExecutor& lanes, const Outputs& f, const Tensor& x) {
  GraphBuilder g("f");
  return lanes.run(g.build(f(g.input("x", x.type()))), std::vector{x});
}
bool same_bits(const Tensor& a, const Tensor& b) {
  return a.type() == b.type() && std::memcmp(a.bytes(), b.bytes(), a.type().bytes()) == 0;
}

const Outputs sine = [](Value x) { return std::vector{ops::sin(x)}; };
const Outputs cosine = [](Value x) { return std::vector{ops::cos(x)}; };
const Outputs both = [](Value x) { return std::vector{ops::cos(x), ops::sin(x)}; };

template <class T>
void check(const CpuExecutor& lanes, double bound) {
  const std::vector<T> x = angles<T>();
  const Tensor operand = of(x);
  const std::vector<Tensor> together = results(lanes, both, operand);
  CHECK(same_bits(together[0], results(lanes, cosine, operand)[0]));
  CHECK(same_bits(together[1], results(lanes, sine, operand)[0]));

  const T* const c = together[0].elements<T>().data();
  const T* const s = together[1].elements<T>().data();
  double worst = 0;
  bool symmetric = true;
  const std::size_t half = x.size() / 2;
  for (std::size_t i = 0; i < half; ++i) {
    const auto exact = static_cast<long double>(x[i]);
    worst = std::max({worst, ulps(s[i], std::sin(exact)), ulps(c[i], std::cos(exact))});
    symmetric = symmetric && s[i + half] == -s[i] && std::signbit(s[i + half]) != std::signbit(s[i]) &&
                c[i + half] == c[i];
  }
  CHECK(worst <= bound);
  CHECK(symmetric);

  // Beside a far one, and beside none.
  std::vector<T> beside;
  for (const T each : x) {
    beside.push_back(T(1e9));
    beside.push_back(each);
  }
  const std::vector<Tensor> mixed = results(lanes, both, of(beside));
  bool same = true;
  for (std::size_t i = 0; i < x.size(); ++i)
    same = same && mixed[0].elements<T>()[2 * i + 1] == c[i] && mixed[1].elements<T>()[2 * i + 1] == s[i];
  CHECK(same);
}

}  // namespace

TEST_CASE(
    "vector code: sin and cos are within two units in the last place, symmetric, and the same in any "
    "company") {
  for (const VectorUnits each : units()) {
    check<float>(with_units(each), 1.6);
    check<double>(with_units(each), 2);
  }
}

TEST_CASE("vector code: sin and cos have the same bits with AVX2 and AVX-512") {
  const std::vector<VectorUnits> all = units();
  const auto has = [&](VectorUnits one) { return std::find(all.begin(), all.end(), one) != all.end(); };
  if (!has(VectorUnits::avx2) || !has(VectorUnits::avx512)) return;
  for (const Tensor& x : {of(angles<float>()), of(angles<double>())}) {
    const std::vector<Tensor> narrow = results(with_units(VectorUnits::avx2), both, x);
    const std::vector<Tensor> wide = results(with_units(VectorUnits::avx512), both, x);
    CHECK(same_bits(narrow[0], wide[0]));
    CHECK(same_bits(narrow[1], wide[1]));
  }
}

TEST_CASE("vector code: the sine of NaN or infinity is NaN") {
  for (const VectorUnits each : units()) {
    const double infinity = std::numeric_limits<double>::infinity(), none = std::nan("");
    const Tensor x = of(std::vector{infinity, -infinity, none, 0.0, -0.0, 1e300, 1.0, 1e22});
    const std::vector<Tensor> y = results(with_units(each), both, x);
    for (std::int64_t i = 0; i < 3; ++i) {
      CHECK(std::isnan(y[0].at(i).real()));
      CHECK(std::isnan(y[1].at(i).real()));
    }
    CHECK(std::signbit(y[1].at(4).real()));
    CHECK(y[1].at(7).real() == doctest::Approx(-0.8522008497671888).epsilon(1e-15));
    CHECK(y[0].at(7).real() == doctest::Approx(0.5232147853951389).epsilon(1e-15));
  }
}

namespace {

Value times(Value x, double factor) { return x * ops::full(*x.emitter(), x.type(), factor); }

// More values than there are registers live across the functions, of which some elements take the far way.
const Outputs many_live = [](Value x) {
  std::vector<Value> before;
  for (int k = 0; k < 40; ++k) before.push_back(times(x, k + 1.5));
  const Value s = ops::sin(before[3]), c = ops::cos(before[3]);
  Value all = s * ops::cos(times(x, 1e7));
  for (const Value& value : before) all = all * c + value;
  return std::vector{all, ops::tanh(s) * ops::exp(c), ops::cos(c)};
};
// On rows, with reductions of them.
const Outputs of_rows = [](Value x) {
  const Value sum = ops::reduce_sum(ops::sin(x) * ops::cos(times(x, 2)), {1});
  const Value each = ops::broadcast_in_dim(sum, x.type().shape(), {0});
  return std::vector{ops::cos(x) * each + ops::sin(each), ops::reduce_sum(ops::sin(x) * each, {0})};
};

// Both functions of one element for each row, one of them needed much later than the other, as in a gradient.
const Outputs of_one_a_row = [](Value x) {
  const Shape shape = x.shape();
  const Value w = ops::rev(x, {0}), t = ops::tanh(x * w);
  const Value largest = ops::broadcast_in_dim(ops::reduce_max(t, {1}), shape, {0});
  const Value is_it = ops::convert_element_type(ops::eq(t, largest), x.dtype());
  const Value share = is_it / ops::broadcast_in_dim(ops::reduce_sum(is_it, {1}), shape, {0});
  const Value sum = ops::broadcast_in_dim(ops::reduce_sum(ops::cos(largest), {1}), shape, {0});
  const Value slope = ops::full(*x.emitter(), x.type(), 1.0) - ops::square(t);
  return std::vector{ops::sin(largest), sum * share * slope * w};
};

}  // namespace

TEST_CASE("vector code: sin and cos of one element for each row, wherever either is needed") {
  std::mt19937_64 random(8);
  for (const VectorUnits each : units()) {
    for (const DType dtype : {f32, f64}) {
      for (const std::int64_t columns : {16, 24, 32, 70}) {
        const Tensor rows = random_tensor(Type(dtype, {600, columns}), Domain{-2, 2}, random);
        const std::vector<Tensor> together = results(with_units(each), of_one_a_row, rows);
        const std::vector<Tensor> apart = results(with_units(each, false), of_one_a_row, rows);
        for (std::size_t i = 0; i < together.size(); ++i) CHECK(same_bits(together[i], apart[i]));
      }
    }
  }
}

TEST_CASE("vector code: among many live values and on rows sin and cos change no bit") {
  std::mt19937_64 random(7);
  for (const VectorUnits each : units()) {
    for (const DType dtype : {f32, f64}) {
      for (const double size : {3.0, 1e5, 1e7}) {
        const Domain domain{-size, size};
        const Tensor x = random_tensor(Type(dtype, {5003}), domain, random);
        const std::vector<Tensor> fused = results(with_units(each), many_live, x);
        const std::vector<Tensor> alone = results(with_units(each, false), many_live, x);
        for (std::size_t i = 0; i < fused.size(); ++i) CHECK(same_bits(fused[i], alone[i]));
        for (const std::int64_t columns : {16, 33, 200, 1100}) {
          const Tensor rows = random_tensor(Type(dtype, {64, columns}), domain, random);
          const std::vector<Tensor> together = results(with_units(each), of_rows, rows);
          const std::vector<Tensor> apart = results(with_units(each, false), of_rows, rows);
          for (std::size_t i = 0; i < together.size(); ++i) CHECK(same_bits(together[i], apart[i]));
        }
      }
    }
  }
}

}  // namespace circular_cases
