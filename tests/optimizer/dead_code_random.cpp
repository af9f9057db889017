// Random loops, choices and calls in one another, of which some results are read: without the rest they give
// the same bits, and need the inputs that a slow recursion over their graphs says.
#include <doctest/doctest.h>

#include <algorithm>
#include <random>

#include "simplify_support.hpp"
#include "support/support.hpp"
#include "tidu/graph/region_bindings.hpp"
#include "tidu/linearize/transforms.hpp"
#include "tidu/primitives/control_flow.hpp"

namespace tidu {
namespace {

namespace demanded_random_cases {

// Values are pairs of numbers, whole ones or smooth in each other.
class RandomGraphBuilder {
 public:
  RandomGraphBuilder(std::uint64_t seed, DType dtype) : random_(seed), type_(dtype, {2}) {}

  Graph make() {
    GraphBuilder g("f");
    std::vector<Value> values;
    for (int i = 0; i < 4; ++i) values.push_back(g.input(detail::str("input", i), type_));
    fill(values, 3, 3 + below(6));
    return g.build(pick(values, 1 + below(3)));
  }

 private:
  std::size_t below(std::size_t count) { return random_() % count; }
  Value any(const std::vector<Value>& values) { return values[below(values.size())]; }
  std::vector<Value> pick(const std::vector<Value>& values, std::size_t count) {
    std::vector<Value> picked;
    while (picked.size() < count) picked.push_back(any(values));
    return picked;
  }

  void fill(std::vector<Value>& values, int depth, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
      const std::vector<Value> made = depth > 0 && below(2) == 0 ? holding(values, depth - 1) : plain(values);
      values.insert(values.end(), made.begin(), made.end());
    }
  }
  std::vector<Value> plain(const std::vector<Value>& values) {
    const Value x = any(values), y = any(values);
    const bool smooth = is_floating(type_.dtype());
    switch (below(4)) {
      case 0: return {smooth ? ops::mul(ops::sin(x), y) : ops::mul(x, y)};
      case 1: return {ops::sub(x, y)};
      case 2: return {smooth ? ops::cos(x) : ops::neg(x)};
      default: return {ops::add(x, y)};
    }
  }
  std::vector<Value> holding(const std::vector<Value>& values, int depth) {
    switch (below(4)) {
      case 0: return scanned(values, depth);
      case 1: return looped(values, depth);
      case 2: return chosen(values, depth);
      default: break;
    }
    const std::vector<Value> operands = pick(values, 1 + below(3));
    return all(ops::call(inner("called", operands.size(), 1 + below(3), depth), operands));
  }
  static std::vector<Value> all(const Values& results) { return {results.begin(), results.end()}; }

  Graph inner(const char* name, std::size_t inputs, std::size_t outputs, int depth) {
    GraphBuilder b(name);
    std::vector<Value> values;
    for (std::size_t i = 0; i < inputs; ++i) values.push_back(b.input(detail::str('x', i), type_));
    fill(values, depth, 1 + below(4));
    return b.build(pick(values, outputs));
  }

  std::vector<Value> scanned(const std::vector<Value>& values, int depth) {
    const std::size_t consts = below(3), carries = 1 + below(4), xs = below(3), ys = below(3);
    const std::int64_t length = static_cast<std::int64_t>(below(4));
    std::vector<Value> operands = pick(values, consts + carries + xs);
    for (std::size_t i = consts + carries; i < operands.size(); ++i)
      operands[i] = ops::broadcast_in_dim(operands[i], {length, 2}, {1});
    const Graph body = inner("step", operands.size(), carries + ys, depth);
    std::vector<Value> results = all(ops::scan(body, operands, {length, below(2) == 0, consts, carries}));
    for (std::size_t k = carries; k < results.size(); ++k) results[k] = ops::reduce_sum(results[k], {0});
    return results;
  }

