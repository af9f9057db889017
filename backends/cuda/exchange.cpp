// exchange.cpp - device memory handed to and taken from others by DLPack.
#include <memory>
#include <mutex>
#include <new>
#include <utility>
#include <vector>

#include "cuda/kernels/kernels.hpp"
#include "cuda/opener.hpp"
#include "cuda/rules/compose.hpp"
#include "tensor/dlpack_structs.hpp"
#include "tidu/dlpack.hpp"
#include "tidu/graph/error.hpp"
#include "tidu/graph/pool.hpp"

namespace tidu {
namespace {

using cuda_detail::DeviceStorage;
using cuda_detail::Runtime;
using cuda_detail::Stream;

constexpr std::int32_t on_cuda = 2;  // kDLCUDA
constexpr std::uint32_t major_version = 1;

[[noreturn]] void refuse(ErrorKind kind, const std::string& message) {
  throw Error(kind, "[from_dlpack] " + message);
}

struct Code {
  DType dtype;
  std::uint8_t code, bits;
};
constexpr Code codes[] = {{DType::boolean, 6, 8}, {DType::i32, 0, 32},  {DType::i64, 0, 64},
                          {DType::f16, 2, 16},    {DType::bf16, 4, 16}, {DType::f32, 2, 32},
                          {DType::f64, 2, 64},    {DType::c64, 5, 64},  {DType::c128, 5, 128}};

struct Export {
  explicit Export(Tensor t) : tensor(std::move(t)) {}
  Export(const Export&) = delete;
  Export& operator=(const Export&) = delete;
  // Who named no stream may have put work on any. Where nobody can say that it is done, the memory is never
  // used again.
  ~Export() {
    if (unwatched == nullptr) return;
    try {
      const std::lock_guard nothing_is_captured(unwatched->captures());
      unwatched->device().synchronize_all();
    } catch (...) {
      (void)new (std::nothrow) Tensor(std::move(tensor));
    }
  }
  Tensor tensor;
  std::shared_ptr<Runtime> unwatched;  // of a consumer without a stream
  std::vector<std::int64_t> shape, strides;
  DLManagedTensorVersioned managed{};
};

bool is_compact(const DLTensor& in) {
  if (in.strides == nullptr) return true;
  std::int64_t expected = 1;
  for (std::int32_t axis = in.ndim; axis-- > 0;) {
    if (in.shape[axis] != 1 && in.strides[axis] != expected) return false;
    expected *= in.shape[axis];
  }
  return true;
}

// A copy of bools whose bytes may be others than 0 and 1, which every copy on the host would be, too.
Tensor with_bools_of_one_bit(Runtime& runtime, const Tensor& theirs, Stream stream) {
  using namespace cuda_detail;
  Tensor ours = runtime.make(theirs.type(), stream);
  const std::string text = elements_begin("const boolean* __restrict__ x, boolean* __restrict__ y") +
                           "    store(y[at], value(x[at]));\n  }\n}\n";
  const Launch launch =
      launch_elements("bools", text, theirs.size(), {argument(operand(0)), argument(result(0))},
                      runtime.device().properties().multiprocessors);
  const std::size_t bytes = theirs.num_bytes();
  const Memory from{runtime.find(theirs)->address(), bytes}, to{runtime.find(ours)->address(), bytes};
  const auto kernel = runtime.device().load(*launch.kernel);
  runtime.device().launch(launch, kernel, {{&from, 1}, {&to, 1}, {}}, stream);
  return ours;
}

}  // namespace

DLManagedTensorVersioned* CudaExecutor::to_dlpack(const Tensor& tensor, void* consumer) const {
  cuda_detail::refuse_stream_of_each_thread(consumer, "to_dlpack");
  Runtime& device = runtime();
  const Stream here = cuda_detail::current_stream(device);
  auto exported = std::make_unique<Export>(device.upload(tensor, here));
  DeviceStorage* const storage = device.find(exported->tensor);
  storage->use_on(here);
  if (consumer != nullptr) {
    device.pool().note_foreign(Stream{consumer});
    storage->use_on(Stream{consumer});
    device.events().join(Stream{consumer}, here);
  } else {
    device.device().synchronize(here);
    exported->unwatched = device.shared_from_this();
  }
  exported->shape = tensor.shape();
  exported->strides.resize(tensor.rank());
  std::int64_t stride = 1;
  for (std::size_t axis = tensor.rank(); axis-- > 0;) {
    exported->strides[axis] = stride;
    stride *= tensor.dim(axis);
  }
  DLManagedTensorVersioned& managed = exported->managed;
  managed.version = {major_version, 0};
  managed.manager_ctx = exported.get();
  managed.deleter = [](DLManagedTensorVersioned* self) { delete static_cast<Export*>(self->manager_ctx); };
  managed.flags = 1;  // read-only
  DLTensor& out = managed.dl_tensor;
  out.data = storage->address();
  out.device = {on_cuda, options_.device};
  out.ndim = static_cast<std::int32_t>(tensor.rank());
  for (const Code& code : codes)
    if (code.dtype == tensor.dtype()) out.dtype = {code.code, code.bits, 1};
  out.shape = exported->shape.data();
  out.strides = exported->strides.data();
  out.byte_offset = 0;
  return &exported.release()->managed;
}

Tensor CudaExecutor::from_dlpack(DLManagedTensorVersioned* managed, void* producer) const {
  if (managed == nullptr) refuse(ErrorKind::invalid_argument, "expected a tensor, got null");
  std::shared_ptr<void> owner(
      managed, [](void* held) { detail::DLPackDeleter()(static_cast<DLManagedTensorVersioned*>(held)); });
  cuda_detail::refuse_stream_of_each_thread(producer, "from_dlpack");
  const DLTensor& in = managed->dl_tensor;
  if (managed->version.major != major_version)
    refuse(ErrorKind::invalid_argument,
           detail::str("expected DLPack 1, got version ", managed->version.major));
  if (in.device.device_type != on_cuda || in.device.device_id != options_.device) {
    refuse(ErrorKind::invalid_argument,
           detail::str("expected memory of CUDA device ", options_.device, ", got device type ",
                       in.device.device_type, ", device ", in.device.device_id));
  }
  const Code* found = nullptr;
  for (const Code& code : codes)
    if (code.code == in.dtype.code && code.bits == in.dtype.bits && in.dtype.lanes == 1) found = &code;
  if (found == nullptr) {
    refuse(ErrorKind::type, detail::str("expected a dtype of tidu's, got code ", int{in.dtype.code}, " of ",
                                        int{in.dtype.bits}, " bits in ", in.dtype.lanes, " lanes"));
  }
  if (in.ndim < 0 || (in.ndim > 0 && in.shape == nullptr))
    refuse(ErrorKind::invalid_argument, "expected a shape, got none");
  for (std::int32_t axis = 0; axis < in.ndim; ++axis)
    if (in.shape[axis] < 0) refuse(ErrorKind::invalid_argument, "expected extents >= 0, got a negative one");
  const Type type(found->dtype, Shape(in.shape, in.shape + in.ndim));
  if (type.size() == 0) return runtime().make(type, cuda_detail::current_stream(runtime()));
  if (in.data == nullptr)
    refuse(ErrorKind::invalid_argument, detail::str("expected memory for ", type, ", got null"));
  if (!is_compact(in))
    refuse(ErrorKind::invalid_argument,
           detail::str("expected elements of ", type, " in row-major order without gaps"));
  std::byte* const first = static_cast<std::byte*>(in.data) + in.byte_offset;
  if (reinterpret_cast<std::uintptr_t>(first) % size_of(type.dtype()) != 0)
    refuse(ErrorKind::invalid_argument,
           detail::str("expected memory aligned for ", type.dtype(), ", got another"));
  const std::shared_ptr<Runtime>& device = opener_->runtime();
  const Stream here = cuda_detail::current_stream(*device);
  device->events().join(here, cuda_detail::stream_of_caller(producer));
  auto* const storage = ::new (detail::pool_allocate(sizeof(DeviceStorage)))
      DeviceStorage(device, first, type.bytes(), here, {std::move(owner), Stream{producer}});
  Tensor theirs = Tensor::lazy(type, storage);
  return is_bool(type.dtype()) ? with_bools_of_one_bit(*device, theirs, here) : theirs;
}

}  // namespace tidu
