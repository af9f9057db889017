// library_matmul.cpp - matmuls by cuBLASLt, whose matrices are column-major: a row-major matmul is computed
// as the matmul of the transposes in the other order, without copies.
#include "cuda/libraries/library_matmul.hpp"

#include <cublasLt.h>

#include <algorithm>
#include <array>
#include <complex>
#include <map>
#include <mutex>

#include "cuda/libraries/library_calls.hpp"

namespace tidu::cuda_detail {
namespace {

constexpr const char* library_name = "cuBLASLt";

struct Functions {
  DynamicLibrary library{library_name, versions_of("libcublasLt.so", CUDART_VERSION / 1000, {13, 12})};
  decltype(::cublasLtCreate)* create = find<decltype(::cublasLtCreate)>("cublasLtCreate");
  decltype(::cublasLtDestroy)* destroy = find<decltype(::cublasLtDestroy)>("cublasLtDestroy");
  decltype(::cublasLtMatmulDescCreate)* matmul_desc_create =
      find<decltype(::cublasLtMatmulDescCreate)>("cublasLtMatmulDescCreate");
  decltype(::cublasLtMatmulDescDestroy)* matmul_desc_destroy =
      find<decltype(::cublasLtMatmulDescDestroy)>("cublasLtMatmulDescDestroy");
  decltype(::cublasLtMatmulDescSetAttribute)* matmul_desc_set_attribute =
      find<decltype(::cublasLtMatmulDescSetAttribute)>("cublasLtMatmulDescSetAttribute");
  decltype(::cublasLtMatrixLayoutCreate)* matrix_layout_create =
      find<decltype(::cublasLtMatrixLayoutCreate)>("cublasLtMatrixLayoutCreate");
  decltype(::cublasLtMatrixLayoutDestroy)* matrix_layout_destroy =
      find<decltype(::cublasLtMatrixLayoutDestroy)>("cublasLtMatrixLayoutDestroy");
  decltype(::cublasLtMatrixLayoutSetAttribute)* matrix_layout_set_attribute =
      find<decltype(::cublasLtMatrixLayoutSetAttribute)>("cublasLtMatrixLayoutSetAttribute");
  decltype(::cublasLtMatmulPreferenceCreate)* matmul_preference_create =
      find<decltype(::cublasLtMatmulPreferenceCreate)>("cublasLtMatmulPreferenceCreate");
  decltype(::cublasLtMatmulPreferenceDestroy)* matmul_preference_destroy =
      find<decltype(::cublasLtMatmulPreferenceDestroy)>("cublasLtMatmulPreferenceDestroy");
  decltype(::cublasLtMatmulPreferenceSetAttribute)* matmul_preference_set_attribute =
      find<decltype(::cublasLtMatmulPreferenceSetAttribute)>("cublasLtMatmulPreferenceSetAttribute");
  decltype(::cublasLtMatmulAlgoGetHeuristic)* matmul_algo_get_heuristic =
      find<decltype(::cublasLtMatmulAlgoGetHeuristic)>("cublasLtMatmulAlgoGetHeuristic");
  decltype(::cublasLtMatmul)* matmul = find<decltype(::cublasLtMatmul)>("cublasLtMatmul");
  decltype(::cublasLtGetStatusString)* get_status_string =
      find<decltype(::cublasLtGetStatusString)>("cublasLtGetStatusString");
  template <class F>
  F* find(const char* name) const {
    return library.function<F>(name);
  }
  void check(const char* routine, cublasStatus_t status) const {
    if (status != CUBLAS_STATUS_SUCCESS)
      check_call(library_name, routine, static_cast<int>(status), get_status_string(status));
  }
};
const Functions& functions() {
  static const Functions all;
  return all;
}

cudaDataType_t data_type(DType dtype) {
  switch (dtype) {
    case DType::f16: return CUDA_R_16F;
    case DType::bf16: return CUDA_R_16BF;
    case DType::f32: return CUDA_R_32F;
    case DType::f64: return CUDA_R_64F;
    case DType::c64: return CUDA_C_32F;
    case DType::c128: return CUDA_C_64F;
    default:
      throw Error(ErrorKind::internal,
                  detail::str("[cuda] expected a matmul of floating or complex numbers, got ", dtype));
  }
}
cublasComputeType_t compute_type(const GemmStep& step) {
  if (real_dtype(step.dtype) == DType::f64) return CUBLAS_COMPUTE_64F;
  return step.tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
}

// Descriptors and the algorithm for a shape. The library calls the operand whose rows are the result's rows
// A: in column-major order that is our b.
struct Chosen {
  cublasLtMatmulDesc_t how = nullptr;
  cublasLtMatrixLayout_t a = nullptr, b = nullptr, out = nullptr;
  cublasLtMatmulAlgo_t algorithm{};
  std::size_t workspace_bytes = 0;
  bool is_there = false;  // is there an algorithm?

