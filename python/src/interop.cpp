// interop.cpp - Arrays from Python's lists, buffers and DLPack, and back. Memory in row-major order is
// shared, not copied, and kept alive by its readers. Exports are read-only, since Arrays are values: to
// write, copy.
#include <algorithm>
#include <cstring>

#include "core.hpp"
#include "tidu/dlpack.hpp"
#include "tidu/frontend/creation.hpp"
#include "tidu/frontend/functions.hpp"

namespace tidu::python {
namespace {

// --- nested lists

struct Scan {
  bool any_array = false, any_complex = false, any_real = false, any_whole = false, any_bool = false;
};
bool is_list(nb::handle object) { return PyList_Check(object.ptr()) || PyTuple_Check(object.ptr()); }
bool is_number(nb::handle object) {
  PyObject* const x = object.ptr();
  return PyFloat_Check(x) || PyLong_Check(x) || PyComplex_Check(x);
}
void look(nb::handle object, Scan& scan) {
  PyObject* const x = object.ptr();
  if (is_list(object)) {
    for (const nb::handle item : nb::iter(object)) look(item, scan);
  } else if (PyBool_Check(x)) {
    scan.any_bool = true;
  } else if (PyLong_Check(x)) {
    scan.any_whole = true;
  } else if (PyFloat_Check(x)) {
    scan.any_real = true;
  } else if (PyComplex_Check(x)) {
    scan.any_complex = true;
  } else {
    scan.any_array = true;
  }
}
[[noreturn]] void refuse_ragged() {
  throw Error(ErrorKind::type, "array: expected nested lists of one shape, got lists of different lengths");
}
void fill(nb::handle object, const Shape& shape, std::size_t axis, DType dtype, std::vector<std::byte>& out) {
  const auto put = [&out](const auto& value) {
    const auto* const bytes = reinterpret_cast<const std::byte*>(&value);
    out.insert(out.end(), bytes, bytes + sizeof value);
  };
  if (axis < shape.size()) {
    if (!is_list(object) || static_cast<std::int64_t>(nb::len(object)) != shape[axis]) refuse_ragged();
    for (const nb::handle item : nb::iter(object)) fill(item, shape, axis + 1, dtype, out);
    return;
  }
  if (is_list(object)) refuse_ragged();
  if (dtype == c128) {
    const Py_complex value = PyComplex_AsCComplex(object.ptr());
    put(value.real);
    put(value.imag);
  } else if (dtype == f64) {
    put(PyFloat_AsDouble(object.ptr()));
  } else if (dtype == i64) {
    put(static_cast<std::int64_t>(PyLong_AsLongLong(object.ptr())));
  } else {
    put(object.ptr() == Py_True);
  }
  if (PyErr_Occurred() != nullptr) throw nb::python_error();
}
Array from_lists(nb::handle object) {
  Scan scan;
  look(object, scan);
  if (scan.any_array) {
    std::vector<Array> parts;
    for (const nb::handle item : nb::iter(object)) parts.push_back(to_array(item));
    DType common = parts[0].dtype();
    for (const Array& part : parts) common = promote(common, part.dtype());
    for (Array& part : parts) part = part.to(common, place(part));
    return stack(parts, 0, place(std::span<const Array>(parts)));
  }
  Shape shape;
  for (nb::object at = nb::borrow(object); is_list(at); at = at[nb::int_(0)]) {
    shape.push_back(static_cast<std::int64_t>(nb::len(at)));
    if (shape.back() == 0) break;
  }
  const DType dtype = scan.any_complex ? c128
                      : scan.any_real  ? f64
                      : scan.any_whole ? i64
                      : scan.any_bool  ? bool_
                                       : f64;
  std::vector<std::byte> bytes;
  const Type type(dtype, shape);
  bytes.reserve(type.bytes());
  fill(object, shape, 0, dtype, bytes);
  return Array(Tensor::copy_of(type, bytes));
}

// --- buffers

std::optional<DType> dtype_of_format(const char* format, Py_ssize_t size) {
  std::string_view text = format == nullptr ? "B" : format;
  if (!text.empty() && (text[0] == '@' || text[0] == '=' || text[0] == '<')) text.remove_prefix(1);
  if (text == "?") return bool_;
  if (text == "e") return f16;
  if (text == "f") return f32;
  if (text == "d") return f64;
  if (text == "Zf") return c64;
  if (text == "Zd") return c128;
  if (text == "i" || text == "l" || text == "q") return size == 4 ? i32 : i64;
  return std::nullopt;
}
const char* format_of(DType dtype) {
  constexpr const char* formats[] = {"?", "i", "q", "e", nullptr, "f", "d", "Zf", "Zd"};
  return formats[static_cast<std::size_t>(dtype)];
}

void copy_strided(const Py_buffer& view, int axis, const char* from, std::byte*& to) {
  if (axis == view.ndim) {
    std::memcpy(to, from, static_cast<std::size_t>(view.itemsize));
    to += view.itemsize;
    return;
  }
  for (Py_ssize_t i = 0; i < view.shape[axis]; ++i)
    copy_strided(view, axis + 1, from + i * view.strides[axis], to);
}
// Kept while memory is shared: dropped on any thread.
struct View {
  Py_buffer buffer{};
  ~View() {
    if (buffer.obj != nullptr) PyBuffer_Release(&buffer);
  }
};
template <class T>
T read_as(const char* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}
// Integers of other sizes become i32 where it holds them, or i64.
std::optional<Array> widened(const Py_buffer& view, const Shape& shape) {
  std::string_view text = view.format == nullptr ? "B" : view.format;
  if (!text.empty() && (text[0] == '@' || text[0] == '=' || text[0] == '<')) text.remove_prefix(1);
  constexpr std::string_view known = "bBhHILQ";
  if (text.size() != 1 || known.find(text[0]) == std::string_view::npos) return std::nullopt;
  std::vector<std::byte> packed(static_cast<std::size_t>(view.len));
  std::byte* to = packed.data();
  copy_strided(view, 0, static_cast<const char*>(view.buf), to);
  std::vector<std::int64_t> values;
  const bool is_signed = text[0] == 'b' || text[0] == 'h';
  for (std::size_t i = 0; i < packed.size(); i += static_cast<std::size_t>(view.itemsize)) {
    const char* const at = reinterpret_cast<const char*>(packed.data()) + i;
    switch (view.itemsize) {
      case 1: values.push_back(is_signed ? read_as<std::int8_t>(at) : read_as<std::uint8_t>(at)); break;
      case 2: values.push_back(is_signed ? read_as<std::int16_t>(at) : read_as<std::uint16_t>(at)); break;
      case 4: values.push_back(read_as<std::uint32_t>(at)); break;
      default: values.push_back(static_cast<std::int64_t>(read_as<std::uint64_t>(at))); break;
    }
    if (values.back() < 0 && !is_signed) return std::nullopt;
  }
  const Array wide(Tensor::from(shape, std::span<const std::int64_t>(values)));
  return view.itemsize < 4 ? wide.to(i32) : wide;
}

bool plain_bools(const Tensor& tensor) {
  const std::byte* const bytes = tensor.bytes();
  return std::all_of(bytes, bytes + tensor.num_bytes(), [](std::byte b) { return b <= std::byte{1}; });
}

std::optional<Array> from_buffer(nb::handle object, bool copies) {
  auto view = std::make_unique<View>();
  if (PyObject_GetBuffer(object.ptr(), &view->buffer, PyBUF_RECORDS_RO) != 0) {
    PyErr_Clear();
    return std::nullopt;
  }
  const Py_buffer& buffer = view->buffer;
  const Shape shape(buffer.shape, buffer.shape + buffer.ndim);
  const auto dtype = dtype_of_format(buffer.format, buffer.itemsize);
  if (!dtype) return widened(buffer, shape);
  const Type type(*dtype, shape);
  const bool is_aligned =
      reinterpret_cast<std::uintptr_t>(buffer.buf) % std::min<std::size_t>(tidu::size_of(*dtype), 8) == 0;
  if (copies || type.size() == 0 || PyBuffer_IsContiguous(&buffer, 'C') == 0 || !is_aligned) {
    Tensor tensor(type);
    std::byte* to = type.size() == 0 ? nullptr : tensor.mutable_bytes();
    if (type.size() != 0) copy_strided(buffer, 0, static_cast<const char*>(buffer.buf), to);
    return Array(std::move(tensor));
  }
  // The lock is taken to let go of it: a Python object of its own does that.
  const nb::object keeper =
      nb::capsule(view.release(), [](void* p) noexcept { delete static_cast<View*>(p); });
  const std::shared_ptr<void> owner(keeper.ptr(), [](void* p) { drop(static_cast<PyObject*>(p)); });
  Py_INCREF(keeper.ptr());
  Tensor tensor = buffer.readonly != 0 ? Tensor::wrap(type, static_cast<const void*>(buffer.buf),
                                                      std::shared_ptr<const void>(owner))
                                       : Tensor::borrow(type, buffer.buf, owner);
  if (*dtype == bool_ && !plain_bools(tensor)) return Array(tensor.clone());
  return Array(std::move(tensor));
}

// --- DLPack

constexpr const char* versioned_name = "dltensor_versioned";
constexpr const char* legacy_name = "dltensor";

nb::object dlpack_capsule(nb::handle object) {
  nb::dict wanted;
  wanted["max_version"] = nb::make_tuple(1, 0);
  const nb::object method = object.attr("__dlpack__");
  const nb::tuple none = nb::make_tuple();
  PyObject* const capsule = PyObject_Call(method.ptr(), none.ptr(), wanted.ptr());
  if (capsule != nullptr) return nb::steal(capsule);
  if (PyErr_ExceptionMatches(PyExc_TypeError) == 0) throw nb::python_error();
  PyErr_Clear();
  return method();
}
Array from_dlpack_object(nb::handle object, bool copies) {
  const nb::object capsule = dlpack_capsule(object);
  Tensor tensor;
  if (PyCapsule_IsValid(capsule.ptr(), versioned_name)) {
    auto* const managed =
        static_cast<DLManagedTensorVersioned*>(PyCapsule_GetPointer(capsule.ptr(), versioned_name));
    PyCapsule_SetName(capsule.ptr(), "used_dltensor_versioned");
    tensor = tidu::from_dlpack(managed, DLPackLayout::copy);
  } else {
    auto* const managed = static_cast<DLManagedTensor*>(PyCapsule_GetPointer(capsule.ptr(), legacy_name));
    if (managed == nullptr) throw nb::python_error();
    PyCapsule_SetName(capsule.ptr(), "used_dltensor");
    tensor = tidu::from_dlpack(managed, DLPackLayout::copy);
  }
  return Array(copies ? tensor.clone() : std::move(tensor));
}

void close_versioned(PyObject* capsule) {
  if (!PyCapsule_IsValid(capsule, versioned_name)) return;
  const DLPack end(static_cast<DLManagedTensorVersioned*>(PyCapsule_GetPointer(capsule, versioned_name)));
}
void close_legacy(PyObject* capsule) {
  if (!PyCapsule_IsValid(capsule, legacy_name)) return;
  const LegacyDLPack end(static_cast<DLManagedTensor*>(PyCapsule_GetPointer(capsule, legacy_name)));
}
// Without a max_version of 1 or more the struct of old, which cannot say that memory is read-only.
nb::object export_dlpack(const Array& self, nb::object, nb::object max_version, nb::object, nb::object copy) {
  const bool copies = copy.is_valid() && !copy.is_none() && nb::cast<bool>(copy);
  Tensor tensor = copies ? data_of(self).clone() : data_of(self);
  const bool is_new = !max_version.is_none() && nb::cast<int>(max_version[nb::int_(0)]) >= 1;
  if (is_new) {
    DLPack exported = copies ? to_mutable_dlpack(tensor) : to_dlpack(tensor);
    return nb::steal(PyCapsule_New(exported.release(), versioned_name, close_versioned));
  }
  if (!tensor.writable()) tensor = tensor.clone();
  LegacyDLPack exported = to_legacy_dlpack(tensor);
  return nb::steal(PyCapsule_New(exported.release(), legacy_name, close_legacy));
}

}  // namespace

Array to_array(nb::handle object, std::optional<DType> dtype, bool copies) {
  Array result;
  if (const Array* const array = array_in(object)) {
    result = copies && (!dtype || array->dtype() == *dtype) ? array->copy(place(*array)) : *array;
  } else if (is_number(object)) {
    Operand number(object);
    result = number.as_array();
  } else if (is_list(object)) {
    result = from_lists(object);
  } else if (std::optional<Array> read =
                 PyObject_CheckBuffer(object.ptr()) ? from_buffer(object, copies) : std::nullopt) {
    result = std::move(*read);
  } else if (PyObject_HasAttrString(object.ptr(), "__dlpack__")) {
    result = from_dlpack_object(object, copies);
  } else if (PyObject_HasAttrString(object.ptr(), "__tidu_array__")) {
    return to_array(object.attr("__tidu_array__")(), dtype, copies);
  } else {
    throw Error(ErrorKind::type,
                "expected an Array, a number, a list of numbers or an object that exports its "
                "memory (buffer protocol or DLPack), got an object of type " +
                    nb::cast<std::string>(nb::str(object.type().attr("__name__"))));
  }
  return dtype ? result.to(*dtype, place(result)) : result;
}

// --- the buffer protocol of Arrays

namespace {

struct Exported {
  Tensor tensor;
  std::vector<Py_ssize_t> shape, strides;
};

int get_buffer(PyObject* self, Py_buffer* view, int flags) noexcept {
  try {
    const Tensor& tensor = data_of(*nb::inst_ptr<Array>(self));
    if ((flags & PyBUF_WRITABLE) == PyBUF_WRITABLE || format_of(tensor.dtype()) == nullptr) {
      PyErr_SetString(PyExc_BufferError, format_of(tensor.dtype()) == nullptr
                                             ? "tidu.Array: bfloat16 has no buffer format: use DLPack"
                                             : "tidu.Array: expected a reader, since Arrays are read-only");
      view->obj = nullptr;
      return -1;
    }
    auto exported = std::make_unique<Exported>(Exported{tensor, {}, {}});
    const Shape& shape = tensor.shape();
    exported->shape.assign(shape.begin(), shape.end());
    exported->strides.resize(shape.size());
    auto stride = static_cast<Py_ssize_t>(tidu::size_of(tensor.dtype()));
    view->itemsize = stride;
    for (std::size_t i = shape.size(); i-- > 0;) {
      exported->strides[i] = stride;
      stride *= static_cast<Py_ssize_t>(std::max<std::int64_t>(shape[i], 1));
    }
    view->buf = const_cast<std::byte*>(tensor.bytes());
    view->len = static_cast<Py_ssize_t>(tensor.num_bytes());
    view->readonly = 1;
    view->ndim = static_cast<int>(shape.size());
    view->format = (flags & PyBUF_FORMAT) != 0 ? const_cast<char*>(format_of(tensor.dtype())) : nullptr;
    view->shape = (flags & PyBUF_ND) != 0 ? exported->shape.data() : nullptr;
    view->strides = (flags & PyBUF_STRIDES) == PyBUF_STRIDES ? exported->strides.data() : nullptr;
    view->suboffsets = nullptr;
    view->internal = exported.release();
    view->obj = self;
    Py_INCREF(self);
    return 0;
  } catch (const std::exception& error) {
    PyErr_SetString(PyExc_BufferError, error.what());
    view->obj = nullptr;
    return -1;
  }
}
void release_buffer(PyObject*, Py_buffer* view) noexcept { delete static_cast<Exported*>(view->internal); }

nb::object element(const Tensor& tensor, std::int64_t i) {
  switch (tensor.dtype()) {
    case DType::boolean: return nb::bool_(tensor.data<bool>()[i]);
    case DType::i32: return nb::int_(tensor.data<std::int32_t>()[i]);
    case DType::i64: return nb::int_(tensor.data<std::int64_t>()[i]);
    case DType::c64:
    case DType::c128: {
      const std::complex<double> value = tensor.at(i);
      return nb::steal(PyComplex_FromDoubles(value.real(), value.imag()));
    }
    default: return nb::float_(tensor.at(i).real());
  }
}
nb::object lists(const Tensor& tensor, std::size_t axis, std::int64_t& next) {
  if (axis == tensor.rank()) return element(tensor, next++);
  nb::list list;
  for (std::int64_t i = 0; i < tensor.shape()[axis]; ++i) list.append(lists(tensor, axis + 1, next));
  return list;
}
nb::object numpy_of(nb::handle self, bool copies) {
  const nb::module_ numpy = nb::module_::import_("numpy");
  const Array& array = *array_in(self);
  if (array.tensor(here()).dtype() == bf16) {
    const nb::object wide = to_python(array.detach().to(f32));
    return numpy.attr("asarray")(nb::steal(PyMemoryView_FromObject(wide.ptr())))
        .attr("astype")(nb::module_::import_("ml_dtypes").attr("bfloat16"));
  }
  const nb::object view = nb::steal(PyMemoryView_FromObject(self.ptr()));
  if (!view.is_valid()) throw nb::python_error();
  return numpy.attr(copies ? "array" : "asarray")(view);
}

}  // namespace

const PyType_Slot* buffer_slots() {
  static const PyType_Slot slots[] = {{Py_bf_getbuffer, reinterpret_cast<void*>(get_buffer)},
                                      {Py_bf_releasebuffer, reinterpret_cast<void*>(release_buffer)},
                                      {0, nullptr}};
  return slots;
}

void bind_interop(nb::module_& m, nb::class_<Array>& c) {
  m.def(
      "array",
      [](Arg object, Arg dtype, bool copy) {
        return to_python(to_array(object.object, to_optional_dtype(dtype.object), copy));
      },
      nb::arg("object"), nb::arg("dtype") = nb::none(), nb::arg("copy") = true,
      "An Array of numbers, nested lists, or of an object that exports its memory; always a copy.");
  m.def(
      "asarray",
      [](Arg object, Arg dtype) {
        return to_python(to_array(object.object, to_optional_dtype(dtype.object)));
      },
      nb::arg("object"), nb::arg("dtype") = nb::none(),
      "The same, sharing the memory of an object that exports it (NumPy, DLPack, the buffer protocol) if it "
      "is in row-major order.");
  m.def(
      "from_dlpack", [](Arg object) { return to_python(from_dlpack_object(object.object, false)); },
      nb::arg("object"), "An Array over the memory of an object that has __dlpack__.");
  c.def("__dlpack__", export_dlpack, nb::kw_only(), nb::arg("stream") = nb::none(),
        nb::arg("max_version") = nb::none(), nb::arg("dl_device") = nb::none(), nb::arg("copy") = nb::none());
  c.def("__dlpack_device__", [](const Array&) { return nb::make_tuple(1, 0); });
  c.def(
      "numpy", [](nb::handle self, bool copy) { return numpy_of(self, copy); }, nb::arg("copy") = false,
      "The elements as an array of NumPy's: a read-only view, or a copy.");
  c.def(
      "__array__",
      [](nb::handle self, nb::object dtype, nb::object copy) {
        const nb::object view = numpy_of(self, !copy.is_none() && nb::cast<bool>(copy));
        return dtype.is_none() ? view : nb::object(view.attr("astype")(dtype));
      },
      nb::arg("dtype") = nb::none(), nb::arg("copy") = nb::none());
  c.def(
      "tolist",
      [](const Array& self) {
        std::int64_t next = 0;
        return lists(data_of(self), 0, next);
      },
      "The elements as nested lists of numbers.");
  c.def(
      "item",
      [](const Array& self) {
        const Tensor& tensor = data_of(self);
        if (tensor.size() != 1) self.item<double>(here());  // which throws
        return element(tensor, 0);
      },
      "The only element, as a number.");
  c.def("__float__", [](const Array& self) { return self.item<double>(here()); });
  c.def("__int__", [](const Array& self) { return self.item<std::int64_t>(here()); });
  c.def("__complex__", [](const Array& self) {
    self.item<std::complex<double>>(here());
    return nb::steal(PyComplex_FromDoubles(self.tensor().at(0).real(), self.tensor().at(0).imag()));
  });
  c.def("__index__", [](const Array& self) {
    if (!is_integer(self.dtype())) throw nb::type_error("only integer Arrays of one element are an index");
    return self.item<std::int64_t>(here());
  });
}

}  // namespace tidu::python
