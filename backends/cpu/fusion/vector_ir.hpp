// vector_ir.hpp - the vector IR (VectorOp, VectorInst, VectorProgram) and its JIT: element-wise work as
// straight-line code over vector registers, generated for this CPU on demand. Each operand is read once, and
// each result is written once.
//
// A VectorProgram computes on elements of one size, floating-point numbers or integers, and on masks (bool,
// one byte in memory). It is in SSA form: each instruction except a store defines a value, and later
// instructions refer to it by the instruction's number. The using instruction decides whether elements are
// floating-point numbers or integers. Integers wrap. Floating-point arithmetic is IEEE arithmetic, without
// contraction or reordering. Elementary functions are those of glibc's libmvec, except exp, tanh, sin and
// cos, within 4 ulp of the exact value; erf_inv, which is composed of several, is within 6 ulp. The bits of a
// value therefore do not depend on the other values of the program, on the position, or on the number of
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
  load_mask,   // elements of a bool operand
  splat,       // the single element of operand `index`, in every lane
  splat_mask,  // the same for a bool operand
  // Only in row fusions (rows.hpp):
  load_column,    // elements of operand `index`, which has one row for all
  splat_row,      // the element of operand `index` for the row
  load_gathered,  // elements of the gathered row of gather `index`
  slot,           // value `index` of the row
  slot_mask,
  kept,  // elements `index` that were kept for the row
  kept_mask,
  immediate,  // the element with the bits `bits`, in every lane
  add,
  sub,
  mul,
  div,
  max,  // NaN if either is
  min,
  multiply_no_nan,  // a if a is 0
  divide_no_nan,    // a if a is 0
  integer_add,      // of integers
  integer_sub,
  integer_mul,
  integer_max,
  integer_min,
  bits_and,
  bits_or,
  bits_xor,
  neg,
  abs,
  sqrt,
  floor,
  ceil,
  round,        // to even
  to_floating,  // integer to the nearest floating-point number of the same size
  to_integer,   // truncates to a 4-byte integer; the smallest integer for NaN and numbers out of range
  equal,        // comparisons give masks; all except not_equal are false for NaN
  not_equal,
  less,
  less_equal,
  integer_equal,
  integer_less,
  mask_and,
  mask_or,
  mask_xor,
  mask_not,
  select_mask,  // of masks: c if a is set, else b
  select,       // the same for elements
  call,         // function `index` of one or two operands
  store,        // a to result `index`
  store_mask,
  // Only in row fusions (straight-line kernels also have store_row, the reductions and keep):
  stream,      // a to result `index`, past the caches if vectors are aligned
  store_row,   // a's element to result `index`
  set_slot,    // a, which has equal lanes, to value `index` of the row
  keep,        // a to elements `index` that are kept for the row
  reduce_sum,  // the row's elements to one, value `index` of the row
  reduce_max,  // NaN if any is
  reduce_min,
  column_sum,  // into elements `index` that all rows share, or, with `bits`, into those of the row
  column_max,
  column_min,
};
constexpr bool makes_mask(VectorOp op) {
  return op == VectorOp::load_mask || op == VectorOp::splat_mask || op == VectorOp::slot_mask ||
         op == VectorOp::kept_mask || (op >= VectorOp::equal && op <= VectorOp::select_mask);
}
/// Number of operands; for a call, the maximum.
constexpr int num_operands(VectorOp op) {
  if (op <= VectorOp::immediate) return 0;
  if (op == VectorOp::select_mask || op == VectorOp::select) return 3;
  return op <= VectorOp::bits_xor || op == VectorOp::call ||
                 (op >= VectorOp::equal && op <= VectorOp::mask_xor)
             ? 2
             : 1;
}

/// Functions of calls. Those from `first_of_two` on take two operands.
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

/// The floating-point dtype of elements with the same size, f32 or f64; bool_ if vectors cannot hold the
/// dtype.
constexpr DType element_dtype(DType dtype) {
  return dtype == i32 ? f32 : dtype == i64 ? f64 : dtype == f32 || dtype == f64 ? dtype : bool_;
}

