// gemm_terms.cpp - matmuls of many terms, in parts of kMostTerms that are added up in a cascade.
#include "cpu/cascade.hpp"
#include "cpu/matmul/gemm.hpp"
#include "cpu/matmul/scratch.hpp"
#include "graph/thread_kept.hpp"

namespace tidu::cpu_detail {
namespace {

using Index = std::int64_t;

struct TermsScratch : Scratch {};  // of C's parts

// Adds rows of a range of C, so far as they are wanted, to others.
template <class T>
void add_rows_of(const GemmCall& call, const GemmRange& range, Index member, const std::byte* from,
                 Index from_leading, std::byte* to, Index to_leading) {
  const T* const x = reinterpret_cast<const T*>(from);
  T* const y = reinterpret_cast<T*>(to);
  const Index parts = call.type == GemmType::c64 || call.type == GemmType::c128 ? 2 : 1;
  for (Index i = range.row_begin; i < range.row_end; ++i) {
    Index end = range.column_end;
    if (call.row_ends != nullptr)
      end = std::min<Index>(end, call.row_ends[(member * call.m + i) % call.row_period]);
    for (Index j = parts * range.column_begin; j < parts * end; ++j)
      y[parts * i * to_leading + j] += x[parts * i * from_leading + j];
  }
}
void add_rows(const GemmCall& call, const GemmRange& range, Index member, const std::byte* from,
              Index from_leading, std::byte* to, Index to_leading) {
  const bool is_double = call.type == GemmType::f64 || call.type == GemmType::c128;
  (is_double ? add_rows_of<double> : add_rows_of<float>)(call, range, member, from, from_leading, to,
                                                         to_leading);
}

}  // namespace

// Computes the members of the batch one after another. The first part is written to C, or added if the matmul
// is; the others are computed in the thread's scratch memory, as rows of as many elements as C's, and added
// to those before.
void GemmPlan::multiply_many_terms(const GemmRange& range, const std::byte* a, const std::byte* b,
                                   std::byte* c) const {
  const Index size = gemm_element_size(call_.type), parts = (call_.k + kMostTerms - 1) / kMostTerms;
  const Index rows = range.row_end - range.row_begin, part_bytes = rows * call_.n * size;
  Index levels = 0;
  for (Index count = parts; count > 1; count = cascade_step(count)) ++levels;
  auto* const scratch =
      static_cast<std::byte*>(tidu::detail::ThreadKept<TermsScratch>::get().of(levels * part_bytes));
  struct Part {
    std::byte* c;
    Index ldc;
    bool add;
  };
  const auto make = [&](Index member) {
    return [&, member](Index number, const Part& to) {
      GemmCall call = call_;
      const Index first = number * kMostTerms;
      call.k = std::min(kMostTerms, call_.k - first);
      call.ldc = to.ldc;
      call.add = to.add;
      const GemmRange one{0, 1, range.row_begin, range.row_end, range.column_begin, range.column_end};
      kernel_(call, one, a + (member * call_.stride_a + first * (call_.trans_a ? call_.lda : 1)) * size,
              b + (member * call_.stride_b + first * (call_.trans_b ? 1 : call_.ldb)) * size, to.c);
    };
  };
  for (Index member = range.batch_begin; member < range.batch_end; ++member) {
    in_cascade(
        Index{0}, parts, Part{c + member * call_.stride_c * size, call_.ldc, call_.add}, make(member),
        // Its first row is the range's: it may begin before the scratch, where no arithmetic on pointers
        // leads.
        [&](Index level, Index) {
          const auto at = reinterpret_cast<std::uintptr_t>(scratch + level * part_bytes) -
                          static_cast<std::uintptr_t>(range.row_begin * call_.n * size);
          return Part{reinterpret_cast<std::byte*>(at), call_.n, false};  // NOLINT(performance-no-int-to-ptr)
        },
        [&](const Part& to, const Part& from) {
          add_rows(call_, range, member, from.c, from.ldc, to.c, to.ldc);
        });
  }
}

}  // namespace tidu::cpu_detail
