// unread.cpp - one sweep over the graph from its end.
//
// Note [Triangles]: a triangular matrix is often gathered from a vector by an index for each element, what is
// not in the triangle coming from a zero behind the vector. Its gradient is scattered back, and the sum for
// that zero is sliced off, or it is gathered (simplify_scattered.cpp): so half of the product that makes the
// gradient is never read.
#include "cpu/unread.hpp"

#include <algorithm>

namespace tidu::cpu_detail {
namespace {

constexpr std::size_t longest_pattern = std::size_t{1} << 22;

class Reads {
 public:
  Reads(const Graph& graph, std::span<const std::byte* const> constant_at)
      : graph_(graph), g_(graph.data()), constant_at_(constant_at), of_(graph.num_values()) {}

  std::vector<ReadElements> find(std::span<const ReadElements> outputs) {
    for (std::size_t i = 0; i < graph_.outputs().size(); ++i)
      read(graph_.outputs()[i], outputs.empty() ? nullptr : outputs[i]);
    for (std::size_t i = g_.operations.size(); i-- > 0;) visit(g_.operations[i]);
    if (std::all_of(of_.begin(), of_.end(), [](const Place& place) { return place.read == nullptr; }))
      return {};
    std::vector<ReadElements> reads;
    reads.reserve(of_.size());
    for (Place& place : of_) reads.push_back(std::move(place.read));
    return reads;
  }

 private:
  struct Place {
    bool any = false;   // has it a reader?
    ReadElements read;  // by those so far
  };

  void read(ValueId id, const ReadElements& elements) {
    Place& place = of_[id];
    if (!place.any) {
      place = {true, elements};
      return;
    }
    if (place.read == elements || place.read == nullptr) return;
    if (elements == nullptr || elements->size() != place.read->size()) {
      place.read = nullptr;
      return;
    }
    auto both = *place.read;
    for (std::size_t i = 0; i < both.size(); ++i) both[i] = both[i] || (*elements)[i];
    place.read = std::make_shared<const std::vector<bool>>(std::move(both));
  }

  void visit(const OperationRecord& record) {
    const Primitive& primitive = *record.op->primitive;
    const ValueId* operands = g_.operands.data() + record.first_input;
    if (record.num_outputs == 1) {
      const ValueId result = record.first_output;
      const ReadElements& elements = of_[result].read;
      if (primitive.name == "slice") return read(operands[0], of_slice(record, elements));
      if (primitive.name == "scatter_add") {
        read(operands[0], elements);
        read(operands[1], nullptr);
        return read(operands[2], of_updates(record, elements));
      }
      if (primitive.name == "take") {
        read(operands[1], nullptr);
        return read(operands[0], of_taken(record, elements));
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

  // Of the operand of a slice that leaves out parts of one axis.
  ReadElements of_slice(const OperationRecord& record, const ReadElements& elements) const {
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
    if (pattern == 0 || pattern > longest_pattern || (elements != nullptr && kept % elements->size() != 0))
      return nullptr;
    std::vector<bool> read(pattern, false);
    const std::size_t begin = static_cast<std::size_t>(starts[axis]) * inner;
    for (std::size_t i = 0; i < kept; ++i) read[begin + i] = at(elements, i);
    return std::make_shared<const std::vector<bool>>(std::move(read));
  }

  // Of what scatter_add adds.
  ReadElements of_updates(const OperationRecord& record, const ReadElements& elements) const {
    const Op op = Op::of(record.op);
    const ValueId* operands = g_.operands.data() + record.first_input;
    const std::byte* constant = constant_at_[operands[1]];
    const Type x = graph_.type(operands[0]), indices = graph_.type(operands[1]);
    const auto axis = static_cast<std::size_t>(op.integer("axis"));
    const std::size_t inner = count(x, axis + 1, x.rank()), slices = count(x, axis, x.rank());
    const auto number = static_cast<std::size_t>(indices.size());
    if (constant == nullptr || number * inner == 0 || number * inner > longest_pattern ||
        (elements != nullptr && (slices == 0 || slices % elements->size() != 0)))
      return nullptr;
    const bool drops = op.string("mode") == "drop";
    if (elements == nullptr && !drops) return nullptr;
    std::vector<bool> read(number * inner, false);
    for (std::size_t i = 0; i < number; ++i) {
      const std::int64_t place = place_of(indices.dtype(), constant, i, x.dim(axis), drops);
      for (std::size_t j = 0; place >= 0 && j < inner; ++j)
        read[i * inner + j] = at(elements, static_cast<std::size_t>(place) * inner + j);
    }
    return std::make_shared<const std::vector<bool>>(std::move(read));
  }

  // Of what a take picks from.
  ReadElements of_taken(const OperationRecord& record, const ReadElements& elements) const {
    const Op op = Op::of(record.op);
    const ValueId* operands = g_.operands.data() + record.first_input;
    const std::byte* constant = constant_at_[operands[1]];
    const Type x = graph_.type(operands[0]), indices = graph_.type(operands[1]);
    const auto axis = static_cast<std::size_t>(op.integer("axis"));
    const std::size_t inner = count(x, axis + 1, x.rank()), slices = count(x, axis, x.rank());
    const auto number = static_cast<std::size_t>(indices.size());
    if (constant == nullptr || number * inner == 0 || number * inner > longest_pattern || slices == 0 ||
        slices > longest_pattern || (elements != nullptr && number * inner % elements->size() != 0))
      return nullptr;
    const bool drops = op.string("mode") == "drop";
    std::vector<bool> read(slices, false);
    for (std::size_t i = 0; i < number; ++i) {
      const std::int64_t place = place_of(indices.dtype(), constant, i, x.dim(axis), drops);
      for (std::size_t j = 0; place >= 0 && j < inner; ++j) {
        if (at(elements, i * inner + j)) read[static_cast<std::size_t>(place) * inner + j] = true;
      }
    }
    if (std::find(read.begin(), read.end(), false) == read.end()) return nullptr;
    return std::make_shared<const std::vector<bool>>(std::move(read));
  }

  // The slice that index `i` leads to; -1: none.
  static std::int64_t place_of(DType dtype, const std::byte* indices, std::size_t i, std::int64_t extent,
                               bool drops) {
    const std::int64_t index = dtype == i64 ? reinterpret_cast<const std::int64_t*>(indices)[i]
                                            : reinterpret_cast<const std::int32_t*>(indices)[i];
    if (index >= 0 && index < extent) return index;
    return drops ? -1 : index < 0 ? 0 : extent - 1;
  }

  const Graph& graph_;
  const GraphData& g_;
  std::span<const std::byte* const> constant_at_;
  std::vector<Place> of_;
};

}  // namespace

std::vector<ReadElements> find_reads(const Graph& graph, std::span<const std::byte* const> constant_at,
                                     std::span<const ReadElements> outputs) {
  const bool narrows =
      std::any_of(outputs.begin(), outputs.end(), [](const ReadElements& e) { return e != nullptr; }) ||
      std::any_of(graph.data().operations.begin(), graph.data().operations.end(),
                  [](const OperationRecord& r) {
                    return r.op->primitive->name == "scatter_add" || r.op->primitive->name == "take";
                  });
  if (!narrows) return {};
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
