// core.hpp - functions that the parts of the module tidu._core share: arguments from Python, the user's
// source location in the program, and the release of the interpreter lock. All functions are called with the
// lock held.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <atomic>
#include <complex>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tidu/frontend/array.hpp"
#include "tidu/graph/graph.hpp"

namespace nb = nanobind;

namespace tidu {

// Friends of Array, made known to operands that are numbers or Arrays.
Array operator+(const ArrayLike& x, const ArrayLike& y);
Array operator-(const ArrayLike& x, const ArrayLike& y);
Array operator*(const ArrayLike& x, const ArrayLike& y);
Array operator/(const ArrayLike& x, const ArrayLike& y);
Array operator-(const ArrayLike& x);
Array operator==(const ArrayLike& x, const ArrayLike& y);
Array operator!=(const ArrayLike& x, const ArrayLike& y);
Array operator<(const ArrayLike& x, const ArrayLike& y);
Array operator<=(const ArrayLike& x, const ArrayLike& y);
Array operator>(const ArrayLike& x, const ArrayLike& y);
Array operator>=(const ArrayLike& x, const ArrayLike& y);
Array operator&(const ArrayLike& x, const ArrayLike& y);
Array operator|(const ArrayLike& x, const ArrayLike& y);

}  // namespace tidu

namespace tidu::python {

/// An argument as it was given, converted where it is used.
struct Arg {
  nb::handle object;
};

/// The location of the nearest Python frame that is not of this package. Its text is kept for ever.
Where here();
/// The same where an operation on these Arrays is recorded or traced, and nothing elsewhere: looking for it
/// takes longer than an operation on one element.
template <class... Arrays>
Where place(const Arrays&... arrays) {
  const auto is_kept = [](const Array& array) {
    const frontend_detail::Body* const body = array.body();
    return body != nullptr && (body->requires_grad || body->traced);
  };
  return (is_kept(arrays) || ...) ? here() : Where{};
}
inline Where place(std::span<const Array> arrays) {
  for (const Array& array : arrays) {
    if (const Where where = place(array); where.file != nullptr) return where;
  }
  return {};
}

/// Drops the references that threads without the lock have given up.
void drop_waiting();
/// Does something wait for drop_waiting()?
inline constinit std::atomic<bool> any_waiting{false};
/// Are there primitives or executors in Python? Another thread may then need the lock for a result for which
/// this one waits, so that it is released for operations of any size.
inline constinit std::atomic<bool> python_runs{false};

/// Runs f without the interpreter lock.
template <class F>
decltype(auto) unlocked(F&& f) {
  struct After {
    ~After() {
      if (any_waiting.load(std::memory_order_relaxed)) [[unlikely]]
        drop_waiting();
    }
  };
  const After after;  // with the lock again
  const nb::gil_scoped_release release;
  return std::forward<F>(f)();
}
/// The same, with the lock where there are few elements.
template <class F>
decltype(auto) unlocked(std::int64_t elements, F&& f) {
  constexpr std::int64_t many = 4096;
  if (elements < many && !python_runs.load(std::memory_order_relaxed)) return std::forward<F>(f)();
  return unlocked(std::forward<F>(f));
}
/// The elements of an Array; their computation runs without the lock.
const Tensor& data_of(const Array& array);
/// How many elements, 0 where there is no value.
inline std::int64_t size_of(const Array& array) { return array.empty_handle() ? 0 : array.size(); }

/// A reference to a Python object that may be copied and dropped by threads without the lock.
class Held {
 public:
  Held() = default;
  explicit Held(nb::object object);
  nb::object get() const { return nb::borrow(*object_); }
  explicit operator bool() const { return object_ != nullptr; }

 private:
  std::shared_ptr<nb::handle> object_;
};
/// Drops a reference, from any thread, with the lock or without.
void drop(PyObject* object) noexcept;

/// An exception of a rule, kernel or executor in Python, on its way through tidu: it reaches the caller
/// unchanged.
class PythonError : public Error {
 public:
  PythonError(ErrorKind kind, const std::string& message, Held raised)
      : Error(kind, message), raised_(std::move(raised)) {}
  std::shared_ptr<Error> with_message(const std::string& message) const override {
    return std::make_shared<PythonError>(kind(), message, raised_);
  }
  [[noreturn]] void raise() const override { throw PythonError(*this); }
  const Held& raised() const { return raised_; }

