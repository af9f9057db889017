// basics.cpp - properties of Arrays, computations with them, and their errors.
#include <complex>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "support.hpp"

namespace tidu::test {
namespace {

TEST_CASE("the only element as a number of another type") {
  const auto refused = [](const Array& x, const char* what) {
    const std::string error = error_of([&] { (void)x.item<int>(); });
    CAPTURE(error);
    CHECK(contains(error, std::string("[Array::item] expected a number that a signed integer of 32 bits "
                                      "holds, got ") +
                              what));
  };
  CHECK(Array(2.75).item<int>() == 2);
  CHECK(Array(-2.75).item<int>() == -2);
  CHECK(Array(-2147483648.5).item<int>() == std::numeric_limits<int>::min());
  CHECK(Array(std::int64_t{-2147483648}).item<int>() == std::numeric_limits<int>::min());
  CHECK(Array(std::numeric_limits<std::int64_t>::min()).item<std::int64_t>() ==
        std::numeric_limits<std::int64_t>::min());
  CHECK(Array(-0.5).item<unsigned>() == 0);
  CHECK(Array(255).item<std::uint8_t>() == 255);
  CHECK(Array(true).item<int>() == 1);
  CHECK(Array(1e300).item<float>() == std::numeric_limits<float>::infinity());
  refused(Array(std::numeric_limits<double>::quiet_NaN()), "nan");
  refused(Array(2147483648.0), "2");
  refused(Array(std::int64_t{-2147483649}), "-2147483649");
  refused(Array(-std::numeric_limits<double>::infinity()), "-inf");
  CHECK_THROWS_AS((void)Array(-1).item<unsigned>(), Error);
  CHECK_THROWS_AS((void)Array(256).item<std::uint8_t>(), Error);
  CHECK_THROWS_AS((void)Array(std::int64_t{-1}).item<std::uint64_t>(), Error);
  CHECK_THROWS_AS((void)Array(9223372036854775808.0).item<std::int64_t>(), Error);
}

TEST_CASE("a complex element is a real number where it is one") {
  using c = std::complex<double>;
  CHECK(Array(c(1.5, 0.0)).item() == 1.5);
  CHECK(Array(c(-2.0, -0.0)).item<int>() == -2);
  CHECK(Array(c(0.0, 1.0)).item<bool>());
  CHECK(Array(c(1.0, -2.0)).item<c>() == c(1.0, -2.0));
  const Array z = c(1.0, -2.0);
  for (const std::string& error : {error_of([&] { (void)z.item(); }), error_of([&] { (void)z.item<int>(); }),
                                   error_of([&] { (void)z.item<float>(); })})
    CHECK(contains(error, "[Array::item] expected a real number, got 1-2i (real(x)"));
  CHECK(contains(error_of([] { (void)Array(c(1.0, 2.0)).item(); }), "got 1+2i"));
  CHECK_THROWS_AS((void)Array(c(1.0, std::numeric_limits<double>::quiet_NaN())).item(), Error);
}

TEST_CASE("an Array is made of numbers, lists and tensors") {
  const Array x = array({{1, 2, 3}, {4, 5, 6}});
  CHECK(x.type() == Type(i64, {2, 3}));
  CHECK(array({{1.0, 2}, {3, 4}}).dtype() == f64);
  CHECK(array({{1, 2}, {3, 4}}, f32).type() == Type(f32, {2, 2}));
  CHECK(array({1, 2, 3, 4}, Shape{2, 2}).type() == Type(i64, {2, 2}));
  CHECK(array({{{1.5}}, {{2.5}}}).shape() == Shape{2, 1, 1});
  CHECK(array(2.5).type() == Type(f64));
  CHECK(Array(2.0f).type() == Type(f32));
  CHECK(Array(true).type() == Type(bool_));
  CHECK(Array(3).type() == Type(i32));
  CHECK(zeros({2, 0}).size() == 0);
  CHECK(elements(full({2}, 1.5)) == std::vector<double>{1.5, 1.5});
  CHECK(elements(arange(4)) == std::vector<double>{0, 1, 2, 3});
  CHECK(elements(arange(1.0, 2.0, 0.25)) == std::vector<double>{1, 1.25, 1.5, 1.75});
  CHECK(elements(linspace(0, 1, 5)) == std::vector<double>{0, 0.25, 0.5, 0.75, 1});
  for (const DType dtype : {i32, i64}) {  // downward, as NumPy
    CHECK(linspace(-1, 1, 4, dtype).type() == Type(dtype, {4}));
    CHECK(elements(linspace(-1, 1, 4, dtype)) == std::vector<double>{-1, -1, 0, 1});
    CHECK(elements(linspace(0, -2.5, 3, dtype)) == std::vector<double>{0, -2, -3});
  }
  CHECK(elements(arange(2.5)) == std::vector<double>{0, 1, 2});
  CHECK(arange(2.5).dtype() == f64);
  CHECK(arange(3.0F, f32).type() == Type(f32, {3}));
  CHECK(arange(2.5, i64).type() == Type(i64, {3}));
  CHECK(arange(-2.5).size() == 0);
  CHECK(arange(3U).dtype() == i64);
  CHECK(elements(eye(2)) == std::vector<double>{1, 0, 0, 1});
  CHECK(elements(one_hot(array({2, 0}), 3)) == std::vector<double>{0, 0, 1, 1, 0, 0});
  // Out of range, of i32 too: zeros.
  const std::int64_t far = (std::int64_t{1} << 32) + 1;
  for (const DType dtype : {f32, f64})
    CHECK(elements(one_hot(array({far, std::int64_t{-1}, std::int64_t{3}, std::int64_t{2}}), 3, dtype)) ==
          std::vector<double>{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1});
}

TEST_CASE("numbers take the Array's dtype, and Arrays promote each other") {
  const Array x = ones({2}, f32);
  CHECK((x * 2.0).dtype() == f32);
  CHECK((2 * x).dtype() == f32);
  CHECK((1.0 - x).dtype() == f32);
  CHECK((arange(2) * 2).dtype() == i64);
  CHECK((arange(2) * 2.5).dtype() == f64);
  CHECK((arange(2) / 2).dtype() == f64);
  CHECK((x + ones({2}, f64)).dtype() == f64);
  CHECK((x + arange(2)).dtype() == f32);
  CHECK(exp(arange(2)).dtype() == f64);
  CHECK(promote(f16, bf16) == f32);
  CHECK(promote(f64, c64) == c128);
  CHECK(promote(i64, c64) == c64);
  CHECK(promote(bool_, i32) == i32);
}

TEST_CASE("chain rule through backward") {
  Array x(0.7);
  x.set_requires_grad();
  const int line = __LINE__ + 1;
  const Array y = sin(x * x) + exp(x) / 2.0;
  y.backward();
  CHECK(x.grad()->item() == doctest::Approx(std::cos(0.49) * 1.4 + std::exp(0.7) / 2));
  const std::string error = error_of([&] { y.backward(); });  // nothing left: the tape was freed
  CHECK(contains(error, "keep_graph"));
  CHECK(contains(error, "basics.cpp:" + std::to_string(line)));
}

// y[0] = z would give a temporary another Array, and change nothing.
template <class To>
constexpr bool is_updated = requires(const Array& z) {
  std::declval<To>() += z;
}
|| requires(const Array& z) { std::declval<To>() -= z; }
|| requires(const Array& z) { std::declval<To>() *= z; }
|| requires(const Array& z) { std::declval<To>() /= z; }
|| requires(const Array& z) { std::declval<To>().assign(z); };

TEST_CASE("the result of a function cannot be assigned to") {
  const Array y = arange(3.0);
  static_assert(std::is_same_v<decltype(y[0]), Array>);
  static_assert(!std::is_assignable_v<decltype(y[0]), Array>);
  static_assert(!std::is_assignable_v<decltype(y.slice({{0, 2}})), const Array&>);
  static_assert(!std::is_assignable_v<Array, double>);
  static_assert(!is_updated<Array> && !is_updated<const Array&> && is_updated<Array&>);
  // Handles that have a name are.
  static_assert(std::is_nothrow_move_assignable_v<Array> && std::is_copy_assignable_v<Array>);
  static_assert(std::is_assignable_v<Array&, double> && std::is_nothrow_swappable_v<Array>);
  std::vector<Array> parts{y[0], y[1]};
  std::swap(parts[0], parts[1]);
  parts.insert(parts.begin(), y[2]);
  parts[1] = parts[0] + 1.0;
  parts[2] += 7.0;
  std::optional<Array> maybe;
  maybe = parts[1];
  *maybe *= 2.0;
  auto [first, second] = std::pair(parts[0], parts[2]);
  std::tie(first, second) = std::pair(second, first);
  CHECK(first.item() == 7);
  CHECK(second.item() == 2);
  CHECK(parts[1].item() == 3);
  CHECK(maybe->item() == 6);
}

}  // namespace
}  // namespace tidu::test