/// A program. Stores come last.
struct VectorProgram {
  DType dtype = f32;  ///< f32 or f64, which determines the size of elements
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
/// The dtype on which an element-wise operation computes: that of an operand that is not bool, or of the
/// result.
DType computed_dtype(std::span<const DType> operands, DType result);

/// The load of an operand of that type: of a mask for bool, of a repeated element for a single one.
VectorOp load_op(Type type);
/// Appends a constant, the element of a literal of the program's dtype or bool. Returns its register.
std::uint16_t add_immediate(VectorProgram& code, const Literal& literal);

/// Appends the instructions of an element-wise operation that computes on `dtype` (see computed_dtype), with
/// values of the program as operands. Returns nothing, and leaves the program unchanged, if there is no
/// vector code: for dtypes of other sizes, and for operations that need loops.
std::optional<std::uint16_t> add_operation(VectorProgram& code, const Op& op, DType dtype,
                                           std::span<const std::uint16_t> operands, DType result);
/// Does add_operation support the operation in a program of this dtype, for operands of these dtypes?
bool has_vector_code(const Op& op, std::span<const DType> operands, DType result, DType dtype);

/// Compiled code; any number of threads may run it at the same time.
class VectorKernel {
 public:
  /// Runs whole vectors: `count` is a multiple of a vector's elements.
  using Function = void (*)(const std::byte* const* operands, std::byte* const* results, std::int64_t count);

  /// `vector_bytes`: size of the vectors; `memory` owns the function's memory.
  VectorKernel(const VectorProgram& code, Function function, std::size_t vector_bytes,
               std::shared_ptr<const void> memory);

  /// Computes `count` elements. A result may have the memory of an operand, element by element.
  void run(const std::byte* const* operands, std::byte* const* results, std::int64_t count) const;
  /// As run if no result has the memory of an operand: a partial last vector is computed as a whole one that
  /// overlaps the vector before it.
  void run_apart(const std::byte* const* operands, std::byte* const* results, std::int64_t count) const;
  /// Bytes from one element of an operand to the next; 0 for a splat.
  std::size_t operand_step(std::size_t i) const { return operand_steps_[i]; }
  std::size_t result_step(std::size_t i) const { return result_steps_[i]; }
  std::size_t num_operands() const { return operand_steps_.size(); }

  /// Maximum number of operands and results together in most kernels; for more, lists of pointers are
  /// allocated.
  static constexpr std::size_t few_pointers = 64;

 private:
  Function function_;
  std::int64_t width_;
  std::vector<std::size_t> operand_steps_, result_steps_;
  std::shared_ptr<const void> memory_;
};

/// Pointers to the operands or results of a kernel.
template <class Pointer>
using Pointers = eager::detail::ShortArray<Pointer, VectorKernel::few_pointers>;

class RowKernel;
struct RowsCode;  // rows.hpp
class StraightLineKernel;
struct StraightLineCode;  // straight_line.hpp

/// The JIT for one vector width. It keeps compiled code and returns it for an equal program. Beyond
/// `max_kernels`, kernels that nothing else holds are dropped.
class VectorJit {
 public:
  /// The JIT for `units`, created once; null if this machine or this build has none. `automatic` selects the
  /// widest.
  static VectorJit* get(VectorUnits units);

  /// Null if there is no executable memory.
  std::shared_ptr<const VectorKernel> compile(const VectorProgram& code);
  /// As above, for row fusions.
  std::shared_ptr<const RowKernel> compile(const RowsCode& code);
  /// As above, for straight-line kernels.
  std::shared_ptr<const StraightLineKernel> compile(const StraightLineCode& code);
  /// Drops all code, so that it is generated again on demand. For measurements.
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
  // By the hash of the code, which kernels store.
  template <class Kernel>
  using Kernels = std::unordered_multimap<std::uint64_t, std::shared_ptr<const Kernel>>;
  template <class Kernel, class Code>
  std::shared_ptr<const Kernel> compile_in(Kernels<Kernel>& kernels, const Code& code);
  Kernels<RowKernel> row_kernels_;
  Kernels<StraightLineKernel> straight_line_kernels_;
};

// In vector_mvec.cpp.
/// Can code with these vectors run on this machine?
bool can_generate(VectorUnits units);
/// libmvec's function for vectors of 32 or 64 bytes.
const void* address_of(VectorFunction function, bool is_f64, bool is_512);

/// Position-independent code of a kernel's function; no bytes if none could be generated.
struct MachineCode {
  std::vector<std::uint8_t> bytes;
  std::size_t scratch_bytes = 0;  ///< of a row fusion
};
// In vector_x86.cpp, rows_x86.cpp and straight_line_x86.cpp. The code is the same on all machines, except the
// addresses of functions that it calls, and scaling by powers of two: see computes_in_halves.
MachineCode assemble(const VectorProgram& code, VectorUnits units);
MachineCode assemble(const RowsCode& code, VectorUnits units);
MachineCode assemble(const StraightLineCode& code, VectorUnits units);
/// The version of Xbyak, on which the choice of encodings depends; 0 if this build generates no code.
int xbyak_version();
/// A copy of the code in executable, read-only pages; null if the system provides none.
std::shared_ptr<const void> executable_copy(std::span<const std::uint8_t> code);

}  // namespace tidu::cpu_detail
