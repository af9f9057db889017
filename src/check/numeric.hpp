// numeric.hpp - arithmetic of the checker on tensors of any dtype: seeded random tensors, the real inner
// product, displacements, and derivatives by differences with an estimate of their own error.
#pragma once

#include <complex>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "tidu/graph/type.hpp"
#include "tidu/tensor/tensor.hpp"

namespace tidu::check {

using Tensors = std::vector<Tensor>;
/// An absent one is zero.
using MaybeTensors = std::vector<std::optional<Tensor>>;
using Numbers = std::vector<std::complex<double>>;

/// A small generator (splitmix64, Steele et al. 2014): the same numbers on every machine.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  std::uint64_t bits();
  /// Uniform in [low, high).
  double uniform(double low, double high);
  /// Uniform in 0 .. count - 1.
  std::size_t below(std::size_t count) { return static_cast<std::size_t>(bits() % count); }

 private:
  std::uint64_t state_;
};

Numbers numbers_of(const Tensor& tensor);
/// Elements rounded to the dtype; imaginary parts are dropped where it is real.
Tensor tensor_of(Type type, const Numbers& numbers);
/// Elements (of complex dtypes their real and imaginary parts) uniform in [-1, 1). An inexact dtype.
Tensor random_tensor(Random& random, Type type);
/// a x + b y, of one type.
Tensor combine(double a, const Tensor& x, double b, const Tensor& y);

/// The unit roundoff's neighbour: distance from 1 to the next number of the dtype; 0 for exact dtypes.
double epsilon_of(DType dtype);

/// x, with zeros where `other`, of the same shape, is not finite.
Tensor where_finite(const Tensor& x, const Tensor& other);

/// Sum of Re(conj(a) b) over all elements that both sides have, and the sum of the absolute values. An
/// element that is zero on one side adds nothing, whatever the other is.
struct InnerProduct {
  double value = 0.0;
  double magnitude = 0.0;
};
InnerProduct inner_product(const MaybeTensors& a, const MaybeTensors& b);

/// |a - b| / scale; 0 where neither is finite, infinity where one is not.
double relative_error(std::complex<double> a, std::complex<double> b, double scale);
/// The largest difference of elements, relative to the largest element of either, or to `scale` where that is
/// larger.
double relative_error(const Tensor& a, const Tensor& b, double scale = 0.0);

/// A directional derivative, element by element, and its uncertainty; infinity if that is unknown (a kink, a
/// function that is not finite nearby).
struct Difference {
  Numbers value;
  std::vector<double> uncertainty;
};
/// The largest step of differences: truncation is of order h^4, rounding of order epsilon / h.
double largest_step(double epsilon);
/// d/ds of f(s) at 0 by five-point central differences at several steps, the best of them for each element;
/// `epsilon` is that of the dtype in which f is computed. Returns one Difference for each tensor that f
/// returns. Without `rounded_otherwise`, rounding is taken to be relative to f. With it, the rounding error
/// is the difference between f(s) and this function, which computes f(s) with other roundings in every call:
/// for f with cancellation, or s small beside the other term of a sum. Steps are smaller then, too, and a
/// step over a jump of f is ignored.
std::vector<Difference> differentiate(const std::function<Tensors(double)>& f, double epsilon,
                                      const std::function<Tensors(double)>& rounded_otherwise = {});
/// The same at one step, which is so large that rounding does not count: for functions that are rough at
/// smaller scales. Roughness, and kinks, are part of the uncertainty.
std::vector<Difference> differentiate_at(const std::function<Tensors(double)>& f, double step);

}  // namespace tidu::check
