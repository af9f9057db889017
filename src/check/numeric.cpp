// numeric.cpp - see numeric.hpp.
#include "check/numeric.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "tidu/graph/literal.hpp"

namespace tidu::check {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

bool finite(std::complex<double> z) { return std::isfinite(z.real()) && std::isfinite(z.imag()); }

template <class T, class Convert>
void fill(Tensor& tensor, const Numbers& numbers, Convert convert) {
  const std::span<T> elements = tensor.mutable_elements<T>();
  std::transform(numbers.begin(), numbers.end(), elements.begin(), convert);
}

// A derivative by differences, and the possible effect of rounding on it.
struct Estimate {
  std::complex<double> value;
  double noise;
};

// By element: the largest distance between results that differ by rounding alone.
class Spread {
 public:
  explicit Spread(const Tensors& like) {
    for (const Tensor& tensor : like) distances_.emplace_back(static_cast<std::size_t>(tensor.size()), 0.0);
  }
  void take(const Tensors& a, const Tensors& b) {
    for (std::size_t k = 0; k < distances_.size(); ++k) {
      for (std::size_t i = 0; i < distances_[k].size(); ++i) {
        const auto element = static_cast<std::int64_t>(i);
        const double distance = std::abs(a[k].at(element) - b[k].at(element));
        distances_[k][i] = std::isfinite(distance) ? std::max(distances_[k][i], distance) : infinity;
      }
    }
  }
  double of(std::size_t k, std::size_t i) const { return distances_[k][i]; }

 private:
  std::vector<std::vector<double>> distances_;
};

}  // namespace

double largest_step(double epsilon) { return epsilon < 1e-12 ? 4e-3 : epsilon < 1e-5 ? 0.1 : 0.5; }

std::uint64_t Random::bits() {
  std::uint64_t z = (state_ += 0x9e3779b97f4a7c15ULL);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
  return z ^ (z >> 31);
}

double Random::uniform(double low, double high) {
  return low + (high - low) * (static_cast<double>(bits() >> 11) * 0x1p-53);
}

Numbers numbers_of(const Tensor& tensor) {
  Numbers numbers(static_cast<std::size_t>(tensor.size()));
  for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = tensor.at(static_cast<std::int64_t>(i));
  return numbers;
}

Tensor tensor_of(Type type, const Numbers& numbers) {
  using Number = std::complex<double>;
  Tensor tensor(type);
  switch (type.dtype()) {
    case DType::boolean:
      fill<std::uint8_t>(tensor, numbers,
                         [](Number z) { return static_cast<std::uint8_t>(z.real() != 0.0); });
      break;
    case DType::i32:
      fill<std::int32_t>(tensor, numbers, [](Number z) { return static_cast<std::int32_t>(z.real()); });
      break;
    case DType::i64:
      fill<std::int64_t>(tensor, numbers, [](Number z) { return static_cast<std::int64_t>(z.real()); });
      break;
    case DType::f16:
      fill<std::uint16_t>(tensor, numbers, [](Number z) { return double_to_half(z.real()); });
      break;
    case DType::bf16:
      fill<std::uint16_t>(tensor, numbers, [](Number z) { return double_to_bfloat16(z.real()); });
      break;
    case DType::f32:
      fill<float>(tensor, numbers, [](Number z) { return static_cast<float>(z.real()); });
      break;
    case DType::f64: fill<double>(tensor, numbers, [](Number z) { return z.real(); }); break;
    case DType::c64:
      fill<std::complex<float>>(tensor, numbers, [](Number z) { return std::complex<float>(z); });
      break;
    case DType::c128: fill<Number>(tensor, numbers, [](Number z) { return z; }); break;
  }
  return tensor;
}

Tensor random_tensor(Random& random, Type type) {
  Numbers numbers(static_cast<std::size_t>(type.size()));
  for (std::complex<double>& number : numbers) {
    const double real = random.uniform(-1.0, 1.0);
    number = {real, is_complex(type.dtype()) ? random.uniform(-1.0, 1.0) : 0.0};
  }
  return tensor_of(type, numbers);
}

