// cudnn.cpp - the convolutions of a cuDNN on the host, by its header alone: forward and both gradients by
// loops over batch, results, features and windows. The algorithms that it offers are in part not supported,
// not deterministic or too large; one rounds f32 to tf32, as its math type says. It refuses extents that do
// not agree, another workspace or math type than the algorithm was offered with, and misaligned operands.
#include <cudnn.h>

#include <array>
#include <cmath>
#include <cstring>

#include "cuda/platform/libraries/library.hpp"
#include "tidu/graph/literal.hpp"

using namespace tidu::test::platform;

namespace {

enum class Kind : std::uint8_t { forward, data, filter };

// A tensor or a filter: extents are of the outer axis, of features, and of up to three places.
struct Array {
  cudnnDataType_t type = CUDNN_DATA_FLOAT;
  bool features_last = false;
  int places = 0;
  std::array<std::int64_t, 5> extents{1, 1, 1, 1, 1};

  std::int64_t element_bytes() const {
    return type == CUDNN_DATA_DOUBLE ? 8 : type == CUDNN_DATA_FLOAT ? 4 : 2;
  }
  std::int64_t elements() const { return extents[0] * extents[1] * extents[2] * extents[3] * extents[4]; }
  std::int64_t index(std::int64_t outer, std::int64_t feature, const std::array<std::int64_t, 3>& at) const {
    const std::int64_t place = (at[0] * extents[3] + at[1]) * extents[4] + at[2];
    const std::int64_t all = extents[2] * extents[3] * extents[4];
    return features_last ? (outer * all + place) * extents[1] + feature
                         : (outer * extents[1] + feature) * all + place;
  }
};
struct Convolution {
  std::array<std::int64_t, 3> padding{0, 0, 0}, stride{1, 1, 1}, dilation{1, 1, 1};
  int places = 0;
  std::int64_t groups = 1;
  bool flipped = false;
  cudnnMathType_t math = CUDNN_DEFAULT_MATH;
  cudnnDataType_t compute = CUDNN_DATA_FLOAT;
};
struct Handle {
  cudaStream_t stream = nullptr;
};

cudnnStatus_t given(int status) { return static_cast<cudnnStatus_t>(status); }
cudnnStatus_t refuse(const char* why) {
  return given(refuse_call(CUDNN_STATUS_BAD_PARAM, std::string("cuDNN: ") + why));
}

template <class T>
T bits_at(const void* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}
double load(cudnnDataType_t type, const std::byte* at) {
  switch (type) {
    case CUDNN_DATA_HALF: return static_cast<double>(tidu::half_to_float(bits_at<std::uint16_t>(at)));
    case CUDNN_DATA_BFLOAT16: return static_cast<double>(tidu::bfloat16_to_float(bits_at<std::uint16_t>(at)));
    case CUDNN_DATA_FLOAT: return static_cast<double>(bits_at<float>(at));
    default: return bits_at<double>(at);
  }
}
void store(cudnnDataType_t type, std::byte* at, double value) {
  const auto put = [at](auto rounded) { std::memcpy(at, &rounded, sizeof rounded); };
  switch (type) {
    case CUDNN_DATA_HALF: return put(tidu::float_to_half(static_cast<float>(value)));
    case CUDNN_DATA_BFLOAT16: return put(tidu::float_to_bfloat16(static_cast<float>(value)));
    case CUDNN_DATA_FLOAT: return put(static_cast<float>(value));
    default: return put(value);
  }
}
// To eleven significant bits.
double to_tf32(double value) {
  int exponent = 0;
  const double fraction = std::frexp(value, &exponent);
  return std::ldexp(std::nearbyint(std::ldexp(fraction, 11)), exponent - 11);
}

// --- algorithms

// What is offered, in this order; only the last two may be chosen.
enum Algorithm : int { unsupported, random_order, too_large, of_tensor_cores, of_fused_adds, num_algorithms };
std::size_t workspace_of(int algorithm) {
  return algorithm == too_large ? std::size_t{1} << 40 : algorithm == of_tensor_cores ? 2048 : 512;
}
cudnnMathType_t math_of(int algorithm, cudnnDataType_t type) {
  if (algorithm != of_tensor_cores) return CUDNN_FMA_MATH;
  return type == CUDNN_DATA_FLOAT ? CUDNN_TENSOR_OP_MATH_ALLOW_CONVERSION : CUDNN_TENSOR_OP_MATH;
}

template <class Offer>
cudnnStatus_t offer(const Array& x, int most, int* count, Offer* offers) {
  *count = std::min<int>(most, is_told_to_fail("no algorithm of cuDNN") ? of_tensor_cores : num_algorithms);
  for (int i = 0; i < *count; ++i) {
    offers[i] = {};
    offers[i].algo = static_cast<decltype(offers[i].algo)>(i);
    offers[i].status = i == unsupported ? CUDNN_STATUS_NOT_SUPPORTED : CUDNN_STATUS_SUCCESS;
    offers[i].memory = workspace_of(i);
    offers[i].determinism = i == random_order ? CUDNN_NON_DETERMINISTIC : CUDNN_DETERMINISTIC;
    offers[i].mathType = math_of(i, x.type);
  }
  return CUDNN_STATUS_SUCCESS;
}

// --- a convolution that is asked for

struct Call {
  Kind kind;
  Convolution how;
  Array x, w, y;
  const std::byte *from_x, *from_w, *from_y;
  double alpha, beta;
  int algorithm;

