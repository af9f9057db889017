// array.hpp - Array: a tensor with NumPy's operations, differentiated as in PyTorch or JAX. It is the
// reference frontend, built on tidu's public interfaces; lazy mode and hot paths also use internal ones.
//
// An Array is a counted handle: copies are the same Array. It is one of three things: data; data that a tape
// records (it requires a gradient); or, inside trace(), a value of the graph that is being made, without
// data.
#pragma once

#include <array>
#include <atomic>
#include <complex>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <iosfwd>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "tidu/eager/backward.hpp"
#include "tidu/eager/hooks.hpp"
#include "tidu/frontend/number.hpp"
#include "tidu/graph/counter.hpp"
#include "tidu/graph/type.hpp"
#include "tidu/graph/value.hpp"
#include "tidu/tensor/tensor.hpp"

namespace tidu {

class Array;
class ArrayLike;
class At;

namespace frontend_detail {

struct Extra;

/// The state that the handles to one Array share.
struct Body {
  std::atomic<std::uint32_t> references{1};
  bool requires_grad = false;
  bool traced = false;  ///< without data
  Tensor tensor;
  eager::Key key{};        ///< with a trace
  eager::Trace trace{};    ///< of the invocation or leaf
  Extra* extra = nullptr;  ///< of a leaf that requires a gradient, or of a traced Array
};
void destroy(Body* body) noexcept;
[[noreturn]] void refuse_empty();
[[noreturn]] void refuse_for_i64(std::uint64_t value);

}  // namespace frontend_detail

/// Several axes, or all of them; negative ones count from the end. Made of an int or of a list.
class Axes {
 public:
  Axes() = default;  ///< all
  /// One axis.
  Axes(int axis) : Axes({std::int64_t{axis}}) {}
  /// One axis.
  Axes(std::int64_t axis) : Axes({axis}) {}
  /// Several axes.
  Axes(std::initializer_list<std::int64_t> axes) : Axes(std::span(axes.begin(), axes.size())) {}
  /// Several axes.
  Axes(const std::vector<std::int64_t>& axes) : Axes(std::span<const std::int64_t>(axes)) {}
  bool all() const { return all_; }
  std::span<const std::int64_t> list() const { return {axes_.data(), count_}; }

 private:
  static constexpr std::size_t most = 16;
  explicit Axes(std::span<const std::int64_t> axes);
  bool all_ = true;
  std::size_t count_ = 0;
  std::array<std::int64_t, most> axes_{};
};

/// Part of an axis as Python's start:stop:step; negative positions count from the end, a negative step goes
/// backward.
struct Slice {
  std::optional<std::int64_t> start{};  ///< the first position, when given
  std::optional<std::int64_t> stop{};   ///< the first position that is not taken, when given
  std::int64_t step = 1;                ///< distance between its elements
};

/// A position along an axis, and its source location.
struct Index {
  std::int64_t value;  ///< the position; negative ones count from the end
  Where where;         ///< where it stands in the user's program
  /// From any integer type.
  template <class T>
  requires std::is_integral_v<T> Index(T position, Where location = Where::current())
      : value(static_cast<std::int64_t>(position)), where(location) {}
};

/// Positions along an axis as an Array, and their source location. It borrows the Array.
class Indices {
 public:
  /// Integers, of any shape; or, where at() takes them, bools.
  template <class T>
  requires std::is_same_v<T, Array> Indices(const T& array, Where location = Where::current())
      : array_(&array), where_(location) {}
  const Array& array() const { return *array_; }
  Where where() const { return where_; }

