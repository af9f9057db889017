// whole_numbers.cpp - whole numbers as operands and elements: to the last bit, or refused.
#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include "tidu/tidu.hpp"

using namespace tidu;

namespace {

constexpr std::int64_t least = std::numeric_limits<std::int64_t>::min();
constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t odd = (std::int64_t{1} << 53) + 1;  // the first that a double does not hold

template <class F>
void refuses_number(const F& f, const char* function, const char* number) {
  try {
    f();
    FAIL("expected an error for ", number);
  } catch (const Error& error) {
    const std::string message = error.what();
    CAPTURE(message);
    CHECK(error.kind() == ErrorKind::type);
    CHECK(message.find(function) != std::string::npos);
    CHECK(message.find(number) != std::string::npos);
    CHECK(message.find("whole_numbers.cpp:") != std::string::npos);
  }
}

}  // namespace

TEST_CASE("a Number keeps its original value") {
  static_assert(Number(odd).whole() == odd && Number(odd).is_whole());
  static_assert(Number(true).dtype() == bool_ && Number(true).whole() == 1);
  static_assert(Number(3).dtype() == i32 && Number('a').dtype() == i32 && Number(3L).dtype() == i64);
  static_assert(Number(4000000000U).dtype() == i64 && Number(4000000000U).whole() == 4000000000);
  static_assert(Number(0.5F).dtype() == f64 && Number(0.5F).value() == 0.5);
  static_assert(Number(std::uint64_t{1} << 63).dtype() == f64);
  static_assert(Number(std::uint64_t{1} << 63).value() == 0x1p63);
  static_assert(Number(std::uint64_t{1} << 62).whole() == std::int64_t{1} << 62);
}

TEST_CASE("objects that convert to a number are numbers") {
  enum Level { low = 1, high = 4 };
  static_assert(Number(high).is_whole() && Number(high).whole() == 4);
  const std::vector<bool> bits{false, true};
  CHECK(full({2}, bits[1], i32)[1].item<int>() == 1);
  CHECK(full({}, high).item() == 4.0);
  CHECK(arange(low, high).shape() == Shape{3});
}

TEST_CASE("operations with whole numbers are those of 64-bit integers") {
  std::mt19937_64 random(7);
  for (int round = 0; round < 300; ++round) {
    // Of every length in bits, and near the ends.
    const int shift = static_cast<int>(random() % 64);
    const auto n = static_cast<std::int64_t>(random()) >> shift;
    const std::int64_t x = round % 3 == 0 ? n : round % 3 == 1 ? most - (n & 7) : least + (n & 7);
    const Array a(Tensor::scalar(x));
    CAPTURE(x);
    CAPTURE(n);
    const auto wrap = [](std::uint64_t bits) { return static_cast<std::int64_t>(bits); };
    const auto ux = static_cast<std::uint64_t>(x), un = static_cast<std::uint64_t>(n);
    CHECK((a + n).item<std::int64_t>() == wrap(ux + un));
    CHECK((n - a).item<std::int64_t>() == wrap(un - ux));
    CHECK((a * n).item<std::int64_t>() == wrap(ux * un));
    CHECK((a == n).item<bool>() == (x == n));
    CHECK((a < n).item<bool>() == (x < n));
    CHECK((n <= a).item<bool>() == (n <= x));
    CHECK(maximum(a, n).item<std::int64_t>() == std::max(x, n));
    CHECK((a & n).item<std::int64_t>() == (x & n));
    CHECK(where(a == n, a, n).item<std::int64_t>() == n);
    CHECK(full({2}, n, i64)[1].item<std::int64_t>() == n);
    CHECK(array({{n, x}})[0][0].item<std::int64_t>() == n);
  }
}

TEST_CASE("neighbours beyond 2^53 are different operands, also when they come again") {
  const Array zero(Tensor::scalar(std::int64_t{0}));
  for (int round = 0; round < 20; ++round)
    for (std::int64_t n = odd - 4; n < odd + 4; ++n) CHECK((zero + n).item<std::int64_t>() == n);
  const auto add = compile([](const Array& x) { return x + odd; });
  CHECK(add(zero).item<std::int64_t>() == odd);
  const Lazy lazily;
  CHECK((zero + odd + 1).item<std::int64_t>() == odd + 1);
}

