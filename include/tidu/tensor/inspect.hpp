// inspect.hpp - functions that inspect the elements of a tensor for debugging; and TensorOperands, which
// implements them for an eager executor of tensors.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "tidu/graph/error.hpp"
#include "tidu/graph/literal.hpp"
#include "tidu/tensor/tensor.hpp"

namespace tidu {

/// Integers and booleans are always finite.
bool all_finite(const Tensor& tensor);
/// Is every element 0 (or -0)?
bool all_zero(const Tensor& tensor);
/// "f64[32,10] has 3 zeros, at [0,4] [7,1] [30,9]", with NaNs, infinities, zeros, smallest and largest finite
/// value. At most `places` indices of each kind.
std::string element_statistics(const Tensor& tensor, std::size_t places = 4);
namespace detail {
Tensor ones_of(Type type);
}  // namespace detail

/// Ones of that type. `ones({})` is not one of these: it is the frontend's, of a shape.
template <class T>
requires std::convertible_to<T, Type> Tensor ones(T type) { return detail::ones_of(type); }

/// The optional methods of an eager executor of tensors. `Base` is its interface.
template <class Base>
class TensorOperands : public Base {
 public:
  /// The type.
  std::optional<Type> describe(const Tensor& tensor) const override { return tensor.type(); }
  /// all_finite.
  std::optional<bool> is_finite(const Tensor& tensor) const override { return all_finite(tensor); }
  /// all_zero.
  std::optional<bool> is_zero(const Tensor& tensor) const override { return all_zero(tensor); }
  /// element_statistics.
  std::string statistics(const Tensor& tensor) const override { return element_statistics(tensor); }
  /// Tensor::version.
  std::optional<std::uint64_t> version(const Tensor& tensor) const override { return tensor.version(); }
  /// Bytes of the elements.
  std::size_t bytes(const Tensor& tensor) const override { return tensor.num_bytes(); }
  /// Ones of that type.
  Result<std::optional<Tensor>> ones_like(Type type) const override {
    return detail::capture([&] { return std::optional<Tensor>(ones(type)); });
  }

 protected:
  TensorOperands() = default;
  TensorOperands(const TensorOperands&) = default;
  TensorOperands& operator=(const TensorOperands&) = default;
};

}  // namespace tidu