 private:
  const Array* array_;
  Where where_;
};

/// A new axis of extent one in x[{...}], as None in NumPy.
struct NewAxis {};
/// That axis.
inline constexpr NewAxis newaxis{};
/// All axes that the other subscripts of x[{...}] leave, as ... in Python.
struct Ellipsis {};
/// Those axes.
inline constexpr Ellipsis ellipsis{};

/// One of the subscripts of x[{...}], and its source location. It borrows an Array.
class Subscript {
 public:
  /// The kind of subscript.
  enum class Kind : std::uint8_t { part, position, indices, new_axis, other_axes };
  /// The source location of a subscript. It converts from a Where alone, so that {} is none.
  struct Here {
    /// That location.
    Here(Where location) : where(location) {}
    Where where;  ///< it
  };
  /// {}: a whole axis, as : in Python.
  Subscript(Here location = Where::current()) : location_(location) {}
  /// {start, stop} and {start, stop, step}, {} where Python has nothing. {start} is the position start.
  Subscript(std::optional<std::int64_t> start, std::optional<std::int64_t> stop, std::int64_t step = 1,
            Here location = Where::current())
      : part_{start, stop, step}, location_(location) {}
  /// Such a part.
  Subscript(const Slice& part, Here location = Where::current()) : part_(part), location_(location) {}
  /// A position, of any integer.
  template <class T>
  requires std::is_integral_v<T> Subscript(T position, Here location = Where::current())
      : kind_(Kind::position), part_{static_cast<std::int64_t>(position), {}, 1}, location_(location) {}
  /// Integers, of any shape.
  template <class T>
  requires std::is_same_v<T, Array> Subscript(const T& array, Here location = Where::current())
      : kind_(Kind::indices), array_(&array), location_(location) {}
  /// An axis of one element.
  Subscript(NewAxis, Here location = Where::current()) : kind_(Kind::new_axis), location_(location) {}
  /// The axes that are left.
  Subscript(Ellipsis, Here location = Where::current()) : kind_(Kind::other_axes), location_(location) {}

  Kind kind() const { return kind_; }
  const Slice& part() const { return part_; }
  std::int64_t position() const { return *part_.start; }
  const Array& array() const { return *array_; }
  Where where() const { return location_.where; }

 private:
  Kind kind_ = Kind::part;
  Slice part_;
  const Array* array_ = nullptr;
  Here location_;
};

/// The options of backward(): those of eager::backward, of which `accumulate` is always on.
using eager::BackwardOptions;
using eager::HookHandle;

/// A tensor to compute with as with NumPy's, and to differentiate. A counted handle: copies are the same
/// Array.
class Array {
 public:
  /// Nothing: to be assigned to. Reading it throws Error (invalid_argument).
  Array() = default;
  /// A scalar: double is f64, float f32, bool bool, int i32, other integers i64. Throws Error (type) for an
  /// integer that i64 does not hold.
  template <class T>
  requires std::is_arithmetic_v<T> Array(T value) : Array(Tensor::scalar(element(value))) {}
  /// A complex scalar: c64 of float, c128 of double.
  template <class T>
  requires(std::is_same_v<T, float> || std::is_same_v<T, double>) Array(const std::complex<T>& value)
      : Array(Tensor::scalar(value)) {}
  /// The tensor itself, whose storage is shared.
  explicit Array(Tensor tensor);

  Array(const Array& other) noexcept : body_(other.body_) {
    if (body_ != nullptr) detail::count_up(body_->references);
  }
  Array(Array&& other) noexcept : body_(std::exchange(other.body_, nullptr)) {}
  /// Gives this handle another Array, and that of no temporary: y[0] = z would change nothing. An Array with
  /// other elements somewhere is y.at(0).set(z).
  Array& operator=(Array other) & noexcept {
    std::swap(body_, other.body_);
    return *this;
  }
  ~Array() {
    if (body_ == nullptr) return;
    if (body_->references.load(std::memory_order_acquire) == 1 ||
        detail::count_down(body_->references) == 1) {
      frontend_detail::destroy(body_);
    }
  }

  // --- its properties

  /// Is its only element not 0? Throws Error (invalid_argument) when there is not exactly one: all() and
  /// any() are of several.
  explicit operator bool() const { return one_element({}, true).at(0) != 0.0; }
  bool empty_handle() const { return body_ == nullptr; }
  /// Dtype and shape, as the next ones throwing Error (invalid_argument) where there is no value.
  Type type(Where where = Where::current()) const;
  /// Dtype of the elements.
  DType dtype(Where where = Where::current()) const { return type(where).dtype(); }
  /// The extents of its axes.
  const Shape& shape(Where where = Where::current()) const { return type(where).shape(); }
  /// Extent of an axis; negative axes count from the end.
  std::int64_t shape(std::int64_t axis, Where where = Where::current()) const;
  /// How many axes it has.
  std::size_t ndim(Where where = Where::current()) const { return type(where).rank(); }
  /// How many elements.
  std::int64_t size(Where where = Where::current()) const { return type(where).size(); }
  /// Is it a value of a graph that is being made, without data?
  bool is_traced() const;
  /// Its device, "cpu" for the host or "cuda:0". Operations on it run there.
  std::string device(Where where = Where::current()) const;