TEST_CASE("numbers that meet numbers have the dtype of both") {
  const Array yes(Tensor::scalar(true));
  CHECK(where(yes, 1, std::int64_t{3000000000}).dtype() == i64);
  CHECK(where(!yes, 1, std::int64_t{3000000000}).item<std::int64_t>() == 3000000000);
  CHECK(where(yes, 1, 2.5).dtype() == f64);
}

TEST_CASE("numbers that a dtype cannot represent are refused, with the location") {
  const Array x(Tensor::scalar(std::int32_t{1}));
  const std::int64_t big = 3000000000;
  refuses_number([&] { return x + big; }, "[add]", "3000000000");
  refuses_number([&] { return big < x; }, "[less]", "3000000000");
  refuses_number([&] { return clip(x, 0, big); }, "[clip]", "3000000000");
  refuses_number([&] { return where(x == 1, x, -big); }, "[where]", "-3000000000");
  refuses_number([&] { return array({1, 3000000000}, i32); }, "array", "3000000000");
  refuses_number([&] { return full({2}, big, i32); }, "full", "3000000000");
  refuses_number([&] { return full({2}, std::nan(""), i64); }, "full", "nan");
  refuses_number([&] { return array({1e19}, i64); }, "array", "1e+19");
  refuses_number([&] { return arange(big, big + 2, 1, i32); }, "arange", "3000000000");
  CHECK((x + most % 1000).item<int>() == 1 + static_cast<int>(most % 1000));  // and the next call works
  CHECK_THROWS_AS(Array(std::uint64_t{1} << 63), Error);
  // Beside floating elements they are as good as any other number.
  CHECK((Array(1.0) * (std::uint64_t{1} << 63)).item() == 0x1p63);
  CHECK((Array(1.0F) * big).item<float>() == 3e9F);
  CHECK(array({1.75, -1.75}, i32)[1].item<int>() == -1);
}

TEST_CASE("ranges of whole numbers") {
  const Array up = arange(odd - 1, odd + 3, 1, i64);
  CHECK(up.shape() == Shape{4});
  for (std::int64_t i = 0; i < 4; ++i) CHECK(up[i].item<std::int64_t>() == odd - 1 + i);
  const Array down = arange(most, most - 7, -3, i64);
  CHECK(down.shape() == Shape{3});
  CHECK(down[2].item<std::int64_t>() == most - 6);
  CHECK(arange(least, most, most, i64).shape() == Shape{3});
  CHECK(arange(0, 10, 3).shape() == Shape{4});
  CHECK(arange(0, 9, 3).shape() == Shape{3});
  CHECK(arange(5, 5).size() == 0);
  CHECK(arange(5, 2).size() == 0);
  CHECK(arange(0.0, 1.0, 0.25)[3].item() == 0.75);
  CHECK(arange(0, 3).dtype() == f64);
  for (const auto& range : std::vector<std::array<double, 3>>{
           {0, 1, 0}, {0, INFINITY, 1}, {0, NAN, 1}, {NAN, 1, 1}, {0, 1, 1e-300}}) {
    CAPTURE(range[2]);
    CHECK_THROWS_AS(arange(range[0], range[1], range[2]), Error);
  }
}

TEST_CASE("an element as another integer type") {
  const Array x(Tensor::scalar(odd));
  CHECK(x.item<std::int64_t>() == odd);
  CHECK(x.item<long long>() == odd);
  CHECK(x.item<std::uint64_t>() == static_cast<std::uint64_t>(odd));
  CHECK(x.item<bool>());
  CHECK(Array(7).item<short>() == 7);
  CHECK(Array(true).item<unsigned>() == 1);
  CHECK(Array(2.5).item<int>() == 2);
}

TEST_CASE("whole numbers are printed whole") {
  CHECK(to_string(array({odd, most, least})) ==
        "array([    9007199254740993,  9223372036854775807, -9223372036854775808], i64[3])");
  CHECK(to_string(array({-7, 2147483647}, i32)) == "array([        -7, 2147483647], i32[2])");
}
