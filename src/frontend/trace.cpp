// trace.cpp - runs a function on Arrays without data, and runs graphs on Arrays.
#include "tidu/frontend/trace.hpp"

#include <algorithm>
#include <unordered_map>

#include "frontend/context.hpp"
#include "tidu/frontend/modes.hpp"
#include "tidu/primitives/elementwise.hpp"

namespace tidu {
namespace frontend_detail {

Value Tracer::value_of(const Array& array) {
  if (ended) {
    throw Error(
        ErrorKind::invalid_argument,
        "[trace] expected Arrays of a trace that runs, got one of a trace that has ended: a traced function "
        "must return what it computes, and keep nothing");
  }
  const Body& body = array.required();
  if (is_traced(body) && body.extra->tracer.get() == this) return body.extra->value;
  const auto [found, is_new] = places.emplace(&body, captured.size());
  if (is_new) {
    captures.push_back(builder.input(detail::str("captured", captured.size()), array.type()));
    captured.push_back(array);
  }
  return captures[found->second];
}

namespace {

// The tracer that runs innermost, and the end of it whatever happens.
class Running {
 public:
  Running(const std::string& name, bool compiles, bool takes_all)
      : tracer_(std::make_shared<Tracer>(name, static_cast<int>(context().tracers.size()))),
        around_(context().takes_all),
        compiling_(context().compiling) {
    context().tracers.push_back(tracer_.get());
    if (takes_all || around_ != nullptr) context().takes_all = tracer_;
    if (!compiles) return;
    tracer_->floor = context().recorder.keys().fresh();
    context().compiling = tracer_;
  }
  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;
  ~Running() {
    tracer_->ended = true;
    std::erase(context().tracers, tracer_.get());
    context().takes_all = std::move(around_);
    context().compiling = std::move(compiling_);
  }
  const std::shared_ptr<Tracer>& tracer() const { return tracer_; }

