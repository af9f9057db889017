// offset_view_writer.hpp - OffsetViewWriter: writes the graph in which pads of slices, and rolls, have become
// offset views of flat arrays and a select: see Note [Offset views] in offset_views.cpp. Input: the
// element-wise operations that each pad or roll absorbs (TakenIn).
#pragma once

#include <algorithm>
#include <map>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "cpu/schedule/splat.hpp"
#include "tidu/cpu/schedule_passes.hpp"
#include "tidu/graph/builder.hpp"
#include "tidu/graph/error.hpp"
#include "tidu/graph/graph.hpp"
#include "tidu/graph/literal.hpp"
#include "tidu/primitives/elementwise.hpp"
#include "tidu/primitives/structural.hpp"

namespace tidu::passes {

/// The primitives that the pass emits, from the graph's set.
struct OffsetViewOps {
  explicit OffsetViewOps(const PrimitiveSet& set)
      : slice(in_set(set, prim::slice)),
        pad(in_set(set, prim::pad)),
        concatenate(in_set(set, prim::concatenate)),
        reshape(in_set(set, prim::reshape)),
        select(in_set(set, prim::select_n)),
        broadcast(in_set(set, prim::broadcast_in_dim)),
        full(in_set(set, prim::full)) {}
  bool are_there() const {
    return slice != nullptr && pad != nullptr && concatenate != nullptr && reshape != nullptr &&
           select != nullptr && broadcast != nullptr && full != nullptr;
  }
  const Primitive *slice, *pad, *concatenate, *reshape, *select, *broadcast, *full;

