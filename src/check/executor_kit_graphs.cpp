// executor_kit_graphs.cpp - the graphs that executors are tested with beside random ones: pure routing,
// constants alone, inputs that nobody reads, no elements, scalars, one output twice; and what is derived from
// each.
#include "check/derived.hpp"
#include "check/executor_kit.hpp"
#include "tidu/graph/builder.hpp"
#include "tidu/linearize/transforms.hpp"
#include "tidu/primitives/elementwise.hpp"
#include "tidu/primitives/structural.hpp"

namespace tidu::check {
namespace {

// Inputs "x0", "x1", … of those types; the outputs that `make` gives.
template <class Make>
Graph graph_of(const char* name, std::initializer_list<Type> types, Make make) {
  GraphBuilder builder(name, standard_primitives(), unplaced);
  std::vector<Value> inputs;
  for (const Type type : types) inputs.push_back(builder.input(detail::str('x', inputs.size()), type));
  const Values outputs = make(inputs);
  return builder.build(std::span<const Value>(outputs.data(), outputs.size()));
}

}  // namespace

void Kit::make_trials() {
  for (const DType dtype : options.dtypes) {
    const Type scalar(dtype), vector(dtype, {3}), matrix(dtype, {2, 3}), empty(dtype, {0}),
        none(dtype, {2, 0});
    const auto odd = [&](const Graph& graph) {
      add_function(graph.name() + " of " + std::string(to_string(dtype)), graph, true, true);
    };
    using In = const std::vector<Value>&;
    odd(graph_of("routing", {vector, matrix}, [](In x) { return Values{x[1], x[0], x[1]}; }));
    odd(graph_of("routing of nothing", {empty, scalar, none}, [](In x) { return Values{x[2], x[1], x[0]}; }));
    odd(graph_of("identity", {scalar}, [](In x) { return Values{x[0]}; }));
    odd(graph_of("inputs that nobody reads", {vector, scalar, matrix}, [](In x) { return Values{x[1]}; }));
    odd(graph_of("differences", {vector, vector}, [](In x) { return Values{x[0] - x[1], x[1] - x[0]}; }));
    odd(graph_of("sums without elements", {none, empty}, [](In x) {
      return Values{ops::reduce_sum(x[0], {0, 1}), x[1] + x[1], ops::reduce_sum(x[0], {1})};
    }));
    odd(graph_of("one output twice", {matrix}, [](In x) {
      const Value y = x[0] * x[0];
      return Values{y, x[0], y};
    }));
    GraphBuilder constants("constants alone", standard_primitives(), unplaced);
    const Value seven = ops::full(constants, vector, 7.0);
    const Graph graph = constants.build({seven, ops::full(constants, scalar, 1.0), seven});
    if (usable(graph))
      forward.push_back(trial("constants alone of " + std::string(to_string(dtype)), graph, true));

    std::size_t made = 0;
    for (std::uint64_t i = 0; i < 4 * options.graphs && made < options.graphs; ++i) {
      const bool exact = i % 2 == 0;
      const Graph f = random_graph(random.bits(), dtype, exact,
                                   [&](const Primitive& p, DType d) { return usable(p, d); });
      const std::size_t before = functions.size();
      add_function(detail::str("random graph ", made, " of ", dtype), f, exact, false);
      made += functions.size() - before;
    }
    if (made < options.graphs)
      log.note(detail::str("random graphs of ", dtype, ": ", made, " instead of ", options.graphs,
                           ", for want of primitives"));
  }
  for (std::size_t i = 0; i < options.more_graphs.size(); ++i)
    add_function(detail::str("graph ", i, " of the caller's"), options.more_graphs[i], false, true);
}

void Kit::add_function(const std::string& what, const Graph& graph, bool exact, bool always) {
  if (!usable(graph)) {
    if (always) log.note(what + ": left out for want of primitives");
    return;
  }
  try {
    const bool runs = add_transposed(what, graph, exact);
    if (runs && usable(vjp(graph))) {
      functions.push_back({what, graph, exact, usable_on_tape(graph, true, false)});
      if (always && !functions.back().by_operations)
        log.note(what + ": not recorded operation by operation, for want of primitives");
    }
  } catch (const Error& error) {
    log.note(what + ": no derivative tested: " + error.what());
  }
  forward.push_back(trial(what, graph, exact));
}

bool Kit::usable_on_tape(const Graph& graph, bool by_operations, bool twice) const {
  if (by_operations) {
    for (std::uint32_t i = 0; i < graph.num_operations(); ++i)
      if (!usable_on_tape(single_operation(graph, i), false, twice)) return false;
    return true;
  }
  try {
    const Pullback pulled = pullback(graph);
    if (!usable(pulled.forward) || !usable(pulled.backward)) return false;
    return !twice ||
           (usable_on_tape(pulled.forward, false, false) && usable_on_tape(pulled.backward, false, false));
  } catch (const Error&) {
    return true;  // a tape does not run what has no derivative
  }
}

// The transposed graph as a pullback has it: residuals first, then cotangents. False when there is none that
// can be run.
bool Kit::add_transposed(const std::string& what, const Graph& graph, bool exact) {
  const Pullback pulled = pullback(graph);
  if (!usable(pulled.forward) || !usable(pulled.backward) || pulled.backward.outputs().empty()) return false;
  Tensors inputs;
  for (const ValueId input : graph.inputs()) inputs.push_back(random_input(random, graph.type(input), exact));
  const Tensors values = oracle.run(pulled.forward, inputs);
  Tensors arguments(values.begin() + static_cast<std::ptrdiff_t>(graph.outputs().size()), values.end());
  for (std::size_t i = arguments.size(); i < pulled.backward.inputs().size(); ++i)
    arguments.push_back(random_input(random, pulled.backward.type(pulled.backward.inputs()[i]), exact));
  transposed.push_back(trial("transposed " + what, pulled.backward, std::move(arguments), exact));
  return true;
}

}  // namespace tidu::check
