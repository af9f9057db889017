// table.hpp - the table of the largest errors by function, order of the derivative and dtype.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "support/accuracy_data.hpp"
#include "tidu/frontend/array.hpp"

namespace tidu::test {

/// The largest error, and where it is.
struct Worst {
  double error = 0.0;
  std::string where;
};
/// By function, order and dtype.
using Table = std::map<std::string, std::map<int, std::map<std::string, Worst>>>;

/// A function of one or two numbers, for each element of its operands.
using Elementwise = std::function<Array(const std::vector<Array>&)>;
struct Named {
  std::string name;
  Elementwise compute;
};
/// In the order of the page.
const std::vector<Named>& real_functions();
const std::vector<Named>& complex_functions();

/// Measures all functions of real numbers, and all of complex numbers.
Table measure_real();
Table measure_complex();

}  // namespace tidu::test