 private:
  static const Primitive* in_set(const PrimitiveSet& set, const Primitive& primitive) {
    return set.find(primitive.name) == &primitive ? &primitive : nullptr;
  }
};

/// The valid elements of a shape, along each axis: [first, last).
struct OffsetViewBox {
  Ints first, last;
  friend auto operator<=>(const OffsetViewBox&, const OffsetViewBox&) = default;
};

/// The operations that a pad or roll absorbs, and their sources.
struct TakenIn {
  struct Part {  // a slice, or a whole array
    ValueId value = no_index, from = no_index;
    std::int64_t distance = 0;          // offset of an element in the source, relative to its position here
    std::vector<std::uint32_t> before;  // operations from `from` to the sliced value, in order
  };
  std::vector<std::uint32_t> operations;  // in order
  std::vector<Part> parts;
};

/// Are all axes before `axis` of extent 1, so that slices along it are contiguous?
inline bool is_leading(Type type, std::size_t axis) {
  for (std::size_t k = 0; k < axis; ++k) {
    if (type.dim(k) != 1) return false;
  }
  return true;
}

/// Copies the graph operation by operation, and replaces pads and rolls by offset views.
class OffsetViewWriter {
 public:
  OffsetViewWriter(const Graph& graph, const OffsetViewOps& ops, const std::vector<ValueId>& splats)
      : graph_(graph),
        g_(graph.data()),
        ops_(ops),
        splats_(splats),
        builder_(graph.name(), graph.primitives()) {
    values_.resize(graph.num_values());
    builder_.reserve(graph.num_values(), graph.num_operations(), g_.operands.size());
    for (std::size_t i = 0; i < graph.inputs().size(); ++i) {
      const ValueId id = graph.inputs()[i];
      values_[id] = builder_.input(graph.input_key(i), graph.type(id), graph.label(id)).id();
    }
  }
  void copy(std::uint32_t k) {
    const OperationRecord& record = g_.operations[k];
    set_location(k);
    std::vector<ValueId> operands;
    for (const ValueId id : operands_of(record)) operands.push_back(values_[id]);
    const ValueId first = builder_.add_typed(record.op, operands, g_.types.data() + record.first_output,
                                             record.num_outputs, extra_);
    for (std::uint32_t slot = 0; slot < record.num_outputs; ++slot)
      values_[record.first_output + slot] = first + slot;
  }
  void pad(std::uint32_t k, const TakenIn& taken) {
    set_location(k);
    const OperationRecord& record = g_.operations[k];
    const Type type = g_.types[record.first_output];
    const IntLists& config = Op::of(record.op).lists("padding_config");
    std::unordered_map<ValueId, ValueId> known;
    for (const TakenIn::Part& part : taken.parts) {
      std::unordered_map<ValueId, ValueId> before;
      before[part.from] = offset_view(part.from, part.distance);
      compute(part.before, flat(type), before);
      known[part.value] = part.before.empty() ? before.at(part.from)
                                              : before.at(g_.operations[part.before.back()].first_output);
    }
    compute(taken.operations, flat(type), known);
    OffsetViewBox box;
    for (std::size_t i = 0; i < type.rank(); ++i) {
      box.first.push_back(config[i][0]);
      box.last.push_back(type.dim(i) - config[i][1]);
    }
    const ValueId around = spread(values_[operands_of(record)[1]], flat(type));
    const ValueId inside = known.at(operands_of(record)[0]);
    values_[record.first_output] = shaped(emit(ops_.select, {}, {mask(type, box), around, inside}), type);
  }
  void roll(std::uint32_t k, const Roll& roll, const TakenIn& taken) {
    set_location(k);
    const Type type = g_.types[roll.from];
    const ValueId from = taken.parts[0].value;
    std::unordered_map<ValueId, ValueId> known;
    if (is_leading(type, roll.axis)) {
      known[from] = rolled(roll, type, values_[from]);
      compute(taken.operations, type, known);
      values_[g_.operations[k].first_output] = known.at(roll.from);
      return;
    }
    std::int64_t stride = 1;
    for (std::size_t i = roll.axis + 1; i < type.rank(); ++i) stride *= type.dim(i);
    OffsetViewBox box;
    for (std::size_t i = 0; i < type.rank(); ++i) {
      box.first.push_back(0);
      box.last.push_back(i == roll.axis ? roll.shift : type.dim(i));
    }
    const ValueId behind = offset_view(from, -roll.shift * stride);
    const ValueId begun = offset_view(from, (type.dim(roll.axis) - roll.shift) * stride);
    known[from] = emit(ops_.select, {}, {mask(type, box), behind, begun});
    compute(taken.operations, flat(type), known);
    values_[g_.operations[k].first_output] = shaped(known.at(roll.from), type);
  }
  Graph build() {
    std::vector<ValueId> outputs;
    for (const ValueId id : graph_.outputs()) outputs.push_back(values_[id]);
    return builder_.build_ids(std::move(outputs));
  }