 private:
  std::shared_ptr<Tracer> tracer_;
  std::shared_ptr<Tracer> around_, compiling_;  // the former tracers of all operations, and of those on
                                                // parameters
};

// The number of nested traces for which a small stack suffices.
constexpr std::size_t deepest_trace = 100;

// Throws if Arrays of the trace exist other than its arguments and results: no later call of the graph would
// change them. Each one holds the tracer. Results are counted here and in the return value of f.
void require_pure(const std::shared_ptr<Tracer>& tracer, const std::vector<Array>& arguments,
                  const std::vector<Array>& results, const std::string& name, Where where) {
  std::unordered_map<const Body*, std::uint32_t> known;
  const auto count = [&](const std::vector<Array>& arrays, std::uint32_t times) {
    for (const Array& array : arrays) {
      const Body& body = array.required();
      if (is_traced(body) && body.extra->tracer == tracer) known[&body] += times;
    }
  };
  count(arguments, 1);
  count(results, 2);
  const std::size_t own = context().takes_all == tracer ? 3 : 2;  // with the one of Context::compiling
  auto kept = static_cast<std::size_t>(tracer.use_count()) - own - known.size();
  for (const auto& [body, references] : known)
    if (body->references.load(std::memory_order_acquire) > references) ++kept;
  if (kept == 0) return;
  refuse(ErrorKind::invalid_argument, name,
         detail::str("expected a function that returns what it computes and keeps nothing, got one that "
                     "assigned to ",
                     kept, kept == 1 ? " Array" : " Arrays",
                     " outside of it, which no later call would do: return what it is to keep instead"),
         where);
}

}  // namespace

Traced trace_flat(const FlatFunction& f, std::span<const Array> like, const std::string& name, Where where,
                  bool pure, bool takes_all) {
  if (context().tracers.size() == deepest_trace) {
    refuse(ErrorKind::invalid_argument, name,
           detail::str("expected functions traced within functions at most ", deepest_trace,
                       " deep, got more: does a function call itself without end?"),
           where);
  }
  const Running running(name, pure, takes_all);
  const GradMode on(true);  // a graph has derivatives in any mode of the caller; NoGrad within f still
                            // applies
  const std::shared_ptr<Tracer>& tracer = running.tracer();
  std::vector<Array> arguments;
  for (std::size_t i = 0; i < like.size(); ++i)
    arguments.push_back(
        make_traced(tracer, tracer->builder.input(detail::str('x', i), like[i].type()), device_of(like[i])));
  const std::vector<Array> results = f(arguments);
  require_arrays(results, name, where, "results");
  std::vector<Value> outputs;
  try {
    for (const Array& result : results) outputs.push_back(tracer->value_of(result));
  } catch (const Error& error) {
    raise_located(error, name, like, where);
  }
  if (pure) require_pure(tracer, arguments, results, name, where);
  Graph graph = tracer->builder.build(outputs);
  return {std::move(graph), std::move(tracer->captured)};
}

Graph closed(const Traced& traced, Where where) {
  if (traced.captured.empty()) return traced.graph;
  const Graph& graph = traced.graph;
  GraphBuilder builder(graph.name(), graph.primitives());
  const std::size_t arguments = graph.inputs().size() - traced.captured.size();
  std::vector<Value> inputs;
  for (std::size_t i = 0; i < arguments; ++i)
    inputs.push_back(builder.input(graph.input_name(i), graph.type(graph.inputs()[i])));
  for (const Array& array : traced.captured) {
    if (array.is_traced()) {
      refuse(ErrorKind::invalid_argument, "trace",
             detail::str("expected a function of its arguments and of data, got one that uses an Array (",
                         array.type(), ") of another trace"),
             where);
    }
    inputs.push_back(ops::constant(builder, array.tensor().to_literal(), where));
  }
  const std::vector<Value> values = inline_graph(builder, graph, inputs);
  std::vector<Value> outputs;
  for (const ValueId id : graph.outputs()) outputs.push_back(values[id]);
  return prune(builder.build(outputs));
}

std::vector<Type> types_of(std::span<const Array> arrays) {
  std::vector<Type> types;
  for (const Array& array : arrays) types.push_back(array.type());
  return types;
}

bool any_traced(std::span<const Array> arrays) {
  return std::any_of(arrays.begin(), arrays.end(), [](const Array& array) { return array.is_traced(); });
}

Array placeholder(Type type) {
  // A traced Array of a trace that has ended: it has a type and nothing else.
  auto tracer = std::make_shared<Tracer>("placeholder", 0);
  const Value value = tracer->builder.input("x", type);
  tracer->ended = true;
  return make_traced(std::move(tracer), value, unknown_device);
}

namespace {

// Has the tracer the very primitives of the graph? One that has another of a name would stand for it.
void take_primitives(Tracer& tracer, const Graph& graph) {
  const PrimitiveSet& set = graph.primitives();
  if (tracer.builder.primitives() == set) return;
  tracer.builder.extend_primitives(set);
  for (std::size_t i = 0; i < graph.num_operations(); ++i) {
    const Primitive& primitive = graph.operation(i).primitive();
    if (tracer.builder.primitives().contains(&primitive)) continue;
    throw Error(
        ErrorKind::unknown_primitive,
        detail::str("[", primitive.name,
                    "] expected a primitive with a name of its own, got one that is called as another "
                    "one of what is being traced\n  ",
                    describe_operation(graph, static_cast<std::uint32_t>(i))));
  }
}

// The operations of the graph in the trace to which the innermost of `inputs` belong.
std::vector<Array> write_out(const Graph& graph, Tracer& tracer, std::span<const Array> arguments,
                             std::span<const Input> inputs, Where where) {
  std::vector<Value> operands;
  for (const Array& argument : arguments) operands.push_back(tracer.value_of(argument));
  take_primitives(tracer, graph);
  const std::vector<Value> values = inline_graph(tracer.builder, graph, operands);
  const auto shared = shared_tracer(inputs, &tracer);
  const std::vector<std::uint32_t> devices = traced_devices(graph, inputs);
  std::vector<Array> results;
  for (std::size_t i = 0; i < devices.size(); ++i)
    results.push_back(make_traced(shared, traced_result(values[graph.outputs()[i]], where), devices[i]));
  return results;
}

}  // namespace

std::vector<Array> run_compiled(const CompiledCall& call, std::vector<Array> arguments, Where where) {
  arguments.insert(arguments.end(), call.captured.begin(), call.captured.end());
  if (context().takes_all != nullptr || context().compiling != nullptr || any_traced(arguments))
    return call_graph(call.graph.graph(), arguments, where);
  try {
    return run_and_record(call.graph, arguments, where, arguments);
  } catch (const Error& error) {
    raise_located(error, "compiled", arguments, where);
  }
}

}  // namespace frontend_detail

std::vector<Array> call_graph(const Graph& graph, std::span<const Array> arguments, Where where) {
  const std::string name = graph.name().empty() ? "call_graph" : graph.name();
  if (arguments.size() != graph.inputs().size()) {
    frontend_detail::refuse(ErrorKind::invalid_argument, "call_graph",
                            detail::str("expected ", graph.inputs().size(), " Arrays for ",
                                        detail::in_quotes(name), ", got ", arguments.size()),
                            where);
  }
  frontend_detail::require_arrays(arguments, name, where);
  std::vector<frontend_detail::Input> inputs;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const Type expected = graph.type(graph.inputs()[i]);
    if (arguments[i].type() != expected) {
      frontend_detail::refuse(
          ErrorKind::type, "call_graph",
          detail::str("expected ", expected, " for input ", detail::printable(graph.input_name(i)), " of ",
                      detail::in_quotes(name), ", got ", arguments[i].type()),
          where);
    }
    inputs.emplace_back(arguments[i]);
  }
  try {
    if (frontend_detail::Tracer* const tracer = frontend_detail::tracer_of(inputs); tracer != nullptr)
      return frontend_detail::write_out(graph, *tracer, arguments, inputs, where);
    return frontend_detail::run_and_record(eager::RecordedGraph::of(graph), arguments, where);
  } catch (const Error& error) {
    frontend_detail::raise_located(error, name, arguments, where);
  }
}

}  // namespace tidu
