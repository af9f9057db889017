// dlpack.cpp - exporting and importing by DLPack. An export is one allocation: the struct, the tensor whose
// storage it holds, shape and strides. An import is a tensor over foreign memory whose owner calls the
// deleter.
#include "tidu/dlpack.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tensor/dlpack_structs.hpp"
#include "tidu/graph/error.hpp"

namespace tidu {
namespace {

using namespace dlpack_detail;
using detail::str;

struct Row {
  DType dtype;
  DLDataType code;
};
constexpr Row dtypes[] = {{DType::boolean, {code_bool, 8, 1}},  {DType::i32, {code_int, 32, 1}},
                          {DType::i64, {code_int, 64, 1}},      {DType::f16, {code_float, 16, 1}},
                          {DType::bf16, {code_bfloat, 16, 1}},  {DType::f32, {code_float, 32, 1}},
                          {DType::f64, {code_float, 64, 1}},    {DType::c64, {code_complex, 64, 1}},
                          {DType::c128, {code_complex, 128, 1}}};

DLDataType code_of(DType dtype) {
  const Row& row = dtypes[static_cast<std::size_t>(dtype)];
  return row.code;
}

// --- export

template <class Managed>
struct Exported {
  Managed managed{};
  Tensor tensor;
  std::vector<std::int64_t> shape, strides;
};

template <class Managed>
void destroy(Managed* managed) {
  delete static_cast<Exported<Managed>*>(managed->manager_ctx);
}

template <class Managed>
std::unique_ptr<Managed, detail::DLPackDeleter> make_export(const Tensor& tensor) {
  auto exported = std::make_unique<Exported<Managed>>();
  exported->tensor = tensor;
  exported->shape = tensor.shape();
  exported->strides.resize(tensor.rank());
  std::int64_t stride = 1;
  for (std::size_t axis = tensor.rank(); axis-- > 0;) {
    exported->strides[axis] = stride;
    stride *= std::max<std::int64_t>(tensor.dim(axis), 1);
  }
  Managed& managed = exported->managed;
  managed.manager_ctx = exported.get();
  managed.deleter = &destroy<Managed>;
  DLTensor& out = managed.dl_tensor;
  out.data = tensor.size() == 0 ? nullptr : const_cast<std::byte*>(tensor.bytes());
  out.device = {cpu, 0};
  out.ndim = static_cast<std::int32_t>(tensor.rank());
  out.dtype = code_of(tensor.dtype());
  out.shape = exported->shape.data();
  out.strides = exported->strides.data();
  return std::unique_ptr<Managed, detail::DLPackDeleter>(&exported.release()->managed);
}

// --- import

[[noreturn]] void refuse(ErrorKind kind, const std::string& what) {
  throw Error(kind, "from_dlpack: " + what);
}

std::string name_of(DLDevice device) {
  constexpr std::array names = {"",          "cpu",
                                "cuda",      "pinned memory of cuda",
                                "opencl",    "",
                                "",          "vulkan",
                                "metal",     "vpi",
                                "rocm",      "pinned memory of rocm",
                                "extension", "managed memory of cuda",
                                "one api",   "webgpu",
                                "hexagon",   "maia",
                                "trainium"};
  const auto type = static_cast<std::size_t>(device.device_type);
  if (type < names.size() && *names[type] != '\0') return str(names[type], ':', device.device_id);
  return str("device type ", device.device_type, ':', device.device_id);
}

std::string name_of(DLDataType type) {
  constexpr std::array names = {"int", "uint", "float", "opaque handle", "bfloat", "complex", "bool"};
  const std::string name = type.code < names.size() ? std::string(names[type.code])
                                                    : str("type of code ", int{type.code}, ", bits ");
  return str(name, int{type.bits}, type.lanes == 1 ? "" : str(" in ", type.lanes, " lanes"));
}

DType dtype_of(DLDataType type) {
  for (const Row& row : dtypes) {
    if (row.code.code == type.code && row.code.bits == type.bits && type.lanes == 1) return row.dtype;
  }
  refuse(
      ErrorKind::type,
      str("expected int32, int64, float16, bfloat16, float32, float64, complex64, complex128 or bool8, got ",
          name_of(type)));
}

Type type_of(const DLTensor& in) {
  if (in.device.device_type != cpu) {
    refuse(ErrorKind::invalid_argument, "expected memory of the CPU, got that of " + name_of(in.device));
  }
  const DType dtype = dtype_of(in.dtype);
  if (in.ndim < 0 || (in.ndim > 0 && in.shape == nullptr)) {
    refuse(ErrorKind::invalid_argument,
           str("expected a shape, got ", in.ndim, " dimensions", in.shape == nullptr ? " and no shape" : ""));
  }
  const Shape shape(in.shape, in.shape + in.ndim);
  for (const std::int64_t extent : shape) {
    if (extent < 0)
      refuse(ErrorKind::invalid_argument, str("expected extents >= 0, got shape ", detail::list(shape)));
  }
  return Type(dtype, shape);
}

// Row-major without gaps? The stride of an axis of one element means nothing.
bool contiguous(const DLTensor& in, const Shape& shape) {
  if (in.strides == nullptr) return true;
  std::int64_t expected = 1;
  for (std::size_t axis = shape.size(); axis-- > 0;) {
    if (shape[axis] != 1 && in.strides[axis] != expected) return false;
    expected *= shape[axis];
  }
  return true;
}

// The first of `count` bools that is no byte of 0 or 1, as all code with bools assumes; or null.
const std::byte* odd_bool(const std::byte* bools, std::int64_t count) {
  const std::byte* const end = bools + count;
  const std::byte* const odd = std::find_if(bools, end, [](std::byte b) { return b > std::byte{1}; });
  return odd == end ? nullptr : odd;
}

// Elements copied one by one, as their strides say.
Tensor gather(Type type, const DLTensor& in, const std::byte* first) {
  Tensor tensor(type);
  const std::size_t bytes = size_of(type.dtype());
  std::byte* to = tensor.mutable_bytes();
  if (in.strides == nullptr) {
    std::memcpy(to, first, type.bytes());
    return tensor;
  }
  std::vector<std::int64_t> index(type.rank());
  std::int64_t at = 0;
  for (std::int64_t i = 0; i < type.size(); ++i, to += bytes) {
    std::memcpy(to, first + at * static_cast<std::int64_t>(bytes), bytes);
    for (std::size_t axis = type.rank(); axis-- > 0;) {
      at += in.strides[axis];
      if (++index[axis] < type.dim(axis)) break;
      at -= in.strides[axis] * type.dim(axis);
      index[axis] = 0;
    }
  }
  return tensor;
}

// A copy of the elements; for bools every byte but 0 is true.
Tensor copied(Type type, const DLTensor& in, const std::byte* first) {
  Tensor tensor = gather(type, in, first);
  if (type.dtype() == DType::boolean) {
    for (std::byte& element : std::span(tensor.mutable_bytes(), tensor.num_bytes()))
      element = element == std::byte{0} ? element : std::byte{1};
  }
  return tensor;
}

Tensor import_tensor(const DLTensor& in, bool is_read_only, DLPackLayout layout,
                     std::shared_ptr<void> owner) {
  const Type type = type_of(in);
  if (type.size() == 0) return Tensor(type);
  if (in.data == nullptr)
    refuse(ErrorKind::invalid_argument, str("expected memory for ", type, ", got null"));
  std::byte* first = static_cast<std::byte*>(in.data) + in.byte_offset;
  const std::size_t alignment = size_of(real_dtype(type.dtype()));
  const bool aligned = reinterpret_cast<std::uintptr_t>(first) % alignment == 0;
  if (!aligned || !contiguous(in, type.shape())) {
    if (layout == DLPackLayout::copy) return copied(type, in, first);
    const std::string got =
        !aligned ? str("memory not aligned to ", alignment, " bytes")
                 : str("strides ", detail::list(std::vector(in.strides, in.strides + in.ndim)));
    refuse(ErrorKind::invalid_argument,
           str("expected elements of ", type, " in row-major order, aligned and without gaps, got ", got,
               "; DLPackLayout::copy copies them"));
  }
  if (type.dtype() == DType::boolean) {
    if (const std::byte* const odd = odd_bool(first, type.size()); odd != nullptr) {
      if (layout == DLPackLayout::copy) return copied(type, in, first);
      refuse(ErrorKind::invalid_argument,
             str("expected bools that are bytes of 0 or 1, got the byte ", std::to_integer<int>(*odd),
                 " as element ", odd - first, " of ", type, "; DLPackLayout::copy makes 1 of it"));
    }
  }
  if (is_read_only) return Tensor::wrap(type, static_cast<const void*>(first), std::move(owner));
  return Tensor::borrow(type, first, std::move(owner));
}

// From here on the deleter is called when the owner is let go of, and also where there is no memory to make
// one.
template <class Managed>
std::shared_ptr<void> own(Managed* managed) {
  if (managed == nullptr) refuse(ErrorKind::invalid_argument, "expected a tensor, got null");
  return std::shared_ptr<void>(managed,
                               [](void* owned) { detail::DLPackDeleter()(static_cast<Managed*>(owned)); });
}

}  // namespace

void detail::DLPackDeleter::operator()(DLManagedTensorVersioned* exported) const noexcept {
  if (exported->deleter != nullptr) exported->deleter(exported);
}

void detail::DLPackDeleter::operator()(DLManagedTensor* exported) const noexcept {
  if (exported->deleter != nullptr) exported->deleter(exported);
}

DLPack to_dlpack(const Tensor& tensor) {
  DLPack exported = make_export<DLManagedTensorVersioned>(tensor);
  exported->version = version;
  exported->flags = read_only;
  return exported;
}

DLPack to_mutable_dlpack(Tensor& tensor) {
  (void)tensor.mutable_bytes();
  DLPack exported = to_dlpack(tensor);
  exported->flags = 0;
  return exported;
}

LegacyDLPack to_legacy_dlpack(Tensor& tensor) {
  (void)tensor.mutable_bytes();
  return make_export<DLManagedTensor>(tensor);
}

Tensor from_dlpack(DLManagedTensorVersioned* managed, DLPackLayout layout) {
  std::shared_ptr<void> owner = own(managed);
  if (managed->version.major != version.major) {
    refuse(ErrorKind::invalid_argument, str("expected DLPack ", version.major, ", got version ",
                                            managed->version.major, '.', managed->version.minor));
  }
  return import_tensor(managed->dl_tensor, (managed->flags & read_only) != 0, layout, std::move(owner));
}

Tensor from_dlpack(DLManagedTensor* managed, DLPackLayout layout) {
  std::shared_ptr<void> owner = own(managed);
  return import_tensor(managed->dl_tensor, false, layout, std::move(owner));
}

}  // namespace tidu
