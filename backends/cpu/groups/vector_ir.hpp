// vector_ir.hpp - element-wise work as straight-line code over vector registers, generated for this machine's
// CPU when it is needed: each operand is read once and each result written once, whatever lies between.
//
// A VectorProgram computes on elements of one size, floating or whole numbers, and on masks (bool, one byte
// in memory). Every step but a store makes a value that later steps name by the step's number; which numbers
// its elements are, the steps that take them say. Whole numbers wrap. Floating arithmetic is IEEE arithmetic,
// nothing is contracted or reordered; the elementary functions are those of glibc's libmvec, but exp,
// tanh, sin and cos, at most 4 ulp from the exact value; erf_inv, made of several, at most 6. So a
// value has the same bits whatever it is computed together with, at any position and on any number of
// threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "tidu/cpu/executor.hpp"
#include "tidu/eager/operands.hpp"
#include "tidu/graph/op.hpp"
#include "tidu/graph/type.hpp"

namespace tidu::cpu_detail {

enum class VectorOp : std::uint8_t {
  load,        // elements of operand `index`
  load_mask,   // the same of a bool operand
  splat,       // the one element of operand `index` in every lane
  splat_mask,  // the same of a bool operand
  // Of rows (rows.hpp) alone:
  load_column,  // elements of operand `index`, which has one row for all
  splat_row,    // the element of operand `index` that belongs to the row
  load_picked,  // elements of the row that pick `index` reads
  slot,         // value `index` of the row
  slot_mask,
  kept,  // elements `index` that were kept of the row
  kept_mask,
  immediate,  // the element with the bits `bits` in every lane
  add,
  sub,
  mul,
  div,
  max,  // NaN when either is
  min,
  multiply_no_nan,  // a where a is 0
  divide_no_nan,    // a where a is 0
  whole_add,        // of whole numbers
  whole_sub,
  whole_mul,
  whole_max,
  whole_min,
  bits_and,
  bits_or,
  bits_xor,
  neg,
  abs,
  sqrt,
  floor,
  ceil,
  round,        // to even
  to_floating,  // the nearest floating number of the size
  to_whole,     // without the fraction, of 4 bytes; the least one for NaN and what is beyond all
  equal,        // comparisons make masks; all but not_equal are false for NaN
  not_equal,
  less,
  less_equal,
  whole_equal,
  whole_less,
  mask_and,
  mask_or,
  mask_xor,
  mask_not,
  select_mask,  // of masks: c where a is set, else b
  select,       // the same of elements
  call,         // function `index` of one or two operands
  store,        // a into result `index`
  store_mask,
  // Of rows (and store_row, folds and keep of runs) alone:
  stream,     // a into result `index`, past the caches, where vectors are aligned
  store_row,  // a's element into result `index`
  set_slot,   // a, the same in every lane, to value `index` of the row
  keep,       // a to elements `index` that are kept of the row
  fold_sum,   // the row's elements to one, value `index` of the row
  fold_max,   // NaN when one is
  fold_min,
  column_sum,  // into elements `index` that all rows share, or, with `bits`, into those of the row
  column_max,
  column_min,
};
constexpr bool makes_mask(VectorOp op) {
  return op == VectorOp::load_mask || op == VectorOp::splat_mask || op == VectorOp::slot_mask ||
         op == VectorOp::kept_mask || (op >= VectorOp::equal && op <= VectorOp::select_mask);
}
/// Operands that the step takes; of a call, the most.
constexpr int num_operands(VectorOp op) {
  if (op <= VectorOp::immediate) return 0;
  if (op == VectorOp::select_mask || op == VectorOp::select) return 3;
  return op <= VectorOp::bits_xor || op == VectorOp::call ||
                 (op >= VectorOp::equal && op <= VectorOp::mask_xor)
             ? 2
             : 1;
}

/// Functions that a call may name. Those from `first_of_two` on take two operands.
enum class VectorFunction : std::uint8_t {
  exp,
  exp2,
  expm1,
  log,
  log1p,
  sin,
  cos,
  tan,
  asin,
  acos,
  atan,
  sinh,
  cosh,
  tanh,
  asinh,
  acosh,
  atanh,
  cbrt,
  erf,
  erfc,
  pow,
  atan2,
  first_of_two = pow,
};

inline constexpr std::uint16_t no_register = 0xffff;

struct VectorInst {
  VectorOp op = VectorOp::immediate;
  std::uint16_t a = no_register, b = no_register, c = no_register;
  std::uint32_t index = 0;
  std::uint64_t bits = 0;
  friend bool operator==(const VectorInst&, const VectorInst&) = default;
};

/// The floating dtype of elements of the same size, f32 or f64; bool_ where lanes hold none of the dtype.
constexpr DType element_dtype(DType dtype) {
  return dtype == i32 ? f32 : dtype == i64 ? f64 : dtype == f32 || dtype == f64 ? dtype : bool_;
}

/// Stores come last.
struct VectorProgram {
  DType dtype = f32;  ///< f32 or f64, which tells the elements' size
  std::vector<VectorInst> steps;
  std::uint32_t num_operands = 0;
  std::uint32_t num_results = 0;
  friend bool operator==(const VectorProgram&, const VectorProgram&) = default;