  // --- its elements. For a traced Array these throw Error (invalid_argument) that says how to avoid it.

  /// The data. The storage is shared: a write increments its version, and a tape that needs the former
  /// elements reports an error.
  const Tensor& tensor(Where where = Where::current()) const;
  /// The only element, converted to T; to an integer it is truncated. Throws Error (invalid_argument) when
  /// there is not exactly one, for one that an integer T does not hold, and for one with an imaginary part
  /// where T is a real number.
  template <class T = double>
  T item(Where where = Where::current()) const {
    const Tensor& data = one_element(where);
    if constexpr (std::is_same_v<T, bool>) {
      return data.at(0) != 0.0;
    } else if constexpr (std::is_integral_v<T>) {
      require_whole(data, std::is_signed_v<T>, std::numeric_limits<T>::digits, where);
      if (data.dtype() == i64) return static_cast<T>(data.data<std::int64_t>()[0]);
      return static_cast<T>(data.at(0).real());
    } else if constexpr (std::is_arithmetic_v<T>) {
      return static_cast<T>(real_element(data, where));
    } else {
      return T(data.at(0));
    }
  }
  /// Copies the elements of `value` into this Array's storage, in place; no tape records it. Throws Error
  /// (type for another type, invalid_argument for foreign memory that is read-only). Not for a temporary.
  Array& assign(const Array& value, Where where = Where::current()) &;
  /// A new Array with memory of its own; gradients flow through.
  Array copy(Where where = Where::current()) const;

  // --- gradients

  bool requires_grad() const { return body_ != nullptr && body_->requires_grad; }
  /// Makes this a leaf that requires a gradient, or ends that. Throws Error (invalid_argument) for results
  /// computed from such leaves, for integers and for a traced Array.
  Array& set_requires_grad(bool wanted = true, std::string name = {}, Where where = Where::current());
  /// Was it not computed from something that requires a gradient?
  bool is_leaf(Where where = Where::current()) const;
  /// Differentiates this Array and adds the gradients to grad() of the leaves that it depends on. Without a
  /// seed it must have one element. Throws the errors of eager::backward.
  void backward(BackwardOptions options = {}, Where where = Where::current()) const;
  void backward(const Array& seed, BackwardOptions options = {}, Where where = Where::current()) const;
  /// The accumulated gradient. Throws Error (invalid_argument) unless it is a leaf that requires a gradient.
  std::optional<Array> grad(Where where = Where::current()) const;
  /// Drops the accumulated gradient.
  void zero_grad(Where where = Where::current()) const;
  /// Replaces the accumulated gradient by `gradient`. For a leaf of 16 bits it may be f32 (see
  /// BackwardOptions::wide_slots).
  void set_grad(const Array& gradient, Where where = Where::current()) const;
  /// The same data, which no tape records. In lazy mode the two stop sharing data when either is written to,
  /// by assign() or an in-place operation: see Lazy.
  Array detach(Where where = Where::current()) const;
  /// Calls `hook` with the cotangent of this Array in every later backward call that reaches it. A result of
  /// the hook replaces the cotangent. A hook that captures this Array keeps the Array, and so itself, alive
  /// until it is removed: capture detach(), or call remove().
  template <class F>
  HookHandle register_hook(F hook, Where where = Where::current()) const {
    if constexpr (std::is_void_v<std::invoke_result_t<F&, const Array&>>) {
      return add_hook(
          [hook = std::move(hook)](const Array& cotangent) mutable -> std::optional<Array> {
            hook(cotangent);
            return std::nullopt;
          },
          where);
    } else {
      return add_hook(std::move(hook), where);
    }
  }
  /// A name for messages.
  Array& set_name(std::string name, Where where = Where::current());

  // --- operators, with NumPy's broadcasting and JAX's promotion of dtypes. A number takes the Array's dtype;
  // a complex one (std::complex) takes the complex dtype of its precision. `/` of integers is f64, `+` of
  // bools is or, `*` is and. They throw Error (type) that names operator, types and source location.

