// demanded_elements.cpp - one sweep over the graph from its end.
//
// Note [Triangles]: a triangular matrix is often gathered from a vector by an index for each element; the
// elements outside of the triangle come from a zero at the end of the vector. Its gradient is scattered back,
// and the sum for that zero is sliced off; or the gradient is gathered (simplify_scattered.cpp). So half of
// the matmul that makes the gradient is never read.
#include "cpu/demanded_elements.hpp"

#include "cpu/is_any_of.hpp"
#include "tidu/primitives/structural.hpp"

#include <algorithm>
#include <string_view>

namespace tidu::cpu_detail {
namespace {

// Elements that are looked at in all; what would take more counts as read.
constexpr std::size_t max_elements = std::size_t{1} << 20;

class Reads {
 public:
  Reads(const Graph& graph, std::span<const std::byte* const> constant_at)
      : graph_(graph),
        g_(graph.data()),
        constant_at_(constant_at),
        of_(graph.num_values()),
        matters_(graph.num_values(), false) {
    for (const OperationRecord& record : g_.operations) {
      const Primitive& primitive = *record.op->primitive;
      bool matters = primitive.has_trait(Trait::contraction) || is_any_of(primitive, prim::scatter_add);
      if (hands_on(primitive)) {
        for (std::uint32_t k = 0; k < record.num_inputs; ++k)
          matters = matters || matters_[g_.operands[record.first_input + k]];
      }
      for (std::uint32_t k = 0; matters && k < record.num_outputs; ++k)
        matters_[record.first_output + k] = true;
    }
  }

  std::vector<ReadElements> find(std::span<const ReadElements> outputs) {
    for (std::size_t i = 0; i < graph_.outputs().size(); ++i)
      read(graph_.outputs()[i], outputs.empty() ? nullptr : outputs[i]);
    for (std::size_t i = g_.operations.size(); i-- > 0;) visit(g_.operations[i]);
    if (std::all_of(of_.begin(), of_.end(), [](const DemandOf& demand) { return demand.read == nullptr; }))
      return {};
    std::vector<ReadElements> reads;
    reads.reserve(of_.size());
    for (DemandOf& demand : of_) reads.push_back(std::move(demand.read));
    return reads;
  }

 private:
  struct DemandOf {
    bool any = false;   // has it a reader?
    ReadElements read;  // by those so far
  };

  void read(ValueId id, const ReadElements& elements) {
    DemandOf& demand = of_[id];
    if (!demand.any) {
      demand = {true, elements};
      return;
    }
    if (demand.read == elements || demand.read == nullptr) return;
    if (elements == nullptr || elements->size() != demand.read->size() || !spend(elements->size())) {
      demand.read = nullptr;
      return;
    }
    auto both = *demand.read;
    for (std::size_t i = 0; i < both.size(); ++i) both[i] = both[i] || (*elements)[i];
    demand.read = std::make_shared<const std::vector<bool>>(std::move(both));
  }

  void visit(const OperationRecord& record) {
    const Primitive& primitive = *record.op->primitive;
    const ValueId* operands = g_.operands.data() + record.first_input;
    if (record.num_outputs == 1) {
      const ValueId result = record.first_output;
      const ReadElements& elements = of_[result].read;
      if (is_any_of(primitive, prim::slice))
        return read(operands[0], matters_[operands[0]] ? of_slice(record, elements) : nullptr);
      if (is_any_of(primitive, prim::scatter_add)) {
        read(operands[0], elements);
        read(operands[1], nullptr);
        return read(operands[2], matters_[operands[2]] ? of_updates(record, elements) : nullptr);
      }
      if (is_any_of(primitive, prim::take)) {
        read(operands[1], nullptr);
        return read(operands[0], matters_[operands[0]] ? of_taken(record, elements) : nullptr);
      }
      if (elements != nullptr &&
          (primitive.has_trait(Trait::elementwise) || primitive.has_trait(Trait::view))) {
        for (std::uint32_t k = 0; k < record.num_inputs; ++k) {
          const bool same = graph_.type(operands[k]).size() == graph_.type(result).size();
          read(operands[k], same ? elements : nullptr);
        }
        return;
      }
    }
    for (std::uint32_t k = 0; k < record.num_inputs; ++k) read(operands[k], nullptr);
  }

  static std::size_t count(Type type, std::size_t first, std::size_t last) {
    std::int64_t product = 1;
    for (std::size_t k = first; k < last; ++k) product *= type.dim(k);
    return static_cast<std::size_t>(product);
  }
  static bool at(const ReadElements& elements, std::size_t i) {
    return elements == nullptr || (*elements)[i % elements->size()];
  }

  // The demanded elements of the operand of a slice that leaves out parts of one axis.
  ReadElements of_slice(const OperationRecord& record, const ReadElements& elements) {
    const Op op = Op::of(record.op);
    const Type x = graph_.type(g_.operands[record.first_input]), y = graph_.type(record.first_output);
    const Ints& starts = op.ints("start_indices");
    std::size_t axis = x.rank();
    for (std::size_t k = 0; k < x.rank(); ++k) {
      if (x.dim(k) == y.dim(k)) continue;
      if (axis != x.rank() || op.ints("strides")[k] != 1) return nullptr;
      axis = k;
    }
    if (axis == x.rank()) return elements;
    const std::size_t inner = count(x, axis + 1, x.rank()), pattern = count(x, axis, x.rank());
    const std::size_t kept = count(y, axis, y.rank());
    if (pattern == 0 || (elements != nullptr && kept % elements->size() != 0) || !spend(pattern))
      return nullptr;
    std::vector<bool> read(pattern, false);
    const std::size_t begin = static_cast<std::size_t>(starts[axis]) * inner;
    for (std::size_t i = 0; i < kept; ++i) read[begin + i] = at(elements, i);
    return std::make_shared<const std::vector<bool>>(std::move(read));
  }