  Chosen() = default;
  Chosen(const Chosen&) = delete;
  Chosen& operator=(const Chosen&) = delete;
  ~Chosen() {
    const Functions& f = functions();
    if (how != nullptr) f.matmul_desc_destroy(how);
    for (const cublasLtMatrixLayout_t layout : {a, b, out}) {
      if (layout != nullptr) f.matrix_layout_destroy(layout);
    }
  }
};

cublasLtMatrixLayout_t layout(const GemmStep& step, std::int64_t rows, std::int64_t columns,
                              std::int64_t leading, std::int64_t stride) {
  const Functions& f = functions();
  cublasLtMatrixLayout_t made = nullptr;
  f.check("cublasLtMatrixLayoutCreate",
          f.matrix_layout_create(&made, data_type(step.dtype), static_cast<std::uint64_t>(rows),
                                 static_cast<std::uint64_t>(columns), leading));
  if (step.batch == 1) return made;
  const auto count = static_cast<std::int32_t>(step.batch);
  f.matrix_layout_set_attribute(made, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count, sizeof count);
  f.matrix_layout_set_attribute(made, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &stride, sizeof stride);
  return made;
}

std::uint32_t alignment_of(const void* at) {
  const auto address = reinterpret_cast<std::uintptr_t>(at);
  return static_cast<std::uint32_t>(
      std::min<std::uintptr_t>(256, address == 0 ? 256 : address & (~address + 1)));
}

using Key = std::array<std::int64_t, 21>;
struct Addresses {
  const std::byte *a, *b, *bias;
  std::byte* out;
};
Key key_of(const GemmStep& s, const Addresses& at) {
  return {static_cast<std::int64_t>(s.dtype),
          s.batch,
          s.m,
          s.n,
          s.k,
          s.a_transposed ? 1 : 0,
          s.b_transposed ? 1 : 0,
          s.lda,
          s.ldb,
          s.ldc,
          s.stride_a,
          s.stride_b,
          s.stride_c,
          s.tf32 ? 1 : 0,
          s.has_bias ? 1 : 0,
          s.beta != 0 ? 1 : 0,
          alignment_of(at.a),
          alignment_of(at.b),
          alignment_of(at.out),
          alignment_of(at.bias),
          static_cast<std::int64_t>(s.workspace_bytes)};
}

std::unique_ptr<Chosen> choose(cublasLtHandle_t handle, const GemmStep& s, const Addresses& at) {
  const Functions& f = functions();
  auto chosen = std::make_unique<Chosen>();
  f.check("cublasLtMatmulDescCreate",
          f.matmul_desc_create(&chosen->how, compute_type(s),
                               size_of(s.dtype) == 2 ? CUDA_R_32F : data_type(s.dtype)));
  const auto set = [&](cublasLtMatmulDescAttributes_t attribute, const auto& value) {
    f.check("cublasLtMatmulDescSetAttribute",
            f.matmul_desc_set_attribute(chosen->how, attribute, &value, sizeof value));
  };
  const cublasOperation_t first = s.b_transposed ? CUBLAS_OP_T : CUBLAS_OP_N,
                          second = s.a_transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
  set(CUBLASLT_MATMUL_DESC_TRANSA, first);
  set(CUBLASLT_MATMUL_DESC_TRANSB, second);
  if (s.has_bias) {  // the algorithm depends on how it is aligned
    const void* const bias = at.bias;
    set(CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS);
    set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias);
  }
  chosen->a =
      s.b_transposed ? layout(s, s.k, s.n, s.ldb, s.stride_b) : layout(s, s.n, s.k, s.ldb, s.stride_b);
  chosen->b =
      s.a_transposed ? layout(s, s.m, s.k, s.lda, s.stride_a) : layout(s, s.k, s.m, s.lda, s.stride_a);
  chosen->out = layout(s, s.n, s.m, s.ldc, s.stride_c);

