// plan.hpp - what runs on a device: kernels as text, their launches, calls of libraries, copies. Names no
// type of CUDA's, so that everything up to here is made, read and tested without a toolkit and without a
// device.
//
// An operation or a fusion is planned once, when a program is compiled: a Plan is a list of steps over the
// operands, the results and scratch memory, whose addresses are known when it runs.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "tidu/graph/op.hpp"
#include "tidu/graph/type.hpp"

namespace tidu::cuda_detail {

/// A kernel as CUDA C++, without the prelude (prelude.hpp), which is put before it when it is compiled. Equal
/// texts are one kernel. Threads of a block speak to each other through the prelude's functions alone, so
/// that the same text also runs on a host.
struct KernelSource {
  std::string entry;  ///< name of its one `extern "C" __global__` function
  std::string text;   ///< all of it
  friend bool operator==(const KernelSource&, const KernelSource&) = default;
};

/// Memory that a step touches: an operand or a result by position, or scratch memory of the plan.
struct BufferRef {
  enum class Kind : std::uint8_t { operand, result, scratch };
  Kind kind = Kind::operand;
  std::uint32_t index = 0;  ///< of an operand or result
  std::size_t offset = 0;   ///< bytes from its start
  friend bool operator==(const BufferRef&, const BufferRef&) = default;
};
inline BufferRef operand(std::size_t index, std::size_t offset = 0) {
  return {BufferRef::Kind::operand, static_cast<std::uint32_t>(index), offset};
}
inline BufferRef result(std::size_t index = 0, std::size_t offset = 0) {
  return {BufferRef::Kind::result, static_cast<std::uint32_t>(index), offset};
}
inline BufferRef scratch(std::size_t offset) { return {BufferRef::Kind::scratch, 0, offset}; }

/// An argument of a kernel: an address, or up to eight bytes by value.
struct Argument {
  bool is_place = true;
  BufferRef place;
  std::uint8_t bytes = 0;            ///< of a value
  std::array<std::byte, 8> value{};  ///< its bits
  friend bool operator==(const Argument&, const Argument&) = default;
};

/// Arguments of a launch: a fusion's operands and results, and the numbers that its kernel is given.
inline constexpr std::size_t max_arguments = 256;

/// A kernel over a grid. Blocks have one dimension, at most 1024 threads.
struct Launch {
  std::shared_ptr<const KernelSource> kernel;
  std::array<std::uint32_t, 3> grid{1, 1, 1};  ///< blocks: at least 1, at most 2^31 - 1, 65535, 65535
  std::uint32_t block = 1;                     ///< threads
  std::uint32_t shared_bytes = 0;              ///< of dynamic shared memory
  std::vector<Argument> arguments;
};

/// Copies `bytes` within a device; source and destination do not overlap.
struct CopyStep {
  BufferRef from, to;
  std::size_t bytes = 0;
};
/// Zeroes.
struct ClearStep {
  BufferRef at;
  std::size_t bytes = 0;
};

/// All elements of a tensor of the host's.
struct LiteralStep {
  Literal literal;
  BufferRef to;
};

/// out[b] = alpha · A[b] · B[b] + beta · out[b] for `batch` matrices, all row-major: A is m × k (k × m where
/// `a_transposed`), B k × n (n × k), out m × n. Strides and leading dimensions count elements. With a bias
/// its n elements are added to each row before it is rounded.
struct GemmStep {
  DType dtype = DType::f32;       ///< of A, B and out
  DType accumulate = DType::f32;  ///< in which products are summed
  std::int64_t batch = 1, m = 0, n = 0, k = 0;
  bool a_transposed = false, b_transposed = false;
  std::int64_t lda = 0, ldb = 0, ldc = 0;
  std::int64_t stride_a = 0, stride_b = 0, stride_c = 0;  ///< between matrices of the batch
  double alpha = 1, beta = 0;
  bool tf32 = false;      ///< f32 operands may be rounded to tf32
  bool has_bias = false;  ///< of f32, f16 and bf16
  BufferRef a, b, out;
  BufferRef bias;       ///< n elements
  BufferRef workspace;  ///< scratch memory
  std::size_t workspace_bytes = 0;
};

/// A convolution as layers have it, or one of its two gradients: with sums over features c and places q
///   y[n, o, p] = Σ x[n, c, p stride + q dilation - padding] w[o, c, q]
/// where features of x are cut in groups, and q counts from the other end where it is `flipped`. Of x, w and
/// y one is made of the two others, `kind` says which: y, or what makes Σ y' y the same for all x', or all
/// w'. x lies as [batch, features, places], w as [results, features of a group, places], or with features
/// last.
struct ConvolutionStep {
  enum class Kind : std::uint8_t { forward, data, filter };
  struct Axis {
    std::int64_t x = 1, w = 1, y = 1;  ///< extents
    std::int64_t stride = 1, dilation = 1, padding = 0;
  };
  Kind kind = Kind::forward;
  DType dtype = DType::f32;  ///< f16, bf16, f32 or f64
  bool tf32 = false, features_last = false, flipped = false;
  std::int64_t batch = 1, features = 1, results = 1, groups = 1;
  std::vector<Axis> axes;
  BufferRef x, w, y, workspace;
  std::size_t workspace_bytes = 0;
};

/// Sorts `keys` within `segments` runs of `length` in ascending order as unsigned integers of `key_bytes`
/// (1, 2, 4 or 8), stably, and moves the u32 `values` with them. The sorted ones are in keys_out, values_out.
struct SortStep {
  std::uint32_t key_bytes = 4;
  std::int64_t segments = 1, length = 0;
  BufferRef keys, values, keys_out, values_out, workspace;
  std::size_t workspace_bytes = 0;
};

/// A step of dense linear algebra on `batch` column-major matrices a, rows × columns, one behind the other
/// (`matrix_stride` elements apart where that is not 0). As LAPACK's routines, in place:
///   potrf   a becomes its lower Cholesky factor (the other triangle is anything)
///   trsm    b becomes x with op(a) x = b, or x op(a) = b: a is rows × rows
///   getrf   a becomes L and U, b (i32, min(rows, columns)) its exchanges counted from 1
///   geqrf   a becomes R and reflectors, b (min(rows, columns)) their factors
///   orgqr   the first `columns` columns of a, with as many reflectors, become Q
///   syevd   a, of which the lower triangle is read, becomes eigenvectors, `values` ascending
///   gesvd   rows >= columns: `values` descending, u rows × columns, v = Vᴴ columns × columns; a is anything
/// `info` are batch i32, zero where the routine succeeded (not written by trsm).
/// Where it is `batched` (potrf, trsm, getrf of square matrices, syevd) one call is for all matrices; of the
/// first three `a_pointers`, and of trsm `b_pointers`, are their addresses.
struct SolverStep {
  enum class Routine : std::uint8_t { potrf, trsm, getrf, geqrf, orgqr, syevd, gesvd };
  Routine routine = Routine::potrf;
  DType dtype = DType::f32;  ///< f32, f64, c64 or c128
  std::int64_t batch = 1, rows = 0, columns = 0, matrix_stride = 0;
  std::int64_t right_hand_sides = 0;  ///< trsm: columns of b (rows where `on_the_right`)
  bool lower = true, transposed = false, unit_diagonal = false, on_the_right = false;  ///< trsm: of a
  bool batched = false;
  BufferRef a, b, values, u, v, info, a_pointers, b_pointers;
  BufferRef workspace;  ///< scratch memory: Device::workspace_bytes says how much
  std::size_t workspace_bytes = 0;
};

/// A collective over the ranks of a communicator.
struct CollectiveStep {
  enum class Kind : std::uint8_t { sum, gather, scatter_sum, permute };
  Kind kind = Kind::sum;
  DType dtype = DType::f32;
  std::string axis_name;
  void* communicator =
      nullptr;             ///< the device's, which whoever compiles binds the axis to; null: of one rank
  std::int32_t rank = 0;   ///< of this process in it
  std::int32_t ranks = 1;  ///< of the axis, which the communicator has to have
  std::int64_t count = 0;  ///< elements of the operand on each rank; scatter_sum: of the result
  std::vector<std::pair<std::int32_t, std::int32_t>> pairs;  ///< permute: (source, destination)
  BufferRef in, out;
};

using Step = std::variant<Launch, CopyStep, ClearStep, LiteralStep, GemmStep, ConvolutionStep, SortStep,
                          SolverStep, CollectiveStep>;

/// How an operation or a fusion runs; empty and `supported` where there is nothing to do.
struct Plan {
  bool supported = false;
  std::vector<Step> steps;        ///< one after another on one stream
  std::size_t scratch_bytes = 0;  ///< aligned to 256
};

/// What is to be planned.
struct PlanRequest {
  const Op& op;
  std::span<const Type> in;
  std::span<const Type> out;
  int multiprocessors = 132;  ///< of the device, to choose how many blocks share one reduction
  bool tf32 = false;          ///< f32 matmuls may round their operands to tf32
  bool cudnn = false;         ///< convolutions that cuDNN knows are its own
};
using PlanRule = Plan (*)(const PlanRequest&);

}  // namespace tidu::cuda_detail
