// offset_views.cpp - pads of slices, and rolls, as offset views of flat arrays.
//
// Note [Offset views]: a slice that is padded to the shape of its array again is, except for the padding, the
// flat array at an offset. A roll along an axis is the flat array at two offsets, one of which holds where
// the axis begins anew. Element-wise work on such parts can therefore run on the whole flat array, and a
// select then takes the elements that count. It reads the array in place, as far as there are elements, and
// neither the parts nor values computed from them are in memory. The cost is the elements that are computed
// and not selected, which are as many as the padding.
//
// A pad absorbs its element-wise operations down to slices, a roll down to an array. Operations that several
// of them absorb are computed again in each, if they are a few additions and multiplications.
#include <algorithm>
#include <map>
#include <numeric>

#include "cpu/schedule/cheap.hpp"
#include "cpu/schedule/offset_view_writer.hpp"
#include "tidu/cpu/schedule_passes.hpp"
#include "tidu/optimizer/passes.hpp"

namespace tidu::passes {
namespace {

// Below, operations run one by one; above, what says which elements count, a byte for each, takes its time.
constexpr std::int64_t min_flat_elements = 512, max_elements = std::int64_t{1} << 20;
// An array of one axis has its elements side by side in any way, and so has a long row.
constexpr std::int64_t min_of_one_axis = std::int64_t{1} << 16, longest_row = 4096;
constexpr std::size_t max_shared = 2;     // operations that several layout operations may compute
constexpr std::size_t max_taken_in = 12;  // operations

class OffsetViewPass {
 public:
  explicit OffsetViewPass(const Graph& graph) : graph_(graph), g_(graph.data()), ops_(graph.primitives()) {}

  Graph run() {
    if (!ops_.are_there() || graph_.primitives().transform_ops().constant == nullptr || !find_layouts())
      return graph_;
    roots_ = alias_roots(graph_);
    splats_ = find_splats(graph_);
    find_readers();
    find_rows();
    std::map<std::uint32_t, TakenIn> taken;
    for (const std::uint32_t layout : layouts_) {
      if (std::optional<TakenIn> found = take_in(layout)) taken.emplace(layout, std::move(*found));
    }
    if (taken.empty()) return graph_;
    return prune(rebuilt(taken));
  }

 private:
  std::span<const ValueId> operands(const OperationRecord& record) const {
    return {g_.operands.data() + record.first_input, record.num_inputs};
  }
  bool is(const OperationRecord& record, const Primitive* primitive) const {
    return record.op->primitive == primitive;
  }
  static bool is_element_wise(const OperationRecord& record) {
    const Primitive& primitive = *record.op->primitive;
    return record.num_outputs == 1 && primitive.has_trait(Trait::elementwise) &&
           !primitive.has_trait(Trait::impure) && !primitive.has_trait(Trait::barrier);
  }
  // What selects are generated for.
  static bool fits(Type type) {
    return (type.dtype() == f32 || type.dtype() == f64) && type.size() >= min_flat_elements &&
           type.size() <= max_elements;
  }

  bool find_layouts() {
    for (std::uint32_t k = 0; k < g_.operations.size(); ++k) {
      const OperationRecord& record = g_.operations[k];
      if (!is(record, ops_.pad) && !is(record, ops_.concatenate)) continue;
      if (!fits(g_.types[record.first_output])) continue;
      if (is(record, ops_.pad) ? pads_around(record) : roll_of(graph_, k).has_value()) layouts_.push_back(k);
    }
    return !layouts_.empty();
  }
  // And with no more than there is already, since what is computed there is for nothing.
  bool pads_around(const OperationRecord& record) const {
    for (const Ints& axis : Op::of(record.op).lists("padding_config")) {
      if (axis[0] < 0 || axis[1] < 0 || axis[2] != 0) return false;
    }
    return 2 * g_.types[operands(record)[0]].size() >= g_.types[record.first_output].size();
  }