  // A take of x, or a scatter_add to it, along the axis of `extent` slices of `inner` elements each, by
  // `number` indices; these are null where they are not known.
  struct Indexed {
    const std::byte* indices;
    bool wide, drops;
    std::int64_t extent;
    std::size_t inner, slices, number;

    // The slice that index `i` leads to; -1: none.
    std::int64_t row(std::size_t i) const {
      const std::int64_t index = wide ? reinterpret_cast<const std::int64_t*>(indices)[i]
                                      : reinterpret_cast<const std::int32_t*>(indices)[i];
      if (index >= 0 && index < extent) return index;
      return drops ? -1 : index < 0 ? 0 : extent - 1;
    }
  };
  Indexed indexed(const OperationRecord& record) const {
    const Op op = Op::of(record.op);
    const ValueId* operands = g_.operands.data() + record.first_input;
    const Type x = graph_.type(operands[0]), indices = graph_.type(operands[1]);
    const auto axis = static_cast<std::size_t>(op.integer("axis"));
    return {constant_at_[operands[1]],
            indices.dtype() == i64,
            op.string("mode") == "drop",
            x.dim(axis),
            count(x, axis + 1, x.rank()),
            count(x, axis, x.rank()),
            static_cast<std::size_t>(indices.size())};
  }

  // The demanded elements of the updates of scatter_add.
  ReadElements of_updates(const OperationRecord& record, const ReadElements& elements) {
    const Indexed by = indexed(record);
    const std::size_t pattern = by.number * by.inner;
    if (by.indices == nullptr || pattern == 0 || (elements == nullptr && !by.drops) ||
        (elements != nullptr && (by.slices == 0 || by.slices % elements->size() != 0)) || !spend(pattern))
      return nullptr;
    std::vector<bool> read(pattern, false);
    for (std::size_t i = 0; i < by.number; ++i) {
      const std::int64_t row = by.row(i);
      for (std::size_t j = 0; row >= 0 && j < by.inner; ++j)
        read[i * by.inner + j] = at(elements, static_cast<std::size_t>(row) * by.inner + j);
    }
    return std::make_shared<const std::vector<bool>>(std::move(read));
  }

  // The demanded elements of the array that a take gathers from.
  ReadElements of_taken(const OperationRecord& record, const ReadElements& elements) {
    const Indexed by = indexed(record);
    const std::size_t gathered = by.number * by.inner;
    if (by.indices == nullptr || gathered == 0 || by.slices == 0 ||
        (elements != nullptr && gathered % elements->size() != 0) || !spend(by.slices + gathered))
      return nullptr;
    std::vector<bool> read(by.slices, false);
    for (std::size_t i = 0; i < by.number; ++i) {
      const std::int64_t row = by.row(i);
      for (std::size_t j = 0; row >= 0 && j < by.inner; ++j) {
        if (at(elements, i * by.inner + j)) read[static_cast<std::size_t>(row) * by.inner + j] = true;
      }
    }
    if (std::find(read.begin(), read.end(), false) == read.end()) return nullptr;
    return std::make_shared<const std::vector<bool>>(std::move(read));
  }

  // Does what is read of its result say what is read of an operand?
  static bool hands_on(const Primitive& primitive) {
    return primitive.has_trait(Trait::elementwise) || primitive.has_trait(Trait::view) ||
           is_any_of(primitive, prim::slice, prim::take);
  }
  // May so many more elements be looked at?
  bool spend(std::size_t elements) {
    if (elements > left_) return false;
    left_ -= elements;
    return true;
  }

  const Graph& graph_;
  const GraphData& g_;
  std::span<const std::byte* const> constant_at_;
  std::vector<DemandOf> of_;
  std::vector<bool> matters_;  // by value: does it derive from a matmul or a scattered value?
  std::size_t left_ = max_elements;
};

// Does it leave something out?
bool narrows(const GraphData& g, std::span<const std::byte* const> constant_at) {
  return std::any_of(g.operations.begin(), g.operations.end(), [&](const OperationRecord& record) {
    return is_any_of(*record.op->primitive, prim::scatter_add) ||
           (is_any_of(*record.op->primitive, prim::take) &&
            constant_at[g.operands[record.first_input + 1]] != nullptr);
  });
}

}  // namespace

std::vector<ReadElements> find_reads(const Graph& graph, std::span<const std::byte* const> constant_at,
                                     std::span<const ReadElements> outputs) {
  const bool some =
      std::any_of(outputs.begin(), outputs.end(), [](const ReadElements& e) { return e != nullptr; });
  if (!some && !narrows(graph.data(), constant_at)) return {};
  return Reads(graph, constant_at).find(outputs);
}

std::vector<std::int32_t> row_ends(const std::vector<bool>& read, std::int64_t n) {
  const auto columns = static_cast<std::size_t>(n);
  if (n <= 0 || n > INT32_MAX || read.size() % columns != 0) return {};
  std::vector<std::int32_t> ends(read.size() / columns, 0);
  for (std::size_t i = 0; i < read.size(); ++i) {
    if (read[i]) ends[i / columns] = static_cast<std::int32_t>(i % columns + 1);
  }
  return ends;
}

}  // namespace tidu::cpu_detail
