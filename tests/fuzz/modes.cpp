// modes.cpp - the conformance cases, dumps and random graphs of the corpus in random modes of differentiation
// and execution: they agree, or the library refuses by an error of the kind ad_rule.
#include <doctest/doctest.h>

#include <cstdlib>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "fuzz/corpus.hpp"
#include "fuzz/generator.hpp"
#include "fuzz/mode_agreement.hpp"
#include "support/support.hpp"
#include "tidu/tidu.hpp"

namespace tidu::test {
namespace {

double rtol_of(const Graph& graph) {
  double rtol = 1e-9;
  for (const Type type : graph.data().types) {
    switch (type.dtype()) {
      case DType::f16: rtol = std::max(rtol, 4e-3); break;
      case DType::bf16: rtol = std::max(rtol, 3e-2); break;
      case DType::f32:
      case DType::c64: rtol = std::max(rtol, 3e-5); break;
      default: break;
    }
  }
  return rtol;
}

// Without integer outputs; nothing where that leaves none or no input is inexact.
std::optional<ModeCase> case_of(std::string name, const Graph& graph, const std::vector<Tensor>& inputs) {
  ModeCase c{std::move(name), graph, inputs, {}, rtol_of(graph)};
  std::vector<std::size_t> outputs;
  for (std::size_t i = 0; i < graph.outputs().size(); ++i)
    if (is_inexact(graph.type(graph.outputs()[i]).dtype())) outputs.push_back(i);
  for (std::size_t i = 0; i < graph.inputs().size(); ++i)
    if (is_inexact(inputs[i].dtype())) c.wrt.push_back(i);
  if (outputs.empty() || c.wrt.empty()) return std::nullopt;
  c.graph = with_outputs(graph, outputs);
  return c;
}

std::vector<ModeCase> conformance_cases() {
  std::vector<ModeCase> cases;
  for (const CorpusFile& file : corpus("conformance")) {
    if (!file.name.ends_with(".json")) continue;
    const auto content = nlohmann::json::parse(file.bytes);
    const Graph graph = graph_from_json(content["graph"].dump());
    std::vector<Tensor> inputs;
    for (std::size_t i = 0; i < graph.inputs().size(); ++i)
      inputs.push_back(tensor_from_json(content["inputs"][std::string(graph.input_name(i))].dump()));
    if (auto c = case_of(file.name, graph, inputs)) {
      c->rtol = std::max(c->rtol, content["rtol"].get<double>());
      cases.push_back(std::move(*c));
    }
  }
  return cases;
}

// Vectors of eigh and svd have signs that are up to the executor.
std::vector<ModeCase> random_cases(std::size_t count) {
  std::vector<ModeCase> cases;
  const auto add = [&](const std::string& name, Choices& choices) {
    const RandomCase random = random_case(choices);
    const std::set<std::string_view> names = primitives_in(random.graph);
    if (names.contains("eigh") || names.contains("svd")) return;
    if (auto c = case_of(name, random.graph, random.inputs)) cases.push_back(std::move(*c));
  };
  for (const CorpusFile& file : corpus("fuzz/transform")) {
    ByteChoices choices({reinterpret_cast<const std::uint8_t*>(file.bytes.data()), file.bytes.size()});
    add(file.name, choices);
  }
  for (std::size_t seed = 0; seed < count; ++seed) {
    SeededChoices choices(seed + 991);
    add(detail::str("seed ", seed + 991), choices);
  }
  return cases;
}

// The graph run by a while without a bound, which ends after a step, so that no rule transposes it.
Graph by_one_step(const Graph& graph) {
  GraphBuilder until("until"), step("step"), whole(graph.name());
  const auto inputs = [&](GraphBuilder& builder, bool inside) {
    std::vector<Value> values;
    for (const ValueId id : graph.inputs())
      values.push_back(builder.input(detail::str('x', values.size()), graph.type(id)));
    if (inside) values.push_back(builder.input("n", i32));
    for (std::size_t k = 0; inside && k < graph.outputs().size(); ++k)
      values.push_back(builder.input(detail::str('y', k), graph.type(graph.outputs()[k])));
    return values;
  };
  const std::size_t count = graph.inputs().size();
  const Value n = inputs(until, true)[count];
  const Graph cond = until.build({ops::lt(n, ops::full_like(n, 1.0))});
  const std::vector<Value> in = inputs(step, true);
  std::vector<Value> results{ops::full_like(in[count], 1.0)};
  const std::vector<Value> values = inline_graph(step, graph, std::span(in).first(count));
  for (const ValueId id : graph.outputs()) results.push_back(values[id]);
  std::vector<Value> operands = inputs(whole, false);
  operands.push_back(ops::full(whole, i32, 0.0));
  for (const ValueId id : graph.outputs()) operands.push_back(ops::full(whole, graph.type(id), 0.0));
  const Values found = ops::while_loop(cond, step.build(results), operands, {count, {}});
  return whole.build(std::span<const Value>(found.begin() + 1, found.end()));
}

// The same results, which have no derivative.
Graph stopped(const Graph& graph) {
  const auto builder = GraphBuilder::extending(graph);
  std::vector<Value> outputs;
  for (const ValueId id : graph.outputs()) outputs.push_back(ops::stop_gradient(builder->value(id)));
  return builder->build(outputs);
}

// The same functions with a rule, which is their derivative, by such a loop. Their own graph has none.
std::vector<ModeCase> cases_by_steps(const std::vector<ModeCase>& of) {
  std::vector<ModeCase> cases;
  for (const ModeCase& c : of) {
    if (c.graph.data().has_effects) continue;
    const Derivative derivative = vjp_parts(c.graph);
    std::vector<std::size_t> cotangents;
    for (std::size_t k = derivative.first; k < derivative.graph.outputs().size(); ++k)
      cotangents.push_back(k);
    std::vector<ValueId> kept(c.graph.outputs().begin(), c.graph.outputs().end());
    kept.insert(kept.end(), c.graph.inputs().begin(), c.graph.inputs().end());
    const Graph forward = GraphBuilder::extending(c.graph)->build_ids(kept);
    const Graph backward = by_one_step(with_outputs(derivative.graph, cotangents));
    GraphBuilder g(c.graph.name());
    std::vector<Value> inputs;
    for (const ValueId id : c.graph.inputs())
      inputs.push_back(g.input(detail::str('x', inputs.size()), c.graph.type(id)));
    const Graph whole = g.build(ops::custom_vjp_call(stopped(c.graph), forward, backward, inputs));
    if (auto made = case_of(c.name + " by steps", whole, c.inputs)) cases.push_back(std::move(*made));
  }
  return cases;
}

void compare(const std::vector<ModeCase>& cases, std::size_t draws) {
  const bool all = std::getenv("TIDU_TEST_ALL_MODES") != nullptr;
  std::size_t compared = 0, refused = 0, wrong = 0;
  std::map<std::string, std::size_t> reasons;
  std::uint64_t seed = 0;
  for (const ModeCase& c : cases) {
    check::Random random(++seed);
    const ModeReport report = compare_modes(c, random, draws, all);
    compared += report.compared;
    refused += report.refusals.size();
    for (const std::string& refusal : report.refusals) ++reasons[refusal.substr(refusal.find("Error ("))];
    if (report.complaints.empty()) continue;
    if (++wrong <= (all ? 10000 : 10)) FAIL_CHECK(detail::str(report.complaints, to_text(c.graph)));
  }
  std::string text;
  for (const auto& [reason, times] : reasons) text += detail::str("\n  ", times, " times ", reason);
  MESSAGE(compared, " comparisons of ", cases.size(), " graphs, ", refused, " refusals", text);
  CHECK(compared > 5 * cases.size());
}

}  // namespace

TEST_CASE("a rule that is not the derivative of its function makes modes differ, which is noticed") {
  const auto graph_of = [](std::size_t inputs, Values (*make)(const std::vector<Value>&)) {
    GraphBuilder g("inner");
    std::vector<Value> values;
    for (std::size_t i = 0; i < inputs; ++i) values.push_back(g.input(std::to_string(i), {f64, {2}}));
    const Values results = make(values);
    return g.build(std::span<const Value>(results.data(), results.size()));
  };
  using In = const std::vector<Value>&;
  const Graph sine = graph_of(1, [](In x) { return Values{ops::sin(x[0])}; });
  const Graph forward = graph_of(1, [](In x) { return Values{ops::sin(x[0]), x[0]}; });
  // Not linear: forward mode is then that of sine.
  const Graph backward = graph_of(2, [](In x) { return Values{ops::tanh(x[1]) * ops::cos(x[0])}; });
  GraphBuilder g("f");
  const Value x = g.input("x", {f64, {2}});
  const Graph f = g.build({ops::custom_vjp_call(sine, forward, backward, std::vector{x})[0]});
  check::Random random(1);
  const auto c = case_of("wrong", f, {Tensor::from<double>({2}, {0.3, 0.4})});
  REQUIRE(c);
  CHECK(compare_modes(*c, random, 0, false).complaints != "");
}

TEST_CASE("conformance cases agree in every mode, or are refused") {
  compare(conformance_cases(), scaled(12));
}

TEST_CASE("random graphs agree in every mode, or are refused") {
  compare(random_cases(scaled(200)), scaled(12));
}

TEST_CASE("random rules that no rule transposes agree in every mode, or are refused") {
  compare(cases_by_steps(random_cases(scaled(60))), scaled(12));
}

}  // namespace tidu::test
