// Constants of generated code: powers of two, by which some processors scale and do not multiply, and more
// constants than registers can hold.
#include <doctest/doctest.h>

#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <type_traits>
#include <vector>

#include "cpu/fusion/vector_ir.hpp"
#include "cpu/vector_units.hpp"

using namespace tidu;
using namespace tidu::test;
using namespace tidu::cpu_detail;

namespace {

template <class T>
using Bits = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;

// Every step is a product by its factor, from either side, or a sum with its term, of the step before.
template <class T>
struct Chain {
  std::vector<T> factors, terms;
  VectorProgram code() const {
    VectorProgram code;
    code.dtype = sizeof(T) == 4 ? f32 : f64;
    code.num_operands = code.num_results = 1;
    const auto immediate = [&](T x) {
      return code.add({.op = VectorOp::immediate, .bits = std::bit_cast<Bits<T>>(x)});
    };
    std::uint16_t y = code.add({.op = VectorOp::load, .index = 0});
    for (std::size_t i = 0; i < factors.size(); ++i) {
      const std::uint16_t by = immediate(factors[i]);
      y = code.add({.op = VectorOp::mul, .a = i % 2 == 0 ? y : by, .b = i % 2 == 0 ? by : y});
    }
    for (const T term : terms) y = code.add({.op = VectorOp::add, .a = y, .b = immediate(term)});
    code.add({.op = VectorOp::store, .a = y, .index = 0});
    return code;
  }
  T of(T x) const {
    volatile T y = x;  // each operation is rounded
    for (const T factor : factors) y = y * factor;
    for (const T term : terms) y = y + term;
    return y;
  }
};

// Zeros, infinities, NaN, the largest, the least normal and subnormal numbers and their neighbours, and any.
template <class T>
std::vector<T> all_kinds(std::size_t count) {
  using Limits = std::numeric_limits<T>;
  std::vector<T> x = {
      0, 1, Limits::infinity(), Limits::quiet_NaN(), Limits::max(), Limits::min(), Limits::denorm_min()};
  for (const T of : {Limits::max(), Limits::min(), Limits::min() * 4, Limits::denorm_min() * 8}) {
    x.push_back(std::nextafter(of, T(0)));
    x.push_back(std::nextafter(of, Limits::infinity()));
    x.push_back(of + of / 2);
    x.push_back(of / 4 * 3);
  }
  const std::size_t kinds = x.size();
  for (std::size_t i = 0; i < kinds; ++i) x.push_back(-x[i]);
  std::mt19937_64 random(7);
  while (x.size() < count) x.push_back(std::bit_cast<T>(static_cast<Bits<T>>(random())));
  return x;
}

template <class T>
void check_chain(VectorJit& compiler, const Chain<T>& chain) {
  const auto kernel = compiler.compile(chain.code());
  REQUIRE(kernel != nullptr);
  const std::vector<T> x = all_kinds<T>(1013);
  std::vector<T> y(x.size());
  const std::array<const std::byte*, 1> in = {reinterpret_cast<const std::byte*>(x.data())};
  const std::array<std::byte*, 1> out = {reinterpret_cast<std::byte*>(y.data())};
  kernel->run(in.data(), out.data(), static_cast<std::int64_t>(x.size()));
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const T expected = chain.of(x[i]);
    const bool same = std::isnan(expected) ? std::isnan(y[i])
                                           : std::bit_cast<Bits<T>>(expected) == std::bit_cast<Bits<T>>(y[i]);
    if (!same && wrong++ == 0) CHECK_MESSAGE(same, x[i], " became ", y[i], " and not ", expected);
  }
  CHECK(wrong == 0);
}

template <class T>
void check_chains(VectorJit& compiler) {
  const T least = std::numeric_limits<T>::min(), most = 1 / least;
  for (const T power : {T(0.5), T(2), T(1), T(0.125), T(1024), least, most, T(-0.5), T(0.75), T(0)})
    check_chain<T>(compiler, {{power}, {}});
  check_chain<T>(compiler, {{T(0.5), T(0.5), T(1.5), T(4), T(0.25)}, {T(1)}});
  // One constant more than fits, at one of these lengths at least.
  for (std::size_t length = 24; length <= 36; ++length) {
    Chain<T> chain;
    for (std::size_t i = 0; i < length; ++i) {
      chain.factors.push_back(T(1) + T(i + 1) / 64);
      chain.terms.push_back(T(i) / 8 - 2);
      chain.terms.push_back(T(i) / 8 - 2);  // twice: worth being held
    }
    check_chain<T>(compiler, chain);
  }
}

}  // namespace

TEST_CASE(
    "[vector code] products by powers of two, and by more constants than there are registers, are exact") {
  for (const VectorUnits each : units()) {
    VectorJit& compiler = *VectorJit::get(each);
    check_chains<float>(compiler);
    check_chains<double>(compiler);
  }
}
