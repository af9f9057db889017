// widen.cpp - see widen.hpp.
#include "check/widen.hpp"

#include <algorithm>
#include <unordered_map>
#include <variant>
#include <vector>

#include "primitives/inner_graphs.hpp"
#include "tidu/graph/builder.hpp"

namespace tidu::check {
namespace {

bool is_sixteen(DType dtype) { return dtype == DType::f16 || dtype == DType::bf16; }
DType wide(DType dtype) { return is_sixteen(dtype) ? DType::f32 : dtype; }
Type wide(Type type) { return is_sixteen(type.dtype()) ? Type(DType::f32, type.shape()) : type; }

[[noreturn]] void give_up() { throw Error(ErrorKind::type, "expected a graph that can be of f32"); }

class Widener {
 public:
  std::shared_ptr<const GraphData> graph(const std::shared_ptr<const GraphData>& from) {
    if (const auto found = made_.find(from.get()); found != made_.end()) return found->second;
    return made_.emplace(from.get(), make(Graph(from)).share()).first->second;
  }

 private:
  Attribute attribute(const Attribute& from) {
    if (const auto* dtype = from.get_if<DType>()) return wide(*dtype);
    if (const auto* literal = from.get_if<Literal>()) return wide_literal(*literal);
    if (const auto* held = from.get_if<std::shared_ptr<const GraphData>>()) return graph(*held);
    if (const auto* list = from.get_if<GraphList>()) {
      GraphList graphs;
      for (const auto& held : *list) graphs.push_back(graph(held));
      return graphs;
    }
    return from;
  }
  static Literal wide_literal(const Literal& from) {
    if (!is_sixteen(from.type().dtype())) return from;
    std::vector<float> numbers;
    for (std::int64_t i = 0; i < from.type().size(); ++i)
      numbers.push_back(static_cast<float>(from.at(i).real()));
    return Literal::of<float>(wide(from.type()), numbers);
  }

  // By ascending id, so that ids are unchanged.
  Graph make(const Graph& from) {
    GraphBuilder builder(from.name(), from.primitives(), {.deduplicate = false});
    std::unordered_map<const OpRecord*, Op> ops;
    std::size_t input = 0;
    for (ValueId id = 0; id < from.num_values(); ++id) {
      const auto producer = from.producer(id);
      if (!producer) {
        if (input == from.inputs().size() || from.inputs()[input] != id) give_up();
        builder.input(from.input_key(input++), wide(from.type(id)), from.label(id));
        continue;
      }
      const Operation operation = from.operation(*producer);
      if (operation.output() != id) continue;
      auto op = ops.find(operation.record().op);
      if (op == ops.end()) {
        Attributes attributes;
        for (const auto& [name, value] : operation.op().attributes())
          attributes.emplace_back(name, attribute(value));
        op = ops.emplace(operation.record().op, Op::make(operation.primitive(), std::move(attributes))).first;
      }
      GraphBuilder::Extra extra;
      if (!operation.where().empty()) extra.where = builder.intern_where(operation.where());
      if (builder.add(op->second.record(), operation.inputs(), extra) != id) give_up();
      for (std::size_t slot = 0; slot < operation.num_outputs(); ++slot) {
        const ValueId result = operation.output(slot);
        if (result >= builder.data().types.size() || builder.data().types[result] != wide(from.type(result)))
          give_up();
      }
    }
    return builder.build_ids({from.outputs().begin(), from.outputs().end()});
  }

  std::unordered_map<const GraphData*, std::shared_ptr<const GraphData>> made_;
};

}  // namespace

bool has_sixteen_bits(const Graph& graph) {
  const auto is_one = [](Type type) { return is_sixteen(type.dtype()); };
  bool found = std::any_of(graph.data().types.begin(), graph.data().types.end(), is_one);
  prim::visit_operations(graph, [&](const Operation& operation, const Graph& at) {
    for (const ValueId id : operation.inputs()) found = found || is_one(at.type(id));
    for (std::size_t slot = 0; slot < operation.num_outputs(); ++slot)
      found = found || is_one(at.type(operation.output(slot)));
  });
  return found;
}

std::optional<Graph> widened(const Graph& graph) {
  try {
    return Graph(Widener().graph(graph.share()));
  } catch (const Error&) {
    return std::nullopt;
  }
}

Tensor widened(const Tensor& tensor) {
  return is_sixteen(tensor.dtype()) ? tensor_of(wide(tensor.type()), numbers_of(tensor)) : tensor;
}

}  // namespace tidu::check