 private:
  std::span<const ValueId> operands_of(const OperationRecord& record) const {
    return {g_.operands.data() + record.first_input, record.num_inputs};
  }
  // Operations that are written from now on have the source location of operation k.
  void set_location(std::uint32_t k) {
    const Operation operation = graph_.operation(k);
    extra_ = {};
    if (!operation.where().empty()) extra_.where = builder_.intern_where(operation.where());
  }
  ValueId emit(const Primitive* primitive, Attributes attributes, std::vector<ValueId> operands) {
    return builder_.add(Op::make(*primitive, std::move(attributes)).record(), operands, extra_);
  }
  static Type flat(Type type) { return Type(type.dtype(), {type.size()}); }
  ValueId shaped(ValueId id, Type type) {
    if (builder_.data().types[id] == type) return id;
    return emit(ops_.reshape, {{"new_sizes", type.shape()}}, {id});
  }
  ValueId full(Type type, const Literal& element) {
    return emit(ops_.full, {{"value", element}, {"dtype", type.dtype()}, {"shape", type.shape()}}, {});
  }
  ValueId zero(DType dtype) {
    const std::byte bytes[8] = {};
    const Type type(dtype, {});
    return full(type, Literal(type, std::span(bytes, type.bytes())));
  }
  ValueId part(ValueId id, Ints starts, Ints limits) {
    Ints steps(starts.size(), 1);
    return emit(ops_.slice,
                {{"start_indices", std::move(starts)},
                 {"limit_indices", std::move(limits)},
                 {"strides", std::move(steps)}},
                {id});
  }
  // Element i of the result is element i + distance, or 0 where there is none.
  ValueId offset_view(ValueId old, std::int64_t distance) {
    const Type type = flat(g_.types[old]);
    const ValueId all = shaped(values_[old], type);
    const std::int64_t size = type.size(), far = std::abs(distance);
    if (distance == 0) return all;
    const ValueId some = distance > 0 ? part(all, {far}, {size}) : part(all, {0}, {size - far});
    const Ints around = distance > 0 ? Ints{0, far, 0} : Ints{far, 0, 0};
    return emit(ops_.pad, {{"padding_config", IntLists{around}}}, {some, zero(type.dtype())});
  }
  ValueId rolled(const Roll& roll, Type type, ValueId from) {
    Ints first(type.rank(), 0), last(type.shape().begin(), type.shape().end());
    const std::int64_t cut = type.dim(roll.axis) - roll.shift;
    Ints start = first, limit = last;
    start[roll.axis] = limit[roll.axis] = cut;
    const ValueId behind = part(from, start, last), before = part(from, first, limit);
    return emit(ops_.concatenate, {{"dimension", static_cast<std::int64_t>(roll.axis)}}, {behind, before});
  }
  // Broadcasts a scalar to the type.
  ValueId spread(ValueId id, Type type) {
    const ValueId scalar = shaped(id, Type(type.dtype(), {}));
    return emit(ops_.broadcast, {{"shape", type.shape()}, {"broadcast_dimensions", Ints{}}}, {scalar});
  }
  // An operand of an absorbed operation, in the given shape.
  ValueId operand(ValueId old, Type shape, const std::unordered_map<ValueId, ValueId>& known) {
    if (const auto found = known.find(old); found != known.end()) return found->second;
    const Type old_type = g_.types[old], type = shape.with_dtype(old_type.dtype());
    if (old_type.size() == 1) return values_[old];  // a scalar beside arrays
    const ValueId source = splats_[old];
    if (g_.types[source].size() == 1) return spread(values_[source], type);
    return full(type, splat_literal(graph_, source));
  }
  void compute(const std::vector<std::uint32_t>& operations, Type shape,
               std::unordered_map<ValueId, ValueId>& known) {
    for (const std::uint32_t k : operations) {
      const OperationRecord& record = g_.operations[k];
      std::vector<ValueId> operands;
      for (const ValueId id : operands_of(record)) operands.push_back(operand(id, shape, known));
      known[record.first_output] = builder_.add(record.op, operands, extra_);
    }
  }
  // A flat mask: is the element in the box?
  ValueId mask(Type type, const OffsetViewBox& box) {
    const auto [at, fresh] = masks_.try_emplace({type.shape(), box}, no_index);
    if (fresh) at->second = make_mask(type, box);
    return at->second;
  }
  ValueId make_mask(Type type, const OffsetViewBox& box) {
    std::vector<std::byte> bytes = {std::byte{1}};
    for (std::size_t k = type.rank(); k-- > 0;) {
      const std::vector<std::byte> inner = std::move(bytes);
      bytes.assign(inner.size() * static_cast<std::size_t>(type.dim(k)), std::byte{0});
      for (auto i = static_cast<std::size_t>(box.first[k]); i < static_cast<std::size_t>(box.last[k]); ++i)
        std::copy(inner.begin(), inner.end(), bytes.begin() + static_cast<std::ptrdiff_t>(i * inner.size()));
    }
    const Literal mask(Type(bool_, {type.size()}), bytes);
    return graph_.primitives().transform_ops().constant(builder_, mask).id();
  }

  const Graph& graph_;
  const GraphData& g_;
  const OffsetViewOps& ops_;
  const std::vector<ValueId>& splats_;
  GraphBuilder builder_;
  GraphBuilder::Extra extra_;
  std::vector<ValueId> values_;  // by old value
  std::map<std::pair<Shape, OffsetViewBox>, ValueId> masks_;
};

}  // namespace tidu::passes
