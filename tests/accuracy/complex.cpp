// complex.cpp - the functions of complex numbers of docs/accuracy.md: value, first and second derivatives, at
// points over the whole range of both parts, beside references of 60 digits (scripts/accuracy_reference.py).
// All of them are holomorphic at these points. An error is the distance of two numbers in units in the last
// place of the reference's size.
#include <iomanip>
#include <sstream>

#include "accuracy/table.hpp"
#include "frontend/support.hpp"

namespace tidu::test {
namespace of_complex {
namespace {

using Holomorphic = Array (*)(const Array&);

const std::vector<std::pair<std::string, Holomorphic>> functions = {
    {"exp", [](const Array& z) { return exp(z); }},
    {"exp2", [](const Array& z) { return exp2(z); }},
    {"expm1", [](const Array& z) { return expm1(z); }},
    {"log", [](const Array& z) { return log(z); }},
    {"log1p", [](const Array& z) { return log1p(z); }},
    {"sqrt", [](const Array& z) { return sqrt(z); }},
    {"rsqrt", [](const Array& z) { return rsqrt(z); }},
    {"reciprocal", [](const Array& z) { return reciprocal(z); }},
    {"square", [](const Array& z) { return square(z); }},
    {"power_3", [](const Array& z) { return pow(z, 3); }},
    {"sin", [](const Array& z) { return sin(z); }},
    {"cos", [](const Array& z) { return cos(z); }},
    {"tan", [](const Array& z) { return tan(z); }},
    {"sinh", [](const Array& z) { return sinh(z); }},
    {"cosh", [](const Array& z) { return cosh(z); }},
    {"tanh", [](const Array& z) { return tanh(z); }},
    {"asin", [](const Array& z) { return asin(z); }},
    {"acos", [](const Array& z) { return acos(z); }},
    {"atan", [](const Array& z) { return atan(z); }},
    {"asinh", [](const Array& z) { return asinh(z); }},
    {"acosh", [](const Array& z) { return acosh(z); }},
    {"atanh", [](const Array& z) { return atanh(z); }},
    {"logistic", [](const Array& z) { return logistic(z); }},
};

void note(Table& table, const std::string& name, int order, const std::string& dtype,
          const ComplexPoints& points, std::size_t first, const Array& got, const std::string& way) {
  Worst& worst = table[name][order][dtype];
  for (std::int64_t i = 0; i < got.size(); ++i) {
    const std::size_t at = first + static_cast<std::size_t>(i);
    const ComplexReference& expected = points.references[static_cast<std::size_t>(order)][at];
    const double error = error_of_number(got.tensor().at(i), expected, format_of(dtype));
    if (error <= worst.error) continue;
    worst.error = error;
    std::ostringstream where;
    where << std::setprecision(17) << way << ", z " << points.z[at] << ": expected "
          << std::complex<double>(expected.value) << ", got " << got.tensor().at(i);
    worst.where = where.str();
  }
}

// The derivative of a holomorphic function, by either mode. The cotangent of z is conj(f'(z)) times that of
// f(z), since a gradient is df/dx + i df/dy.
using Function = std::function<Array(const Array&)>;
Function forward(const Function& f) {
  return [=](const Array& z) { return jvp(f, z, ones_like(z)).second; };
}
Function reverse(const Function& f) {
  return [=](const Array& z) { return conj(vjp(f, z).second(ones_like(z))); };
}

struct Way {
  const char* name;
  int order;
  Function compute;
};
std::vector<Way> ways_of(const Function& f) {
  return {{"value", 0, f},
          {"forward", 1, forward(f)},
          {"reverse", 1, reverse(f)},
          {"forward over forward", 2, forward(forward(f))},
          {"forward over reverse", 2, forward(reverse(f))},
          {"reverse over forward", 2, reverse(forward(f))},
          {"reverse over reverse", 2, reverse(reverse(f))}};
}

void measure(Table& table, const std::string& name, const Function& f, const std::string& dtype,
             const ComplexPoints& points) {
  const Array z = array(points.z, {std::ssize(points.z)}).to(dtype == "c64" ? c64 : c128);
  for (const Way& way : ways_of(f)) {
    const auto put = [&](const Array& got, std::size_t first, const char* how) {
      note(table, name, way.order, dtype, points, first, got, std::string(way.name) + how);
    };
    put(way.compute(z), 0, "");
    {
      const ExecutorGuard guard(reference());
      put(way.compute(z), 0, ", reference executor");
    }
    const std::size_t step = shortened() ? 17 : 3;
    for (std::size_t i = 0; i < points.z.size(); i += step)
      put(way.compute(z[static_cast<std::int64_t>(i)]), i, ", one element");
    put(compile(way.compute)(z), 0, ", compiled");
  }
}

}  // namespace
}  // namespace of_complex

Table measure_complex() {
  using namespace of_complex;
  Table table;
  for (const auto& [name, f] : functions) {
    for (const auto& [dtype, points] : load_complex(name)) measure(table, name, f, dtype, points);
  }
  return table;
}

std::vector<std::string> complex_names() {
  using namespace of_complex;
  std::vector<std::string> all;
  for (const auto& [name, f] : functions) all.push_back(name);
  return all;
}

}  // namespace tidu::test
