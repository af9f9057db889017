// collectives.cpp - kernels of collectives over an axis of one rank, the only one that works without a
// binding to a communicator.
#include "tidu/primitives/collectives.hpp"

#include "reference/elements.hpp"

namespace tidu::ref {
namespace {

void keep(const KernelCall& c) {
  prim::require_one_rank(c.op());
  const Writer out(c.output());
  for (Int i = 0; i < c.output().size(); ++i) out.copy(i, c.input(0), i);
}

void ppermute(const KernelCall& c) {
  if (!c.op().lists("perm").empty()) return keep(c);
  prim::require_one_rank(c.op());
  const Writer out(c.output());
  with_element(c.output().dtype(), [&]<class T>(T zero) {
    for (Int i = 0; i < c.output().size(); ++i) out.store<T>(i, zero);
  });
}

}  // namespace

std::vector<NamedKernel> collective_kernels() {
  const DTypes numbers = dtypes::integers | dtypes::floats | dtypes::complexes;
  return {{"psum", numbers, keep},
          {"all_gather", dtypes::all, keep},
          {"reduce_scatter", numbers, keep},
          {"ppermute", dtypes::all, ppermute}};
}

}  // namespace tidu::ref
