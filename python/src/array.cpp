// array.cpp - the class tidu.Array: its properties, operators and methods.
#include "core.hpp"
#include "tidu/frontend/functions.hpp"

namespace tidu::python {
namespace {

PyTypeObject*& array_type() {
  static PyTypeObject* type = nullptr;
  return type;
}

using Binary = Array (*)(const ArrayLike&, const ArrayLike&);
template <Binary f, bool swapped = false>
ArrayObject apply(const Array& self, Arg other) {
  if (!is_operand(other.object)) return nb::borrow<ArrayObject>(Py_NotImplemented);
  const Operand operand(other);
  const Where where = operand.array() != nullptr ? place(self, *operand.array()) : place(self);
  return to_python(unlocked(std::max(size_of(self), operand.size()), [&] {
    return swapped ? f(operand.like(where), ArrayLike(self, where))
                   : f(ArrayLike(self, where), operand.like(where));
  }));
}
template <Binary f>
void define(nb::class_<Array>& c, const char* name, const char* swapped) {
  c.def(name, apply<f>, nb::arg("other").none());
  c.def(swapped, apply<f, true>, nb::arg("other").none());
}
// x += y is x = x + y, except for a leaf that requires a gradient, while gradients are off: that is written
// to.
template <Array& (Array::*f)(const ArrayLike&)&, Binary g>
ArrayObject apply_in_place(nb::object self, Arg other) {
  const Array& array = *array_in(self);
  if (!array.requires_grad() || !is_operand(other.object)) return apply<g>(array, other);
  const Operand operand(other);
  Array result = array;
  (result.*f)(operand.like(here()));
  return result.body() == array.body() ? nb::borrow<ArrayObject>(self) : to_python(std::move(result));
}
template <Array (*f)(const Array&, const Array&, Where), bool swapped>
ArrayObject apply_arrays(const Array& self, Arg other) {
  if (!is_operand(other.object)) return nb::borrow<ArrayObject>(Py_NotImplemented);
  Operand operand(other);
  const Array& array = operand.as_array();
  const Where where = place(self, array);
  return to_python(unlocked(size_of(self) + size_of(array),
                            [&] { return swapped ? f(array, self, where) : f(self, array, where); }));
}

Array add(const ArrayLike& x, const ArrayLike& y) { return x + y; }
Array subtract(const ArrayLike& x, const ArrayLike& y) { return x - y; }
Array multiply(const ArrayLike& x, const ArrayLike& y) { return x * y; }
Array divide(const ArrayLike& x, const ArrayLike& y) { return x / y; }
Array equal(const ArrayLike& x, const ArrayLike& y) { return x == y; }
Array not_equal(const ArrayLike& x, const ArrayLike& y) { return x != y; }
Array less(const ArrayLike& x, const ArrayLike& y) { return x < y; }
Array less_equal(const ArrayLike& x, const ArrayLike& y) { return x <= y; }
Array greater(const ArrayLike& x, const ArrayLike& y) { return x > y; }
Array greater_equal(const ArrayLike& x, const ArrayLike& y) { return x >= y; }
Array bitwise_and(const ArrayLike& x, const ArrayLike& y) { return x & y; }
Array bitwise_or(const ArrayLike& x, const ArrayLike& y) { return x | y; }
Array bitwise_xor(const ArrayLike& x, const ArrayLike& y) { return (x | y) & !(x & y); }
Array power(const ArrayLike& x, const ArrayLike& y) { return tidu::pow(x, y); }
Array modulo(const ArrayLike& x, const ArrayLike& y) { return tidu::mod(x, y); }
Array floored(const ArrayLike& x, const ArrayLike& y) { return tidu::floor_divide(x, y); }

}  // namespace

const PyType_Slot* buffer_slots();

const Array* array_in(nb::handle object) {
  if (Py_TYPE(object.ptr()) == array_type()) return nb::inst_ptr<Array>(object);
  return nullptr;
}
ArrayObject to_python(Array array) {
  return nb::steal<ArrayObject>(nb::cast(std::move(array), nb::rv_policy::move).release());
}

void bind_operators(nb::class_<Array>& c) {
  define<add>(c, "__add__", "__radd__");
  define<subtract>(c, "__sub__", "__rsub__");
  define<multiply>(c, "__mul__", "__rmul__");
  define<divide>(c, "__truediv__", "__rtruediv__");
  define<power>(c, "__pow__", "__rpow__");
  define<modulo>(c, "__mod__", "__rmod__");
  define<floored>(c, "__floordiv__", "__rfloordiv__");
  define<bitwise_and>(c, "__and__", "__rand__");
  define<bitwise_or>(c, "__or__", "__ror__");
  define<bitwise_xor>(c, "__xor__", "__rxor__");
  c.def("__iadd__", apply_in_place<&Array::operator+=, add>, nb::arg("other").none());
  c.def("__isub__", apply_in_place<&Array::operator-=, subtract>, nb::arg("other").none());
  c.def("__imul__", apply_in_place<&Array::operator*=, multiply>, nb::arg("other").none());
  c.def("__itruediv__", apply_in_place<&Array::operator/=, divide>, nb::arg("other").none());
  c.def("__eq__", apply<equal>, nb::arg("other").none());
  c.def("__ne__", apply<not_equal>, nb::arg("other").none());
  c.def("__lt__", apply<less>, nb::arg("other").none());
  c.def("__le__", apply<less_equal>, nb::arg("other").none());
  c.def("__gt__", apply<greater>, nb::arg("other").none());
  c.def("__ge__", apply<greater_equal>, nb::arg("other").none());
  c.def("__matmul__", apply_arrays<tidu::matmul, false>, nb::arg("other").none());
  c.def("__rmatmul__", apply_arrays<tidu::matmul, true>, nb::arg("other").none());
  c.def("__neg__", [](const Array& self) {
    const Where where = place(self);
    return to_python(unlocked(size_of(self), [&] { return -ArrayLike(self, where); }));
  });
  c.def("__pos__", [](nb::object self) { return nb::borrow<ArrayObject>(self); });
  c.def("__abs__", [](const Array& self) { return to_python(tidu::abs(self, place(self))); });
  c.def("__invert__", [](const Array& self) { return to_python(!self); });
  c.def(
      "__round__", [](const Array& self, nb::object) { return to_python(tidu::round(self, place(self))); },
      nb::arg("digits") = nb::none());
}

void bind_array(nb::module_& m) {
  nb::class_<Array> c(m, "Array", nb::type_slots(buffer_slots()),
                      "A tensor to compute with as with NumPy's, and to differentiate.");
  array_type() = reinterpret_cast<PyTypeObject*>(c.ptr());
  c.attr("__array_priority__") = 100;  // operators of NumPy's arrays leave it to this one's
  c.attr("__hash__") = nb::none();
  c.def_prop_ro("shape", [](const Array& self) { return shape_tuple(self.shape(here())); });
  c.def_prop_ro("dtype", [](const Array& self) { return dtype_object(self.dtype(here())); });
  c.def_prop_ro("ndim", [](const Array& self) { return self.ndim(here()); });
  c.def_prop_ro("size", [](const Array& self) { return self.size(here()); });
  c.def_prop_ro("nbytes", [](const Array& self) { return self.type(here()).bytes(); });
  c.def_prop_ro("T", [](const Array& self) { return to_python(self.T(place(self))); });
  c.def_prop_ro("device", [](const Array& self) { return self.device(here()); });
  c.def_prop_ro(
      "is_traced", [](const Array& self) { return self.is_traced(); },
      "Is it a value of a graph that is being made, without data?");
  c.def("__len__", [](const Array& self) {
    if (self.ndim() == 0) throw nb::type_error("len() of an Array without axes");
    return self.shape(0);
  });
  c.def("__bool__", [](const Array& self) { return self.item<bool>(here()); });
  c.def("__repr__", [](const Array& self) { return to_string(self); });
  c.def("__iter__", [](nb::handle self) {
    const Array& array = *array_in(self);
    if (array.ndim() == 0) throw nb::type_error("iteration over an Array without axes");
    nb::list parts;
    for (std::int64_t i = 0; i < array.shape(0); ++i) parts.append(to_python(array[Index(i, place(array))]));
    return nb::iter(parts);
  });
  c.def(
      "copy", [](const Array& self) { return to_python(self.copy(place(self))); },
      "A new Array with memory of its own; gradients flow through.");
  c.def("__copy__", [](const Array& self) { return to_python(self.copy(place(self))); });
  c.def(
      "__deepcopy__", [](const Array& self, nb::handle) { return to_python(self.copy(place(self))); },
      nb::arg("memo"));
  m.def("_from_bytes", [](nb::bytes bytes, Arg dtype, Arg shape) {
    const auto* const data = static_cast<const std::byte*>(bytes.data());
    return to_python(Array(Tensor::copy_of(Type(to_dtype(dtype.object), to_shape(shape.object)),
                                           std::span(data, bytes.size()))));
  });
  c.def(
      "astype",
      [](const Array& self, Arg dtype) { return to_python(self.to(to_dtype(dtype.object), place(self))); },
      nb::arg("dtype"), "Converted to another dtype.");
  c.def(
      "assign",
      [](Array& self, Arg value) {
        Operand operand(value);
        self.assign(operand.as_array(), here());
      },
      nb::arg("value"), "Copies the value's elements into this Array's memory, in place.");
  bind_operators(c);
  bind_interop(m, c);
  bind_indexing(m, c);
  bind_gradients(m, c);
}

}  // namespace tidu::python
