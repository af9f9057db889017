#include "support/distance.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstring>
#include <utility>

#include "tidu/tensor/inspect.hpp"

namespace tidu::test {

double distance(const Tensor& a, const Tensor& b) {
  REQUIRE(a.type() == b.type());
  if (a.size() == 0 || std::memcmp(a.bytes(), b.bytes(), a.num_bytes()) == 0) return 0;
  double most = 0, scale = 1;
  for (std::int64_t i = 0; i < a.size(); ++i) {
    const double size = std::abs(a.at(i));
    if (std::isfinite(size)) scale = std::max(scale, size);
  }
  for (std::int64_t i = 0; i < a.size(); ++i) {
    const std::complex<double> x = a.at(i), y = b.at(i);
    for (const auto& [p, q] : {std::pair(x.real(), y.real()), std::pair(x.imag(), y.imag())}) {
      if (p == q || (std::isnan(p) && std::isnan(q))) continue;
      most = std::max(most, std::isfinite(p - q) ? std::abs(p - q) / scale : 1e300);
    }
  }
  return most;
}

}  // namespace tidu::test
