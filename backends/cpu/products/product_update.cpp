// product_update.cpp - see product_update.hpp.
#include "cpu/products/product_update.hpp"

#include <algorithm>

#include "cpu/is_any_of.hpp"
#include "cpu/node_memory.hpp"
#include "tidu/graph/graph.hpp"
#include "tidu/primitives/elementwise.hpp"

namespace tidu::cpu_detail {
namespace {

// Bytes of a product from which on it is worth not to be written.
constexpr std::size_t min_product = std::size_t{1} << 16;

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

class UpdateFinder {
 public:
  UpdateFinder(const Program& program, const std::vector<passes::NodeValues>& values,
               const std::vector<bool>& alone)
      : program_(program),
        graph_(program.graph()),
        values_(values),
        alone_(alone),
        readers_(count_readers(program, values)),
        outputs_(graph_.num_values(), 0) {
    for (const ValueId id : graph_.outputs()) ++outputs_[program.roots()[id]];
  }

  // The groups of two operations, the last of which is the sum.
  std::optional<ProductUpdate> find(std::size_t node) const {
    const std::vector<ScheduleNode>& nodes = program_.schedule().nodes;
    if (nodes[node].size != 3 || values_[node].results.size() != 1) return std::nullopt;
    const Operation scaled = graph_.operation(nodes[node + 1].index);
    const Operation sum = graph_.operation(nodes[node + 2].index);
    const DType dtype = graph_.type(sum.output()).dtype();
    if (!is_any_of(scaled, prim::mul) || !is_any_of(sum, prim::add, prim::sub) ||
        (dtype != f32 && dtype != f64) || values_[node].results[0] != sum.output())
      return std::nullopt;
    ProductUpdate update;
    update.subtract = is_any_of(sum, prim::sub);
    const bool is_second = sum.inputs()[1] == scaled.output();
    if (!is_second && (update.subtract || sum.inputs()[0] != scaled.output())) return std::nullopt;
    update.x = program_.roots()[sum.inputs()[is_second ? 0 : 1]];
    const bool scale_is_first = program_.splats()[scaled.inputs()[0]] != no_index;
    if (!take_scale(scaled.inputs()[scale_is_first ? 0 : 1], update) ||
        !take_product(scaled.inputs()[scale_is_first ? 1 : 0], sum, node, update))
      return std::nullopt;
    return update;
  }

 private:
  bool take_scale(ValueId id, ProductUpdate& update) const {
    const ValueId source = program_.splats()[id];
    if (source == no_index) return false;
    if (graph_.type(source).size() == 1) {
      update.scale = program_.roots()[source];
      return true;
    }
    for (const auto& [name, value] : graph_.operation(*graph_.producer(source)).op().attributes()) {
      if (const auto* literal = value.get_if<Literal>()) update.literal = *literal;
    }
    return update.literal.has_value();
  }
  bool take_product(ValueId id, const Operation& sum, std::size_t node, ProductUpdate& update) const {
    id = program_.roots()[id];
    const std::uint32_t maker = graph_.data().producers[id];
    if (maker >= graph_.num_operations() || !alone_[maker] || update.x == id) return false;
    // See count_readers.
    if (readers_[id] != 1 + 2 * outputs_[id]) return false;
    if (outputs_[id] != 0) update.kept = id;
    const Type type = graph_.type(id), x = graph_.type(update.x);
    const auto is_operand = [&](ValueId operand) {
      const std::vector<ValueId>& operands = values_[node].operands;
      return std::find(operands.begin(), operands.end(), operand) != operands.end();
    };
    update.product = maker;
    return type.bytes() >= min_product && type.size() == graph_.type(sum.output()).size() &&
           x.size() == type.size() && x.dtype() == type.dtype() && is_operand(id) && is_operand(update.x);
  }

  const Program& program_;
  const Graph& graph_;
  const std::vector<passes::NodeValues>& values_;
  const std::vector<bool>& alone_;
  std::vector<std::uint32_t> readers_;  // by root: nodes, and more for outputs
  std::vector<std::uint32_t> outputs_;  // by root: how many it is
};

}  // namespace

std::unordered_map<std::size_t, ProductUpdate> find_updates(const Program& program,
                                                            const std::vector<passes::NodeValues>& values,
                                                            const std::vector<bool>& alone) {
  std::unordered_map<std::size_t, ProductUpdate> updates;
  const UpdateFinder finder(program, values, alone);
  const std::vector<ScheduleNode>& nodes = program.schedule().nodes;
  for (std::size_t i = 0; i < nodes.size(); i += nodes[i].size) {
    if (nodes[i].kind != NodeKind::fused_group || nodes[i].index != 0) continue;
    if (const std::optional<ProductUpdate> update = finder.find(i)) updates.emplace(i, *update);
  }
  return updates;
}

Plan plan_update(const ProductUpdate& update, const GemmPlan& product, int threads) {
  const bool keeps = update.kept != no_index;
  Plan plan =
      make_plan<ProductUpdateState, run_update>({product, update.literal, update.subtract, keeps, threads});
  plan.in_one_pass = true;
  plan.library = product.library_bytes(threads);
  return plan;
}

}  // namespace tidu::cpu_detail
