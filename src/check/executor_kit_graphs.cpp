// executor_kit_graphs.cpp - special graphs for tests of executors, beside random ones: pure routing,
// constants alone, unused inputs, no elements, scalars, one output twice, batches of matrices; and the
// derivatives of each.
#include "check/derived.hpp"
#include "check/executor_kit.hpp"
#include "tidu/graph/builder.hpp"
#include "tidu/linearize/transforms.hpp"
#include "tidu/primitives/elementwise.hpp"
#include "tidu/primitives/linalg.hpp"
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

std::string named(const Graph& graph, DType dtype) {
  return graph.name() + " of " + std::string(to_string(dtype));
}

// Functions of arrays of rank 3: a kernel that is right for one matrix may read the others of a stack
// wrongly.
std::vector<Graph> graphs_of_stacks(DType dtype) {
  const Type stack(dtype, {2, 3, 4}), other(dtype, {2, 4, 5}), row(dtype, {3, 4});
  std::vector<Graph> graphs;
  using In = const std::vector<Value>&;
  graphs.push_back(graph_of("matrix products of stacks", {stack, other}, [](In x) {
    return Values{ops::dot_general(x[0], x[1], {{2}, {1}, {0}, {0}}),
                  ops::dot_general(x[0], x[0], {{1, 2}, {1, 2}, {0}, {0}})};
  }));
  graphs.push_back(graph_of("a product of a stack with one matrix", {stack, row}, [](In x) {
    return Values{ops::dot_general(x[0], x[1], {{2}, {1}, {}, {}})};
  }));
  graphs.push_back(graph_of("transposes of stacks", {stack}, [](In x) {
    return Values{ops::transpose(x[0], {0, 2, 1}), ops::transpose(x[0], {2, 0, 1})};
  }));
  graphs.push_back(graph_of("sums over axes of stacks", {stack}, [](In x) {
    return Values{ops::reduce_sum(x[0], {1}), ops::reduce_sum(x[0], {0, 2}), ops::reduce_sum(x[0], {2})};
  }));
  graphs.push_back(graph_of("repetition along axes of stacks", {row, stack}, [](In x) {
    return Values{ops::broadcast_in_dim(x[0], {2, 3, 4}, {1, 2}) * x[1],
                  ops::broadcast_in_dim(x[0], {3, 2, 4}, {0, 2})};
  }));
  graphs.push_back(graph_of("concatenation and parts of stacks", {stack, stack}, [](In x) {
    const Value joined = ops::concatenate(std::vector{x[0], x[1]}, 1);  // [2, 6, 4]
    return Values{joined, ops::slice(joined, {0, 2, 1}, {2, 5, 3})};
  }));
  graphs.push_back(graph_of("running sums of stacks", {stack}, [](In x) {
    return Values{ops::cumsum(x[0], 1), ops::rev(x[0], {0, 2})};
  }));
  return graphs;
}

}  // namespace

void Kit::make_odd_trials(DType dtype) {
  const Type scalar(dtype), vector(dtype, {3}), matrix(dtype, {2, 3}), empty(dtype, {0}), none(dtype, {2, 0});
  const auto odd = [&](const Graph& graph) { add_function(named(graph, dtype), graph, true, true); };
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
  if (usable(graph)) forward.push_back(trial(named(graph, dtype), graph, true));
}

void Kit::make_stacks(DType dtype) {
  for (const Graph& graph : graphs_of_stacks(dtype)) add_function(named(graph, dtype), graph, true, true);
}

// Products of the factors and eigenvalues do not depend on signs and phases, which are up to the executor;
// derivatives read vectors that do, and are not tested of these.
void Kit::make_factorizations_of_stacks(DType dtype) {
  const Type stack(dtype, {2, 3, 3});
  const auto add = [&](const char* name, bool unique, Values (*make)(Value matrix, Value x)) {
    GraphBuilder builder(name, standard_primitives(), unplaced);
    const Value x = builder.input("x0", stack);
    Numbers diagonal(18, 0.0);
    for (std::size_t i = 0; i < 6; ++i)
      diagonal[i / 3 * 9 + i % 3 * 4] = 8.0 * static_cast<double>(1 + i % 3);
    const Value spread = ops::constant(builder, tensor_of(stack, diagonal).to_literal());
    Values outputs;
    try {
      outputs = make(spread + x, x);
    } catch (const Error&) {
      return;  // the primitive takes no such dtype
    }
    const Graph graph = builder.build(std::span<const Value>(outputs.data(), outputs.size()));
    if (unique || !usable(graph)) {
      add_function(named(graph, dtype), graph, false, true);
    } else {
      forward.push_back(trial(named(graph, dtype), graph, false));
    }
  };
  add("Cholesky factors of stacks", true, [](Value m, Value) { return Values{ops::cholesky(m)}; });
  add("triangular solutions of stacks", true, [](Value m, Value x) {
    return Values{ops::triangular_solve(m, x, {.left_side = true, .lower = true})};
  });
  add("LU factors of stacks", true, [](Value m, Value) { return Values{ops::lu(m)[0]}; });
  add("QR factors of stacks", false, [](Value m, Value) {
    const Values qr = ops::qr(m);
    return Values{ops::dot_general(qr[0], qr[1], {{2}, {1}, {0}, {0}})};
  });
  add("eigenvalues of stacks", false, [](Value m, Value) { return Values{ops::eigh(m)[1]}; });
  add("singular values of stacks", false, [](Value m, Value) { return Values{ops::svd(m)[1]}; });
}

void Kit::make_random_trials(DType dtype) {
  std::size_t made = 0;
  for (std::uint64_t i = 0; i < 4 * options.graphs && made < options.graphs; ++i) {
    const bool exact = i % 2 == 0;
    const Graph f =
        random_graph(random.bits(), dtype, exact, [&](const Primitive& p, DType d) { return usable(p, d); });
    const std::size_t before = functions.size();
    add_function(detail::str("random graph ", made, " of ", dtype), f, exact, false);
    made += functions.size() - before;
  }
  if (made < options.graphs)
    log.note(detail::str("random graphs of ", dtype, ": ", made, " instead of ", options.graphs,
                         ", for want of primitives"));
}

void Kit::make_trials() {
  for (const DType dtype : options.dtypes) {
    make_odd_trials(dtype);
    make_random_trials(dtype);
    make_stacks(dtype);
    make_factorizations_of_stacks(dtype);
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
    return true;  // a tape does not run operations without a derivative
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
