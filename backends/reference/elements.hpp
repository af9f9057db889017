// elements.hpp - access to elements for all kernels. Every dtype is computed in one of four C++ types, bool,
// Int, Real and Complex, and rounded (integers: wrapped) to its own when stored, so that a kernel is one
// formula for each.
#pragma once

#include <cmath>
#include <complex>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>
#include <utility>
#include <vector>

#include "reference/kernels.hpp"
#include "tidu/graph/type.hpp"
#include "tidu/tensor/tensor.hpp"

namespace tidu::ref {

using Int = std::int64_t;
using Real = double;
using Complex = std::complex<double>;

/// The dtypes that are computed in T.
template <class T>
constexpr DTypes dtypes_of() {
  if constexpr (std::is_same_v<T, bool>) return dtypes::booleans;
  if constexpr (std::is_same_v<T, Int>) return dtypes::integers;
  if constexpr (std::is_same_v<T, Real>) return dtypes::floats;
  if constexpr (std::is_same_v<T, Complex>) return dtypes::complexes;
}

template <class U>
U read(const std::byte* at) {
  U value;
  std::memcpy(&value, at, sizeof(U));
  return value;
}
template <class U>
void write(std::byte* at, U value) {
  std::memcpy(at, &value, sizeof(U));
}

/// Element `i` of a tensor whose dtype is computed in T.
template <class T>
T load(const Tensor& tensor, Int i) {
  const DType dtype = tensor.dtype();
  const std::byte* at = tensor.bytes() + static_cast<std::size_t>(i) * size_of(dtype);
  if constexpr (std::is_same_v<T, bool>) {
    return read<std::uint8_t>(at) != 0;
  } else if constexpr (std::is_same_v<T, Int>) {
    return dtype == DType::i32 ? read<std::int32_t>(at) : read<std::int64_t>(at);
  } else if constexpr (std::is_same_v<T, Real>) {
    if (dtype == DType::f64) return read<double>(at);
    if (dtype == DType::f32) return static_cast<double>(read<float>(at));
    const auto bits = read<std::uint16_t>(at);
    return static_cast<double>(dtype == DType::f16 ? half_to_float(bits) : bfloat16_to_float(bits));
  } else {
    return dtype == DType::c128 ? read<Complex>(at) : Complex(read<std::complex<float>>(at));
  }
}

/// The results of a call under the pointers to their memory, so that writing many elements asks for it once.
class Writer {
 public:
  explicit Writer(Tensor& tensor) : dtype_(tensor.dtype()), bytes_(tensor.mutable_bytes()) {}

  template <class T>
  void store(Int i, T value) const {
    std::byte* at = bytes_ + static_cast<std::size_t>(i) * size_of(dtype_);
    if constexpr (std::is_same_v<T, bool>) {
      write(at, static_cast<std::uint8_t>(value));
    } else if constexpr (std::is_same_v<T, Int>) {
      if (dtype_ == DType::i32) return write(at, static_cast<std::int32_t>(value));  // modulo 2^32
      write(at, value);
    } else if constexpr (std::is_same_v<T, Real>) {
      if (dtype_ == DType::f64) return write(at, value);
      if (dtype_ == DType::f32) return write(at, to_float(value));
      write(at, dtype_ == DType::f16 ? double_to_half(value) : double_to_bfloat16(value));
    } else {
      static_assert(std::is_same_v<T, Complex>);
      if (dtype_ == DType::c128) return write(at, value);
      write(at, std::complex<float>(to_float(value.real()), to_float(value.imag())));
    }
  }
  void copy(Int i, const Tensor& from, Int j) const {
    const std::size_t size = size_of(dtype_);
    std::memcpy(bytes_ + static_cast<std::size_t>(i) * size,
                from.bytes() + static_cast<std::size_t>(j) * size, size);
  }

