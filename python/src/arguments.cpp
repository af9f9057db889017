// arguments.cpp - arguments from Python: dtypes, shapes, axes, numbers and operands.
#include <array>
#include <string_view>

#include "core.hpp"

namespace tidu::python {
namespace {

// The dtypes by other names: NumPy's, and those of Python's types.
std::optional<DType> dtype_named(std::string_view name) {
  if (const auto own = parse_dtype(name)) return own;
  constexpr std::pair<std::string_view, DType> names[] = {
      {"int32", i32},   {"int64", i64},   {"float16", f16},   {"bfloat16", bf16},
      {"float32", f32}, {"float64", f64}, {"complex64", c64}, {"complex128", c128},
      {"int", i64},     {"float", f64},   {"complex", c128},  {"bool_", bool_}};
  for (const auto& [other, dtype] : names) {
    if (name == other) return dtype;
  }
  return std::nullopt;
}
std::string_view numpy_name(DType dtype) {
  constexpr std::string_view names[] = {"bool",    "int32",   "int64",     "float16",   "bfloat16",
                                        "float32", "float64", "complex64", "complex128"};
  return names[static_cast<std::size_t>(dtype)];
}

struct DTypeObject {
  DType dtype;
};
std::array<nb::object, 9>& dtype_objects() {
  static auto& objects = *new std::array<nb::object, 9>();
  return objects;
}

}  // namespace

DTypeHandle dtype_object(DType dtype) {
  return nb::borrow<DTypeHandle>(dtype_objects()[static_cast<std::size_t>(dtype)]);
}

DType to_dtype(nb::handle object) {
  DTypeObject* own = nullptr;
  if (nb::try_cast(object, own) && own != nullptr) return own->dtype;
  std::optional<DType> found;
  std::string text;
  if (nb::isinstance<nb::str>(object)) {
    text = nb::cast<std::string>(object);
  } else if (nb::hasattr(object, "name")) {
    text = nb::cast<std::string>(nb::str(object.attr("name")));
  } else if (nb::hasattr(object, "__name__")) {
    text = nb::cast<std::string>(nb::str(object.attr("__name__")));
  }
  found = dtype_named(text);
  if (!found)
    throw Error(ErrorKind::type,
                detail::str("dtype: expected one of bool, int32, int64, float16, bfloat16, float32, float64, "
                            "complex64, complex128, got ",
                            std::string(nb::cast<std::string>(nb::str(nb::repr(object))))));
  return *found;
}
std::optional<DType> to_optional_dtype(nb::handle object) {
  if (object.is_none()) return std::nullopt;
  return to_dtype(object);
}

namespace {

std::int64_t to_int(nb::handle object) {
  const nb::object number = nb::steal(PyNumber_Index(object.ptr()));
  if (!number.is_valid()) throw nb::python_error();
  const long long value = PyLong_AsLongLong(number.ptr());
  if (value == -1 && PyErr_Occurred() != nullptr) throw nb::python_error();
  return value;
}
bool is_index(nb::handle object) { return PyIndex_Check(object.ptr()) != 0; }

}  // namespace

Shape to_shape(nb::handle object) {
  if (PyLong_Check(object.ptr()) || (is_index(object) && !nb::isinstance<nb::sequence>(object)))
    return {to_int(object)};
  Shape shape;
  for (const nb::handle item : nb::iter(object)) shape.push_back(to_int(item));
  return shape;
}
Type to_type(nb::handle object) {
  if (!nb::isinstance<nb::tuple>(object) || nb::len(object) != 2)
    throw Error(ErrorKind::type, "expected a type, a pair of a dtype and a shape, got " +
                                     nb::cast<std::string>(nb::str(nb::repr(object))));
  return {to_dtype(nb::object(object[nb::int_(0)])), to_shape(nb::object(object[nb::int_(1)]))};
}
nb::object type_object(Type type) {
  return nb::make_tuple(dtype_object(type.dtype()), shape_tuple(type.shape()));
}
Axes to_axes(nb::handle object) {
  if (object.is_none()) return {};
  return Axes(to_shape(object));
}
nb::tuple shape_tuple(const Shape& shape) {
  nb::object tuple = nb::steal(PyTuple_New(static_cast<Py_ssize_t>(shape.size())));
  for (std::size_t i = 0; i < shape.size(); ++i)
    PyTuple_SET_ITEM(tuple.ptr(), static_cast<Py_ssize_t>(i), PyLong_FromLongLong(shape[i]));
  return nb::borrow<nb::tuple>(tuple);
}

Number to_number(nb::handle object) {
  if (PyBool_Check(object.ptr())) return object.ptr() == Py_True;
  if (PyLong_Check(object.ptr())) return to_int(object);
  if (PyFloat_Check(object.ptr())) return PyFloat_AS_DOUBLE(object.ptr());
  if (is_index(object) && array_in(object) == nullptr) return to_int(object);
  const double value = PyFloat_AsDouble(object.ptr());
  if (value == -1.0 && PyErr_Occurred() != nullptr) throw nb::python_error();
  return value;
}

bool is_operand(nb::handle object) {
  PyObject* const x = object.ptr();
  return array_in(object) != nullptr || PyFloat_Check(x) || PyLong_Check(x) || PyComplex_Check(x) ||
         PyObject_CheckBuffer(x) || PyObject_HasAttrString(x, "__dlpack__");
}

Operand::Operand(nb::handle object) {
  PyObject* const x = object.ptr();
  if (const Array* const array = array_in(object)) {
    array_ = array;
  } else if (PyFloat_Check(x)) {
    kind_ = Kind::real;
    real_ = PyFloat_AS_DOUBLE(x);
  } else if (PyBool_Check(x)) {
    kind_ = Kind::boolean;
    whole_ = x == Py_True;
  } else if (PyLong_Check(x)) {
    kind_ = Kind::whole;
    whole_ = to_int(object);
  } else if (PyComplex_Check(x)) {
    kind_ = Kind::complex;
    real_ = PyComplex_RealAsDouble(x);
    imaginary_ = PyComplex_ImagAsDouble(x);
  } else {
    own_ = to_array(object);
    array_ = &own_;
  }
}

const Array& Operand::as_array() {
  if (array_ != nullptr) return *array_;
  switch (kind_) {
    case Kind::boolean: own_ = Array(whole_ != 0); break;
    case Kind::whole: own_ = Array(whole_); break;
    case Kind::real: own_ = Array(real_); break;
    default: own_ = Array(std::complex<double>(real_, imaginary_)); break;
  }
  array_ = &own_;
  return own_;
}

ArrayLike Operand::like(Where where) const {
  switch (kind_) {
    case Kind::array: return {*array_, where};
    case Kind::boolean: return {whole_ != 0, where};
    case Kind::whole: return {whole_, where};
    case Kind::real: return {real_, where};
    default: return {std::complex<double>(real_, imaginary_), where};
  }
}

std::vector<Array> to_arrays(nb::handle sequence) {
  std::vector<Array> arrays;
  if (const Array* const array = array_in(sequence)) {  // its sub-arrays
    for (std::int64_t i = 0; i < array->shape(0); ++i) arrays.push_back((*array)[Index(i, place(*array))]);
    return arrays;
  }
  for (const nb::handle item : nb::iter(sequence)) arrays.push_back(to_array(item));
  return arrays;
}

void bind_dtypes(nb::module_& m) {
  nb::class_<DTypeObject>(m, "DType", "The type of an Array's elements.")
      .def_prop_ro("name", [](const DTypeObject& self) { return std::string(numpy_name(self.dtype)); })
      .def_prop_ro("short_name", [](const DTypeObject& self) { return std::string(to_string(self.dtype)); })
      .def_prop_ro("itemsize", [](const DTypeObject& self) { return tidu::size_of(self.dtype); })
      .def("__repr__", [](const DTypeObject& self) { return "tidu." + std::string(numpy_name(self.dtype)); })
      .def("__hash__", [](const DTypeObject& self) { return static_cast<int>(self.dtype); })
      .def(
          "__eq__",
          [](const DTypeObject& self, nb::handle other) {
            try {
              return !other.is_none() && to_dtype(other) == self.dtype;
            } catch (const Error&) {
              return false;
            }
          },
          nb::arg("other").none());
  for (std::uint8_t i = 0; i < 9; ++i) {
    const DType dtype{i};
    dtype_objects()[i] = nb::cast(DTypeObject{dtype});
    const std::string name(dtype == bool_ ? "bool_" : numpy_name(dtype));
    m.attr(name.c_str()) = dtype_objects()[i];
  }
  m.def(
      "dtype", [](Arg name) { return dtype_object(to_dtype(name.object)); }, nb::arg("name"),
      "The dtype of that name, of a type of Python's or of a dtype of NumPy's.");
}

}  // namespace tidu::python