  // By value: how often layout operations and element-wise operations read it, whether anything else does,
  // and whether anything reads it that is not element-wise.
  void find_readers() {
    reads_.resize(g_.types.size());
    others_.resize(g_.types.size());
    read_element_wise_.resize(g_.types.size());
    read_by_layout_.resize(g_.types.size());
    std::vector<bool> is_layout(g_.operations.size(), false);
    for (const std::uint32_t layout : layouts_) {
      is_layout[layout] = true;
      if (const std::optional<Roll> roll = roll_of(graph_, layout)) {
        ++reads_[roll->from];
        read_by_layout_[roll->from] = true;
        for (const std::uint32_t slice : roll->slices) is_layout[slice] = true;
      }
    }
    for (const ValueId id : g_.outputs) others_[id] = true;
    for (auto k = static_cast<std::uint32_t>(g_.operations.size()); k-- > 0;) {
      const OperationRecord& record = g_.operations[k];
      if (is_layout[k] && !is(record, ops_.pad)) continue;  // of a roll
      const bool cuts = is(record, ops_.slice) && !others_[record.first_output];
      for (const ValueId id : operands(record)) {
        if (is_layout[k] || cuts || is_element_wise(record)) {
          ++reads_[id];
        } else {
          others_[id] = true;
        }
        if (is_element_wise(record)) {
          read_element_wise_[id] = true;
        } else {
          read_by_layout_[id] = true;
        }
      }
    }
  }

  // Sets of values that element-wise operations connect (union-find), and which of the sets have rows that
  // are reduced or repeated: fusions of these read no parts of arrays.
  ValueId set_of(ValueId id) {
    while (sets_[id] != id) id = sets_[id] = sets_[sets_[id]];
    return id;
  }
  void find_rows() {
    sets_.resize(g_.types.size());
    std::iota(sets_.begin(), sets_.end(), ValueId{0});
    for (const OperationRecord& record : g_.operations) {
      if (!is_element_wise(record)) continue;
      const ValueId made = set_of(record.first_output);
      for (const ValueId id : operands(record)) {
        if (splats_[id] == no_index && g_.types[id].size() == g_.types[made].size())
          sets_[set_of(roots_[id])] = set_of(made);
      }
    }
    has_rows_.assign(g_.types.size(), false);
    for (const OperationRecord& record : g_.operations) {
      if (record.num_outputs != 1 || record.num_inputs == 0) continue;
      const Primitive& primitive = *record.op->primitive;
      const ValueId from = operands(record)[0], made = record.first_output;
      if (primitive.has_trait(Trait::combines) && g_.types[made].size() > 1)
        has_rows_[set_of(roots_[from])] = true;
      if (primitive.has_trait(Trait::repeats) && splats_[made] == no_index)
        has_rows_[set_of(roots_[made])] = true;
    }
  }

  std::optional<TakenIn> take_in(std::uint32_t layout) {
    const OperationRecord& record = g_.operations[layout];
    const ValueId made = record.first_output;
    if (!read_element_wise_[made] || read_by_layout_[made] || has_rows_[set_of(roots_[made])])
      return std::nullopt;
    const std::optional<Roll> roll = roll_of(graph_, layout);
    TakenIn taken;
    if (roll) {
      std::int64_t row = 1;
      for (std::size_t k = roll->axis; k < g_.types[made].rank(); ++k) row *= g_.types[made].dim(k);
      if (row > longest_row) return std::nullopt;
      const ValueId from = array_of(roll->from, reads_[roll->from] > 1, taken.operations);
      if (is_layout_result(from)) return std::nullopt;
      taken.parts.push_back({from, from, 0, {}});
      const bool layout_only = taken.operations.empty() && is_leading(g_.types[made], roll->axis);
      return layout_only ? std::nullopt : std::optional(std::move(taken));
    }
    if (is_leading(g_.types[made], g_.types[made].rank() - 1) && g_.types[made].size() < min_of_one_axis)
      return std::nullopt;
    if (!take_in_pad(record, taken)) return std::nullopt;
    const bool layout_only = taken.operations.empty() && g_.types[made].rank() == 1;
    return layout_only ? std::nullopt : std::optional(std::move(taken));
  }
  // Is it a part of an array, or parts? Fusions read layout operations of layout operations where the first
  // one finds its elements.
  bool is_layout_result(ValueId id) const {
    const auto producer = graph_.producer(roots_[id]);
    if (!producer) return false;
    const OperationRecord& record = g_.operations[*producer];
    return is(record, ops_.slice) || is(record, ops_.pad) || is(record, ops_.concatenate) ||
           record.op->primitive->has_trait(Trait::repeats);
  }
  // May the layout operations that read it compute it themselves?
  bool may_take(const OperationRecord& record, DType dtype) const {
    const ValueId made = record.first_output;
    const bool fits = g_.types[made].dtype() == dtype || is_bool(g_.types[made].dtype());
    return is_element_wise(record) && !others_[made] && fits && (reads_[made] == 1 || is_cheap(record));
  }
  bool is_splat(ValueId id) const {
    if (splats_[id] == no_index) return false;
    const Type source = g_.types[splats_[id]];
    return source.size() == 1 || is(g_.operations[*graph_.producer(splats_[id])], ops_.full);
  }