  const Array& result() const { return kind == Kind::forward ? y : kind == Kind::data ? x : w; }
  const std::byte* to() const {
    return kind == Kind::forward ? from_y : kind == Kind::data ? from_x : from_w;
  }

  // Why the header forbids it, or null.
  const char* broken() const {
    const std::int64_t features = x.extents[1], results = y.extents[1];
    if (x.type != w.type || x.type != y.type) return "types differ";
    if (how.compute != (x.type == CUDNN_DATA_DOUBLE ? CUDNN_DATA_DOUBLE : CUDNN_DATA_FLOAT))
      return "the compute type is not of the data's width";
    if (x.places != how.places || w.places != how.places || y.places != how.places) return "ranks differ";
    if (x.extents[0] != y.extents[0] || w.extents[0] != results || w.extents[1] * how.groups != features ||
        results % how.groups != 0)
      return "extents do not agree";
    for (std::size_t k = 0; k < 3; ++k) {
      const std::int64_t window = (w.extents[k + 2] - 1) * how.dilation[k] + 1;
      if (y.extents[k + 2] != 1 + (x.extents[k + 2] + 2 * how.padding[k] - window) / how.stride[k])
        return "places of the result are not those of windows";
    }
    return nullptr;
  }
  // Why it is refused at these addresses, or null.
  const char* broken_at(const void* workspace, std::size_t bytes) const {
    if (algorithm != of_tensor_cores && algorithm != of_fused_adds)
      return "an algorithm that may not be chosen";
    if (how.math != math_of(algorithm, x.type)) return "another math type than the algorithm's";
    if (bytes < workspace_of(algorithm) || !is_device_memory(workspace, bytes))
      return "less workspace than the algorithm needs, or none";
    for (const Touch& touch : touches())
      if (alignment_of(touch.at) < 16 || !is_device_memory(touch.at, touch.bytes))
        return "an operand that is misaligned or beyond its memory";
    return nullptr;
  }
  Touch touch(const Array& array, const std::byte* at) const {
    return {at, static_cast<std::size_t>(array.elements() * array.element_bytes()), at == to()};
  }
  std::vector<Touch> touches() const { return {touch(x, from_x), touch(w, from_w), touch(y, from_y)}; }

