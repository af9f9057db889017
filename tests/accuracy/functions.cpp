// functions.cpp - the functions of docs/accuracy.md: value, first and second derivatives, at points over the
// whole range of each dtype, beside references of 60 digits (scripts/accuracy_reference.py). Every way to a
// number is taken: elements one at a time and all at once, forward and reverse mode and their four pairs,
// compiled, and by the reference executor. The error counts in units in the last place of the reference; a
// wrong 0, infinity or NaN counts as infinitely many. The bounds that hold are those of the page, which
// TIDU_UPDATE_GOLDEN writes anew.
#include <algorithm>
#include <fstream>
#include <iomanip>
#include <map>
#include <sstream>

#include "frontend/support.hpp"

namespace tidu::test {
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

struct Reference {
  long double value;
  long double unit;  // the error counts in units in the last place of this
};
struct Points {
  std::vector<double> x, y;
  std::vector<std::vector<Reference>> references;  // of each derivative
};

long double number(const std::string& text) {
  if (text == "inf") return INFINITY;
  if (text == "-inf") return -INFINITY;
  if (text == "nan") return NAN;
  return std::strtold(text.c_str(), nullptr);
}

// The points of each dtype.
std::map<std::string, Points> load(const std::string& name, bool of_two) {
  std::ifstream file(source_dir() / "tests/data/accuracy" / (name + ".txt"));
  REQUIRE_MESSAGE(file, name);
  std::map<std::string, Points> result;
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string dtype, word;
    words >> dtype >> word;
    Points& points = result[dtype];
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

struct Format {
  DType dtype;
  int digits, min_normal;  // of the significand; exponent
  long double greatest;
};
Format format_of(const std::string& dtype) {
  if (dtype == "f64") return {f64, 53, -1022, std::numeric_limits<double>::max()};
  if (dtype == "f32") return {f32, 24, -126, std::numeric_limits<float>::max()};
  if (dtype == "f16") return {f16, 11, -14, 65504.0L};
  return {bf16, 8, -126, 0x1.fep127L};
}

// In units in the last place of the reference.
double error_of_number(double got, const Reference& expected, const Format& format) {
  const long double greatest = format.greatest, value = expected.value;
  if (std::isnan(value)) return std::isnan(got) ? 0.0 : INFINITY;
  const auto unit_of = [&](long double size) {
    const int exponent =
        size == 0 ? format.min_normal : std::max(std::ilogb(std::min(size, greatest)), format.min_normal);
    return std::ldexp(1.0L, exponent - format.digits + 1);
  };
  const long double unit = unit_of(expected.unit);
  if (std::abs(value) > 1e300L * greatest ||
      (std::abs(value) > greatest + unit_of(greatest) && !std::isfinite(got)))
    return std::isfinite(got) ? INFINITY : 0.0;
  if (std::isinf(got))
    return std::signbit(got) == std::signbit(value) && std::abs(value) >= greatest - 8 * unit_of(greatest)
               ? 0.0
               : INFINITY;
  if (std::abs(value) > greatest + unit_of(greatest) / 2)
    return std::abs(static_cast<long double>(got) - std::copysign(greatest, value)) <= 8 * unit_of(greatest)
               ? 8.0
               : INFINITY;
  if (!std::isfinite(got)) return INFINITY;
  // A zero where eight units are not zero is wrong in kind, not in its last places.
  if (got == 0.0 && std::abs(value) > 8 * unit) return INFINITY;
  return static_cast<double>(std::abs(static_cast<long double>(got) - value) / unit);
}

struct Worst {
  double error = 0.0;
  std::string where;
};
// By function, order and dtype.
using Table = std::map<std::string, std::map<int, std::map<std::string, Worst>>>;

void note(Table& table, const std::string& name, int order, const std::string& dtype, const Points& points,
          std::size_t derivative, std::size_t first, const Array& got, const char* way) {
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
             const std::string& dtype, const Points& points) {
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

const char* const dtypes[] = {"f64", "f32", "f16", "bf16"};

Table measured() {
  Table table;
  for (const auto& [name, f] : functions_of_one) {
    const One function = f;
    for (const auto& [dtype, points] : load(name, false))
      measure(
          table, name, [=](const std::vector<Array>& x) { return function(x[0]); }, 1, dtype, points);
  }
  for (const auto& [name, f] : functions_of_two) {
    const Two function = f;
    for (const auto& [dtype, points] : load(name, true))
      measure(
          table, name, [=](const std::vector<Array>& x) { return function(x[0], x[1]); }, 2, dtype, points);
  }
  return table;
}

// --- docs/accuracy.md

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

The tests in `tests/accuracy` measure the errors and hold them to these bounds. With `TIDU_UPDATE_GOLDEN` set they write this page anew.

)";

struct DerivativeOrder {
  int of;
  const char* title;
};
const DerivativeOrder orders[] = {{0, "Values"}, {1, "First derivatives"}, {2, "Second derivatives"}};

// The bound that docs/accuracy.md states for a measured error.
std::string bound_of(double measured) {
  if (std::isinf(measured)) return "inf";
  double bound = 1.0;
  while (bound < 1.2 * measured) bound *= 2.0;
  return detail::str(bound);
}

std::vector<std::string> names() {
  std::vector<std::string> all;
  for (const auto& [name, f] : functions_of_one) all.push_back(name);
  for (const auto& [name, f] : functions_of_two) all.push_back(name);
  return all;
}

void write_page(const Table& table, std::ostream& page) {
  page << head;
  std::string exceptions;
  for (const DerivativeOrder& order : orders) {
    page << "## " << order.title
         << "\n\n| function | f64 | f32 | f16 | bf16 |\n| --- | --: | --: | --: | --: |\n";
    for (const std::string& name : names()) {
      page << "| `" << name << "` |";
      for (const char* dtype : dtypes) {
        const Worst& worst = table.at(name).at(order.of).at(dtype);
        page << ' ' << bound_of(worst.error) << " |";
        if (std::isinf(worst.error))
          exceptions += detail::str("| `", name, "`, ", order.of, ", ", dtype, " | ", worst.where, " |\n");
      }
      page << '\n';
    }
    page << '\n';
  }
  page << "## Exceptions\n\n| function, order, dtype | where, by which way |\n| --- | --- |\n" << exceptions;
}

using Bounds = std::map<std::string, std::map<int, std::map<std::string, double>>>;
Bounds read_page(std::istream& page) {
  Bounds bounds;
  int order = -1;
  for (std::string line; std::getline(page, line);) {
    for (const DerivativeOrder& each : orders)
      if (line == std::string("## ") + each.title) order = each.of;
    if (line == "## Exceptions") break;
    if (order < 0 || line.rfind("| `", 0) != 0) continue;
    std::istringstream cells(line);
    std::string bar, name;
    cells >> bar >> name;
    name = name.substr(1, name.size() - 2);
    for (const char* dtype : dtypes) {
      std::string number;
      cells >> bar >> number;
      bounds[name][order][dtype] = number == "inf" ? INFINITY : std::stod(number);
    }
  }
  return bounds;
}

TEST_CASE("values and derivatives are as near as docs/accuracy.md says") {
  const Table table = measured();
  const auto path = source_dir() / "docs/accuracy.md";
  if (std::getenv("TIDU_UPDATE_GOLDEN") != nullptr) {
    std::ofstream page(path);
    write_page(table, page);
  }
  std::ifstream page(path);
  Bounds bounds = read_page(page);
  for (const std::string& name : names()) {
    for (const DerivativeOrder& order : orders) {
      for (const char* dtype : dtypes) {
        REQUIRE_MESSAGE(bounds[name][order.of].count(dtype) == 1, name);
        const Worst& worst = table.at(name).at(order.of).at(dtype);
        CHECK_MESSAGE(worst.error <= bounds[name][order.of][dtype], name, ", ", order.title, ", ", dtype,
                      ": ", worst.error, " units, ", worst.where);
      }
    }
  }
}

}  // namespace
}  // namespace tidu::test
