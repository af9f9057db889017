// table.hpp - the table of the largest errors by function, order of the derivative and dtype.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "support/accuracy_data.hpp"

namespace tidu::test {

/// The largest error, and where it is.
struct Worst {
  double error = 0.0;
  std::string where;
};
/// By function, order and dtype.
using Table = std::map<std::string, std::map<int, std::map<std::string, Worst>>>;

/// Measures the functions of real numbers, and those of complex numbers.
Table measure_real();
Table measure_complex();

/// The names in the order of the page.
std::vector<std::string> real_names();
std::vector<std::string> complex_names();

}  // namespace tidu::test
