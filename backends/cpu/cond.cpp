// cond.cpp - planning and running of conds: each branch is compiled once, and they share the memory that the
// one with most of it needs. Nothing is allocated while one runs.
#include "cpu/cond.hpp"

#include <algorithm>
#include <vector>

#include "tidu/primitives/control_flow.hpp"

namespace tidu::cpu_detail {
namespace {

struct CondState {
  std::vector<std::shared_ptr<const Compiled>> branches;
  bool is_flag = false;  // the index
};

void run_cond(const CondState& s, const Call& call) {
  std::int64_t index = 0;
  if (s.is_flag)
    index = *call.operand<bool>(0) ? 1 : 0;
  else
    index = *call.operand<std::int32_t>(0);
  index = std::clamp<std::int64_t>(index, 0, static_cast<std::int64_t>(s.branches.size()) - 1);
  const Compiled& branch = *s.branches[static_cast<std::size_t>(index)];
  branch.prepare_inner(call.scratch);
  branch.run_inner(call.scratch, call.in + 1, call.out);
}

}  // namespace

bool is_cond(const Operation& operation) { return &operation.primitive() == &prim::cond; }

Plan plan_cond(const Operation& operation, Type index, const InnerContext& context) {
  const Op op = operation.op();
  CondState s;
  s.is_flag = is_bool(index.dtype());
  std::size_t scratch = 0;
  for (const Graph& branch : op.graphs("branches")) {
    s.branches.push_back(compile_inner(branch, context));
    scratch = std::max(scratch, s.branches.back()->inner_bytes());
  }
  return make_plan<CondState, run_cond>(std::move(s), scratch);
}

}  // namespace tidu::cpu_detail
