// cublaslt.cpp - a cuBLASLt on the host, by its header alone, for matrices of f32 and bf16 that are not
// transposed and no batches. It takes its preferences at their word: long sums are in two parts, which are
// rounded to the result's type where the caller lets it do that, and the bias is the descriptor's at the
// call.
#include <cublasLt.h>

#include <cstdint>
#include <cstring>

namespace {

struct Layout {
  cudaDataType_t type;
  std::uint64_t rows, columns;
  std::int64_t leading;
};
struct How {
  std::uint32_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  const void* bias = nullptr;
};
struct Preference {
  std::uint32_t reductions = 0;
};

float load(cudaDataType_t type, const void* from, std::int64_t index) {
  float x = 0;
  if (type == CUDA_R_32F) {
    std::memcpy(&x, static_cast<const char*>(from) + index * 4, 4);
  } else {
    std::memcpy(reinterpret_cast<char*>(&x) + 2, static_cast<const char*>(from) + index * 2, 2);
  }
  return x;
}
float rounded(cudaDataType_t type, float x) {
  if (type == CUDA_R_32F) return x;
  std::uint32_t bits = 0;
  std::memcpy(&bits, &x, 4);
  bits = (bits + 0x7fffU + ((bits >> 16U) & 1U)) & 0xffff0000U;
  std::memcpy(&x, &bits, 4);
  return x;
}
void store(cudaDataType_t type, void* to, std::int64_t index, float x) {
  const float y = rounded(type, x);
  const std::int64_t bytes = type == CUDA_R_32F ? 4 : 2;
  std::memcpy(static_cast<char*>(to) + index * bytes, reinterpret_cast<const char*>(&y) + 4 - bytes,
              static_cast<std::size_t>(bytes));
}

template <class T>
T& as(void* handle) {
  return *static_cast<T*>(handle);
}
template <class T, class Handle>
cublasStatus_t make(Handle* handle, T value) {
  *handle = reinterpret_cast<Handle>(new T(value));
  return CUBLAS_STATUS_SUCCESS;
}
template <class T, class Handle>
cublasStatus_t drop(Handle handle) {
  delete reinterpret_cast<T*>(handle);
  return CUBLAS_STATUS_SUCCESS;
}

}  // namespace

extern "C" {

cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) { return make(handle, 0); }
cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) { return drop<int>(handle); }
cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* how, cublasComputeType_t, cudaDataType_t) {
  return make(how, How());
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t how) { return drop<How>(how); }
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t how, cublasLtMatmulDescAttributes_t which,
                                              const void* value, std::size_t) {
  if (which == CUBLASLT_MATMUL_DESC_EPILOGUE) std::memcpy(&as<How>(how).epilogue, value, 4);
  if (which == CUBLASLT_MATMUL_DESC_BIAS_POINTER) std::memcpy(&as<How>(how).bias, value, sizeof(void*));
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* layout, cudaDataType_t type,
                                          std::uint64_t rows, std::uint64_t columns, std::int64_t leading) {
  return make(layout, Layout{type, rows, columns, leading});
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) { return drop<Layout>(layout); }
cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t, cublasLtMatrixLayoutAttribute_t,
                                                const void*, std::size_t) {
  return CUBLAS_STATUS_NOT_SUPPORTED;
}
cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* preference) {
  return make(preference, Preference());
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
  return drop<Preference>(preference);
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t which,
                                                    const void* value, std::size_t) {
  if (which == CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK)
    std::memcpy(&as<Preference>(preference).reductions, value, 4);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t, cublasLtMatrixLayout_t,
                                              cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
                                              cublasLtMatrixLayout_t, cublasLtMatmulPreference_t preference,
                                              int, cublasLtMatmulHeuristicResult_t* found, int* count) {
  *found = {};
  found->algo.data[0] = as<Preference>(preference).reductions;
  *count = 1;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t how, const void* alpha, const void* a,
                              cublasLtMatrixLayout_t a_layout, const void* b, cublasLtMatrixLayout_t b_layout,
                              const void*, const void*, cublasLtMatrixLayout_t, void* d,
                              cublasLtMatrixLayout_t d_layout, const cublasLtMatmulAlgo_t* algorithm, void*,
                              std::size_t, cudaStream_t) {
  const auto &in = as<Layout>(a_layout), &other = as<Layout>(b_layout), &out = as<Layout>(d_layout);
  const bool rounds_parts = (algorithm->data[0] & CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE) != 0;
  const auto inner = static_cast<std::int64_t>(in.columns);
  for (std::int64_t row = 0; row < static_cast<std::int64_t>(out.rows); ++row) {
    for (std::int64_t column = 0; column < static_cast<std::int64_t>(out.columns); ++column) {
      float parts[2] = {0, 0};
      for (std::int64_t k = 0; k < inner; ++k)
        parts[2 * k / inner] +=
            load(in.type, a, k * in.leading + row) * load(other.type, b, column * other.leading + k);
      for (float& part : parts) part = rounds_parts ? rounded(out.type, part) : part;
      float sum = (parts[0] + parts[1]) * load(CUDA_R_32F, alpha, 0);
      if (as<How>(how).epilogue == CUBLASLT_EPILOGUE_BIAS) sum += load(out.type, as<How>(how).bias, row);
      store(out.type, d, column * out.leading + row, sum);
    }
  }
  return CUBLAS_STATUS_SUCCESS;
}
const char* cublasLtGetStatusString(cublasStatus_t) { return "refused by the cuBLASLt of the tests"; }
}
