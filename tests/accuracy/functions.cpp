// functions.cpp - the functions of real numbers of docs/accuracy.md: value, first and second derivatives, at
// points over the whole range of each dtype, beside references of 60 digits (scripts/accuracy_reference.py).
// Every way to a number is taken: elements one at a time and all at once, forward and reverse mode and their
// four pairs, compiled, and by the reference executor.
#include <iomanip>
#include <sstream>

#include "accuracy/table.hpp"
#include "frontend/support.hpp"

namespace tidu::test {
namespace of_real {
namespace {

using One = Array (*)(const Array&);
using Two = Array (*)(const Array&, const Array&);

const std::vector<std::pair<std::string, One>> functions_of_one = {
    {"exp", [](const Array& x) { return exp(x); }},
    {"exp2", [](const Array& x) { return exp2(x); }},
    {"expm1", [](const Array& x) { return expm1(x); }},
    {"log", [](const Array& x) { return log(x); }},
    {"log2", [](const Array& x) { return log2(x); }},
    {"log10", [](const Array& x) { return log10(x); }},
    {"log1p", [](const Array& x) { return log1p(x); }},
    {"sqrt", [](const Array& x) { return sqrt(x); }},
    {"rsqrt", [](const Array& x) { return rsqrt(x); }},
    {"cbrt", [](const Array& x) { return cbrt(x); }},
    {"reciprocal", [](const Array& x) { return reciprocal(x); }},
    {"square", [](const Array& x) { return square(x); }},
    {"abs", [](const Array& x) { return abs(x); }},
    {"sin", [](const Array& x) { return sin(x); }},
    {"cos", [](const Array& x) { return cos(x); }},
    {"tan", [](const Array& x) { return tan(x); }},
    {"asin", [](const Array& x) { return asin(x); }},
    {"acos", [](const Array& x) { return acos(x); }},
    {"atan", [](const Array& x) { return atan(x); }},
    {"sinh", [](const Array& x) { return sinh(x); }},
    {"cosh", [](const Array& x) { return cosh(x); }},
    {"tanh", [](const Array& x) { return tanh(x); }},
    {"asinh", [](const Array& x) { return asinh(x); }},
    {"acosh", [](const Array& x) { return acosh(x); }},
    {"atanh", [](const Array& x) { return atanh(x); }},
    {"logistic", [](const Array& x) { return logistic(x); }},
    {"softplus", [](const Array& x) { return softplus(x); }},
    {"log_sigmoid", [](const Array& x) { return log_sigmoid(x); }},
    {"silu", [](const Array& x) { return silu(x); }},
    {"gelu", [](const Array& x) { return gelu(x); }},
    {"gelu_exact", [](const Array& x) { return gelu(x, false); }},
    {"relu", [](const Array& x) { return relu(x); }},
    {"elu", [](const Array& x) { return elu(x); }},
    {"selu", [](const Array& x) { return selu(x); }},
    {"erf", [](const Array& x) { return erf(x); }},
    {"erfc", [](const Array& x) { return erfc(x); }},
    {"erf_inv", [](const Array& x) { return erf_inv(x); }},
    {"lgamma", [](const Array& x) { return lgamma(x); }},
    {"digamma", [](const Array& x) { return digamma(x); }},
    {"power_3", [](const Array& x) { return pow(x, 3); }},
    {"power_-2", [](const Array& x) { return pow(x, -2); }},
    {"power_2.5", [](const Array& x) { return pow(x, 2.5); }},
};
const std::vector<std::pair<std::string, Two>> functions_of_two = {
    {"atan2", [](const Array& x, const Array& y) { return atan2(x, y); }},
    {"hypot", [](const Array& x, const Array& y) { return hypot(x, y); }},
    {"logaddexp", [](const Array& x, const Array& y) { return logaddexp(x, y); }},
    {"divide", [](const Array& x, const Array& y) { return x / y; }},
    {"pow", [](const Array& x, const Array& y) { return pow(x, y); }},
};

void note(Table& table, const std::string& name, int order, const std::string& dtype,
          const RealPoints& points, std::size_t derivative, std::size_t first, const Array& got,
          const char* way) {
  const Format format = format_of(dtype);
  Worst& worst = table[name][order][dtype];
  for (std::int64_t i = 0; i < got.size(); ++i) {
    const std::size_t at = first + static_cast<std::size_t>(i);
    const double number = got.tensor().at(i).real();
    const double error = error_of_number(number, points.references[derivative][at], format);
    if (error <= worst.error) continue;
    worst.error = error;
    worst.where = detail::str(way, ", x ", std::setprecision(17), points.x[at]) +
                  (points.y.empty() ? "" : detail::str(", y ", std::setprecision(17), points.y[at])) +
                  detail::str(": expected ", std::setprecision(17),
                              static_cast<double>(points.references[derivative][at].value), ", got ", number);
  }
}

// Values or derivatives of one function at some points, each array beside the number of its derivative.
using Results = std::vector<std::pair<std::size_t, Array>>;
struct Way {
  const char* name;
  int order;
  std::function<Results(const std::vector<Array>&)> compute;
};

// Derivatives along one operand, by either mode.
using Function = std::function<Array(const std::vector<Array>&)>;
Function forward(const Function& f, std::size_t operand) {
  return [=](const std::vector<Array>& x) {
    const auto along = [&](const Array& v) {
      std::vector<Array> at = x;
      at[operand] = v;
      return f(at);
    };
    return jvp(along, x[operand], ones_like(x[operand])).second;
  };
}
Function reverse(const Function& f, std::size_t operand) {
  return [=](const std::vector<Array>& x) {
    const auto along = [&](const Array& v) {
      std::vector<Array> at = x;
      at[operand] = v;
      return f(at);
    };
    return vjp(along, x[operand]).second(ones_like(x[operand]));
  };
}

std::vector<Way> ways_of(const Function& f, std::size_t operands) {
  using Mode = Function (*)(const Function&, std::size_t);
  const std::pair<const char*, Mode> modes[] = {{"forward", forward}, {"reverse", reverse}};
  const char* const pairs[2][2] = {{"forward over forward", "forward over reverse"},
                                   {"reverse over forward", "reverse over reverse"}};
  std::vector<Way> ways{{"value", 0, [=](const std::vector<Array>& x) { return Results{{0, f(x)}}; }}};
  for (int i = 0; i < 2; ++i) {
    ways.push_back({modes[i].first, 1, [=](const std::vector<Array>& x) {
                      Results results;
                      for (std::size_t k = 0; k < operands; ++k)
                        results.emplace_back(1 + k, modes[i].second(f, k)(x));
                      return results;
                    }});
    for (int j = 0; j < 2; ++j) {
      ways.push_back({pairs[i][j], 2, [=](const std::vector<Array>& x) {
                        Results results;
                        std::size_t derivative = 1 + operands;
                        for (std::size_t k = 0; k < operands; ++k)
                          for (std::size_t l = k; l < operands; ++l)
                            results.emplace_back(derivative++, modes[i].second(modes[j].second(f, k), l)(x));
                        return results;
                      }});
    }
  }
  return ways;
}

void measure(Table& table, const std::string& name, const Function& f, std::size_t operands,
             const std::string& dtype, const RealPoints& points) {
  std::vector<Array> all{
      array(points.x, {static_cast<std::int64_t>(points.x.size())}).to(format_of(dtype).dtype)};
  if (operands == 2)
    all.push_back(array(points.y, {static_cast<std::int64_t>(points.y.size())}).to(format_of(dtype).dtype));
  const auto put = [&](const Way& way, const std::vector<Array>& x, std::size_t first,
                       const std::string& how) {
    for (const auto& [derivative, got] : way.compute(x))
      note(table, name, way.order, dtype, points, derivative, first, got,
           (std::string(way.name) + how).c_str());
  };
  for (const Way& way : ways_of(f, operands)) {
    put(way, all, 0, "");
    {
      const ExecutorGuard guard(reference());
      put(way, all, 0, ", reference executor");
    }
    const std::size_t step = shortened() ? 7 : 1;
    for (std::size_t i = 0; i < points.x.size(); i += step) {
      std::vector<Array> one;
      for (const Array& x : all) one.push_back(x[static_cast<std::int64_t>(i)]);
      put(way, one, i, ", one element");
    }
    std::vector<std::size_t> derivatives;
    const auto compiled = compile([&](const std::vector<Array>& x) {
      std::vector<Array> results;
      derivatives.clear();
      for (const auto& [derivative, got] : way.compute(x)) {
        derivatives.push_back(derivative);
        results.push_back(got);
      }
      return results;
    });
    const std::vector<Array> results = compiled(all);
    for (std::size_t i = 0; i < results.size(); ++i)
      note(table, name, way.order, dtype, points, derivatives[i], 0, results[i],
           (std::string(way.name) + ", compiled").c_str());
  }
}

}  // namespace
}  // namespace of_real

Table measure_real() {
  using namespace of_real;
  Table table;
  for (const auto& [name, f] : functions_of_one) {
    const One function = f;
    for (const auto& [dtype, points] : load_real(name, false))
      measure(
          table, name, [=](const std::vector<Array>& x) { return function(x[0]); }, 1, dtype, points);
  }
  for (const auto& [name, f] : functions_of_two) {
    const Two function = f;
    for (const auto& [dtype, points] : load_real(name, true))
      measure(
          table, name, [=](const std::vector<Array>& x) { return function(x[0], x[1]); }, 2, dtype, points);
  }
  return table;
}

std::vector<std::string> real_names() {
  using namespace of_real;
  std::vector<std::string> all;
  for (const auto& [name, f] : functions_of_one) all.push_back(name);
  for (const auto& [name, f] : functions_of_two) all.push_back(name);
  return all;
}

}  // namespace tidu::test