  cublasLtMatmulPreference_t preference = nullptr;
  f.check("cublasLtMatmulPreferenceCreate", f.matmul_preference_create(&preference));
  const auto prefer = [&](cublasLtMatmulPreferenceAttributes_t attribute, const auto& value) {
    f.matmul_preference_set_attribute(preference, attribute, &value, sizeof value);
  };
  // Sums of parts in the order in which they happen to end are left out, and so are parts of 16 bits, which
  // round more than the sum and overflow where it does not.
  const std::uint32_t reductions =
      size_of(s.dtype) == 2 ? CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE
                            : CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE | CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE;
  prefer(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, reductions);
  prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, s.workspace_bytes);
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, alignment_of(at.b));
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, alignment_of(at.a));
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, alignment_of(at.out));
  // The vector of an epilogue is read in pieces as large as the result's.
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES,
         std::min(alignment_of(at.out), alignment_of(s.has_bias ? at.bias : at.out)));
  cublasLtMatmulHeuristicResult_t found{};
  int count = 0;
  const cublasStatus_t status = f.matmul_algo_get_heuristic(
      handle, chosen->how, chosen->a, chosen->b, chosen->out, chosen->out, preference, 1, &found, &count);
  f.matmul_preference_destroy(preference);
  if (status != CUBLAS_STATUS_NOT_SUPPORTED) f.check("cublasLtMatmulAlgoGetHeuristic", status);
  if (status != CUBLAS_STATUS_SUCCESS || count == 0) return chosen;
  chosen->is_there = true;
  chosen->algorithm = found.algo;
  chosen->workspace_bytes = found.workspaceSize;
  return chosen;
}

}  // namespace

struct MatmulLibrary::State {
  std::mutex mutex;
  cublasLtHandle_t handle = nullptr;
  std::map<Key, std::unique_ptr<Chosen>> chosen;
};

MatmulLibrary::MatmulLibrary() : state_(std::make_unique<State>()) {}
MatmulLibrary::~MatmulLibrary() {
  if (is_ending()) {
    (void)state_.release();
    return;
  }
  state_->chosen.clear();
  if (state_->handle != nullptr) functions().destroy(state_->handle);
}

void MatmulLibrary::prepare() {
  const std::lock_guard lock(state_->mutex);
  if (state_->handle == nullptr) functions().check("cublasLtCreate", functions().create(&state_->handle));
}

bool MatmulLibrary::run(const GemmStep& step, const Bindings& at, Stream stream) {
  const Functions& f = functions();
  const Addresses addresses{at.at(step.a), at.at(step.b), step.has_bias ? at.at(step.bias) : nullptr,
                            at.at(step.out)};
  prepare();
  const std::lock_guard lock(state_->mutex);
  std::unique_ptr<Chosen>& entry = state_->chosen[key_of(step, addresses)];
  if (entry == nullptr) entry = choose(state_->handle, step, addresses);
  if (!entry->is_there) return false;
  if (step.has_bias) {
    const void* const bias = addresses.bias;
    f.check("cublasLtMatmulDescSetAttribute",
            f.matmul_desc_set_attribute(entry->how, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias, sizeof bias));
  }
  const std::complex<double> alpha_wide(step.alpha), beta_wide(step.beta);
  const std::complex<float> alpha(alpha_wide), beta(beta_wide);
  const bool wide = real_dtype(step.dtype) == DType::f64;  // the real part comes first
  const void* const factors[] = {wide ? static_cast<const void*>(&alpha_wide) : &alpha,
                                 wide ? static_cast<const void*>(&beta_wide) : &beta};
  f.check("cublasLtMatmul",
          f.matmul(state_->handle, entry->how, factors[0], addresses.b, entry->a, addresses.a, entry->b,
                   factors[1], addresses.out, entry->out, addresses.out, entry->out, &entry->algorithm,
                   entry->workspace_bytes != 0 ? at.at(step.workspace) : nullptr, entry->workspace_bytes,
                   stream_of(stream)));
  return true;
}

}  // namespace tidu::cuda_detail