Tensor combine(double a, const Tensor& x, double b, const Tensor& y) {
  Numbers numbers = numbers_of(x);
  for (std::size_t i = 0; i < numbers.size(); ++i)
    numbers[i] = a * numbers[i] + b * y.at(static_cast<std::int64_t>(i));
  return tensor_of(x.type(), numbers);
}

double epsilon_of(DType dtype) {
  switch (real_dtype(dtype)) {
    case DType::f16: return 0x1p-10;
    case DType::bf16: return 0x1p-7;
    case DType::f32: return 0x1p-23;
    case DType::f64: return 0x1p-52;
    default: return 0.0;
  }
}

Tensor where_finite(const Tensor& x, const Tensor& other) {
  Numbers numbers = numbers_of(x);
  for (std::size_t i = 0; i < numbers.size(); ++i)
    if (!finite(other.at(static_cast<std::int64_t>(i)))) numbers[i] = 0.0;
  return tensor_of(x.type(), numbers);
}

InnerProduct inner_product(const MaybeTensors& a, const MaybeTensors& b) {
  InnerProduct sum;
  for (std::size_t k = 0; k < a.size(); ++k) {
    if (!a[k] || !b[k]) continue;
    for (std::int64_t i = 0; i < a[k]->size(); ++i) {
      const std::complex<double> x = a[k]->at(i), y = b[k]->at(i);
      if (x == 0.0 || y == 0.0) continue;
      sum.value += x.real() * y.real() + x.imag() * y.imag();
      sum.magnitude += std::abs(x.real() * y.real()) + std::abs(x.imag() * y.imag());
    }
  }
  return sum;
}

double relative_error(std::complex<double> a, std::complex<double> b, double scale) {
  if (!finite(a) || !finite(b)) return finite(a) == finite(b) ? 0.0 : infinity;
  const double distance = std::abs(a - b);
  return distance == 0.0 ? 0.0 : distance / std::max(scale, std::numeric_limits<double>::min());
}

double relative_error(const Tensor& a, const Tensor& b, double scale) {
  for (std::int64_t i = 0; i < a.size(); ++i) {
    for (const std::complex<double> z : {a.at(i), b.at(i)}) {
      if (finite(z)) scale = std::max(scale, std::abs(z));
    }
  }
  double worst = 0.0;
  for (std::int64_t i = 0; i < a.size(); ++i)
    worst = std::max(worst, relative_error(a.at(i), b.at(i), scale));
  return worst;
}