  // A counter, a carry or the bound ends the loop.
  std::vector<Value> looped(const std::vector<Value>& values, int depth) {
    const std::size_t consts = below(3), carries = 1 + below(4), count = consts + carries;
    std::vector<Value> operands = pick(values, count);
    operands.push_back(ops::full(*operands[0].emitter(), Type(i32), 0.0));
    GraphBuilder c("until"), b("step");
    std::vector<Value> in_cond, in_body;
    for (std::size_t i = 0; i <= count; ++i) {
      const Type type = i == count ? Type(i32) : type_;
      in_cond.push_back(c.input(detail::str('x', i), type));
      in_body.push_back(b.input(detail::str('x', i), type));
    }
    const Value n = in_cond[count];
    Value goes_on = ops::lt(n, ops::full_like(n, static_cast<double>(below(4))));
    if (below(3) == 0) goes_on = ops::logical_and(goes_on, flag(in_cond[below(count)]));
    const Value next = ops::add(in_body[count], ops::full_like(in_body[count], 1));
    in_body.pop_back();
    fill(in_body, depth, 1 + below(4));
    std::vector<Value> outputs = pick(in_body, carries);
    outputs.push_back(next);
    std::vector<Value> results =
        all(ops::while_loop(c.build({goes_on}), b.build(outputs), operands, {consts, std::int64_t{3}}));
    results.pop_back();
    return results;
  }

  std::vector<Value> chosen(const std::vector<Value>& values, int depth) {
    const std::vector<Value> operands = pick(values, 1 + below(3));
    const std::size_t results = 1 + below(3);
    const std::vector<Graph> branches{inner("one", operands.size(), results, depth),
                                      inner("other", operands.size(), results, depth)};
    return all(ops::cond(flag(any(values)), branches, operands));
  }
  static Value flag(Value x) {
    const Value sum = ops::reduce_sum(x, {0});
    return ops::lt(sum, ops::full_like(sum, 0.25));
  }

