// concat_map.cpp - see concat_map.hpp.
#include "cpu/steps/concat_map.hpp"

#include <algorithm>

#include "cpu/is_any_of.hpp"
#include "cpu/kernels/strided.hpp"
#include "cpu/layout.hpp"
#include "tidu/primitives/structural.hpp"

namespace tidu::cpu_detail {
namespace {

constexpr std::size_t min_run_bytes = 16;
constexpr std::size_t max_run_bytes = 64;  // longer runs count as equal
constexpr std::size_t max_rank = 16;

struct PiecesState {
  struct Copy {
    StridedCopy copy;
    std::size_t operand;
    std::ptrdiff_t from, to;  // bytes
  };
  std::vector<Copy> copies;
};
void copy_pieces(const PiecesState& s, const Call& call) noexcept {
  for (const PiecesState::Copy& each : s.copies)
    each.copy.run(call.in[each.operand] + each.from, call.out[0] + each.to);
}

}  // namespace

bool has_concat_map(const Graph& graph, std::uint32_t index) {
  const Operation operation = graph.operation(index);
  if (!is_any_of(operation, prim::transpose, prim::slice, prim::concatenate)) return false;
  const Type type = graph.type(operation.output());
  return type.size() > 1 && type.rank() <= max_rank;
}

RunLengths RunLengths::of(const ConcatMap& pieces, Type type) {
  const std::vector<std::int64_t> to = strides_of(type);
  std::size_t last = type.rank();
  while (last > 0 && type.dim(last - 1) == 1) --last;
  RunLengths runs{max_run_bytes, max_run_bytes};
  for (const ConcatPiece& piece : pieces) {
    std::int64_t run = 1, of_last = 0;
    for (std::size_t k = last; k-- > 0;) {
      const AccessAxis& axis = piece.map.axes[k];
      if (axis.extent != 1 && (axis.stride != run || to[k] != run)) break;
      run *= axis.extent;
      if (k + 1 == last) of_last = run;
    }
    const std::int64_t merged = of_last == 0 ? 0 : run;
    runs.of_last = std::min(runs.of_last, static_cast<std::size_t>(of_last) * size_of(type.dtype()));
    runs.merged = std::min(runs.merged, static_cast<std::size_t>(merged) * size_of(type.dtype()));
  }
  return runs;
}

bool RunLengths::are_as_long_as(const RunLengths& others) const {
  return of_last >= std::max(min_run_bytes, others.of_last) ||
         merged >= std::max(min_run_bytes, others.merged);
}

ConcatMap ElidedValues::map_of(ValueId id) const {
  if (const auto found = maps_.find(id); found != maps_.end()) return found->second;
  const Type type = graph_.type(id);
  return {{AccessMap::dense(program_.roots()[id], type), std::vector<std::int64_t>(type.rank(), 0)}};
}

std::optional<ConcatMap> ElidedValues::result_of(std::uint32_t index) const {
  const Operation operation = graph_.operation(index);
  const Op op = operation.op();
  if (is_any_of(operation, prim::transpose)) {
    ConcatMap result = map_of(operation.inputs()[0]);
    const Ints& permutation = op.ints("permutation");
    for (ConcatPiece& piece : result) {
      piece.map.transpose(permutation);
      const std::vector<std::int64_t> begin = piece.begin;
      for (std::size_t k = 0; k < begin.size(); ++k)
        piece.begin[k] = begin[static_cast<std::size_t>(permutation[k])];
    }
    return result;
  }
  if (is_any_of(operation, prim::slice)) {
    ConcatMap result = map_of(operation.inputs()[0]);
    const std::span<const std::int64_t> shape = graph_.type(operation.output()).shape();
    const bool fits =
        result.size() == 1 && result[0].map.slice(op.ints("start_indices"), op.ints("strides"), shape);
    return fits ? std::optional(std::move(result)) : std::nullopt;
  }
  ConcatMap result;
  const auto along = static_cast<std::size_t>(op.integer("dimension"));
  std::int64_t begin = 0;
  for (const ValueId id : operation.inputs()) {
    const Type type = graph_.type(id);
    if (type.size() == 0) continue;
    for (ConcatPiece& piece : map_of(id)) {
      piece.begin[along] += begin;
      result.push_back(std::move(piece));
    }
    begin += type.dim(along);
    if (result.size() > max_pieces) return std::nullopt;
  }
  return result;
}

std::optional<AccessMap> ElidedValues::view_of(ValueId id) const {
  const ValueId root = program_.roots()[id];
  const auto found = maps_.find(root);
  const Type type = graph_.type(id);
  AccessMap view = AccessMap::dense(root, type);
  if (found == maps_.end()) return view;
  if (found->second.size() != 1) return std::nullopt;
  const AccessMap& map = found->second[0].map;
  view.source = map.source;
  view.offset = map.offset;
  std::size_t next = 0;  // axes of one element may differ
  const auto skip_ones = [&] {
    while (next < map.axes.size() && map.axes[next].extent == 1) ++next;
  };
  for (std::size_t k = 0; k < type.rank(); ++k) {
    view.axes[k].stride = 0;
    if (type.dim(k) == 1) continue;
    skip_ones();
    if (next == map.axes.size() || map.axes[next].extent != type.dim(k)) return std::nullopt;
    view.axes[k].stride = map.axes[next++].stride;
  }
  return view;
}

Plan plan_concat_copy(const ConcatMap& pieces, Type type, int threads, std::vector<ValueId>& operands) {
  const std::vector<std::int64_t> to = strides_of(type);
  const std::size_t size = size_of(type.dtype());
  PiecesState state;
  operands.clear();
  for (const ConcatPiece& piece : pieces) {
    const auto known = std::find(operands.begin(), operands.end(), piece.map.source);
    const auto operand = static_cast<std::size_t>(known - operands.begin());
    if (known == operands.end()) operands.push_back(piece.map.source);
    std::vector<StridedAxis> axes;
    std::int64_t begin = 0;
    for (std::size_t k = 0; k < piece.begin.size(); ++k) {
      axes.push_back({piece.map.axes[k].extent, to[k], piece.map.axes[k].stride});
      begin += piece.begin[k] * to[k];
    }
    state.copies.push_back({StridedCopy(std::move(axes), size, threads), operand,
                            piece.map.offset * static_cast<std::ptrdiff_t>(size),
                            begin * static_cast<std::ptrdiff_t>(size)});
  }
  return make_plan<PiecesState, copy_pieces>(std::move(state));
}

}  // namespace tidu::cpu_detail
