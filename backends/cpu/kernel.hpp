// kernel.hpp - the interface of CPU kernels. At compile time, a rule (PlanRule) maps one operation and its
// types to a Plan; a Plan holds a plain function over raw pointers, its constant state, and its scratch size.
// At run time nothing is looked up, counted or allocated.
#pragma once

#include <complex>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "cpu/cpu_target.hpp"
#include "tidu/graph/op.hpp"
#include "tidu/graph/type.hpp"

namespace tidu::cpu_detail {

struct Frame;
class VectorJit;

/// Alignment of memory, and bytes rounded up to it.
inline constexpr int cache_line = CpuTarget::line;
template <class Integer>
constexpr Integer aligned(Integer bytes) {
  return (bytes + (cache_line - 1)) / cache_line * cache_line;
}

/// An element of 16 bytes, for kernels that only copy it.
struct SixteenBytes {
  std::uint64_t parts[2];
};

/// One step of a compiled program. A scalar step has its operands at `base` + 8 a, 8 b, 8 c and its result at
/// `base` + 8 out; if it does not use `c`, that field is its parameter. Every other step calls run_general,
/// and `a` is its index.
struct Instruction {
  void (*execute)(const Instruction&, std::byte* base, const Frame& frame) = nullptr;
  std::uint32_t a = 0, b = 0, c = 0, out = 0;
};
using Execute = void (*)(const Instruction&, std::byte* base, const Frame& frame);

/// Arguments of a kernel: pointers to the operands and results, and the planned scratch memory, aligned to 64
/// bytes.
struct Call {
  const std::byte* const* in;
  std::byte* const* out;
  std::byte* scratch;
  template <class T>
  const T* operand(std::size_t i) const {
    return reinterpret_cast<const T*>(in[i]);
  }
  template <class T>
  T* result(std::size_t i = 0) const {
    return reinterpret_cast<T*>(out[i]);
  }
};
using RunFunction = void (*)(const void* state, const Call& call);

/// Request for a plan. Kernels take dtypes from the types and never from attributes.
struct PlanRequest {
  const Op& op;
  std::span<const Type> in;
  std::span<const Type> out;
  int threads = 1;
  bool check_indices = false;
  int depth = 0;                    ///< nesting depth of graphs inside operations
  VectorJit* vector_jit = nullptr;  ///< generates element-wise vector code, or null
  bool part = false;  ///< a block of an array: even one element must get the bits that it has in an array
  bool add = false;   ///< add to the present contents of the result
  /// Demanded elements of the only result: element i if reads[i % size]. Null: all.
  const std::vector<bool>* reads = nullptr;
  /// Bit i: operand i is the same in many consecutive runs; see Plan::prepare.
  std::uint32_t fixed = 0;
};

/// The implementation of an operation; `run` is null if there is no kernel for these types.
struct Plan {
  RunFunction run = nullptr;
  std::shared_ptr<const void> state;  ///< of `run`
  std::size_t scratch = 0;            ///< bytes
  std::size_t library = 0;            ///< bytes that another library allocates in `run`, on all threads
  /// The operation as a scalar step, if all operands and results have one element and there are at most three
  /// operands; else null.
  Execute scalar = nullptr;
  std::uint32_t parameter = 0;  ///< the `c` of the scalar step, unless that is an operand
  /// Prepares a fixed operand: reads in[0] and writes `prepared_bytes` to out[0]; runs then take the prepared
  /// form instead of the operand. Null: runs take the operand. The prepared form depends on the op and the
  /// operand alone.
  RunFunction prepare = nullptr;
  std::uint32_t prepared = 0;  ///< index of that operand
  std::size_t prepared_bytes = 0;
  /// For each element, `run` reads all operands (except those in NodeValues::whole) before it writes the
  /// results. The results, or for an update the first one, may take the memory of such operands.
  bool in_one_pass = false;
  bool cannot_fail = false;  ///< for any operand values, and without memory to allocate: `run` is noexcept