 private:
  Held raised_;
};
/// For a catch: the exception of Python's that `where` raised.
PythonError python_error(ErrorKind kind, const std::string& where, nb::python_error& raised);
/// Runs f, which calls Python, with the lock.
template <class F>
auto in_python(ErrorKind kind, const std::string& where, F&& f) {
  const nb::gil_scoped_acquire acquire;
  try {
    return f();
  } catch (nb::python_error& raised) {
    throw python_error(kind, where, raised);
  }
}

/// The Array that an object is, or null.
const Array* array_in(nb::handle object);

/// A Python object that is an Array, and is shown as such in signatures.
class ArrayObject : public nb::object {
  static bool is_array(nb::handle object) { return array_in(object) != nullptr; }

 public:
  NB_OBJECT(ArrayObject, nb::object, "_core.Array", is_array)
};
/// The same where there may be none.
class OptionalArrayObject : public nb::object {
  static bool fits(nb::handle object) { return object.is_none() || array_in(object) != nullptr; }

 public:
  NB_OBJECT(OptionalArrayObject, nb::object, "_core.Array | None", fits)
};
/// A dtype.
class DTypeHandle : public nb::object {
  static bool fits(nb::handle) { return true; }

 public:
  NB_OBJECT(DTypeHandle, nb::object, "_core.DType", fits)
};

ArrayObject to_python(Array array);
/// Is it an Array, a number, or something that gives its memory?
bool is_operand(nb::handle object);

/// An operand of a function: an Array, a number, or an object that converts to an Array (lists, NumPy's
/// arrays).
class Operand {
 public:
  Operand(nb::handle object);
  Operand(const Arg& argument) : Operand(argument.object) {}
  Operand(const Operand&) = delete;
  Operand& operator=(const Operand&) = delete;
  const Array* array() const { return array_; }
  bool is_number() const { return array_ == nullptr; }
  /// A number as an Array of its own.
  const Array& as_array();
  ArrayLike like(Where where) const;
  Where where() const { return array_ != nullptr ? python::place(*array_) : Where{}; }
  std::int64_t size() const { return array_ != nullptr ? size_of(*array_) : 1; }

 private:
  const Array* array_ = nullptr;
  Array own_{};
  enum class Kind : std::uint8_t { array, boolean, whole, real, complex } kind_ = Kind::array;
  std::int64_t whole_ = 0;
  double real_ = 0.0, imaginary_ = 0.0;
};

/// The object as an Array; shares the memory of an object that exports it, unless `copies`.
Array to_array(nb::handle object, std::optional<DType> dtype = std::nullopt, bool copies = false);
std::vector<Array> to_arrays(nb::handle sequence);
/// A Python number as it stands.
Number to_number(nb::handle object);
DType to_dtype(nb::handle object);
std::optional<DType> to_optional_dtype(nb::handle object);
DTypeHandle dtype_object(DType dtype);
/// An int, or a sequence of ints.
Shape to_shape(nb::handle object);
/// None, an int, or a sequence of ints.
Axes to_axes(nb::handle object);
nb::tuple shape_tuple(const Shape& shape);

Type to_type(nb::handle object);
nb::object type_object(Type type);

/// The part of an object that x[key] reads.
Array index(const Array& x, nb::handle key);

void bind_dtypes(nb::module_& m);
void bind_array(nb::module_& m);
void bind_operators(nb::class_<Array>& c);
void bind_interop(nb::module_& m, nb::class_<Array>& c);
void bind_indexing(nb::module_& m, nb::class_<Array>& c);
void bind_gradients(nb::module_& m, nb::class_<Array>& c);
void bind_elementwise(nb::module_& m);
void bind_reductions(nb::module_& m);
void bind_shapes(nb::module_& m);
void bind_creation(nb::module_& m);
void bind_linalg(nb::module_& m);
void bind_nn(nb::module_& m);
void bind_random(nb::module_& m);
void bind_trees(nb::module_& m);
void bind_transforms(nb::module_& m);
void bind_compile(nb::module_& m);
void bind_control_flow(nb::module_& m);
void bind_custom(nb::module_& m);
void bind_graph(nb::module_& m);
void bind_errors(nb::module_& m);
void bind_primitives(nb::module_& m);
void bind_executors(nb::module_& m, nb::class_<Graph>& graph);

}  // namespace tidu::python

template <>
struct nanobind::detail::type_caster<tidu::python::Arg> {
  NB_TYPE_CASTER(tidu::python::Arg, const_name("object"))
  template <class Flags>
  bool from_python(handle source, Flags, cleanup_list*) noexcept {
    value.object = source;
    return true;
  }
  static handle from_cpp(const tidu::python::Arg& argument, rv_policy, cleanup_list*) noexcept {
    return argument.object.inc_ref();
  }
};
