// library_convolutions.cpp - cuDNN, which is no part of the toolkit: where its headers were not found, tidu
// is built without, and says so when a step is run.
#include "cuda/libraries/library_convolutions.hpp"

#if __has_include(<cudnn.h>)
#include <cudnn.h>
#define TIDU_WITH_CUDNN 1
#else
#define TIDU_WITH_CUDNN 0
#endif

#include <map>
#include <mutex>
#include <vector>

#include "cuda/libraries/library_calls.hpp"

namespace tidu::cuda_detail {

#if TIDU_WITH_CUDNN

namespace {

constexpr const char* library_name = "cuDNN";

struct Functions {
  DynamicLibrary library{library_name, {"libcudnn.so.9", "libcudnn.so"}};
// NOLINTBEGIN(bugprone-macro-parentheses): the argument is a part of a name
#define TIDU_FIND(name) \
  decltype(::cudnn##name)* name = library.function<decltype(::cudnn##name)>("cudnn" #name)
  // NOLINTEND(bugprone-macro-parentheses)
  TIDU_FIND(Create);
  TIDU_FIND(Destroy);
  TIDU_FIND(SetStream);
  TIDU_FIND(GetErrorString);
  TIDU_FIND(CreateTensorDescriptor);
  TIDU_FIND(DestroyTensorDescriptor);
  TIDU_FIND(SetTensorNdDescriptorEx);
  TIDU_FIND(CreateFilterDescriptor);
  TIDU_FIND(DestroyFilterDescriptor);
  TIDU_FIND(SetFilterNdDescriptor);
  TIDU_FIND(CreateConvolutionDescriptor);
  TIDU_FIND(DestroyConvolutionDescriptor);
  TIDU_FIND(SetConvolutionNdDescriptor);
  TIDU_FIND(SetConvolutionGroupCount);
  TIDU_FIND(SetConvolutionMathType);
  TIDU_FIND(GetConvolutionForwardAlgorithm_v7);
  TIDU_FIND(GetConvolutionBackwardDataAlgorithm_v7);
  TIDU_FIND(GetConvolutionBackwardFilterAlgorithm_v7);
  TIDU_FIND(ConvolutionForward);
  TIDU_FIND(ConvolutionBackwardData);
  TIDU_FIND(ConvolutionBackwardFilter);
#undef TIDU_FIND

  void check(const char* routine, cudnnStatus_t status) const {
    if (status != CUDNN_STATUS_SUCCESS)
      check_call(library_name, routine, static_cast<int>(status), GetErrorString(status));
  }
};
const Functions& functions() {
  static const Functions all;
  return all;
}

cudnnDataType_t data_type(DType dtype) {
  switch (dtype) {
    case DType::f16: return CUDNN_DATA_HALF;
    case DType::bf16: return CUDNN_DATA_BFLOAT16;
    case DType::f32: return CUDNN_DATA_FLOAT;
    case DType::f64: return CUDNN_DATA_DOUBLE;
    default:
      throw Error(ErrorKind::internal,
                  detail::str("[cuda] expected a convolution of f16, bf16, f32 or f64, got ", dtype));
  }
}

// Descriptors and the algorithm for a step's extents.
struct Chosen {
  cudnnTensorDescriptor_t x = nullptr, y = nullptr;
  cudnnFilterDescriptor_t w = nullptr;
  cudnnConvolutionDescriptor_t how = nullptr;
  int algorithm = 0;
  std::size_t workspace_bytes = 0;

