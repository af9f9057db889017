// matmul_epilogue.cpp - see matmul_epilogue.hpp.
#include "cpu/matmul/matmul_epilogue.hpp"

#include "tidu/graph/literal.hpp"

namespace tidu::cpu_detail {
namespace {

struct MatmulEpilogueState {
  GemmPlan matmul;
  std::optional<Literal> scale;  // or an operand
  bool subtract = false, keeps = false;
  int threads = 1;
};
void run_update(const MatmulEpilogueState& s, const Call& call) noexcept {
  const std::byte* const scale = s.scale ? s.scale->bytes() : call.in[3];
  std::byte* const matmul = s.keeps ? call.out[1] : nullptr;
  s.matmul.update(s.threads, call.in[0], call.in[1], {call.in[2], scale, s.subtract, false, matmul},
                  call.out[0]);
}

}  // namespace

Plan plan_matmul_epilogue(const MatmulEpilogue& update, const GemmPlan& matmul, int threads) {
  const bool keeps = update.kept != no_index;
  Plan plan =
      make_plan<MatmulEpilogueState, run_update>({matmul, update.literal, update.subtract, keeps, threads});
  plan.in_one_pass = true;
  plan.library = matmul.library_bytes(threads);
  return plan;
}

}  // namespace tidu::cpu_detail
