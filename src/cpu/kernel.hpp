// kernel.hpp - what a CPU kernel is: a rule that plans one operation when a program is compiled, and what it
// plans, which is bare functions over bare pointers. Nothing here is counted, allocated or looked up while a
// program runs.
#pragma once

#include <complex>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <type_traits>
#include <utility>

#include "tidu/graph/op.hpp"
#include "tidu/graph/type.hpp"

namespace tidu::cpu_detail {

struct Frame;

/// One step of a compiled program. A scalar step finds its operands and its result at `base` plus 8 times a,
/// b, c, out; what an operand does not use is the functor's parameter. Every other step is run_general, `a`
/// being its index.
struct Instruction {
  void (*execute)(const Instruction&, std::byte* base, const Frame& frame) = nullptr;
  std::uint32_t a = 0, b = 0, c = 0, out = 0;
};
using Execute = void (*)(const Instruction&, std::byte* base, const Frame& frame);

/// Pointers to the operands, then to the results, and planned bytes of scratch memory aligned to 64 bytes.
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

/// What is to be planned. Kernels take dtypes from the types, never from attributes.
struct PlanRequest {
  const Op& op;
  std::span<const Type> in;
  std::span<const Type> out;
  int threads = 1;
  bool check_indices = false;
  int depth = 0;  ///< of graphs inside operations
};

/// How an operation runs; `run` is null where there is no kernel for these types.
struct Plan {
  RunFunction run = nullptr;
  std::shared_ptr<const void> state;  ///< of `run`
  std::size_t scratch = 0;            ///< bytes
  /// Where every operand and result has one element: the same as a scalar step, or null. At most three
  /// operands.
  Execute scalar = nullptr;
  std::uint32_t parameter = 0;  ///< its `c`, unless that is an operand

  explicit operator bool() const { return run != nullptr; }
};
using PlanRule = Plan (*)(const PlanRequest&);

/// A plan whose state is a value of type S: run(const S&, const Call&).
template <class S, void (*run)(const S&, const Call&)>
Plan make_plan(S state, std::size_t scratch = 0) {
  Plan plan;
  plan.run = [](const void* s, const Call& call) { run(*static_cast<const S*>(s), call); };
  plan.state = std::make_shared<const S>(std::move(state));
  plan.scratch = scratch;
  return plan;
}

/// Dtypes as a set of bits.
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

/// A row of the table of kernels.
struct KernelEntry {
  std::string_view name;
  PlanRule rule;
  DTypes dtypes;             ///< of the data that the operation works on
  bool moves_bytes = false;  ///< knows 16-bit types; otherwise they are widened to f32 around it
};

/// Calls body(std::type_identity<T>()) with the C++ type of `dtype` (f16 and bf16: none) and returns what it
/// returns; Plan() for others.
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

// The rows, by family.
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
std::span<const KernelEntry> product_kernels();
std::span<const KernelEntry> random_kernels();
std::span<const KernelEntry> window_kernels();
std::span<const KernelEntry> convolution_kernels();
std::span<const KernelEntry> factorization_kernels();
std::span<const KernelEntry> spectral_kernels();

}  // namespace tidu::cpu_detail
