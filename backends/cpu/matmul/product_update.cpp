// product_update.cpp - see product_update.hpp.
#include "cpu/matmul/product_update.hpp"

#include "tidu/graph/literal.hpp"

namespace tidu::cpu_detail {
namespace {

struct ProductUpdateState {
  GemmPlan product;
  std::optional<Literal> scale;  // or an operand
  bool subtract = false, keeps = false;
  int threads = 1;
};
void run_update(const ProductUpdateState& s, const Call& call) noexcept {
  const std::byte* const scale = s.scale ? s.scale->bytes() : call.in[3];
  std::byte* const product = s.keeps ? call.out[1] : nullptr;
  s.product.update(s.threads, call.in[0], call.in[1], {call.in[2], scale, s.subtract, false, product},
                   call.out[0]);
}

}  // namespace

Plan plan_update(const ProductUpdate& update, const GemmPlan& product, int threads) {
  const bool keeps = update.kept != no_index;
  Plan plan =
      make_plan<ProductUpdateState, run_update>({product, update.literal, update.subtract, keeps, threads});
  plan.in_one_pass = true;
  plan.library = product.library_bytes(threads);
  return plan;
}

}  // namespace tidu::cpu_detail
