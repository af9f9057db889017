// core.hpp - what the parts of the module tidu._core share: arguments as Python gives them, the user's place
// in the program, and the release of the interpreter lock. Everything here is called with the lock held.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <complex>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tidu/frontend/array.hpp"

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

/// The place of the nearest Python frame that is not of this package. Its text is kept for ever.
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

/// Runs f, without the interpreter lock where there are many elements.
template <class F>
decltype(auto) unlocked(std::int64_t elements, F&& f) {
  constexpr std::int64_t many = 4096;
  if (elements < many) return std::forward<F>(f)();
  const nb::gil_scoped_release release;
  return std::forward<F>(f)();
}
/// Runs f without the interpreter lock.
template <class F>
decltype(auto) unlocked(F&& f) {
  const nb::gil_scoped_release release;
  return std::forward<F>(f)();
}
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

/// The Array that an object is, or null.
const Array* array_in(nb::handle object);
nb::object to_python(Array array);
/// Is it an Array, a number, or something that gives its memory?
bool is_operand(nb::handle object);

/// An operand of a function: an Array, or a number, or what becomes an Array (lists, NumPy's arrays).
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

/// The object as an Array; shares the memory of what exports it, unless `copies`.
Array to_array(nb::handle object, std::optional<DType> dtype = std::nullopt, bool copies = false);
std::vector<Array> to_arrays(nb::handle sequence);
/// A Python number as it stands.
Number to_number(nb::handle object);
DType to_dtype(nb::handle object);
std::optional<DType> to_optional_dtype(nb::handle object);
nb::object dtype_object(DType dtype);
/// An int, or a sequence of ints.
Shape to_shape(nb::handle object);
/// None, an int, or a sequence of ints.
Axes to_axes(nb::handle object);
nb::tuple shape_tuple(const Shape& shape);

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