std::vector<Difference> differentiate(const std::function<Tensors(double)>& f, double epsilon,
                                      const std::function<Tensors(double)>& rounded_otherwise) {
  const double largest = largest_step(epsilon);
  const Tensors at_zero = f(0.0);
  std::vector<Difference> best(at_zero.size());
  for (std::size_t k = 0; k < at_zero.size(); ++k) {
    const auto size = static_cast<std::size_t>(at_zero[k].size());
    best[k].value.assign(size, 0.0);
    best[k].uncertainty.assign(size, infinity);
  }
  Spread rounding(at_zero);
  constexpr int draws = 6;
  for (int draw = 0; rounded_otherwise && draw < draws; ++draw)
    rounding.take(at_zero, rounded_otherwise(0.0));
  // From the smallest step on; the larger ones show how much they differ.
  std::vector<double> step_sizes{largest / 256.0, largest / 16.0, largest};
  if (rounded_otherwise) step_sizes.insert(step_sizes.begin(), {largest / 65536.0, largest / 4096.0});
  std::vector<std::vector<std::vector<Estimate>>> smaller(best.size());
  for (std::size_t k = 0; k < best.size(); ++k) smaller[k].resize(best[k].value.size());
  for (const double h : step_sizes) {
    // f at -2h, -h, -h/2, h/2, h, 2h
    std::array<Tensors, 6> at;
    constexpr std::array<double, 6> steps{-2.0, -1.0, -0.5, 0.5, 1.0, 2.0};
    for (std::size_t s = 0; s < steps.size(); ++s) at[s] = f(steps[s] * h);
    Spread nearby = rounding;
    for (const std::size_t s : {std::size_t{0}, steps.size() - 1}) {
      if (rounded_otherwise) nearby.take(at[s], rounded_otherwise(steps[s] * h));
    }
    for (std::size_t k = 0; k < best.size(); ++k) {
      for (std::size_t i = 0; i < best[k].value.size(); ++i) {
        const auto element = static_cast<std::int64_t>(i);
        std::array<std::complex<double>, 6> y;
        double size = 0.0;
        for (std::size_t s = 0; s < y.size(); ++s) {
          y[s] = at[s][k].at(element);
          size = std::max(size, std::abs(y[s]));
        }
        const std::complex<double> y0 = at_zero[k].at(element);
        if (!finite(y0)) continue;  // the values on both sides of a pole have no slope at it
        const std::complex<double> coarse = (8.0 * (y[4] - y[1]) - (y[5] - y[0])) / (12.0 * h);
        const std::complex<double> fine = (8.0 * (y[3] - y[2]) - (y[4] - y[1])) / (6.0 * h);
        // The weights of `fine` add up to 3 / h. The perturbed roundings change a value by about four times
        // as much as rounding, and the caller allows ten times the uncertainty.
        const double noise = (8.0 * epsilon * size + 0.4 * nearby.of(k, i)) / h;
        // One-sided derivatives whose difference does not shrink with the step are those of a kink.
        const double gap = std::abs(y[4] - 2.0 * y0 + y[1]) / h;
        const double half_gap = 2.0 * std::abs(y[3] - 2.0 * y0 + y[2]) / h;
        if (half_gap > 0.75 * gap && half_gap > 4.0 * noise) continue;
        // So are values whose difference does not shrink, at a jump or where a function is steep relative to
        // all steps.
        const double rise = std::max(std::abs(y[1] - y0), std::abs(y[4] - y0));
        const double half_rise = std::max(std::abs(y[2] - y0), std::abs(y[3] - y0));
        if (rounded_otherwise && half_rise > 0.75 * rise && half_rise > 4.0 * noise * h) continue;
        double uncertainty = std::abs(coarse - fine) + noise;
        if (rounded_otherwise && finite(fine)) {
          // A function that oscillates within a step may agree with itself by chance.
          for (const Estimate& other : smaller[k][i])
            uncertainty = std::max(uncertainty, std::abs(fine - other.value) - 3.0 * other.noise);
          smaller[k][i].push_back({fine, noise});
        }
        if (finite(fine) && uncertainty < best[k].uncertainty[i]) {
          best[k].uncertainty[i] = uncertainty;
          best[k].value[i] = fine;
        }
      }
    }
  }
  return best;
}

std::vector<Difference> differentiate_at(const std::function<Tensors(double)>& f, double step) {
  // f at -2h, -h, -h/2, 0, h/2, h, 2h
  std::array<Tensors, 7> at;
  constexpr std::array<double, 7> steps{-2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 2.0};
  for (std::size_t s = 0; s < steps.size(); ++s) at[s] = f(steps[s] * step);
  std::vector<Difference> results(at[0].size());
  for (std::size_t k = 0; k < results.size(); ++k) {
    for (std::int64_t element = 0; element < at[0][k].size(); ++element) {
      std::array<std::complex<double>, 7> y;
      for (std::size_t s = 0; s < y.size(); ++s) y[s] = at[s][k].at(element);
      const std::complex<double> coarse = (8.0 * (y[5] - y[1]) - (y[6] - y[0])) / (12.0 * step);
      const std::complex<double> fine = (8.0 * (y[4] - y[2]) - (y[5] - y[1])) / (6.0 * step);
      // For a smooth function, the difference of one-sided derivatives halves with the step.
      const double gap = std::abs(y[5] - 2.0 * y[3] + y[1]) / step;
      const double half_gap = 2.0 * std::abs(y[4] - 2.0 * y[3] + y[2]) / step;
      const double uncertainty = std::abs(coarse - fine) + std::max(0.0, half_gap - 0.5 * gap);
      results[k].value.push_back(finite(fine) ? fine : 0.0);
      results[k].uncertainty.push_back(std::isfinite(uncertainty) ? uncertainty : infinity);
    }
  }
  return results;
}

}  // namespace tidu::check
