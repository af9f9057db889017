// page.cpp - docs/accuracy.md, which states the bounds that hold. TIDU_UPDATE_GOLDEN writes the page anew.
#include <fstream>
#include <sstream>

#include "accuracy/table.hpp"
#include "frontend/support.hpp"

namespace tidu::test {
namespace {

const char* const head = R"(# Accuracy

This page bounds the errors of the elementary functions and of their first and second derivatives, for each dtype. An error counts in units
in the last place of the exact number. Each bound is the largest measured error and a fifth more, rounded up to a power of two.

- **Points** lie over the whole range of the dtype: from the least subnormal to the greatest number, next to singular points, zeros and ends
  of the domain. References have 60 digits (`scripts/accuracy_reference.py`).
- **Values** are computed in four ways: one element at a time, all at once, compiled, and by the reference executor.
- **Derivatives** are computed in forward and in reverse mode, second ones by the four pairs of modes. Functions of two numbers are
  differentiated by both operands.
- **`inf`** means that at some point the result is a zero, an infinity or a NaN while another number is right. [Exceptions](#exceptions)
  lists such points.
- An overflow is right where the exact number overflows. A subnormal number counts in units of the least one.
- A unit is one of |f| + |x f'| where terms cancel near a zero (silu, gelu, lgamma, digamma), and where a result grows by a power of e
  (logaddexp, pow, atan2). That is the error that half a unit in the last place of x would make.
- Numbers of 16 bits are computed as f32 and rounded once.
- **Complex functions** are holomorphic at the points, which lie over the whole range of both parts and next to poles, zeros and branch
  points. An error is the distance of two complex numbers, in units in the last place of the size of the exact one. One part alone may
  therefore have a larger error if the other one is greater. A complex number that overflows is infinite or NaN.
- **Softmax and its kind** (`softmax`, `log_softmax`, `logsumexp`, `cumlogsumexp`, cross entropy) are not in the tables. Where one element
  exceeds all others by up to 700 their values and first derivatives are within 8 units, and second ones within 64
  (`tests/frontend/saturated_softmax.cpp`).
- **Lengths** (`norm`, `vector_norm`, `stddev`) are not in the tables either. From the least subnormal to the greatest number of a dtype
  their values are within 8 units, first derivatives within 16 and second ones within 64: of each number for `norm`, of the largest one for
  the others (`tests/frontend/length_hessians.cpp`).

The tests in `tests/accuracy` measure the errors and hold them to these bounds. With `TIDU_UPDATE_GOLDEN` set they write this page anew.

)";

// A table of the page: the errors of an order of derivatives, of real or of complex numbers.
struct Part {
  const char* title;
  int order;
  bool is_complex;
  std::vector<std::string> dtypes() const {
    return is_complex ? std::vector<std::string>{"c128", "c64"}
                      : std::vector<std::string>{"f64", "f32", "f16", "bf16"};
  }
  std::vector<std::string> names() const {
    std::vector<std::string> names;
    for (const Named& f : is_complex ? complex_functions() : real_functions()) names.push_back(f.name);
    return names;
  }
};
const Part parts[] = {{"Values", 0, false},
                      {"First derivatives", 1, false},
                      {"Second derivatives", 2, false},
                      {"Complex values", 0, true},
                      {"First derivatives by complex numbers", 1, true},
                      {"Second derivatives by complex numbers", 2, true}};

// Of real and of complex numbers.
struct Tables {
  Table real = measure_real(), complex = measure_complex();
  const Worst& worst(const Part& part, const std::string& name, const std::string& dtype) const {
    return (part.is_complex ? complex : real).at(name).at(part.order).at(dtype);
  }
};

// The bound that docs/accuracy.md states for a measured error.
std::string bound_of(double measured) {
  if (std::isinf(measured)) return "inf";
  double bound = 1.0;
  while (bound < 1.2 * measured) bound *= 2.0;
  return detail::str(bound);
}

void write_page(const Tables& tables, std::ostream& page) {
  page << head;
  std::string exceptions;
  for (const Part& part : parts) {
    std::string names_of_dtypes, line;
    for (const std::string& dtype : part.dtypes()) {
      names_of_dtypes += dtype + " | ";
      line += "--: | ";
    }
    names_of_dtypes.pop_back();
    line.pop_back();
    page << "## " << part.title << "\n\n| function | " << names_of_dtypes << "\n| --- | " << line << '\n';
    for (const std::string& name : part.names()) {
      page << "| `" << name << "` |";
      for (const std::string& dtype : part.dtypes()) {
        const Worst& worst = tables.worst(part, name, dtype);
        page << ' ' << bound_of(worst.error) << " |";
        if (std::isinf(worst.error))
          exceptions += detail::str("| `", name, "`, ", part.order, ", ", dtype, " | ", worst.where, " |\n");
      }
      page << '\n';
    }
    page << '\n';
  }
  page << "## Exceptions\n\n";
  if (exceptions.empty())
    page << "None of the points.\n";
  else
    page << "| function, order, dtype | where, by which way |\n| --- | --- |\n" << exceptions;
}

// By title, function and dtype.
using Bounds = std::map<std::string, std::map<std::string, std::map<std::string, double>>>;
Bounds read_page(std::istream& page) {
  Bounds bounds;
  const Part* part = nullptr;
  for (std::string line; std::getline(page, line);) {
    if (line == "## Exceptions") break;
    for (const Part& each : parts)
      if (line == std::string("## ") + each.title) part = &each;
    if (part == nullptr || line.rfind("| `", 0) != 0) continue;
    std::istringstream cells(line);
    std::string bar, name;
    cells >> bar >> name;
    name = name.substr(1, name.size() - 2);
    for (const std::string& dtype : part->dtypes()) {
      std::string number;
      cells >> bar >> number;
      bounds[part->title][name][dtype] = number == "inf" ? INFINITY : std::stod(number);
    }
  }
  return bounds;
}

TEST_CASE("values and derivatives are as near as docs/accuracy.md says") {
  const Tables tables;
  const auto path = source_dir() / "docs/accuracy.md";
  if (std::getenv("TIDU_UPDATE_GOLDEN") != nullptr) {
    std::ofstream page(path);
    write_page(tables, page);
  }
  std::ifstream page(path);
  Bounds bounds = read_page(page);
  for (const Part& part : parts) {
    for (const std::string& name : part.names()) {
      for (const std::string& dtype : part.dtypes()) {
        REQUIRE_MESSAGE(bounds[part.title][name].count(dtype) == 1, name);
        const Worst& worst = tables.worst(part, name, dtype);
        CHECK_MESSAGE(worst.error <= bounds[part.title][name][dtype], name, ", ", std::string(part.title),
                      ", ", dtype, ": ", worst.error, " units, ", worst.where);
      }
    }
  }
}

}  // namespace
}  // namespace tidu::test
