// accuracy_data.hpp - the points and exact numbers of tests/data/accuracy (scripts/accuracy_reference.py),
// and errors in units in the last place.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <complex>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "support/support.hpp"
#include "tidu/graph/dtype.hpp"

namespace tidu::test {

/// An exact number, rounded to more digits than the dtype has.
struct Reference {
  long double value;
  long double unit;  // the error counts in units in the last place of this
};
inline long double number(const std::string& text) {
  if (text == "inf") return INFINITY;
  if (text == "-inf") return -INFINITY;
  if (text == "nan") return NAN;
  return std::strtold(text.c_str(), nullptr);
}

/// A format of real numbers. For c128 and c64, the format of their parts.
struct Format {
  DType dtype;
  int digits, min_normal;  // of the significand; exponent
  long double greatest;
};
inline Format format_of(const std::string& dtype) {
  if (dtype == "f64" || dtype == "c128") return {f64, 53, -1022, std::numeric_limits<double>::max()};
  if (dtype == "f32" || dtype == "c64") return {f32, 24, -126, std::numeric_limits<float>::max()};
  if (dtype == "f16") return {f16, 11, -14, 65504.0L};
  return {bf16, 8, -126, 0x1.fep127L};
}

/// The unit in the last place of a number of this size; that of the least normal number for smaller ones.
inline long double unit_of(long double size, const Format& format) {
  const int exponent = size == 0 ? format.min_normal
                                 : std::max(std::ilogb(std::min(size, format.greatest)), format.min_normal);
  return std::ldexp(1.0L, exponent - format.digits + 1);
}

/// The error in units in the last place of the reference. A wrong 0, infinity or NaN counts as infinitely
/// many.
inline double error_of_number(double got, const Reference& expected, const Format& format) {
  const long double greatest = format.greatest, value = expected.value;
  if (std::isnan(value)) return std::isnan(got) ? 0.0 : INFINITY;
  const long double unit = unit_of(expected.unit, format);
  if (std::abs(value) > 1e300L * greatest ||
      (std::abs(value) > greatest + unit_of(greatest, format) && !std::isfinite(got)))
    return std::isfinite(got) ? INFINITY : 0.0;
  if (std::isinf(got))
    return std::signbit(got) == std::signbit(value) &&
                   std::abs(value) >= greatest - 8 * unit_of(greatest, format)
               ? 0.0
               : INFINITY;
  if (std::abs(value) > greatest + unit_of(greatest, format) / 2)
    return std::abs(static_cast<long double>(got) - std::copysign(greatest, value)) <=
                   8 * unit_of(greatest, format)
               ? 8.0
               : INFINITY;
  if (!std::isfinite(got)) return INFINITY;
  // A zero where eight units are not zero is wrong in kind, not in its last places.
  if (got == 0.0 && std::abs(value) > 8 * unit) return INFINITY;
  return static_cast<double>(std::abs(static_cast<long double>(got) - value) / unit);
}

/// An exact complex number.
struct ComplexReference {
  std::complex<long double> value;
  long double size;  // the error counts in units in the last place of this
};
/// Points, and what a function and its derivatives are there.
struct RealPoints {
  std::vector<double> x, y;
  std::vector<std::vector<Reference>> references;  // of each derivative
};

/// The points of each dtype, of a function of one number or of two.
inline std::map<std::string, RealPoints> load_real(const std::string& name, bool of_two) {
  std::ifstream file(source_dir() / "tests/data/accuracy" / (name + ".txt"));
  REQUIRE_MESSAGE(file, name);
  std::map<std::string, RealPoints> result;
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string dtype, word;
    words >> dtype >> word;
    RealPoints& points = result[dtype];
    points.x.push_back(static_cast<double>(number(word)));
    if (of_two) {
      words >> word;
      points.y.push_back(static_cast<double>(number(word)));
    }
    words >> word;
    REQUIRE(word == ";");
    for (std::size_t i = 0; words >> word; ++i) {
      const std::size_t bar = word.find('|');
      const long double value = number(word.substr(0, bar));
      if (points.references.size() <= i) points.references.emplace_back();
      points.references[i].push_back(
          {value, bar == std::string::npos ? std::abs(value) : number(word.substr(bar + 1))});
    }
  }
  return result;
}

/// The same of a function of a complex number.
struct ComplexPoints {
  std::vector<std::complex<double>> z;
  std::array<std::vector<ComplexReference>, 3> references;  // by order of the derivative
};

inline std::map<std::string, ComplexPoints> load_complex(const std::string& name) {
  std::ifstream file(source_dir() / "tests/data/accuracy" / ("complex_" + name + ".txt"));
  REQUIRE_MESSAGE(file, name);
  std::map<std::string, ComplexPoints> result;
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string dtype, x, y, size;
    words >> dtype >> x >> y;
    ComplexPoints& points = result[dtype];
    points.z.emplace_back(static_cast<double>(number(x)), static_cast<double>(number(y)));
    words >> x;
    REQUIRE(x == ";");
    for (std::vector<ComplexReference>& references : points.references) {
      REQUIRE(static_cast<bool>(words >> x >> y >> size));
      references.push_back({{number(x), number(y)}, number(size)});
    }
  }
  return result;
}

/// The error as a distance, in units in the last place of the reference's size; infinite for a wrong infinity
/// or NaN, and for a zero in the place of a number that is none. Of a number that overflows any part may be
/// infinite or NaN, since a complex product of an infinity is infinity minus infinity.
inline double error_of_number(std::complex<double> got, const ComplexReference& expected,
                              const Format& format) {
  const long double greatest = format.greatest, unit = unit_of(expected.size, format);
  const bool overflows = std::max(std::abs(expected.value.real()), std::abs(expected.value.imag())) >
                         greatest - 8 * unit_of(greatest, format);
  const bool finite = std::isfinite(got.real()) && std::isfinite(got.imag());
  if (overflows) return finite ? INFINITY : 0.0;
  if (!finite || (got == 0.0 && std::abs(expected.value) > 8 * unit)) return INFINITY;
  return static_cast<double>(std::abs(std::complex<long double>(got) - expected.value) / unit);
}

}  // namespace tidu::test
