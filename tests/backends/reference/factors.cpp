// The factors of operations: done part by part along a factor, every operation of the conformance cases and
// of their VJPs gives the parts of its result, or terms of it.
#include <doctest/doctest.h>

#include <cmath>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "support/support.hpp"
#include "tidu/graph/builder.hpp"
#include "tidu/graph/factors.hpp"
#include "tidu/graph/json.hpp"
#include "tidu/linearize/transforms.hpp"
#include "tidu/primitives/elementwise.hpp"
#include "tidu/primitives/structural.hpp"
#include "tidu/reference/executor.hpp"
#include "tidu/tensor/json.hpp"

namespace tidu {
namespace {

using nlohmann::json;

Tensor part_of(const Tensor& whole, std::size_t axis, std::int64_t begin, std::int64_t end) {
  GraphBuilder builder("part");
  const Value x = builder.input("x", whole.type());
  Shape start(whole.type().rank(), 0), limit = whole.type().shape();
  start[axis] = begin;
  limit[axis] = end;
  return reference().run(builder.build({ops::slice(x, start, limit)}), {whole})[0];
}

Tensor run_op(const Op& op, const std::vector<Tensor>& operands) {
  GraphBuilder builder("op");
  std::vector<Value> values;
  for (const Tensor& operand : operands)
    values.push_back(builder.input(detail::str('x', values.size()), operand.type()));
  return reference().run(builder.build(builder.emit(op, values)), operands)[0];
}

double distance(const Tensor& a, const Tensor& b) {
  REQUIRE(a.type() == b.type());
  double most = 0;
  for (std::int64_t i = 0; i < a.size(); ++i) {
    if (std::isnan(a.at(i).real()) && std::isnan(b.at(i).real())) continue;
    if (a.at(i) != b.at(i)) most = std::max(most, std::abs(a.at(i) - b.at(i)) / (1 + std::abs(a.at(i))));
  }
  return most;
}

// Along one factor, in two parts.
void check_factor(const Op& op, const std::vector<Tensor>& operands, const Tensor& result,
                  const Factors& factors, std::size_t f) {
  const std::int64_t extent = factors.extent(f), middle = extent / 2;
  const int axis = factors.result_axis(f);
  std::vector<Tensor> parts;
  for (const auto& [begin, end] : {std::pair(std::int64_t{0}, middle), std::pair(middle, extent)}) {
    std::vector<Tensor> of_part;
    for (std::size_t i = 0; i < operands.size(); ++i) {
      const int at = factors.axis_of(f, i);
      of_part.push_back(at == Factors::none ? operands[i]
                                            : part_of(operands[i], static_cast<std::size_t>(at), begin, end));
    }
    const auto resize = op.primitive().resize;
    parts.push_back(run_op(axis != Factors::none && resize != nullptr
                               ? resize(op, static_cast<std::size_t>(axis), end - begin)
                               : op,
                           of_part));
  }
  GraphBuilder builder("together");
  const Value x = builder.input("x", parts[0].type()), y = builder.input("y", parts[1].type());
  const Value together = axis == Factors::none ? ops::add(x, y) : ops::concatenate(std::array{x, y}, axis);
  const Tensor again = reference().run(builder.build({together}), parts)[0];
  CHECK(distance(result, again) <= (axis == Factors::none ? 1e-5 : 0.0));
}

void check_graph(const Graph& graph, const std::vector<Tensor>& inputs, std::map<std::string, int>& checked) {
  const auto builder = GraphBuilder::extending(graph);
  std::vector<ValueId> all;
  for (ValueId id = 0; id < graph.num_values(); ++id) all.push_back(id);
  const std::vector<Tensor> values = reference().run(builder->build_ids(all), inputs);
  for (std::size_t i = 0; i < graph.num_operations(); ++i) {
    const Operation operation = graph.operation(i);
    const Op op = operation.op();
    if (op.primitive().factors == nullptr || operation.num_outputs() != 1) continue;
    std::vector<Type> types;
    std::vector<Tensor> operands;
    for (const ValueId id : operation.inputs()) {
      types.push_back(graph.type(id));
      operands.push_back(values[id]);
    }
    Factors factors;
    factors.begin(op, types, graph.type(operation.output()));
    op.primitive().factors(factors);
    INFO(describe_operation(graph, static_cast<std::uint32_t>(i)));
    for (std::size_t f = 0; f < factors.size(); ++f) {
      if (factors.extent(f) < 2) continue;
      check_factor(op, operands, values[operation.output()], factors, f);
      ++checked[std::string(op.name())];
    }
  }
}

TEST_CASE("operations can be done part by part along their factors") {
  std::map<std::string, int> checked;
  for (const auto& entry :
       std::filesystem::directory_iterator(test::source_dir() / "tests" / "data" / "conformance")) {
    if (entry.path().extension() != ".json") continue;
    INFO(entry.path().stem().string());
    std::ifstream file(entry.path());
    const json content = json::parse(file);
    if (!content.contains("graph")) continue;
    const Graph graph = graph_from_json(content["graph"].dump());
    if (graph.data().depth > 1) continue;
    std::vector<Tensor> inputs;
    for (std::size_t i = 0; i < graph.inputs().size(); ++i)
      inputs.push_back(tensor_from_json(content["inputs"][graph.input_name(i)].dump()));
    check_graph(graph, inputs, checked);
    try {
      const Graph backward = vjp(graph);
      for (std::size_t i = inputs.size(); i < backward.inputs().size(); ++i) {
        Tensor ones(backward.type(backward.inputs()[i]));
        GraphBuilder builder("ones");
        inputs.push_back(
            reference().run(builder.build({ops::full(builder, ones.type(), 1)}), std::vector<Tensor>())[0]);
      }
      check_graph(backward, inputs, checked);
    } catch (const Error&) {
      continue;  // no derivative
    }
  }
  GraphBuilder along("along");
  const Value x = along.input("x", {f64, {3, 4}}), places = along.input("places", {i32, {3, 5}});
  check_graph(along.build({ops::take_along_axis(x, places, 1)}),
              {Tensor::from<double>({3, 4}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}),
               Tensor::from<std::int32_t>({3, 5}, {0, 1, 2, 3, 0, 3, 3, 1, 1, 2, 2, 0, 0, 0, 1})},
              checked);
  for (const Primitive* primitive : standard_primitives().primitives()) {
    if (primitive->factors == nullptr) continue;
    INFO(primitive->name);
    CHECK(checked[std::string(primitive->name)] > 0);
  }
}

}  // namespace
}  // namespace tidu
