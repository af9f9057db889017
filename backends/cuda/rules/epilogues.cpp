// epilogues.cpp - matmuls and the additions that follow them.
#include "cuda/rules/epilogues.hpp"

#include <optional>

#include "cuda/rules.hpp"
#include "tidu/graph/builder.hpp"

namespace tidu::cuda_detail {
namespace {

// Does broadcast_in_dim do nothing but repeat its operand as a whole? Then element p of its result is element
// p modulo the operand's size.
bool repeats_whole(const Op& op, Type x, Type result) {
  const Ints& placed = op.ints("broadcast_dimensions");
  std::size_t axis = result.rank(), next = placed.size();
  bool repeated = false;  // so far, from behind
  while (axis-- > 0) {
    const bool is_placed = next > 0 && placed[next - 1] == static_cast<std::int64_t>(axis);
    if (is_placed) --next;
    if (result.dim(axis) == 1) continue;
    if (is_placed && x.dim(next) != 1) {
      if (repeated) return false;
    } else {
      repeated = true;
    }
  }
  return true;
}

class Finder {
 public:
  Finder(const Graph& graph, std::span<const ValueId> roots, const std::vector<bool>& needed,
         const NodeOptions& options)
      : graph_(graph), roots_(roots), options_(options), reads_(graph.num_values(), 0) {
    for (std::uint32_t i = 0; i < graph.num_operations(); ++i) {
      const Operation operation = graph.operation(i);
      if (!needed[i] || operation.primitive().has_trait(Trait::view)) continue;
      for (const ValueId id : operation.inputs()) ++reads_[roots[id]];
    }
    for (const ValueId id : graph.outputs()) ++reads_[roots[id]];
  }

  std::optional<BiasedMatmul> find(const Operation& sum) const {
    if (sum.name() != "add") return std::nullopt;
    const DType dtype = graph_.type(sum.output()).dtype();
    if (dtype != DType::f32 && dtype != DType::f16 && dtype != DType::bf16) return std::nullopt;
    for (const std::size_t side : {std::size_t{0}, std::size_t{1}}) {
      const ValueId matmul = roots_[sum.input(side)], bias = bias_of(sum.input(1 - side));
      if (graph_.type(matmul).dtype() != dtype || graph_.type(bias).dtype() != dtype) continue;
      std::optional<BiasedMatmul> found = plan(matmul, bias);
      if (found) return found;
    }
    return std::nullopt;
  }

 private:
  // The vector that is added to each row, if the value is a broadcast of one.
  ValueId bias_of(ValueId added) const {
    const ValueId root = roots_[added];
    const auto producer = graph_.producer(root);
    if (!producer) return root;
    const Operation operation = graph_.operation(*producer);
    if (operation.name() != "broadcast_in_dim") return root;
    const ValueId x = operation.input(0);
    return repeats_whole(operation.op(), graph_.type(x), graph_.type(root)) ? roots_[x] : root;
  }

  std::optional<BiasedMatmul> plan(ValueId matmul, ValueId bias) const {
    const auto producer = graph_.producer(matmul);
    if (!producer || reads_[matmul] != 1) return std::nullopt;
    const Operation operation = graph_.operation(*producer);
    if (operation.name() != "dot_general") return std::nullopt;
    std::vector<Type> in;
    for (const ValueId id : operation.inputs()) in.push_back(graph_.type(id));
    const Type out = graph_.type(matmul);
    const Op op = operation.op();
    BiasedMatmul found{*producer, bias,
                       plan_operation({op, in, std::span(&out, 1), options_.multiprocessors, options_.tf32})};
    if (!found.plan.supported || found.plan.steps.empty()) return std::nullopt;
    auto* const step = std::get_if<GemmStep>(&found.plan.steps.back());
    // One matrix in one call: a batch that is too large for a call may end with a call for one.
    if (step == nullptr || step->m * step->n != graph_.type(matmul).size()) return std::nullopt;
    if (step->n != graph_.type(bias).size()) return std::nullopt;
    if (step->n == 1 || step->k == 1) return std::nullopt;  // no matrices that a library is made for
    step->has_bias = true;
    step->bias = operand(in.size());
    return found;
  }

  const Graph& graph_;
  std::span<const ValueId> roots_;
  const NodeOptions& options_;
  std::vector<std::uint32_t> reads_;  // by value: operations and outputs that read its memory
};

}  // namespace

std::map<std::uint32_t, BiasedMatmul> find_biased_matmuls(const Graph& graph, std::span<const ValueId> roots,
                                                          const std::vector<bool>& needed,
                                                          const NodeOptions& options) {
  const Finder finder(graph, roots, needed, options);
  std::map<std::uint32_t, BiasedMatmul> found;
  for (std::uint32_t i = 0; i < graph.num_operations(); ++i) {
    if (!needed[i]) continue;
    if (std::optional<BiasedMatmul> one = finder.find(graph.operation(i))) found.emplace(i, std::move(*one));
  }
  return found;
}

}  // namespace tidu::cuda_detail