  double operand(const Array& array, const std::byte* at, std::int64_t index) const {
    const double value = load(array.type, at + index * array.element_bytes());
    const bool rounds = array.type == CUDNN_DATA_FLOAT && algorithm == of_tensor_cores;
    return rounds ? to_tf32(value) : value;
  }
  void add(std::vector<double>& sums, std::int64_t of_x, std::int64_t of_w, std::int64_t of_y) const {
    const auto sum = [&](std::int64_t index) -> double& { return sums[static_cast<std::size_t>(index)]; };
    switch (kind) {
      case Kind::forward: sum(of_y) += operand(x, from_x, of_x) * operand(w, from_w, of_w); return;
      case Kind::data: sum(of_x) += operand(y, from_y, of_y) * operand(w, from_w, of_w); return;
      case Kind::filter: sum(of_w) += operand(x, from_x, of_x) * operand(y, from_y, of_y); return;
    }
  }
  void add_all(std::vector<double>& sums, const std::array<std::int64_t, 3>& in_x,
               const std::array<std::int64_t, 3>& in_w, const std::array<std::int64_t, 3>& in_y) const {
    const std::int64_t features = w.extents[1], results = w.extents[0] / how.groups;
    for (std::int64_t n = 0; n < x.extents[0]; ++n)
      for (std::int64_t k = 0; k < w.extents[0]; ++k)
        for (std::int64_t c = 0; c < features; ++c)
          add(sums, x.index(n, k / results * features + c, in_x), w.index(k, c, in_w), y.index(n, k, in_y));
  }
  // Calls `visit` for each place of an array.
  template <class Visit>
  static void for_each_place(const Array& array, const Visit& visit) {
    for (std::int64_t i = 0; i < array.extents[2]; ++i)
      for (std::int64_t j = 0; j < array.extents[3]; ++j)
        for (std::int64_t k = 0; k < array.extents[4]; ++k) visit(std::array<std::int64_t, 3>{i, j, k});
  }
  void run() const {
    std::vector<double> sums(static_cast<std::size_t>(result().elements()));
    for_each_place(y, [&](const auto& in_y) {
      for_each_place(w, [&](const auto& window) {
        std::array<std::int64_t, 3> in_x{}, in_w = window;
        for (std::size_t k = 0; k < 3; ++k) {
          in_x[k] = in_y[k] * how.stride[k] + window[k] * how.dilation[k] - how.padding[k];
          if (in_x[k] < 0 || in_x[k] >= x.extents[k + 2]) return;
          if (how.flipped) in_w[k] = w.extents[k + 2] - 1 - window[k];
        }
        add_all(sums, in_x, in_w, in_y);
      });
    });
    auto* const out = const_cast<std::byte*>(to());
    for (std::size_t i = 0; i < sums.size(); ++i) {
      std::byte* const at = out + i * static_cast<std::size_t>(result().element_bytes());
      store(result().type, at, alpha * sums[i] + (beta == 0 ? 0 : beta * load(result().type, at)));
    }
  }
};

double factor(const Array& array, const void* at) {
  return array.type == CUDNN_DATA_DOUBLE ? bits_at<double>(at) : static_cast<double>(bits_at<float>(at));
}

cudnnStatus_t put(cudnnHandle_t handle, const char* function, const Call& call, void* workspace,
                  std::size_t bytes) {
  if (is_told_to_fail(function)) return CUDNN_STATUS_EXECUTION_FAILED;
  if (const char* const why = call.broken()) return refuse(why);
  if (const char* const why = call.broken_at(workspace, bytes)) return refuse(why);
  Work work{function, call.touches(), [call, workspace, bytes] {
              std::memset(workspace, 0x5a, bytes);
              call.run();
            }};
  work.touches.push_back({workspace, bytes, true});
  const bool done = put_work(as<Handle>(handle).stream, std::move(work)) == 0;
  return done ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_EXECUTION_FAILED;
}

cudnnStatus_t describe(Array& array, cudnnDataType_t type, cudnnTensorFormat_t format, int rank,
                       const int* extents) {
  if (rank < 4 || rank > 5) return refuse("a tensor of other than four or five axes");
  array = {type, format == CUDNN_TENSOR_NHWC, rank - 2, {1, 1, 1, 1, 1}};
  for (int k = 0; k < rank; ++k) {
    if (extents[k] < 1) return refuse("an extent of less than one");
    array.extents[static_cast<std::size_t>(k)] = extents[k];
  }
  return CUDNN_STATUS_SUCCESS;
}

}  // namespace

