// executor_kit_graphs.cpp - the graphs that executors are tested with: seeded random ones, and odd ones: pure
// routing, constants alone, inputs that nobody reads, no elements, scalars, one output twice.
#include "check/executor_kit.hpp"
#include "tidu/graph/builder.hpp"
#include "tidu/linearize/transforms.hpp"
#include "tidu/primitives/elementwise.hpp"
#include "tidu/primitives/structural.hpp"

namespace tidu::check {
namespace {

// Places in this file would say nothing to who reads a report.
constexpr GraphBuilder::Options unplaced{.deduplicate = true, .record_where = false};

using Usable = std::function<bool(const Primitive&, DType)>;

class Generator {
 public:
  Generator(std::uint64_t seed, DType dtype, bool exact, const Usable& usable)
      : random_(seed),
        dtype_(dtype),
        exact_(exact),
        usable_(usable),
        builder_("random", standard_primitives(), unplaced) {
    extent_ = random_.below(8) == 0 ? 0 : 1 + static_cast<std::int64_t>(random_.below(4));
  }

  Graph make() {
    num_inputs_ = 2 + random_.below(3);
    for (std::size_t i = 0; i < num_inputs_; ++i)
      values_.push_back(builder_.input(detail::str('x', i), type_of(random_.below(3))));
    which_ = builder_.input("which", bool_);
    const std::size_t operations = 2 + random_.below(9);
    for (std::size_t i = 0; i < operations; ++i) add_operation();
    std::vector<Value> outputs;
    const std::size_t num_outputs = 1 + random_.below(3);
    for (std::size_t i = 0; i < num_outputs; ++i)
      outputs.push_back(random_.below(4) != 0 ? values_[values_.size() - 1 - random_.below(2)] : any());
    if (random_.below(5) == 0) outputs.push_back(outputs[0]);
    return builder_.build(outputs);
  }

 private:
  Type type_of(std::size_t rank) const { return {dtype_, Shape(rank, extent_)}; }
  bool has(const Primitive& primitive) const { return usable_(primitive, dtype_); }
  Value any() { return values_[random_.below(values_.size())]; }

  // Any value of that rank, brought to it where the primitives are there, or else nothing.
  std::optional<Value> of_rank(std::size_t rank) {
    Value x = any();
    for (std::size_t tries = 0; tries < 8 && x.rank() != rank; ++tries) x = any();
    if (x.rank() > rank ? !has(prim::reduce_sum) : x.rank() < rank && !has(prim::broadcast_in_dim))
      return std::nullopt;
    while (x.rank() > rank) x = ops::reduce_sum(x, {static_cast<std::int64_t>(random_.below(x.rank()))});
    if (x.rank() == rank) return x;
    Ints axes(x.rank());
    for (std::size_t axis = 0; axis < axes.size(); ++axis)
      axes[axis] = static_cast<std::int64_t>(axis + (rank - x.rank()) * random_.below(2));
    return ops::broadcast_in_dim(x, Shape(rank, extent_), axes.size() < 2 ? axes : Ints{0, 1});
  }

  void add_operation() {
    struct Kind {
      std::vector<const Primitive*> needs;
      std::optional<Value> (*make)(Generator&, Value);
      bool exact = true;
    };
    using G = Generator;
    using V = std::optional<Value>;
    static const std::vector<Kind> kinds = {
        {{&prim::add}, [](G& g, Value x) { return g.with(x, ops::add); }},
        {{&prim::mul}, [](G& g, Value x) { return g.with(x, ops::mul); }},
        {{&prim::sub}, [](G& g, Value x) { return g.with(x, ops::sub); }},
        {{&prim::neg}, [](G&, Value x) -> V { return ops::neg(x); }},
        {{&prim::select_n},
         [](G& g, Value x) -> V {
           const V y = g.of_rank(x.rank());
           return y ? V(ops::select_n(g.which_, x, *y)) : V();
         }},
        {{&prim::transpose},
         [](G& g, Value) -> V {
           const V x = g.of_rank(2);
           return x ? V(ops::transpose(*x, {1, 0})) : V();
         }},
        {{&prim::reduce_sum}, [](G& g, Value) { return g.of_rank(g.random_.below(2)); }},
        {{&prim::broadcast_in_dim}, [](G& g, Value) { return g.of_rank(1 + g.random_.below(2)); }},
        {{&prim::dot_general},
         [](G& g, Value) -> V {
           const V x = g.of_rank(2), y = g.of_rank(2);
           return x && y ? V(ops::dot_general(*x, *y, {{1}, {0}, {}, {}})) : V();
         }},
        {{&prim::reshape},
         [](G& g, Value) -> V {
           const V x = g.of_rank(1);
           return x ? V(ops::reshape(ops::reshape(*x, {1, g.extent_}), {g.extent_})) : V();
         }},
        {{&prim::sin}, [](G&, Value x) -> V { return ops::sin(x); }, false},
        {{&prim::tanh}, [](G&, Value x) -> V { return ops::tanh(x); }, false},
        {{&prim::exp, &prim::sin}, [](G&, Value x) -> V { return ops::exp(ops::sin(x)); }, false},
        {{&prim::logistic}, [](G&, Value x) -> V { return ops::logistic(x); }, false},
        {{&prim::div, &prim::add, &prim::full, &prim::sin},
         [](G&, Value x) -> V { return x / (ops::full_like(x, 2.5) + ops::sin(x)); },
         false}};
    const Kind& kind = kinds[random_.below(exact_ ? 10 : kinds.size())];
    for (const Primitive* primitive : kind.needs)
      if (!has(*primitive)) return;
    // Beyond the inputs' range, complex functions grow too fast to be compared.
    const bool tame = !kind.exact && is_complex(dtype_);
    const Value operand = tame ? values_[random_.below(num_inputs_)] : any();
    if (const std::optional<Value> value = kind.make(*this, operand)) values_.push_back(*value);
  }
  std::optional<Value> with(Value x, Value (*op)(Value, Value, Where)) {
    const std::optional<Value> y = random_.below(5) == 0 ? x : of_rank(x.rank());
    return y ? std::optional<Value>(op(x, *y, {})) : std::nullopt;
  }

  Random random_;
  DType dtype_;
  bool exact_;
  const Usable& usable_;
  GraphBuilder builder_;
  std::vector<Value> values_;
  std::size_t num_inputs_ = 0;
  Value which_;
  std::int64_t extent_;
};

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

Graph random_graph(std::uint64_t seed, DType dtype, bool exact, const Usable& usable) {
  return Generator(seed, dtype, exact, usable).make();
}

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
    if (runs && usable(vjp(graph))) functions.push_back({what, graph, exact});
  } catch (const Error& error) {
    log.note(what + ": no derivative tested: " + error.what());
  }
  forward.push_back(trial(what, graph, exact));
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
