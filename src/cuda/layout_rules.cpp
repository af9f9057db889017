// layout_rules.cpp - plans of operations by themselves that move elements in an order other than the
// operand's: transposition by tiles in shared memory, concatenation part by part.
#include <algorithm>

#include "cuda/kernels.hpp"

namespace tidu::cuda_detail {
namespace {

Plan transpose(const PlanRequest& request) { return plan_loop(body_of(request), request.multiprocessors); }
Plan concatenate(const PlanRequest& request) { return plan_loop(body_of(request), request.multiprocessors); }

constexpr RuleEntry entries[] = {
    {"transpose", transpose, dtypes::all},
    {"concatenate", concatenate, dtypes::all},
};

}  // namespace

RuleTable layout_rules() { return entries; }

}  // namespace tidu::cuda_detail