  std::mt19937_64 random_;
  Type type_;
};

// By input: do those outputs need it?
std::vector<bool> needs(const Graph& graph, const std::vector<bool>& outputs);

std::vector<bool> operands_needed(const Operation& operation, const std::vector<bool>& results) {
  const Op op = operation.op();
  std::vector<bool> needed(operation.num_inputs(), true);
  const auto join = [](std::vector<bool>& to, const std::vector<bool>& from, std::size_t offset) {
    for (std::size_t i = 0; i < from.size(); ++i) to[offset + i] = to[offset + i] || from[i];
  };
  if (operation.name() == "call") return needs(op.graph("graph"), results);
  if (operation.name() == "cond") {
    needed.assign(needed.size(), false);
    needed[0] = true;
    for (const Graph& branch : op.graphs("branches")) join(needed, needs(branch, results), 1);
    return needed;
  }
  const bool is_while = operation.name() == "while";
  if (!is_while && operation.name() != "scan") return needed;
  const auto consts = static_cast<std::size_t>(op.integer("num_consts"));
  const std::size_t carries = is_while ? results.size() : static_cast<std::size_t>(op.integer("num_carry"));
  std::vector<bool> outputs = results;
  for (bool grew = true; grew;) {
    grew = false;
    needed = needs(op.graph("body"), outputs);
    if (is_while) join(needed, needs(op.graph("cond"), {true}), 0);
    for (std::size_t k = 0; k < carries; ++k) {
      if (needed[consts + k] && !outputs[k]) outputs[k] = grew = true;
      if (outputs[k]) needed[consts + k] = true;
    }
  }
  return needed;
}

std::vector<bool> needs(const Graph& graph, const std::vector<bool>& outputs) {
  std::vector<bool> read(graph.num_values(), false);
  for (std::size_t k = 0; k < outputs.size(); ++k) {
    if (outputs[k]) read[graph.outputs()[k]] = true;
  }
  for (std::size_t i = graph.num_operations(); i-- > 0;) {
    const Operation operation = graph.operation(i);
    std::vector<bool> results;
    for (std::size_t slot = 0; slot < operation.num_outputs(); ++slot)
      results.push_back(read[operation.output(slot)]);
    if (std::find(results.begin(), results.end(), true) == results.end()) continue;
    const std::vector<bool> operands = operands_needed(operation, results);
    for (std::size_t k = 0; k < operands.size(); ++k) {
      if (operands[k]) read[operation.input(k)] = true;
    }
  }
  std::vector<bool> inputs;
  for (const ValueId id : graph.inputs()) inputs.push_back(read[id]);
  return inputs;
}

std::vector<bool> inputs_read(const Graph& graph) {
  const std::vector<bool> read = reachable(graph, graph.outputs());
  std::vector<bool> inputs;
  for (const ValueId id : graph.inputs()) inputs.push_back(read[id]);
  return inputs;
}

// Operations of the graph and of those in it.
std::size_t count_operations(const Graph& graph) {
  std::size_t count = graph.num_operations();
  for (std::size_t i = 0; i < graph.num_operations(); ++i) {
    for (const auto& [name, value] : graph.operation(i).op().attributes()) {
      for (const auto& inside : value.graphs()) count += count_operations(Graph(inside));
    }
  }
  return count;
}

std::vector<Tensor> numbers(const Graph& graph, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<Tensor> inputs;
  for (const ValueId id : graph.inputs()) {
    const Type type = graph.type(id);
    Tensor tensor(type);
    for (std::int64_t i = 0; i < type.size(); ++i) {
      const auto whole = static_cast<std::int64_t>(random() % 7) - 3;
      if (type.dtype() == i64) {
        reinterpret_cast<std::int64_t*>(tensor.mutable_bytes())[i] = whole;
      } else {
        reinterpret_cast<double*>(tensor.mutable_bytes())[i] = 0.3 * static_cast<double>(whole);
      }
    }
    inputs.push_back(tensor);
  }
  return inputs;
}

TEST_CASE("[dead code] random nested graphs: dead code is removed, and nothing else") {
  std::size_t before = 0, after = 0, cut_graphs = 0, wrong = 0;
  const std::size_t count = test::scaled(2000);
  for (std::size_t seed = 0; seed < count && wrong < 5; ++seed) {
    const Graph graph = RandomGraphBuilder(seed, i64).make(), cut = eliminate_dead_code(graph);
    verify(cut);
    before += count_operations(prune(graph));
    after += count_operations(cut);
    cut_graphs += cut.share() == graph.share() ? 0 : 1;
    const std::vector<Tensor> inputs = numbers(graph, seed);
    std::string text = test::differences(reference(), graph, cut, inputs);
    const std::vector<Tensor> expected = reference().run(graph, inputs), got = cpu().run(graph, inputs);
    for (std::size_t i = 0; i < expected.size(); ++i) {
      if (!test::same_bits(expected[i], got[i])) text += detail::str("CPU: output ", i, " differs\n");
    }
    if (inputs_read(cut) != needs(graph, std::vector<bool>(graph.outputs().size(), true)))
      text += "other inputs are read than are needed\n";
    if (eliminate_dead_code(cut).share() != cut.share()) text += "more could be left out\n";
    if (text.empty()) continue;
    ++wrong;
    FAIL_CHECK(detail::str("seed ", seed, ":\n", text, to_text(graph), to_text(cut)));
  }
  MESSAGE(cut_graphs, " of ", count, " are cut; operations: ", before, ", ", after);
  CHECK(after < before);
}

// The reduced graph is differentiated in another order, so that sums round differently.
std::string distances(const Graph& a, const Graph& b, const std::vector<Tensor>& inputs) {
  const std::vector<Tensor> x = reference().run(a, inputs), y = reference().run(b, inputs);
  double largest = 1, distance = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    for (std::int64_t k = 0; k < x[i].size(); ++k) {
      largest = std::max(largest, std::abs(x[i].at(k)));
      if (x[i].at(k) != y[i].at(k)) distance = std::max(distance, std::abs(x[i].at(k) - y[i].at(k)));
    }
  }
  return distance <= 1e-9 * largest ? "" : detail::str("differs by ", distance, " of ", largest, '\n');
}

TEST_CASE("[dead code] random nested graphs: derivatives to second order, without dead code") {
  std::size_t wrong = 0, cut_graphs = 0;
  const std::size_t count = test::scaled(100);
  for (std::size_t seed = 0; seed < count && wrong < 5; ++seed) {
    const Graph graph = RandomGraphBuilder(seed, f64).make(), cut = eliminate_dead_code(graph);
    const Graph backward = vjp(graph), of_cut = vjp(cut);
    std::string text;
    for (const auto& [of_all, of_left] : {std::pair(jvp(graph), jvp(cut)),
                                          {backward, of_cut},
                                          {jvp(backward), jvp(of_cut)},
                                          {vjp(backward), vjp(of_cut)}}) {
      verify(of_all);
      const std::vector<Tensor> inputs = numbers(of_all, seed);
      text += distances(of_all, of_left, inputs);
      const std::vector<std::size_t> read{seed % of_all.outputs().size(), of_all.outputs().size() - 1};
      const Graph some = with_outputs(of_all, read), left = eliminate_dead_code(some);
      verify(left);
      cut_graphs += left.share() == some.share() ? 0 : 1;
      text += test::differences(reference(), some, left, inputs);
    }
    if (text.empty()) continue;
    ++wrong;
    FAIL_CHECK(detail::str("seed ", seed, ":\n", text));
  }
  MESSAGE(cut_graphs, " of ", 4 * count, " are cut");
}

}  // namespace demanded_random_cases
}  // namespace
}  // namespace tidu