  // Down to the first array that is no operation on one array and on equal elements. `again`: several would
  // compute them, so these are few sums and products, or none.
  ValueId array_of(ValueId made, bool again, std::vector<std::uint32_t>& operations) const {
    const Type type = g_.types[made];
    ValueId at = made;
    while (operations.size() < max_taken_in) {
      const auto producer = graph_.producer(at);
      if (!producer || !may_take(g_.operations[*producer], type.dtype())) break;
      if (again && !is_cheap(g_.operations[*producer])) break;
      ValueId next = no_index;
      bool one = true;
      for (const ValueId id : operands(g_.operations[*producer])) {
        if (is_splat(id)) continue;
        one = one && g_.types[id] == type && (next == no_index || next == id);
        next = id;
      }
      if (!one || next == no_index) break;
      operations.push_back(*producer);
      at = next;
      if (!again || operations.size() <= max_shared) continue;
      operations.clear();
      return made;
    }
    std::reverse(operations.begin(), operations.end());
    return at;
  }
  // Down to slices of arrays of the pad's shape.
  bool take_in_pad(const OperationRecord& pad, TakenIn& taken) const {
    const Type type = g_.types[pad.first_output];
    const IntLists& config = Op::of(pad.op).lists("padding_config");
    std::vector<ValueId> wanted = {operands(pad)[0]};
    bool again = false;  // does something else compute them, too?
    std::vector<ValueId> seen;
    while (!wanted.empty()) {
      const ValueId id = wanted.back();
      wanted.pop_back();
      if (std::find(seen.begin(), seen.end(), id) != seen.end()) continue;
      seen.push_back(id);
      const auto producer = graph_.producer(id);
      if (is_splat(id)) continue;
      if (!producer) return false;
      const OperationRecord& record = g_.operations[*producer];
      if (is(record, ops_.slice)) {
        const ValueId from = operands(record)[0];
        if (g_.types[from] != type) return false;
        const std::optional<std::int64_t> distance = distance_of(Op::of(record.op), config, type);
        if (!distance) return false;
        TakenIn::Part part{id, from, *distance, {}};
        part.from = array_of(from, true, part.before);
        if (is_layout_result(part.from)) return false;
        taken.parts.push_back(std::move(part));
        continue;
      }
      if (!may_take(record, type.dtype()) || taken.operations.size() == max_taken_in) return false;
      again = again || reads_[id] > 1;
      taken.operations.push_back(*producer);
      for (const ValueId operand : operands(record)) wanted.push_back(operand);
    }
    std::sort(taken.operations.begin(), taken.operations.end());
    const bool cheap = std::all_of(taken.operations.begin(), taken.operations.end(),
                                   [&](std::uint32_t k) { return is_cheap(g_.operations[k]); });
    const bool nearly_all = 8 * g_.types[operands(pad)[0]].size() >= 7 * type.size();
    return !taken.parts.empty() && (cheap || (!again && nearly_all));
  }
  std::optional<std::int64_t> distance_of(const Op& slice, const IntLists& config, Type type) const {
    for (const std::int64_t step : slice.ints("strides")) {
      if (step != 1) return std::nullopt;
    }
    const Ints& starts = slice.ints("start_indices");
    std::int64_t distance = 0, stride = 1;
    for (std::size_t k = type.rank(); k-- > 0; stride *= type.dim(k))
      distance += (starts[k] - config[k][0]) * stride;
    return distance;
  }

  Graph rebuilt(const std::map<std::uint32_t, TakenIn>& taken) const {
    OffsetViewWriter writer(graph_, ops_, splats_);
    for (std::uint32_t k = 0; k < g_.operations.size(); ++k) {
      const auto found = taken.find(k);
      if (found == taken.end()) {
        writer.copy(k);
      } else if (const std::optional<Roll> roll = roll_of(graph_, k)) {
        writer.roll(k, *roll, found->second);
      } else {
        writer.pad(k, found->second);
      }
    }
    return writer.build();
  }

  const Graph& graph_;
  const GraphData& g_;
  const OffsetViewOps ops_;
  std::vector<ValueId> roots_, splats_;  // by value
  std::vector<std::uint32_t> layouts_;
  std::vector<std::uint32_t> reads_;
  std::vector<bool> others_, read_element_wise_, read_by_layout_, has_rows_;
  std::vector<ValueId> sets_;
};

}  // namespace

Graph offset_views(const Graph& graph) { return OffsetViewPass(graph).run(); }

}  // namespace tidu::passes