  explicit operator bool() const { return run != nullptr; }
};
using PlanRule = Plan (*)(const PlanRequest&);

/// A plan with a state of type S and the function run(const S&, const Call&), which may be noexcept.
template <class S, auto run>
Plan make_plan(S state, std::size_t scratch = 0) {
  Plan plan;
  plan.cannot_fail = noexcept(run(state, std::declval<const Call&>()));
  plan.run = [](const void* s, const Call& call) { run(*static_cast<const S*>(s), call); };
  plan.state = std::make_shared<const S>(std::move(state));
  plan.scratch = scratch;
  return plan;
}

/// A set of dtypes, one bit each.
using DTypes = std::uint32_t;
constexpr DTypes bit(DType dtype) { return 1U << static_cast<unsigned>(dtype); }
inline constexpr DTypes halves = bit(f16) | bit(bf16);
inline constexpr DTypes reals = bit(f32) | bit(f64);
inline constexpr DTypes floats = reals | halves;
inline constexpr DTypes complexes = bit(c64) | bit(c128);
inline constexpr DTypes integers = bit(i32) | bit(i64);
inline constexpr DTypes numbers = integers | floats | complexes;
inline constexpr DTypes ordered = bit(bool_) | integers | floats;
inline constexpr DTypes any_dtype = bit(bool_) | numbers;

/// A row of the kernel table.
struct KernelEntry {
  std::string_view name;
  PlanRule rule;
  DTypes dtypes;              ///< supported dtypes of the data
  bool copies_bytes = false;  ///< supports 16-bit types; otherwise a wrapper widens them to f32
  bool adds = false;          ///< supports PlanRequest::add
};

/// Calls body(std::type_identity<T>()) with the C++ type T of `dtype`. Returns Plan() for dtypes without one,
/// which include f16 and bf16.
template <class Body>
Plan with_type(DType dtype, const Body& body) {
  switch (dtype) {
    case DType::boolean: return body(std::type_identity<bool>());
    case DType::i32: return body(std::type_identity<std::int32_t>());
    case DType::i64: return body(std::type_identity<std::int64_t>());
    case DType::f32: return body(std::type_identity<float>());
    case DType::f64: return body(std::type_identity<double>());
    case DType::c64: return body(std::type_identity<std::complex<float>>());
    case DType::c128: return body(std::type_identity<std::complex<double>>());
    default: return Plan();
  }
}

template <class T>
inline constexpr bool is_complex_type = false;
template <class T>
inline constexpr bool is_complex_type<std::complex<T>> = true;
template <class T>
concept ComplexNumber = is_complex_type<T>;
template <class T>
concept RealNumber = std::is_floating_point_v<T>;
template <class T>
concept Inexact = RealNumber<T> || ComplexNumber<T>;
template <class T>
concept Integer = std::is_integral_v<T> && !std::is_same_v<T, bool>;
template <class T>
concept Boolean = std::is_same_v<T, bool>;

// The rows of the table, by family.
std::span<const KernelEntry> constant_kernels();
std::span<const KernelEntry> unary_kernels();
std::span<const KernelEntry> transcendental_kernels();
std::span<const KernelEntry> binary_kernels();
std::span<const KernelEntry> comparison_kernels();
std::span<const KernelEntry> ternary_kernels();
std::span<const KernelEntry> convert_kernels();
std::span<const KernelEntry> shape_kernels();
std::span<const KernelEntry> dynamic_kernels();
std::span<const KernelEntry> indexing_kernels();
std::span<const KernelEntry> reduction_kernels();
std::span<const KernelEntry> scan_kernels();
std::span<const KernelEntry> sorting_kernels();
std::span<const KernelEntry> matmul_kernels();
std::span<const KernelEntry> random_kernels();
std::span<const KernelEntry> window_kernels();
std::span<const KernelEntry> convolution_kernels();
std::span<const KernelEntry> factorization_kernels();
std::span<const KernelEntry> spectral_kernels();
std::span<const KernelEntry> collective_kernels();

}  // namespace tidu::cpu_detail
