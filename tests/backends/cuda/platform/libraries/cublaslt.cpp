// cublaslt.cpp - a cuBLASLt on the host, by its header alone: column-major layouts, transposes, batches, the
// vector of an epilogue, factors of the scale type. Long sums are in two parts, which are rounded to the
// result's type where the caller allows that. It refuses what the header forbids, less alignment and
// workspace than the algorithm was chosen for, and matrices beyond their memory.
#include <cublasLt.h>

#include <array>
#include <complex>
#include <cstring>

#include "cuda/platform/libraries/library.hpp"
#include "tidu/graph/literal.hpp"

using namespace tidu::test::platform;

namespace {

using Wide = std::complex<double>;

struct Layout {
  cudaDataType_t type = CUDA_R_32F;
  std::int64_t rows = 0, columns = 0, leading = 0, stride = 0;
  std::int32_t batch = 1;
};
struct Description {
  cublasComputeType_t compute = CUBLAS_COMPUTE_32F;
  cudaDataType_t scale = CUDA_R_32F;
  cublasOperation_t a = CUBLAS_OP_N, b = CUBLAS_OP_N;
  std::uint32_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  const void* bias = nullptr;
};
using Alignments = std::array<std::uint32_t, 4>;  // of A, B, C and D
struct Preference {
  std::uint64_t workspace = 0;
  std::uint32_t reductions = CUBLASLT_REDUCTION_SCHEME_MASK;
  Alignments alignments{256, 256, 256, 256};
};
struct Algorithm {
  static constexpr std::uint64_t ours = 0x7469647562;
  std::uint64_t mark = ours, workspace = 0;
  std::uint32_t rounds_parts = 0;
  Alignments alignments{};
};
static_assert(sizeof(Algorithm) <= sizeof(cublasLtMatmulAlgo_t));

std::int64_t size_of(cudaDataType_t type) {
  switch (type) {
    case CUDA_R_16F:
    case CUDA_R_16BF: return 2;
    case CUDA_R_32F: return 4;
    case CUDA_C_64F: return 16;
    default: return 8;
  }
}
bool is_complex(cudaDataType_t type) { return type == CUDA_C_32F || type == CUDA_C_64F; }

template <class T>
T bits_at(const void* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}
Wide load(cudaDataType_t type, const void* at) {
  switch (type) {
    case CUDA_R_16F: return static_cast<double>(tidu::half_to_float(bits_at<std::uint16_t>(at)));
    case CUDA_R_16BF: return static_cast<double>(tidu::bfloat16_to_float(bits_at<std::uint16_t>(at)));
    case CUDA_R_32F: return static_cast<double>(bits_at<float>(at));
    case CUDA_R_64F: return bits_at<double>(at);
    case CUDA_C_32F: return Wide(bits_at<std::complex<float>>(at));
    default: return bits_at<Wide>(at);
  }
}
void store(cudaDataType_t type, void* at, Wide value) {
  const auto put = [at](auto rounded) { std::memcpy(at, &rounded, sizeof rounded); };
  const auto single = static_cast<float>(value.real());
  switch (type) {
    case CUDA_R_16F: return put(tidu::float_to_half(single));
    case CUDA_R_16BF: return put(tidu::float_to_bfloat16(single));
    case CUDA_R_32F: return put(single);
    case CUDA_R_64F: return put(value.real());
    case CUDA_C_32F: return put(std::complex<float>(value));
    default: return put(value);
  }
}
Wide rounded(cudaDataType_t type, Wide value) {
  std::array<std::byte, 16> memory;
  store(type, memory.data(), value);
  return load(type, memory.data());
}

// A matrix of a batch, transposed or not.
struct Matrix {
  const Layout& layout;
  const std::byte* at;
  bool transposed = false;
  const std::byte* place(std::int64_t batch, std::int64_t row, std::int64_t column) const {
    if (transposed) std::swap(row, column);
    return at + (batch * layout.stride + column * layout.leading + row) * size_of(layout.type);
  }
  Wide element(std::int64_t batch, std::int64_t row, std::int64_t column) const {
    return load(layout.type, place(batch, row, column));
  }
  Touch touch(bool writes) const {
    const std::int64_t elements =
        (layout.batch - 1) * layout.stride + (layout.columns - 1) * layout.leading + layout.rows;
    return {at, static_cast<std::size_t>(elements * size_of(layout.type)), writes};
  }
};

// Why the header forbids such a product, or null.
const char* broken(const Description& how, const Layout& a, const Layout& b, const Layout& d) {
  const bool ta = how.a != CUBLAS_OP_N, tb = how.b != CUBLAS_OP_N;
  if ((ta ? a.columns : a.rows) != d.rows || (tb ? b.rows : b.columns) != d.columns ||
      (ta ? a.rows : a.columns) != (tb ? b.columns : b.rows))
    return "extents do not agree";
  for (const Layout* const one : {&a, &b, &d})
    if (one->leading < one->rows || one->rows < 1 || one->columns < 1)
      return "a leading dimension is too small";
  if (a.batch != d.batch || b.batch != d.batch) return "batches differ";
  if (b.type != a.type || d.type != a.type) return "types differ";
  const bool wide = a.type == CUDA_R_64F || a.type == CUDA_C_64F;
  if (wide != (how.compute == CUBLAS_COMPUTE_64F)) return "the compute type is not of the data's width";
  if (how.scale != (size_of(a.type) == 2 ? CUDA_R_32F : a.type)) return "the scale type is not the data's";
  if (how.epilogue == CUBLASLT_EPILOGUE_BIAS && (how.bias == nullptr || is_complex(a.type) || d.batch != 1))
    return "a bias is not there, of complex numbers, or of a batch";
  return nullptr;
}

cublasStatus_t refuse(const char* why) {
  return static_cast<cublasStatus_t>(
      refuse_call(CUBLAS_STATUS_INVALID_VALUE, std::string("cuBLASLt: ") + why));
}
template <class T>
cublasStatus_t set(T& to, const void* value, std::size_t bytes) {
  if (bytes != sizeof to) return refuse("an attribute of another size");
  std::memcpy(&to, value, bytes);
  return CUBLAS_STATUS_SUCCESS;
}

struct Product {
  Description how;
  Layout a, b, d;
  const std::byte *from_a, *from_b, *from_c;
  std::byte* to;
  Wide alpha, beta;
  Algorithm algorithm;

