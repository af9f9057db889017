// collectives.cpp - collectives over an axis of one rank, which is all there is where nobody bound the axis
// to a communicator.
#include "tidu/primitives/collectives.hpp"

#include <cstring>

#include "cpu/kernel.hpp"

namespace tidu::cpu_detail {
namespace {

struct KeepState {
  std::size_t bytes;
  bool zeros;
};
void keep(const KeepState& s, const Call& call) {
  if (s.bytes == 0) return;
  if (s.zeros) {
    std::memset(call.out[0], 0, s.bytes);
  } else if (call.in[0] != call.out[0]) {
    std::memcpy(call.out[0], call.in[0], s.bytes);
  }
}
Plan plan_keep(const PlanRequest& request) {
  prim::require_one_rank(request.op);
  return make_plan<KeepState, keep>({request.out[0].bytes(), false});
}
Plan plan_ppermute(const PlanRequest& request) {
  prim::require_one_rank(request.op);
  return make_plan<KeepState, keep>({request.out[0].bytes(), request.op.lists("perm").empty()});
}

constexpr KernelEntry entries[] = {{"psum", plan_keep, numbers, true},
                                   {"all_gather", plan_keep, any_dtype, true},
                                   {"reduce_scatter", plan_keep, numbers, true},
                                   {"ppermute", plan_ppermute, any_dtype, true}};

}  // namespace

std::span<const KernelEntry> collective_kernels() { return entries; }

}  // namespace tidu::cpu_detail