  Chosen() = default;
  Chosen(const Chosen&) = delete;
  Chosen& operator=(const Chosen&) = delete;
  ~Chosen() {
    const Functions& f = functions();
    if (x != nullptr) f.DestroyTensorDescriptor(x);
    if (y != nullptr) f.DestroyTensorDescriptor(y);
    if (w != nullptr) f.DestroyFilterDescriptor(w);
    if (how != nullptr) f.DestroyConvolutionDescriptor(how);
  }
};

using Extents = std::vector<int>;

// Two outer extents, then those of the axes: two at least, one that is missing being 1.
Extents extents(const ConvolutionStep& s, std::int64_t outer, std::int64_t features,
                std::int64_t ConvolutionStep::Axis::*extent, int missing) {
  Extents list{static_cast<int>(outer), static_cast<int>(features)};
  if (s.axes.size() == 1) list.push_back(missing);
  for (const ConvolutionStep::Axis& axis : s.axes) list.push_back(static_cast<int>(axis.*extent));
  return list;
}

void describe(Chosen& chosen, const ConvolutionStep& s) {
  using Axis = ConvolutionStep::Axis;
  const Functions& f = functions();
  const cudnnTensorFormat_t format = s.features_last ? CUDNN_TENSOR_NHWC : CUDNN_TENSOR_NCHW;
  const cudnnDataType_t type = data_type(s.dtype);
  const Extents x = extents(s, s.batch, s.features, &Axis::x, 1),
                y = extents(s, s.batch, s.results, &Axis::y, 1),
                w = extents(s, s.results, s.features / s.groups, &Axis::w, 1),
                stride = extents(s, 0, 0, &Axis::stride, 1), dilation = extents(s, 0, 0, &Axis::dilation, 1),
                padding = extents(s, 0, 0, &Axis::padding, 0);
  const int rank = static_cast<int>(x.size());
  f.check("cudnnCreateTensorDescriptor", f.CreateTensorDescriptor(&chosen.x));
  f.check("cudnnCreateTensorDescriptor", f.CreateTensorDescriptor(&chosen.y));
  f.check("cudnnCreateFilterDescriptor", f.CreateFilterDescriptor(&chosen.w));
  f.check("cudnnCreateConvolutionDescriptor", f.CreateConvolutionDescriptor(&chosen.how));
  f.check("cudnnSetTensorNdDescriptorEx", f.SetTensorNdDescriptorEx(chosen.x, format, type, rank, x.data()));
  f.check("cudnnSetTensorNdDescriptorEx", f.SetTensorNdDescriptorEx(chosen.y, format, type, rank, y.data()));
  f.check("cudnnSetFilterNdDescriptor", f.SetFilterNdDescriptor(chosen.w, type, format, rank, w.data()));
  f.check("cudnnSetConvolutionNdDescriptor",
          f.SetConvolutionNdDescriptor(chosen.how, rank - 2, padding.data() + 2, stride.data() + 2,
                                       dilation.data() + 2,
                                       s.flipped ? CUDNN_CONVOLUTION : CUDNN_CROSS_CORRELATION,
                                       s.dtype == DType::f64 ? CUDNN_DATA_DOUBLE : CUDNN_DATA_FLOAT));
  f.check("cudnnSetConvolutionGroupCount",
          f.SetConvolutionGroupCount(chosen.how, static_cast<int>(s.groups)));
}

// Operands of f32 are rounded where that is allowed alone.
bool is_exact(const ConvolutionStep& s) { return s.dtype == DType::f32 && !s.tf32; }

// The best of what the library offers; `ask` is one of its functions with all but the last three arguments.
template <class Offer, class Ask>
void choose_among(Chosen& chosen, const ConvolutionStep& s, const Ask& ask) {
  constexpr int most = 16;
  Offer offers[most];
  int count = 0;
  ask(most, &count, offers);
  for (int i = 0; i < count; ++i) {
    const Offer& offer = offers[i];
    if (offer.status != CUDNN_STATUS_SUCCESS || offer.determinism != CUDNN_DETERMINISTIC ||
        offer.memory > s.workspace_bytes || (is_exact(s) && offer.mathType != CUDNN_FMA_MATH))
      continue;
    chosen.algorithm = static_cast<int>(offer.algo);
    chosen.workspace_bytes = offer.memory;
    functions().check("cudnnSetConvolutionMathType",
                      functions().SetConvolutionMathType(chosen.how, offer.mathType));
    return;
  }
  throw Error(
      ErrorKind::execution,
      detail::str("[cuda] expected ", library_name, " to have an algorithm for a convolution of ", s.batch,
                  " x ", s.features, " by ", s.results, " features in ", s.dtype,
                  " whose results are the same from run to run, got none: leave TIDU_CONVOLUTIONS at own"));
}

void choose(Chosen& c, const ConvolutionStep& s, cudnnHandle_t handle) {
  const Functions& f = functions();
  describe(c, s);
  f.check("cudnnSetConvolutionMathType",
          f.SetConvolutionMathType(c.how, is_exact(s) ? CUDNN_FMA_MATH : CUDNN_DEFAULT_MATH));
  switch (s.kind) {
    case ConvolutionStep::Kind::forward:
      return choose_among<cudnnConvolutionFwdAlgoPerf_t>(c, s, [&](int most, int* count, auto* offers) {
        f.check("cudnnGetConvolutionForwardAlgorithm_v7",
                f.GetConvolutionForwardAlgorithm_v7(handle, c.x, c.w, c.how, c.y, most, count, offers));
      });
    case ConvolutionStep::Kind::data:
      return choose_among<cudnnConvolutionBwdDataAlgoPerf_t>(c, s, [&](int most, int* count, auto* offers) {
        f.check("cudnnGetConvolutionBackwardDataAlgorithm_v7",
                f.GetConvolutionBackwardDataAlgorithm_v7(handle, c.w, c.y, c.how, c.x, most, count, offers));
      });
    case ConvolutionStep::Kind::filter:
      return choose_among<cudnnConvolutionBwdFilterAlgoPerf_t>(c, s, [&](int most, int* count, auto* offers) {
        f.check(
            "cudnnGetConvolutionBackwardFilterAlgorithm_v7",
            f.GetConvolutionBackwardFilterAlgorithm_v7(handle, c.x, c.y, c.how, c.w, most, count, offers));
      });
  }
}

// The library is not told how its operands are aligned, and takes them for as aligned as its own examples'.
void expect_aligned(std::initializer_list<const std::byte*> operands) {
  constexpr std::uintptr_t alignment = 16;
  for (const std::byte* const one : operands) {
    if (reinterpret_cast<std::uintptr_t>(one) % alignment != 0)
      throw Error(ErrorKind::execution,
                  detail::str("[cuda] expected operands of a convolution by ", library_name,
                              " at multiples of ", alignment,
                              " bytes, got another, as DLPack may bring it: copy it, or leave "
                              "TIDU_CONVOLUTIONS at own"));
  }
}

using Key = std::vector<std::int64_t>;
Key key_of(const ConvolutionStep& s) {
  Key key{static_cast<std::int64_t>(s.kind),
          static_cast<std::int64_t>(s.dtype),
          s.tf32 ? 1 : 0,
          s.features_last ? 1 : 0,
          s.flipped ? 1 : 0,
          s.batch,
          s.features,
          s.results,
          s.groups,
          static_cast<std::int64_t>(s.workspace_bytes)};
  for (const ConvolutionStep::Axis& axis : s.axes)
    key.insert(key.end(), {axis.x, axis.w, axis.y, axis.stride, axis.dilation, axis.padding});
  return key;
}

}  // namespace

struct ConvolutionLibrary::State {
  std::mutex mutex;
  cudnnHandle_t handle = nullptr;
  std::map<Key, std::unique_ptr<Chosen>> chosen;
};

ConvolutionLibrary::ConvolutionLibrary() : state_(std::make_unique<State>()) {}
ConvolutionLibrary::~ConvolutionLibrary() {
  if (is_ending()) {
    (void)state_.release();
    return;
  }
  state_->chosen.clear();
  if (state_->handle != nullptr) functions().Destroy(state_->handle);
}

void ConvolutionLibrary::prepare() {
  const std::lock_guard lock(state_->mutex);
  if (state_->handle == nullptr) functions().check("cudnnCreate", functions().Create(&state_->handle));
}

void ConvolutionLibrary::run(const ConvolutionStep& s, const Bindings& at, Stream stream) {
  std::byte *const x = at.at(s.x), *const w = at.at(s.w), *const y = at.at(s.y);
  expect_aligned({x, w, y});
  prepare();
  const Functions& f = functions();
  const std::lock_guard lock(state_->mutex);
  std::unique_ptr<Chosen>& entry = state_->chosen[key_of(s)];
  if (entry == nullptr) {
    auto fresh = std::make_unique<Chosen>();
    choose(*fresh, s, state_->handle);
    entry = std::move(fresh);
  }
  const Chosen& c = *entry;
  f.check("cudnnSetStream", f.SetStream(state_->handle, stream_of(stream)));
  const double wide[] = {1, 0};
  const float narrow[] = {1, 0};
  const bool is_wide = s.dtype == DType::f64;
  const void* const one = is_wide ? static_cast<const void*>(&wide[0]) : &narrow[0];
  const void* const zero = is_wide ? static_cast<const void*>(&wide[1]) : &narrow[1];
  void* const workspace = c.workspace_bytes != 0 ? at.at(s.workspace) : nullptr;
  switch (s.kind) {
    case ConvolutionStep::Kind::forward:
      return f.check("cudnnConvolutionForward",
                     f.ConvolutionForward(state_->handle, one, c.x, x, c.w, w, c.how,
                                          static_cast<cudnnConvolutionFwdAlgo_t>(c.algorithm), workspace,
                                          c.workspace_bytes, zero, c.y, y));
    case ConvolutionStep::Kind::data:
      return f.check("cudnnConvolutionBackwardData",
                     f.ConvolutionBackwardData(state_->handle, one, c.w, w, c.y, y, c.how,
                                               static_cast<cudnnConvolutionBwdDataAlgo_t>(c.algorithm),
                                               workspace, c.workspace_bytes, zero, c.x, x));
    case ConvolutionStep::Kind::filter:
      return f.check("cudnnConvolutionBackwardFilter",
                     f.ConvolutionBackwardFilter(state_->handle, one, c.x, x, c.y, y, c.how,
                                                 static_cast<cudnnConvolutionBwdFilterAlgo_t>(c.algorithm),
                                                 workspace, c.workspace_bytes, zero, c.w, w));
  }
}

#else

struct ConvolutionLibrary::State {};
ConvolutionLibrary::ConvolutionLibrary() = default;
ConvolutionLibrary::~ConvolutionLibrary() = default;
void ConvolutionLibrary::prepare() {}
void ConvolutionLibrary::run(const ConvolutionStep&, const Bindings&, Stream) {
  throw Error(ErrorKind::execution,
              "[cuda] expected tidu built where cudnn.h was found, got a build without cuDNN");
}

#endif

}  // namespace tidu::cuda_detail