extern "C" {

const char* cudnnGetErrorString(cudnnStatus_t) { return "refused by the cuDNN of the tests"; }
cudnnStatus_t cudnnCreate(cudnnHandle_t* handle) {
  if (is_told_to_fail(__func__)) return CUDNN_STATUS_NOT_INITIALIZED;
  return given(make_handle(handle, Handle()));
}
cudnnStatus_t cudnnDestroy(cudnnHandle_t handle) { return given(drop_handle<Handle>(handle)); }
cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream) {
  as<Handle>(handle).stream = stream;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnCreateTensorDescriptor(cudnnTensorDescriptor_t* handle) {
  if (is_told_to_fail(__func__)) return CUDNN_STATUS_ALLOC_FAILED;
  return given(make_handle(handle, Array()));
}
cudnnStatus_t cudnnDestroyTensorDescriptor(cudnnTensorDescriptor_t handle) {
  return given(drop_handle<Array>(handle));
}
cudnnStatus_t cudnnSetTensorNdDescriptorEx(cudnnTensorDescriptor_t handle, cudnnTensorFormat_t format,
                                           cudnnDataType_t type, int rank, const int* extents) {
  return describe(as<Array>(handle), type, format, rank, extents);
}
cudnnStatus_t cudnnCreateFilterDescriptor(cudnnFilterDescriptor_t* handle) {
  if (is_told_to_fail(__func__)) return CUDNN_STATUS_ALLOC_FAILED;
  return given(make_handle(handle, Array()));
}
cudnnStatus_t cudnnDestroyFilterDescriptor(cudnnFilterDescriptor_t handle) {
  return given(drop_handle<Array>(handle));
}
cudnnStatus_t cudnnSetFilterNdDescriptor(cudnnFilterDescriptor_t handle, cudnnDataType_t type,
                                         cudnnTensorFormat_t format, int rank, const int* extents) {
  return describe(as<Array>(handle), type, format, rank, extents);
}

cudnnStatus_t cudnnCreateConvolutionDescriptor(cudnnConvolutionDescriptor_t* handle) {
  if (is_told_to_fail(__func__)) return CUDNN_STATUS_ALLOC_FAILED;
  return given(make_handle(handle, Convolution()));
}
cudnnStatus_t cudnnDestroyConvolutionDescriptor(cudnnConvolutionDescriptor_t handle) {
  return given(drop_handle<Convolution>(handle));
}
cudnnStatus_t cudnnSetConvolutionNdDescriptor(cudnnConvolutionDescriptor_t handle, int places,
                                              const int* padding, const int* stride, const int* dilation,
                                              cudnnConvolutionMode_t mode, cudnnDataType_t compute) {
  if (places < 2 || places > 3) return refuse("a convolution of other than two or three axes");
  auto& how = as<Convolution>(handle);
  how.places = places;
  how.flipped = mode == CUDNN_CONVOLUTION;
  how.compute = compute;
  for (int k = 0; k < places; ++k) {
    if (padding[k] < 0 || stride[k] < 1 || dilation[k] < 1) return refuse("a window that is none");
    const auto axis = static_cast<std::size_t>(k);
    how.padding[axis] = padding[k];
    how.stride[axis] = stride[k];
    how.dilation[axis] = dilation[k];
  }
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetConvolutionGroupCount(cudnnConvolutionDescriptor_t handle, int groups) {
  as<Convolution>(handle).groups = groups;
  return groups >= 1 ? CUDNN_STATUS_SUCCESS : refuse("less than one group");
}
cudnnStatus_t cudnnSetConvolutionMathType(cudnnConvolutionDescriptor_t handle, cudnnMathType_t math) {
  as<Convolution>(handle).math = math;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnGetConvolutionForwardAlgorithm_v7(cudnnHandle_t, const cudnnTensorDescriptor_t x,
                                                     const cudnnFilterDescriptor_t,
                                                     const cudnnConvolutionDescriptor_t,
                                                     const cudnnTensorDescriptor_t, const int most,
                                                     int* count, cudnnConvolutionFwdAlgoPerf_t* offers) {
  if (is_told_to_fail(__func__)) return CUDNN_STATUS_INTERNAL_ERROR;
  return offer(as<Array>(x), most, count, offers);
}
cudnnStatus_t cudnnGetConvolutionBackwardDataAlgorithm_v7(cudnnHandle_t, const cudnnFilterDescriptor_t,
                                                          const cudnnTensorDescriptor_t,
                                                          const cudnnConvolutionDescriptor_t,
                                                          const cudnnTensorDescriptor_t x, const int most,
                                                          int* count,
                                                          cudnnConvolutionBwdDataAlgoPerf_t* offers) {
  if (is_told_to_fail(__func__)) return CUDNN_STATUS_INTERNAL_ERROR;
  return offer(as<Array>(x), most, count, offers);
}
cudnnStatus_t cudnnGetConvolutionBackwardFilterAlgorithm_v7(cudnnHandle_t, const cudnnTensorDescriptor_t x,
                                                            const cudnnTensorDescriptor_t,
                                                            const cudnnConvolutionDescriptor_t,
                                                            const cudnnFilterDescriptor_t, const int most,
                                                            int* count,
                                                            cudnnConvolutionBwdFilterAlgoPerf_t* offers) {
  if (is_told_to_fail(__func__)) return CUDNN_STATUS_INTERNAL_ERROR;
  return offer(as<Array>(x), most, count, offers);
}

cudnnStatus_t cudnnConvolutionForward(cudnnHandle_t handle, const void* alpha,
                                      const cudnnTensorDescriptor_t x, const void* from_x,
                                      const cudnnFilterDescriptor_t w, const void* from_w,
                                      const cudnnConvolutionDescriptor_t how,
                                      cudnnConvolutionFwdAlgo_t algorithm, void* workspace, std::size_t bytes,
                                      const void* beta, const cudnnTensorDescriptor_t y, void* to_y) {
  const auto& array = as<Array>(x);
  return put(handle, __func__,
             {Kind::forward, as<Convolution>(how), array, as<Array>(w), as<Array>(y),
              static_cast<const std::byte*>(from_x), static_cast<const std::byte*>(from_w),
              static_cast<const std::byte*>(to_y), factor(array, alpha), factor(array, beta), algorithm},
             workspace, bytes);
}
cudnnStatus_t cudnnConvolutionBackwardData(cudnnHandle_t handle, const void* alpha,
                                           const cudnnFilterDescriptor_t w, const void* from_w,
                                           const cudnnTensorDescriptor_t y, const void* from_y,
                                           const cudnnConvolutionDescriptor_t how,
                                           cudnnConvolutionBwdDataAlgo_t algorithm, void* workspace,
                                           std::size_t bytes, const void* beta,
                                           const cudnnTensorDescriptor_t x, void* to_x) {
  const auto& array = as<Array>(x);
  return put(handle, __func__,
             {Kind::data, as<Convolution>(how), array, as<Array>(w), as<Array>(y),
              static_cast<const std::byte*>(to_x), static_cast<const std::byte*>(from_w),
              static_cast<const std::byte*>(from_y), factor(array, alpha), factor(array, beta), algorithm},
             workspace, bytes);
}
cudnnStatus_t cudnnConvolutionBackwardFilter(cudnnHandle_t handle, const void* alpha,
                                             const cudnnTensorDescriptor_t x, const void* from_x,
                                             const cudnnTensorDescriptor_t y, const void* from_y,
                                             const cudnnConvolutionDescriptor_t how,
                                             cudnnConvolutionBwdFilterAlgo_t algorithm, void* workspace,
                                             std::size_t bytes, const void* beta,
                                             const cudnnFilterDescriptor_t w, void* to_w) {
  const auto& array = as<Array>(x);
  return put(handle, __func__,
             {Kind::filter, as<Convolution>(how), array, as<Array>(w), as<Array>(y),
              static_cast<const std::byte*>(from_x), static_cast<const std::byte*>(to_w),
              static_cast<const std::byte*>(from_y), factor(array, alpha), factor(array, beta), algorithm},
             workspace, bytes);
}
}
