// transpose_epilogue.cpp - see transpose_epilogue.hpp.
#include "cpu/groups/transpose_epilogue.hpp"

#include <algorithm>

#include "cpu/is_any_of.hpp"
#include "cpu/node_memory.hpp"
#include "tidu/graph/graph.hpp"
#include "tidu/primitives/structural.hpp"

namespace tidu::cpu_detail {
namespace {

// Bytes of a result from which on it is worth not to be written twice, and of a piece, at most.
constexpr std::size_t min_transposed = std::size_t{1} << 16;
constexpr std::int64_t piece_bytes = std::int64_t{1} << 13;
// Entries of the axis that is cut in a piece, at least where there are as many, and a multiple of what fills
// whole lines of the caches.
constexpr std::int64_t min_entries = 4, whole_lines = 8;
// Bytes side by side in the result: a transpose by itself goes through whole tiles of it. Where the result is
// beyond the caches and an entry of the axis has many elements, fewer do. (Measured.)
constexpr std::int64_t min_run = 256, min_far_run = 16, far_entry = 128;
constexpr std::size_t far_bytes = std::size_t{1} << 22;

// Of what a group makes by this plan; nothing where that is not made row by row.
std::optional<TransposingCopy> transposing_copy(const Graph& graph, const Operation& transpose,
                                                const RowsPlan& plan) {
  const Type type = graph.type(transpose.inputs()[0]);
  if (!plan.folds.empty() || plan.period != 1 || type.size() != plan.rows * plan.code.columns)
    return std::nullopt;
  return TransposingCopy::make(type, transpose.op().ints("permutation"), plan.code.columns);
}

}  // namespace

TransposedResults find_transposed_results(const Program& program, std::vector<passes::NodeValues>& values,
                                          const std::vector<bool>& done, const CompileOptions& options) {
  const Graph& graph = program.graph();
  const std::vector<ScheduleNode>& nodes = program.schedule().nodes;
  std::vector<std::uint32_t> readers;
  TransposedResults found;
  for (std::size_t node = 0, next = 0; node < nodes.size(); node = next) {
    next = node + nodes[node].size;
    const bool rows = nodes[node].kind == NodeKind::fused_group && nodes[node].index != 0;
    if (!rows || next >= nodes.size() || nodes[next].kind != NodeKind::operation ||
        (!done.empty() && done[nodes[next].index]))
      continue;
    const Operation operation = graph.operation(nodes[next].index);
    if (!is_any_of(operation, prim::transpose)) continue;
    const ValueId value = program.roots()[operation.inputs()[0]], result = operation.output();
    std::vector<ValueId>& results = values[node].results;
    const auto at = std::find(results.begin(), results.end(), value);
    if (graph.type(result).bytes() < min_transposed || at == results.end()) continue;
    if (values[next].operands != std::vector{value}) continue;  // it moves more than that
    if (readers.empty()) readers = count_readers(program, values);
    if (readers[value] != 1) continue;
    std::optional<RowsPlan> plan =
        plan_rows_code(program, node, values[node], options.repeats, options.num_carry);
    // What checks indices is no code.
    if (!plan || (options.check_indices && plan->code.has_indices())) continue;
    std::optional<TransposingCopy> copy = transposing_copy(graph, operation, *plan);
    if (!copy) continue;
    *at = result;
    values[node].whole = values[node].operands;
    found.emplace(node,
                  TransposedResult{value, result, nodes[next].index, *std::move(plan), *std::move(copy)});
  }
  return found;
}

std::optional<TransposingCopy> TransposingCopy::make(Type type, std::span<const std::int64_t> permutation,
                                                     std::int64_t columns) {
  const std::size_t rank = type.rank();
  std::vector<StridedAxis> axes(rank);
  std::int64_t stride = 1;
  for (std::size_t k = rank; k-- > 0; stride *= type.dim(k)) axes[k] = {type.dim(k), 0, stride};
  stride = 1;
  for (std::size_t k = rank; k-- > 0;) {
    StridedAxis& axis = axes[static_cast<std::size_t>(permutation[k])];
    axis.to = stride;
    stride *= axis.extent;
  }
  // The first axis of which some entries are a piece.
  TransposingCopy copy;
  copy.size_ = size_of(type.dtype());
  const std::int64_t most = piece_bytes / static_cast<std::int64_t>(copy.size_);
  std::size_t cut = 0;
  while (cut < rank && std::min(axes[cut].extent, min_entries) * axes[cut].from > most) ++cut;
  if (cut == rank || axes[cut].from % columns != 0 || type.size() == 0) return std::nullopt;
  const StridedAxis along = axes[cut];
  copy.extent_ = along.extent;
  copy.to_ = along.to;
  copy.inner_ = along.from;
  copy.at_once_ = std::min(along.extent, most / along.from);
  if (copy.at_once_ > whole_lines) copy.at_once_ -= copy.at_once_ % whole_lines;
  // What of a piece lies side by side in the result: its last axes.
  std::int64_t run = 1;
  for (std::size_t k = rank; k-- > 0;) {
    const auto axis = static_cast<std::size_t>(permutation[k]);
    if (axes[axis].extent == 1) continue;
    if (axis < cut || axes[axis].to != run) break;
    run *= axis == cut ? copy.at_once_ : axes[axis].extent;
  }
  const bool is_far = type.bytes() >= far_bytes && copy.inner_ >= far_entry;
  if (run * static_cast<std::int64_t>(copy.size_) < (is_far ? min_far_run : min_run)) return std::nullopt;
  copy.of_each_ = (copy.extent_ + copy.at_once_ - 1) / copy.at_once_;
  copy.pieces_ = copy.of_each_;
  for (std::size_t k = 0; k < cut; ++k) {
    copy.outer_.push_back({axes[k].extent, axes[k].to});
    copy.pieces_ *= axes[k].extent;
  }
  axes.erase(axes.begin(), axes.begin() + static_cast<std::ptrdiff_t>(cut));
  axes[0].extent = copy.at_once_;
  copy.whole_ = StridedCopy(axes, copy.size_, 1);
  axes[0].extent = copy.extent_ - (copy.of_each_ - 1) * copy.at_once_;
  copy.last_ = StridedCopy(std::move(axes), copy.size_, 1);
  return copy;
}

std::int64_t TransposingCopy::begin(std::int64_t piece) const {
  return (piece / of_each_ * extent_ + piece % of_each_ * at_once_) * inner_;
}
std::int64_t TransposingCopy::count(std::int64_t piece) const {
  return std::min(at_once_, extent_ - piece % of_each_ * at_once_) * inner_;
}
void TransposingCopy::run(std::int64_t piece, const std::byte* from, std::byte* to) const {
  const std::int64_t along = piece % of_each_;
  std::int64_t at = along * at_once_ * to_, left = piece / of_each_;
  for (std::size_t k = outer_.size(); k-- > 0;) {
    at += left % outer_[k].extent * outer_[k].to;
    left /= outer_[k].extent;
  }
  const StridedCopy& copy = along + 1 == of_each_ ? last_ : whole_;
  copy.run(from, to + static_cast<std::size_t>(at) * size_);
}

}  // namespace tidu::cpu_detail