  void run() const {
    const Matrix left{a, from_a, how.a != CUBLAS_OP_N}, right{b, from_b, how.b != CUBLAS_OP_N};
    const Matrix before{d, from_c}, out{d, to};
    const std::int64_t inner = how.a != CUBLAS_OP_N ? a.rows : a.columns;
    for (std::int64_t batch = 0; batch < d.batch; ++batch)
      for (std::int64_t column = 0; column < d.columns; ++column)
        for (std::int64_t row = 0; row < d.rows; ++row) {
          Wide sum = this->sum(left, right, inner, batch, row, column) * alpha;
          if (beta != 0.0) sum += beta * before.element(batch, row, column);
          if (how.epilogue == CUBLASLT_EPILOGUE_BIAS)
            sum += load(d.type, static_cast<const std::byte*>(how.bias) + row * size_of(d.type));
          store(d.type, const_cast<std::byte*>(out.place(batch, row, column)), sum);
        }
  }
  Wide sum(const Matrix& left, const Matrix& right, std::int64_t inner, std::int64_t batch, std::int64_t row,
           std::int64_t column) const {
    Wide parts[2] = {0, 0};
    for (std::int64_t k = 0; k < inner; ++k)
      parts[2 * k / inner] += left.element(batch, row, k) * right.element(batch, k, column);
    if (algorithm.rounds_parts != 0)
      for (Wide& part : parts) part = rounded(d.type, part);
    return parts[0] + parts[1];
  }
  std::vector<Touch> touches() const {
    std::vector<Touch> all{Matrix{a, from_a}.touch(false), Matrix{b, from_b}.touch(false),
                           Matrix{d, to}.touch(true)};
    if (how.epilogue == CUBLASLT_EPILOGUE_BIAS)
      all.push_back({how.bias, static_cast<std::size_t>(d.rows * size_of(d.type)), false});
    return all;
  }
  // Why it is refused where it was chosen before, or null.
  const char* broken_at(const void* workspace, std::size_t bytes) const {
    if (algorithm.mark != Algorithm::ours || bytes < algorithm.workspace)
      return "an algorithm of nobody's, or less workspace than it needs";
    if (bytes != 0 && (alignment_of(workspace) < 256 || !is_device_memory(workspace, bytes)))
      return "a workspace that is misaligned or not there";
    for (const Touch& touch : touches())
      if (!is_device_memory(touch.at, touch.bytes)) return "a matrix beyond its memory";
    const std::array<const void*, 4> addresses{from_a, from_b, from_c, to};
    for (std::size_t i = 0; i < 4; ++i)
      if (alignment_of(addresses[i]) < algorithm.alignments[i]) return "less alignment than was promised";
    if (how.epilogue == CUBLASLT_EPILOGUE_BIAS && alignment_of(how.bias) < algorithm.alignments[3])
      return "less alignment of the bias than was promised";
    return nullptr;
  }
};

cublasStatus_t made(int status) { return static_cast<cublasStatus_t>(status); }

}  // namespace

