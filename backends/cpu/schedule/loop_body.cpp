// loop_body.cpp - the graph of a block of a loop: the loop's operations again, on one block of the axis.
#include <array>
#include <unordered_map>

#include "cpu/schedule/loops.hpp"
#include "tidu/graph/builder.hpp"

namespace tidu::passes {
namespace {

constexpr int none = BlockedLoop::none;

class BodyBuilder {
 public:
  BodyBuilder(const LoopContext& context, const std::vector<std::uint32_t>& operations, std::int64_t block)
      : c_(context),
        g_(context.graph.data()),
        operations_(operations),
        block_(block),
        builder_(context.graph.name().empty() ? "block" : context.graph.name(), context.graph.primitives()) {}

  Graph build(const std::vector<BlockedLoop::Value>& results) {
    for (const std::uint32_t index : operations_) {
      const Role& role = c_.roles.of[index];
      made_[key(g_.operations[index].first_output, role.kind == Role::Kind::sum ? none : role.axis)] =
          emit(index, c_.classes.factor(index, role.factor));
    }
    std::vector<Value> outputs;
    for (const BlockedLoop::Value& result : results) {
      Value made = made_.at(key(result.id, result.axis));
      if (result.axis == none) {
        const Value so_far = input(c_.graph.type(result.id));
        made = builder_.emit_one(Op::make(*c_.graph.primitives().add()), std::array{so_far, made});
      }
      outputs.push_back(made);
    }
    return builder_.build(outputs);
  }
  const std::vector<BlockedLoop::Value>& operands() const { return read_; }

 private:
  static std::uint64_t key(ValueId id, int axis) {
    return (std::uint64_t{id} << 8) | static_cast<std::uint64_t>(axis + 1);
  }
  Type of_block(Type type, int axis) const {
    Shape shape = type.shape();
    shape[static_cast<std::size_t>(axis)] = block_;
    return type.with_shape(shape);
  }
  Value input(Type type) { return builder_.input(detail::str('x', inputs_++), type); }

  Value emit(std::uint32_t index, const AxisClasses::Factor& factor) {
    const OperationRecord& record = g_.operations[index];
    std::vector<Value> operands;
    for (std::uint32_t k = 0; k < record.num_inputs; ++k)
      operands.push_back(read(g_.operands[record.first_input + k], factor.of_operand(k)));
    Op op = Op::of(record.op);
    const int axis = factor.of_result();
    if (axis != none && op.primitive().resize != nullptr)
      op = op.primitive().resize(op, static_cast<std::size_t>(axis), block_);
    const Value made = builder_.emit_one(op, operands);
    const Type type = c_.graph.type(record.first_output);
    const Type expected = axis == none ? type : of_block(type, axis);
    if (made.type() != expected) {
      throw Error(ErrorKind::internal,
                  detail::str("blocked loop: expected ", expected, " for a block of ", block_, ", got ",
                              made.type(), "\n  ", describe_operation(c_.graph, index)));
    }
    return made;
  }
  Value read(ValueId id, int axis) {
    const auto [at, fresh] = made_.try_emplace(key(id, axis));
    if (!fresh) return at->second;
    const Value value = axis == none ? whole(id) : cut(id, axis);
    return made_[key(id, axis)] = value;
  }
  // Rematerializable values are computed again; their chains are short.
  Value cut(ValueId id, int axis) {
    const std::uint32_t producer = g_.producers[id];
    if (producer < g_.operations.size() && c_.roles.of[producer].kind == Role::Kind::floating) {
      for (std::uint32_t f = 0; f < c_.classes.num_factors(producer); ++f) {
        const AxisClasses::Factor factor = c_.classes.factor(producer, f);
        if (factor.of_result() == axis && floats(producer, factor)) return emit(producer, factor);
      }
    }
    read_.push_back({id, axis});
    return input(of_block(c_.graph.type(id), axis));
  }
  bool floats(std::uint32_t operation, const AxisClasses::Factor& factor) const {
    const OperationRecord& record = g_.operations[operation];
    for (std::uint32_t k = 0; k < record.num_inputs; ++k) {
      if (factor.of_operand(k) == none) continue;
      const std::uint32_t producer = g_.producers[g_.operands[record.first_input + k]];
      if (producer >= g_.operations.size() || c_.roles.of[producer].kind != Role::Kind::floating)
        return false;
    }
    return true;
  }
  // Repeated elements are repeated in the body again, so that fusions recognize them.
  Value whole(ValueId id) {
    std::vector<std::uint32_t> chain;
    ValueId at = id;
    while (c_.splats[id] != no_index) {
      const std::uint32_t producer = g_.producers[at];
      if (producer >= g_.operations.size()) break;
      const OperationRecord& record = g_.operations[producer];
      const Primitive& primitive = *record.op->primitive;
      const bool repeats = primitive.has_trait(Trait::view) || primitive.has_trait(Trait::repeats);
      if (record.num_outputs != 1 || record.num_inputs > 1 ||
          (record.num_inputs == 1 ? !repeats : !primitive.has_trait(Trait::constant)))
        break;
      chain.push_back(producer);
      if (record.num_inputs == 0) break;
      at = g_.operands[record.first_input];
    }
    std::vector<Value> value;
    if (chain.empty() || g_.operations[chain.back()].num_inputs == 1) {
      read_.push_back({at, none});
      value = {input(c_.graph.type(at))};
    }
    for (std::size_t i = chain.size(); i-- > 0;)
      value = {builder_.emit_one(Op::of(g_.operations[chain[i]].op), value)};
    return value[0];
  }

  const LoopContext& c_;
  const GraphData& g_;
  const std::vector<std::uint32_t>& operations_;
  const std::int64_t block_;
  GraphBuilder builder_;
  std::unordered_map<std::uint64_t, Value> made_;
  std::vector<BlockedLoop::Value> read_;
  std::size_t inputs_ = 0;
};

}  // namespace

Graph loop_body(const LoopContext& context, const std::vector<std::uint32_t>& operations, std::int64_t block,
                BlockedLoop& loop) {
  BodyBuilder builder(context, operations, block);
  Graph graph = builder.build(loop.results);
  loop.operands = builder.operands();
  return graph;
}

}  // namespace tidu::passes
