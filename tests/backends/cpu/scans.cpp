// Scans and searches along an axis, whose kernels process several lines, parts of a line or many columns at
// once: the results of a plain loop over each line, to the bit.
#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "cpu/compare.hpp"
#include "support/support.hpp"

using namespace tidu;
using namespace tidu::test;

namespace {

const char* const scans[] = {"cumsum", "cumprod", "cummax", "cummin", "argmax", "argmin"};

Value scan_of(const std::string& name, Value x, std::int64_t axis, bool reverse) {
  if (name == "cumsum") return ops::cumsum(x, axis, reverse);
  if (name == "cumprod") return ops::cumprod(x, axis, reverse);
  if (name == "cummax") return ops::cummax(x, axis, reverse);
  if (name == "cummin") return ops::cummin(x, axis, reverse);
  return name == "argmax" ? ops::argmax(x, axis) : ops::argmin(x, axis);
}

// Few different numbers, so that there are equal ones; some NaN, infinite, or zeros of both signs.
template <class T>
std::vector<T> scan_elements(std::int64_t count, std::mt19937_64& random) {
  constexpr T infinity = std::numeric_limits<T>::infinity();
  const T odd[] = {infinity, -infinity, infinity - infinity, T(0), -T(0)};
  const bool has_odd = random() % 2 == 0;
  std::vector<T> v;
  for (std::int64_t i = 0; i < count; ++i) {
    const T plain = static_cast<T>(static_cast<int>(random() % 41) - 20) / T(16);
    v.push_back(has_odd && random() % 200 == 0 ? odd[random() % 5] : plain);
  }
  return v;
}

// Does x come before the best so far? NaN does before numbers, and of equals the first.
template <class T>
bool comes_before(bool largest, T x, T best) {
  if (std::isnan(x)) return !std::isnan(best);
  return largest ? x > best : x < best;
}

// One line of `count` elements with a distance of `step`.
template <class T>
void scan_line(const std::string& name, bool reverse, const T* x, std::int64_t count, std::int64_t step,
               T* scanned, std::int32_t* place) {
  const bool largest = name == "cummax" || name == "argmax";
  T value = x[reverse ? (count - 1) * step : 0];
  *place = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t at = (reverse ? count - 1 - i : i) * step;
    if (i > 0) {
      const bool before = comes_before(largest, x[at], value);
      if (before) *place = static_cast<std::int32_t>(i);
      if (name == "cumsum")
        value += x[at];
      else if (name == "cumprod")
        value *= x[at];
      else if (before)
        value = x[at];
    }
    scanned[at] = value;
  }
}

template <class T>
bool are_same_bits(const T& a, const T& b) {
  return std::memcmp(&a, &b, sizeof a) == 0 || (a != a && b != b);
}

}  // namespace

TEST_CASE_TEMPLATE("scans and searches along each axis", T, float, double) {
  std::mt19937_64 random(43);
  const Shape shapes[] = {{1, 1000},   {7, 63},     {8, 64},   {17, 65},   {9, 5},  {3000, 3},   {70, 700},
                          {3, 40, 70}, {5, 9, 300}, {2, 3, 1}, {1, 20000}, {40, 1}, {600, 20, 2}};
  for (const Shape& shape : shapes) {
    for (std::size_t axis = 0; axis < shape.size(); ++axis) {
      for (const std::string name : scans) {
        const bool searches = name[0] == 'a';
        const bool reverse = !searches && random() % 2 == 0;
        const Type type(sizeof(T) == 4 ? f32 : f64, shape);
        const std::vector<T> x = scan_elements<T>(type.size(), random);
        std::int64_t inner = 1;
        for (std::size_t k = axis + 1; k < shape.size(); ++k) inner *= shape[k];
        const std::int64_t extent = shape[axis], outer = type.size() / inner / extent;
        std::vector<T> scanned(x.size());
        std::vector<std::int32_t> places(static_cast<std::size_t>(outer * inner));
        for (std::int64_t line = 0; line < outer * inner; ++line) {
          const std::int64_t first = line / inner * inner * extent + line % inner;
          scan_line(name, reverse, x.data() + first, extent, inner, scanned.data() + first,
                    places.data() + line);
        }
        for (const int threads : {1, 2}) {
          GraphBuilder g(name);
          const Graph graph =
              g.build({scan_of(name, g.input("x", type), static_cast<std::int64_t>(axis), reverse)});
          CpuOptions options;
          options.threads = threads;
          const Tensor got =
              CpuExecutor(options).compile(graph).run(std::vector{Tensor::from<T>(shape, x)})[0];
          std::int64_t wrong = 0;
          for (std::size_t i = 0; searches && i < places.size(); ++i)
            wrong += got.data<std::int32_t>()[i] == places[i] ? 0 : 1;
          for (std::size_t i = 0; !searches && i < scanned.size(); ++i)
            wrong += are_same_bits(got.data<T>()[i], scanned[i]) ? 0 : 1;
          CHECK_MESSAGE(wrong == 0, name, " of ", type, " along ", axis, reverse ? ", reverse" : "",
                        ", threads ", threads);
        }
      }
    }
  }
}