  std::uint16_t add(const VectorInst& step) {
    steps.push_back(step);
    return static_cast<std::uint16_t>(steps.size() - 1);
  }
  bool is_mask(std::uint16_t value) const { return makes_mask(steps[value].op); }
};

// In vector_lowering.cpp.
/// What an element-wise operation computes on: the dtype of an operand that is not bool, or of the result.
DType computed_dtype(std::span<const DType> operands, DType result);

/// Adds the steps of an element-wise operation, on what computed_dtype says, on values that are there
/// already; nothing, with the code left as it was, where there are none for it: dtypes of other sizes, and
/// operations that only loops can do.
std::optional<std::uint16_t> add_operation(VectorProgram& code, const Op& op, DType dtype,
                                           std::span<const std::uint16_t> operands, DType result);
/// May add_operation do it in a code of this dtype, for operands of these?
bool has_vector_code(const Op& op, std::span<const DType> operands, DType result, DType dtype);

/// Code that is ready to run, on any number of threads at once.
class VectorKernel {
 public:
  /// Runs whole vectors: `count` is a multiple of a vector's elements.
  using Function = void (*)(const std::byte* const* operands, std::byte* const* results, std::int64_t count);

  /// The vectors' size in bytes, and what keeps the function's memory.
  VectorKernel(const VectorProgram& code, Function function, std::size_t vector_bytes,
               std::shared_ptr<const void> memory);

  /// `count` elements from where the pointers point. A result may lie where an operand does, element on
  /// element.
  void run(const std::byte* const* operands, std::byte* const* results, std::int64_t count) const;
  /// The same where no result lies where an operand does: what no vector is left for is done once more.
  void run_apart(const std::byte* const* operands, std::byte* const* results, std::int64_t count) const;
  /// Bytes from one element of an operand to the next: 0 for a splat.
  std::size_t operand_step(std::size_t i) const { return operand_steps_[i]; }
  std::size_t result_step(std::size_t i) const { return result_steps_[i]; }
  std::size_t num_operands() const { return operand_steps_.size(); }

  /// Operands and results together that most kernels have at most: of more, lists of them are allocated.
  static constexpr std::size_t few_pointers = 64;

 private:
  Function function_;
  std::int64_t width_;
  std::vector<std::size_t> operand_steps_, result_steps_;
  std::shared_ptr<const void> memory_;
};

/// Pointers to operands or results of a kernel.
template <class Pointer>
using Pointers = eager::detail::ShortArray<Pointer, VectorKernel::few_pointers>;

class RowKernel;
struct RowsCode;  // rows.hpp
class RunKernel;
struct RunCode;  // runs.hpp

/// Generates code for one kind of vectors, once for each code: what it has made it keeps for the next that
/// asks, up to `max_kernels`, beyond which kernels that nobody holds are dropped.
class VectorJit {
 public:
  /// That for `units`, made once; null where this machine or this build has none. `automatic` is the widest
  /// there is.
  static VectorJit* get(VectorUnits units);

  /// Null where memory for code is not to be had.
  std::shared_ptr<const VectorKernel> compile(const VectorProgram& code);
  /// The same.
  std::shared_ptr<const RowKernel> compile(const RowsCode& code);
  /// The same.
  std::shared_ptr<const RunKernel> compile(const RunCode& code);
  /// Forgets all code: the next that asks has it made anew. For measurements.
  void clear();
  std::size_t vector_bytes() const { return units_ == VectorUnits::avx512 ? 64 : 32; }

  static constexpr std::size_t max_kernels = 4096;

 private:
  explicit VectorJit(VectorUnits units) : units_(units) {}
  struct Hash {
    std::size_t operator()(const VectorProgram& code) const;
  };
  VectorUnits units_;
  std::mutex mutex_;
  std::unordered_map<VectorProgram, std::shared_ptr<const VectorKernel>, Hash> kernels_;
  // By the code's hash: kernels know theirs.
  template <class Kernel>
  using Kernels = std::unordered_multimap<std::uint64_t, std::shared_ptr<const Kernel>>;
  template <class Kernel, class Code>
  std::shared_ptr<const Kernel> compile_in(Kernels<Kernel>& kernels, const Code& code);
  Kernels<RowKernel> row_kernels_;
  Kernels<RunKernel> run_kernels_;
};

// In vector_mvec.cpp.
/// May code for these vectors run here?
bool can_generate(VectorUnits units);
/// libmvec's function for vectors of 32 or 64 bytes.
const void* address_of(VectorFunction function, bool is_f64, bool is_512);

// In vector_x86.cpp.
/// Null where memory for code is not to be had.
std::shared_ptr<const VectorKernel> generate(const VectorProgram& code, VectorUnits units);

}  // namespace tidu::cpu_detail