  /// Element by element.
  friend Array operator+(const ArrayLike& x, const ArrayLike& y);
  friend Array operator-(const ArrayLike& x, const ArrayLike& y);
  friend Array operator*(const ArrayLike& x, const ArrayLike& y);
  friend Array operator/(const ArrayLike& x, const ArrayLike& y);
  /// Element by element.
  friend Array operator-(const ArrayLike& x);
  friend Array operator==(const ArrayLike& x, const ArrayLike& y);
  /// Element by element, as bool.
  friend Array operator!=(const ArrayLike& x, const ArrayLike& y);
  friend Array operator<(const ArrayLike& x, const ArrayLike& y);
  friend Array operator<=(const ArrayLike& x, const ArrayLike& y);
  friend Array operator>(const ArrayLike& x, const ArrayLike& y);
  friend Array operator>=(const ArrayLike& x, const ArrayLike& y);
  /// For bools, or for integers bit by bit.
  friend Array operator!(const Array& x);
  /// For bools, or for integers bit by bit.
  friend Array operator&(const ArrayLike& x, const ArrayLike& y);
  friend Array operator|(const ArrayLike& x, const ArrayLike& y);
  /// x = x + y, not for a temporary: other handles to x keep their value. For a leaf that requires a
  /// gradient, while gradients are off (no_grad), it is assign(): parameters are updated so.
  Array& operator+=(const ArrayLike& y) &;
  Array& operator-=(const ArrayLike& y) &;
  Array& operator*=(const ArrayLike& y) &;
  Array& operator/=(const ArrayLike& y) &;

  /// Element (or sub-array) i along the first axis. Throws Error (invalid_argument) for one that is not
  /// there.
  Array operator[](const Index& i) const;
  /// The elements (or sub-arrays) at these integers along the first axis, of shape indices.shape + shape[1:].
  /// As in JAX, a negative index counts from the end, and an index that is then out of range reads the
  /// nearest end. The gradient of an element is the sum over all its indices. take() has other axes, and
  /// clamps negative indices to 0. Throws Error (type) for other dtypes. A mask (of dtype
  /// bool) is refused, since the number of elements that it selects is unknown before it runs: use where(),
  /// or set the selected elements by at(mask).
  Array operator[](const Indices& indices) const;
  /// x[{0, {1, 3}, newaxis, rows}] is NumPy's x[0, 1:3, None, rows]. Each axis in turn has one subscript: a
  /// position (the result lacks the axis), a slice {start, stop, step} ({}: all of it), or integers, which
  /// are read as in x[indices]; `newaxis` and `ellipsis` are as in NumPy. x[{rows, columns}] reads the
  /// elements (or sub-arrays) at pairs of a row and a column. The indices broadcast. Their shape takes the
  /// position of their axes in the result, or comes first if other subscripts are between them; positions
  /// count as indices then. Throws Error (invalid_argument) for more subscripts than axes and for positions
  /// out of range, Error (type) as x[indices].
  Array operator[](std::initializer_list<Subscript> subscripts) const {
    return (*this)[std::span(subscripts.begin(), subscripts.size())];
  }
  /// The same.
  Array operator[](std::span<const Subscript> subscripts) const;
  /// x.at(i).set(v): this Array with other elements at some positions. See At (tidu/frontend/at.hpp), also
  /// for errors.
  At at(const Index& i) const;
  /// Positions as data: integers, or bools of the extents of the first axes.
  At at(const Indices& indices) const;
  /// The elements that x[{...}] reads.
  At at(std::initializer_list<Subscript> subscripts) const;
  /// The same.
  At at(std::span<const Subscript> subscripts) const;
  /// A part of each of the first axes, as slice() takes it.
  At at(std::span<const Slice> parts, Where where = Where::current()) const;
  /// A part of each of the first axes.
  Array slice(std::initializer_list<Slice> parts, Where where = Where::current()) const;
  /// Converted to another dtype: itself, no copy, where it has that one (copy() makes one).
  Array to(DType dtype, Where where = Where::current()) const;
  /// This Array on the device of that executor (cuda(), or cpu() for the host): itself if it is there
  /// already, else a copy, through which gradients flow back to this Array's device (device_put). Operations
  /// on Arrays of the device run on the executor that was named last, which must outlive them. Arrays are
  /// copied between devices by this function only: operations on Arrays of two devices throw Error
  /// (invalid_argument) that names both. A copy to the host waits for the elements, and evaluates lazy
  /// Arrays. Throws Error (execution, out_of_memory).
  Array to(const eager::BackwardExecutor<Tensor>& executor, Where where = Where::current()) const;
  /// The same elements in another shape, of which one extent may be -1.
  Array reshape(const Shape& shape, Where where = Where::current()) const;
  /// Axes in reverse order.
  Array T(Where where = Where::current()) const;
  /// Over some axes, or all.
  Array sum(const Axes& axes = {}, bool keepdims = false, Where where = Where::current()) const;
  Array mean(const Axes& axes = {}, bool keepdims = false, Where where = Where::current()) const;

