// quotients.hpp - complex quotients at the ends of the range, and powers of real numbers near 1 with
// exponents beyond 32 bits, with results in long double.
#pragma once

#include <complex>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

namespace tidu::test {

/// x / y of complex numbers whose parts are 0, of usual size or at either end of the range.
template <class R>
struct ComplexQuotients {
  using Exact = std::complex<long double>;
  std::vector<std::complex<R>> x, y;
  std::vector<Exact> exact;

  ComplexQuotients() {
    using Limits = std::numeric_limits<R>;
    std::mt19937_64 random(3);
    const R sizes[] = {0,      Limits::max(),     Limits::max() / 3,
                       R(1.3), 3 * Limits::min(), 5 * Limits::denorm_min()};
    const auto part = [&](R size) { return (random() & 1U) != 0 ? size : -size; };
    for (const R a : sizes)
      for (const R b : sizes)
        for (const R c : sizes)
          for (const R d : sizes) {
            if (c == 0 && d == 0) continue;
            add({part(a), part(b)}, {part(c), part(d)});
          }
  }

  /// The error of a quotient in units in the last place of its magnitude. One that overflows has none.
  double error(std::size_t i, std::complex<R> got) const {
    const Exact z = exact[i];
    const long double greatest = std::numeric_limits<R>::max();
    if (std::abs(z.real()) > greatest || std::abs(z.imag()) > greatest) return 0.0;
    const long double unit =
        std::abs(z) * std::numeric_limits<R>::epsilon() + std::numeric_limits<R>::denorm_min();
    const long double apart = std::abs(Exact(got) - z) / unit;
    return apart <= 1e18L ? static_cast<double>(apart) : std::numeric_limits<double>::infinity();
  }

 private:
  // The squares of the least and greatest numbers are in the range of long double.
  void add(std::complex<R> numerator, std::complex<R> denominator) {
    x.push_back(numerator);
    y.push_back(denominator);
    const long double a = numerator.real(), b = numerator.imag(), c = denominator.real(),
                      d = denominator.imag();
    const long double norm = c * c + d * d;
    exact.emplace_back((a * c + b * d) / norm, (b * c - a * d) / norm);
  }
};

/// x^y, and the relative error that as many roundings make.
struct WidePower {
  double x;
  std::int64_t y;
  long double exact;
  double allowed;
};
inline std::vector<WidePower> wide_powers() {
  std::vector<WidePower> powers;
  for (const std::int64_t n :
       {std::int64_t{1} << 31, (std::int64_t{1} << 33) + 1, (std::int64_t{1} << 40) - 3})
    // The last two are subnormal numbers whose reciprocals overflow.
    for (const double log : {1.0, -1.0, 650.0, -650.0, -720.0, -740.0})
      for (const bool reciprocal : {false, true}) {
        const double step = log / static_cast<double>(n), x = reciprocal ? 1 - step : 1 + step;
        const std::int64_t y = reciprocal ? -n : n;
        const long double exact =
            std::exp(static_cast<long double>(y) * std::log(static_cast<long double>(x)));
        powers.push_back({x, y, exact, static_cast<double>(n) * 0x1p-52});
      }
  return powers;
}

}  // namespace tidu::test