extern "C" {

cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  if (is_told_to_fail(__func__)) return CUBLAS_STATUS_NOT_INITIALIZED;
  return made(make_handle(handle, 0));
}
cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) { return made(drop_handle<int>(handle)); }
cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* how, cublasComputeType_t compute,
                                        cudaDataType_t scale) {
  if (is_told_to_fail(__func__)) return CUBLAS_STATUS_ALLOC_FAILED;
  return made(make_handle(how, Description{compute, scale}));
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t how) {
  return made(drop_handle<Description>(how));
}
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t handle,
                                              cublasLtMatmulDescAttributes_t which, const void* value,
                                              std::size_t bytes) {
  auto& how = as<Description>(handle);
  switch (which) {
    case CUBLASLT_MATMUL_DESC_TRANSA: return set(how.a, value, bytes);
    case CUBLASLT_MATMUL_DESC_TRANSB: return set(how.b, value, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE: return set(how.epilogue, value, bytes);
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER: return set(how.bias, value, bytes);
    default: return refuse("an attribute of a product that is not known");
  }
}
cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* layout, cudaDataType_t type,
                                          std::uint64_t rows, std::uint64_t columns, std::int64_t leading) {
  if (is_told_to_fail(__func__)) return CUBLAS_STATUS_ALLOC_FAILED;
  return made(make_handle(
      layout, Layout{type, static_cast<std::int64_t>(rows), static_cast<std::int64_t>(columns), leading}));
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
  return made(drop_handle<Layout>(layout));
}
cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout,
                                                cublasLtMatrixLayoutAttribute_t which, const void* value,
                                                std::size_t bytes) {
  switch (which) {
    case CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT: return set(as<Layout>(layout).batch, value, bytes);
    case CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET: return set(as<Layout>(layout).stride, value, bytes);
    default: return refuse("an attribute of a layout that is not known");
  }
}
cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* preference) {
  if (is_told_to_fail(__func__)) return CUBLAS_STATUS_ALLOC_FAILED;
  return made(make_handle(preference, Preference()));
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
  return made(drop_handle<Preference>(preference));
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t handle,
                                                    cublasLtMatmulPreferenceAttributes_t which,
                                                    const void* value, std::size_t bytes) {
  auto& preference = as<Preference>(handle);
  switch (which) {
    case CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES: return set(preference.workspace, value, bytes);
    case CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK: return set(preference.reductions, value, bytes);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES: return set(preference.alignments[0], value, bytes);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES: return set(preference.alignments[1], value, bytes);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES: return set(preference.alignments[2], value, bytes);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES: return set(preference.alignments[3], value, bytes);
    default: return refuse("a preference that is not known");
  }
}
cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t how,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t,
                                              cublasLtMatmulPreference_t handle, int,
                                              cublasLtMatmulHeuristicResult_t* found, int* count) {
  *count = 0;
  if (is_told_to_fail("cublasLtMatmulAlgoGetHeuristic")) return CUBLAS_STATUS_INTERNAL_ERROR;
  if (is_told_to_fail("no algorithm of cuBLASLt")) return CUBLAS_STATUS_SUCCESS;
  if (is_told_to_fail("no support of cuBLASLt")) return CUBLAS_STATUS_NOT_SUPPORTED;
  if (const char* const why = broken(as<Description>(how), as<Layout>(a), as<Layout>(b), as<Layout>(c)))
    return refuse(why);
  const auto& preference = as<Preference>(handle);
  if ((preference.reductions & CUBLASLT_REDUCTION_SCHEME_INPLACE) != 0)
    return refuse("sums in place, which need not be the same twice");
  const Algorithm algorithm{Algorithm::ours, preference.workspace,
                            preference.reductions & CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE,
                            preference.alignments};
  *found = {};
  std::memcpy(&found->algo, &algorithm, sizeof algorithm);
  found->workspaceSize = preference.workspace;
  *count = 1;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t how, const void* alpha, const void* a,
                              cublasLtMatrixLayout_t a_layout, const void* b, cublasLtMatrixLayout_t b_layout,
                              const void* beta, const void* c, cublasLtMatrixLayout_t, void* d,
                              cublasLtMatrixLayout_t d_layout, const cublasLtMatmulAlgo_t* algorithm,
                              void* workspace, std::size_t bytes, cudaStream_t stream) {
  if (is_told_to_fail(__func__)) return CUBLAS_STATUS_EXECUTION_FAILED;
  const auto& description = as<Description>(how);
  const Product product{description,
                        as<Layout>(a_layout),
                        as<Layout>(b_layout),
                        as<Layout>(d_layout),
                        static_cast<const std::byte*>(a),
                        static_cast<const std::byte*>(b),
                        static_cast<const std::byte*>(c),
                        static_cast<std::byte*>(d),
                        load(description.scale, alpha),
                        load(description.scale, beta),
                        bits_at<Algorithm>(algorithm)};
  if (const char* const why = broken(description, product.a, product.b, product.d)) return refuse(why);
  if (const char* const why = product.broken_at(workspace, bytes)) return refuse(why);
  Work work{"cublasLtMatmul", product.touches(), [product, workspace, bytes] {
              if (bytes != 0) std::memset(workspace, 0x5a, bytes);
              product.run();
            }};
  if (bytes != 0) work.touches.push_back({workspace, bytes, true});
  return put_work(stream, std::move(work)) == 0 ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_EXECUTION_FAILED;
}
const char* cublasLtGetStatusString(cublasStatus_t) { return "refused by the cuBLASLt of the tests"; }
}