  /// For the frontend itself.
  struct Adopt {};
  /// For the frontend itself.
  Array(Adopt, frontend_detail::Body* body) noexcept : body_(body) {}
  const frontend_detail::Body* body() const { return body_; }
  frontend_detail::Body& required() const {
    if (body_ == nullptr) [[unlikely]]
      frontend_detail::refuse_empty();
    return *body_;
  }

 private:
  template <class T>
  static auto element(T value) {
    if constexpr (std::is_same_v<T, bool> || std::is_same_v<T, float>) {
      return value;
    } else if constexpr (std::is_floating_point_v<T>) {
      return static_cast<double>(value);
    } else if constexpr (std::is_same_v<T, int>) {
      return static_cast<std::int32_t>(value);
    } else {
      if (!Number(value).is_whole()) [[unlikely]]
        frontend_detail::refuse_for_i64(static_cast<std::uint64_t>(value));
      return static_cast<std::int64_t>(value);
    }
  }
  const Tensor& one_element(Where where, bool as_bool = false) const;
  static double real_element(const Tensor& data, Where where);
  /// Throws for an element whose integer part needs more than that many binary digits (beside the sign).
  static void require_whole(const Tensor& data, bool is_signed, int digits, Where where);
  HookHandle add_hook(std::function<std::optional<Array>(const Array&)> hook, Where where) const;

  frontend_detail::Body* body_ = nullptr;
};

/// An operand, with its source location: an Array, or a number, which takes the dtype of the Array that it is
/// combined with. It borrows the Array. Operations throw Error (type) for an integer that this dtype cannot
/// represent.
class ArrayLike {
 public:
  /// An Array as it is.
  ArrayLike(const Array& array, Where where = Where::current()) : array_(&array), where_(where) {}
  /// A number, which takes the dtype of the Array that it meets.
  template <class T>
  requires std::is_arithmetic_v<T> ArrayLike(T number, Where where = Where::current())
      : number_(number), where_(where) {}
  /// A complex number, which takes the complex dtype that has the precision of the Array that it meets.
  template <class T>
  requires std::is_floating_point_v<T> ArrayLike(std::complex<T> number, Where where = Where::current())
      : number_(number.real()), imaginary_(static_cast<double>(number.imag())), where_(where) {}
  const Array* array() const { return array_; }
  /// The number; of a complex one its real part.
  const Number& number() const { return number_; }
  /// Nothing of a number that is not complex, be it 0 or not.
  std::optional<double> imaginary() const { return imaginary_; }
  /// The dtype of a number that is combined with no Array.
  DType dtype() const { return imaginary_ ? c128 : number_.dtype(); }
  Where where() const { return where_; }

 private:
  const Array* array_ = nullptr;
  Number number_ = 0.0;
  std::optional<double> imaginary_{};
  Where where_;
};

/// As NumPy prints it, with dtype and shape: array([[1., 2.], [3., 4.]], f64[2,2]). Long ones are cut.
std::ostream& operator<<(std::ostream& out, const Array& array);
/// As the operator writes it.
std::string to_string(const Array& array);

/// The dtype of an operation on operands of these dtypes, as JAX promotes: bool, i32, i64, then f16 or bf16
/// (f32 where they meet), f32, f64, c64, c128.
DType promote(DType a, DType b);

/// The cotangents of `inputs` (leaves or results of operations) for the sum of <root, seed>; nothing for an
/// input that no root depends on; an input may be given twice. No slot of a leaf is changed. Without seeds
/// the roots have one element each.
std::vector<std::optional<Array>> grad_of(std::span<const Array> roots, std::span<const Array> inputs,
                                          std::span<const Array> seeds = {}, BackwardOptions options = {},
                                          Where where = Where::current());
inline std::vector<std::optional<Array>> grad_of(const Array& root, std::initializer_list<Array> inputs,
                                                 BackwardOptions options = {},
                                                 Where where = Where::current()) {
  return grad_of(std::span(&root, 1), std::span(inputs.begin(), inputs.size()), {}, std::move(options),
                 where);
}

}  // namespace tidu
