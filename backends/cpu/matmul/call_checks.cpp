// call_checks.cpp - see call_checks.hpp.
#include "cpu/matmul/call_checks.hpp"

#include <cstdint>
#include <string>

namespace tidu::cpu_detail {
namespace {

using Index = std::int64_t;

[[noreturn]] void refuse(const std::string& what) { throw GemmError("[gemm] " + what); }

void check_not_negative(const char* name, Index value) {
  if (value < 0) refuse(std::string("expected ") + name + " >= 0, got " + std::to_string(value));
}

/// The elements from the first to the last of `batch` matrices of rows x columns.
Index checked_extent(const char* name, Index rows, Index columns, Index ld, Index batch, Index stride,
                     Index element_size) {
  if (rows == 0 || columns == 0 || batch == 0) return 0;
  if (rows > 1 && ld < columns) {
    refuse(std::string("expected a leading dimension of ") + name + " of at least " +
           std::to_string(columns) + ", got " + std::to_string(ld));
  }
  Index row_part = 0, batch_part = 0, extent = 0, bytes = 0;
  if (__builtin_mul_overflow(rows - 1, ld, &row_part) ||
      __builtin_mul_overflow(batch - 1, stride, &batch_part) ||
      __builtin_add_overflow(row_part, batch_part, &extent) ||
      __builtin_add_overflow(extent, columns, &extent) ||
      __builtin_mul_overflow(extent, element_size, &bytes)) {
    refuse(std::string("expected the bytes of ") + name + " to fit in an int64, got " +
           std::to_string(batch) + " x " + std::to_string(rows) + " x " + std::to_string(columns) +
           " elements at strides " + std::to_string(stride) + ", " + std::to_string(ld));
  }
  return row_part + columns;
}

}  // namespace

void check_gemm_call(const GemmCall& call) {
  check_not_negative("m", call.m);
  check_not_negative("n", call.n);
  check_not_negative("k", call.k);
  check_not_negative("lda", call.lda);
  check_not_negative("ldb", call.ldb);
  check_not_negative("ldc", call.ldc);
  check_not_negative("batch", call.batch);
  check_not_negative("stride_a", call.stride_a);
  check_not_negative("stride_b", call.stride_b);
  check_not_negative("stride_c", call.stride_c);
  if (call.row_ends != nullptr && call.row_period < 1)
    refuse("expected row_period >= 1, got " + std::to_string(call.row_period));
  if (static_cast<unsigned>(call.type) > static_cast<unsigned>(GemmType::i64)) refuse("expected a GemmType");
  const Index size = gemm_element_size(call.type);
  checked_extent("A", call.trans_a ? call.k : call.m, call.trans_a ? call.m : call.k, call.lda, call.batch,
                 call.stride_a, size);
  checked_extent("B", call.trans_b ? call.n : call.k, call.trans_b ? call.k : call.n, call.ldb, call.batch,
                 call.stride_b, size);
  const Index extent = checked_extent("C", call.m, call.n, call.ldc, call.batch, call.stride_c, size);
  const bool side_by_side = call.stride_c >= call.n && call.stride_c * (call.batch - 1) + call.n <= call.ldc;
  if (call.batch > 1 && extent > 0 && call.stride_c < extent && !side_by_side) {
    refuse("expected members of C that do not overlap, got stride_c " + std::to_string(call.stride_c) +
           " for " + std::to_string(call.m) + " x " + std::to_string(call.n) + " with ldc " +
           std::to_string(call.ldc));
  }
}

}  // namespace tidu::cpu_detail
