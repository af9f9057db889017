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
/// Points, and what a function of one or two numbers and its derivatives are there.
template <class Number, class Exact>
struct Points {
  std::vector<std::vector<Number>> operands;
  /// Of each derivative: the value; by x and y; by xx, xy and yy.
  std::vector<std::vector<Exact>> references;
};
using RealPoints = Points<double, Reference>;
using ComplexPoints = Points<std::complex<double>, ComplexReference>;

inline bool read_number(std::istream& line, double& result) {
  std::string word;
  if (!(line >> word) || word == ";") return false;
  result = static_cast<double>(number(word));
  return true;
}
inline bool read_number(std::istream& line, std::complex<double>& result) {
  double re = 0.0, im = 0.0;
  if (!read_number(line, re) || !read_number(line, im)) return false;
  result = {re, im};
  return true;
}
inline bool read_number(std::istream& line, Reference& result) {
  std::string word;
  if (!(line >> word)) return false;
  const std::size_t bar = word.find('|');
  const long double value = number(word.substr(0, bar));
  result = {value, bar == std::string::npos ? std::abs(value) : number(word.substr(bar + 1))};
  return true;
}
inline bool read_number(std::istream& line, ComplexReference& result) {
  std::string re, im, size;
  if (!(line >> re >> im >> size)) return false;
  result = {{number(re), number(im)}, number(size)};
  return true;
}

/// The points of each dtype of the function whose file has that name.
template <class Number, class Exact>
std::map<std::string, Points<Number, Exact>> load_points(const std::string& name) {
  std::ifstream file(source_dir() / "tests/data/accuracy" / (name + ".txt"));
  REQUIRE_MESSAGE(file, name);
  std::map<std::string, Points<Number, Exact>> result;
  for (std::string text; std::getline(file, text);) {
    std::istringstream line(text);
    std::string dtype;
    line >> dtype;
    Points<Number, Exact>& points = result[dtype];
    Number x;
    for (std::size_t i = 0; read_number(line, x); ++i) {
      if (points.operands.size() <= i) points.operands.emplace_back();
      points.operands[i].push_back(x);
    }
    Exact exact;
    for (std::size_t i = 0; read_number(line, exact); ++i) {
      if (points.references.size() <= i) points.references.emplace_back();
      points.references[i].push_back(exact);
    }
  }
  return result;
}
inline std::map<std::string, RealPoints> load_real(const std::string& name) {
  return load_points<double, Reference>(name);
}
inline std::map<std::string, ComplexPoints> load_complex(const std::string& name) {
  return load_points<std::complex<double>, ComplexReference>("complex_" + name);
}

/// The error as a distance, in units in the last place of the reference's size; infinite for a wrong infinity
/// or NaN, and for a zero in the place of a number that is none. Of a number that overflows any part may be
/// infinite or NaN, since a complex product of an infinity is infinity minus infinity.
inline double error_of_number(std::complex<double> got, const ComplexReference& expected,
                              const Format& format) {
  const long double greatest = format.greatest, unit = unit_of(expected.size, format);
  const long double greater = std::max(std::abs(expected.value.real()), std::abs(expected.value.imag())),
                    margin = 8 * unit_of(greatest, format);
  const bool finite = std::isfinite(got.real()) && std::isfinite(got.imag());
  if (!finite && greater > greatest - margin) return 0.0;
  if (finite && greater > greatest + margin) return INFINITY;
  if (!finite || (got == 0.0 && std::abs(expected.value) > 8 * unit)) return INFINITY;
  return static_cast<double>(std::abs(std::complex<long double>(got) - expected.value) / unit);
}

}  // namespace tidu::test