 private:
  // Rounds to nearest; numbers out of range become infinite.
  static float to_float(double value) {
    constexpr double beyond = 0x1.ffffffp127;
    if (value >= beyond) return std::numeric_limits<float>::infinity();
    if (value <= -beyond) return -std::numeric_limits<float>::infinity();
    return static_cast<float>(value);
  }
  DType dtype_;
  std::byte* bytes_;
};

/// The type that `dtype` is computed in, passed to `body` as a value-initialised argument.
template <class Body>
void with_element(DType dtype, Body&& body) {
  if (is_bool(dtype)) return body(bool{});
  if (is_integer(dtype)) return body(Int{});
  if (is_floating(dtype)) return body(Real{});
  body(Complex{});
}

/// result[i] = f(inputs[i]...); an operand that is a scalar stands for all i.
template <class R, class... A, class F, std::size_t... k>
void map_elements(const KernelCall& c, const F& f, std::index_sequence<k...>) {
  const Writer out(c.output());
  for (Int i = 0; i < c.output().size(); ++i) {
    out.store<R>(i, f(load<A>(c.input(k), c.input(k).rank() == 0 ? 0 : i)...));
  }
}
template <class R, class... A, class F>
void map(const KernelCall& c, const F& f) {
  map_elements<R, A...>(c, f, std::index_sequence_for<A...>());
}

/// One formula of an element-wise kernel, for the dtypes that are computed in the type of its first argument.
struct Formula {
  DTypes dtypes;
  Kernel kernel;
};
template <class R, class A0, class... A>
Formula formula(R (*f)(A0, A...)) {
  return {dtypes_of<A0>(), [f](const KernelCall& c) { map<R, A0, A...>(c, f); }};
}

[[noreturn]] void no_kernel_for(const KernelCall& c);

/// A kernel that is one formula for each kind of element; write the formulas as +[](Real x) { … }.
template <class... F>
NamedKernel elementwise(std::string_view name, F... f) {
  std::vector<Formula> formulas{formula(f)...};
  const DTypes supported = (formula(f).dtypes | ...);
  return {name, supported, [formulas = std::move(formulas)](const KernelCall& c) {
            for (const Formula& each : formulas) {
              if (each.dtypes.contains(c.input(0).dtype())) return each.kernel(c);
            }
            no_kernel_for(c);
          }};
}

/// Integer arithmetic modulo 2^64, of which storing keeps the lower 32 bits for i32.
inline Int wrap_add(Int x, Int y) {
  return static_cast<Int>(static_cast<std::uint64_t>(x) + static_cast<std::uint64_t>(y));
}
inline Int wrap_sub(Int x, Int y) {
  return static_cast<Int>(static_cast<std::uint64_t>(x) - static_cast<std::uint64_t>(y));
}
inline Int wrap_mul(Int x, Int y) {
  return static_cast<Int>(static_cast<std::uint64_t>(x) * static_cast<std::uint64_t>(y));
}

/// Sum and product, as add and mul give them.
inline Int plus(Int x, Int y) { return wrap_add(x, y); }
inline Real plus(Real x, Real y) { return x + y; }
inline Complex plus(Complex x, Complex y) { return x + y; }
inline Int times(Int x, Int y) { return wrap_mul(x, y); }
inline Real times(Real x, Real y) { return x * y; }
/// (a + bi)(c + di) = (ac - bd) + (ad + bc)i, with the non-finite values of that formula.
inline Complex times(Complex x, Complex y) {
  return {x.real() * y.real() - x.imag() * y.imag(), x.real() * y.imag() + x.imag() * y.real()};
}
/// A partial sum of elements of that dtype. Those of f16 and bf16 are accumulated in f32 and rounded once by
/// all executors: here with more digits, but in f32's range.
template <class T>
T partial(DType dtype, T sum) {
  if constexpr (std::is_same_v<T, Real>) {
    constexpr Real beyond = 0x1.ffffffp127;
    if ((dtype == DType::f16 || dtype == DType::bf16) && std::abs(sum) >= beyond)
      return std::copysign(std::numeric_limits<Real>::infinity(), sum);
  }
  return sum;
}
/// NaN when one of them is, as max and min give them.
template <class T>
T greater_of(T x, T y) {
  return x != x || x > y ? x : y;
}
template <class T>
T lesser_of(T x, T y) {
  return x != x || x < y ? x : y;
}

/// Steps through the positions of a shape in row-major order.
class Positions {
 public:
  explicit Positions(const Shape& shape) : shape_(shape), index_(shape.size(), 0) {}
  const Shape& index() const { return index_; }
  Int operator[](std::size_t axis) const { return index_[axis]; }
  void next() {
    for (std::size_t axis = index_.size(); axis-- > 0;) {
      if (++index_[axis] < shape_[axis]) return;
      index_[axis] = 0;
    }
  }

 private:
  Shape shape_;
  Shape index_;
};

/// Row-major index of a position.
inline Int flat(const Shape& shape, const Shape& index) {
  Int at = 0;
  for (std::size_t axis = 0; axis < shape.size(); ++axis) at = at * shape[axis] + index[axis];
  return at;
}

/// Calls body(i, position) for every element i of a tensor of that shape.
template <class Body>
void for_each(const Shape& shape, Body&& body) {
  const Int size = num_elements(shape);
  Positions at(shape);
  for (Int i = 0; i < size; ++i, at.next()) body(i, at.index());
}

inline std::size_t axis_of(Int axis) { return static_cast<std::size_t>(axis); }

}  // namespace tidu::ref
