// measure.cpp - values, first and second derivatives of functions at points over the whole range of each
// dtype, beside references of 60 digits (scripts/accuracy_reference.py). Every way to a number is taken:
// elements one at a time and all at once, forward and reverse mode and their four pairs, compiled, and by the
// reference executor.
#include <iomanip>
#include <sstream>

#include "accuracy/table.hpp"
#include "frontend/support.hpp"

namespace tidu::test {
namespace {

// Values or derivatives of one function at some points, each array beside the number of its derivative.
using Results = std::vector<std::pair<std::size_t, Array>>;
struct Way {
  std::string name;
  int order;
  std::function<Results(const std::vector<Array>&)> compute;
};

// The function of one operand, the others held.
std::function<Array(const Array&)> along(const Elementwise& f, const std::vector<Array>& x,
                                         std::size_t operand) {
  return [=](const Array& v) {
    std::vector<Array> at = x;
    at[operand] = v;
    return f(at);
  };
}

// Derivatives along one operand, by either mode. The cotangent of a complex z is conj(f'(z)) times that of
// f(z), since a gradient is df/dx + i df/dy.
Elementwise forward(const Elementwise& f, std::size_t operand) {
  return [=](const std::vector<Array>& x) {
    return jvp(along(f, x, operand), x[operand], ones_like(x[operand])).second;
  };
}
Elementwise reverse(const Elementwise& f, std::size_t operand) {
  return [=](const std::vector<Array>& x) {
    return conj(vjp(along(f, x, operand), x[operand]).second(ones_like(x[operand])));
  };
}

std::vector<Way> ways_of(const Elementwise& f) {
  using Mode = Elementwise (*)(const Elementwise&, std::size_t);
  const std::pair<const char*, Mode> modes[] = {{"forward", forward}, {"reverse", reverse}};
  std::vector<Way> ways{{"value", 0, [=](const std::vector<Array>& x) { return Results{{0, f(x)}}; }}};
  for (const auto& [first, outer] : modes) {
    const Mode by = outer;
    ways.push_back({first, 1, [=](const std::vector<Array>& x) {
                      Results results;
                      for (std::size_t k = 0; k < x.size(); ++k) results.emplace_back(1 + k, by(f, k)(x));
                      return results;
                    }});
    for (const auto& [second, inner] : modes) {
      const Mode of = inner;
      ways.push_back({detail::str(first, " over ", second), 2, [=](const std::vector<Array>& x) {
                        Results results;
                        std::size_t derivative = 1 + x.size();
                        for (std::size_t k = 0; k < x.size(); ++k)
                          for (std::size_t l = k; l < x.size(); ++l)
                            results.emplace_back(derivative++, by(of(f, k), l)(x));
                        return results;
                      }});
    }
  }
  return ways;
}

double as(std::complex<double> number, double) { return number.real(); }
std::complex<double> as(std::complex<double> number, std::complex<double>) { return number; }

// The largest errors of one function at the points of one dtype.
template <class Points>
class Measurement {
 public:
  Measurement(std::map<int, std::map<std::string, Worst>>& errors, std::string dtype, const Points& points)
      : errors_(errors), dtype_(std::move(dtype)), points_(points) {}

  void measure(const Elementwise& f, std::size_t step) {
    const std::size_t count = points_.operands[0].size();
    std::vector<Array> all;
    for (const auto& operand : points_.operands)
      all.push_back(array(operand, {static_cast<std::int64_t>(count)}).to(*parse_dtype(dtype_)));
    for (const Way& way : ways_of(f)) {
      note(way, way.compute(all), 0, "");
      {
        const ExecutorGuard guard(reference());
        note(way, way.compute(all), 0, ", reference executor");
      }
      for (std::size_t i = 0; i < count; i += step) {
        std::vector<Array> one;
        for (const Array& x : all) one.push_back(x[static_cast<std::int64_t>(i)]);
        note(way, way.compute(one), i, ", one element");
      }
      note(way, compiled(way, all), 0, ", compiled");
    }
  }

 private:
  static Results compiled(const Way& way, const std::vector<Array>& all) {
    std::vector<std::size_t> derivatives;
    const auto program = compile([&](const std::vector<Array>& x) {
      std::vector<Array> arrays;
      derivatives.clear();
      for (const auto& [derivative, got] : way.compute(x)) {
        derivatives.push_back(derivative);
        arrays.push_back(got);
      }
      return arrays;
    });
    const std::vector<Array> arrays = program(all);
    Results results;
    for (std::size_t i = 0; i < arrays.size(); ++i) results.emplace_back(derivatives[i], arrays[i]);
    return results;
  }

  void note(const Way& way, const Results& results, std::size_t first, const char* how) {
    Worst& worst = errors_[way.order][dtype_];
    for (const auto& [derivative, got] : results) {
      for (std::int64_t i = 0; i < got.size(); ++i) {
        const std::size_t at = first + static_cast<std::size_t>(i);
        const auto number = as(got.tensor().at(i), points_.operands[0][at]);
        const auto& expected = points_.references[derivative][at];
        const double error = error_of_number(number, expected, format_of(dtype_));
        if (error <= worst.error) continue;
        worst.error = error;
        std::ostringstream where;
        where << std::setprecision(17) << way.name << how;
        for (std::size_t k = 0; k < points_.operands.size(); ++k)
          where << ", "
                << "xy"[k] << ' ' << points_.operands[k][at];
        where << ": expected " << expected.value << ", got " << number;
        worst.where = where.str();
      }
    }
  }

  std::map<int, std::map<std::string, Worst>>& errors_;
  std::string dtype_;
  const Points& points_;
};

}  // namespace

Table measure_real() {
  Table table;
  for (const auto& [name, f] : real_functions())
    for (const auto& [dtype, points] : load_real(name))
      Measurement(table[name], dtype, points).measure(f, shortened() ? 7 : 1);
  return table;
}

Table measure_complex() {
  Table table;
  for (const auto& [name, f] : complex_functions())
    for (const auto& [dtype, points] : load_complex(name))
      Measurement(table[name], dtype, points).measure(f, shortened() ? 17 : 3);
  return table;
}

}  // namespace tidu::test
