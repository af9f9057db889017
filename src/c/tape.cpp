// tape.cpp - recorders, variables and backward.
#include "c/executor.hpp"
#include "tidu/eager/backward.hpp"
#include "tidu/eager/recorder.hpp"

using namespace tidu;
using namespace tidu::c_detail;
using tidu::detail::str;

struct tidu_variable : Counted {
  eager::EagerOutput output;
};
struct tidu_recorder {
  tidu_recorder(const tidu_executor* by, const eager::RecorderOptions& options)
      : executor(by), recorder(&by->tapes(), options) {}
  const Held<tidu_executor> executor;
  eager::Recorder<Operand> recorder;
  Where where{};
};
struct tidu_gradients {
  explicit tidu_gradients(eager::Gradients<Operand> made) : gradients(std::move(made)) {}
  eager::Gradients<Operand> gradients;
};

namespace {

// Operands and inputs of one invocation; inputs point to operands.
struct Invocation {
  Invocation(const Call& call, const tidu_recorder& recorder, const tidu_input* first, std::size_t count,
             void* const* results, std::size_t num_results) {
    const tidu_executor& executor = *recorder.executor.get();
    const auto given = call.list(first, count, "inputs");
    operands.reserve(count);
    for (const tidu_input& input : given) add_input(executor, input);
    if (results == nullptr) return;
    outputs.reserve(num_results);
    for (void* const result : call.handles(results, num_results, "outputs"))
      outputs.push_back(Operand::borrow(result, executor));
  }
  void add_input(const tidu_executor& executor, const tidu_input& input) {
    eager::EagerInput<Operand>& to = inputs.emplace_back();
    if (input.variable != nullptr) {
      const eager::EagerOutput& output = input.variable->output;
      to.key = output.key;
      to.trace = output.trace;
      to.requires_grad = output.requires_grad;
    }
    if (input.operand == nullptr) return;
    operands.push_back(Operand::borrow(input.operand, executor));
    to.data = &operands.back();
  }
  std::vector<Operand> operands, outputs;
  std::vector<eager::EagerInput<Operand>> inputs;
};

void record_and_give(const Call& call, tidu_recorder& to, const eager::RecordedGraph& graph,
                     const Invocation& invocation, std::span<const eager::Retained<Operand>> retained,
                     tidu_variable** variables, std::size_t num_outputs) {
  call.list(variables, num_outputs, "variables");
  call.count("num_outputs", graph.output_types().size(), num_outputs);
  NewHandles<tidu_variable> made(num_outputs);
  for (std::size_t i = 0; i < num_outputs; ++i) made.add();
  eager::EagerOutputs outputs =
      to.recorder.record_graph(graph, invocation.inputs, invocation.outputs, retained, to.where);
  for (std::size_t i = 0; i < num_outputs; ++i) made[i].output = std::move(outputs[i]);
  made.give(variables);
}

// Types of the operands: the given ones, or those that the executor describes.
std::vector<Type> operand_types(const Call& call, const tidu_recorder& recorder, const Invocation& invocation,
                                const tidu_type* given) {
  std::vector<Type> types;
  for (std::size_t i = 0; i < invocation.inputs.size(); ++i) {
    const Operand* operand = invocation.inputs[i].data;
    if (given != nullptr) {
      types.push_back(call.type(&given[i], "types"));
      continue;
    }
    const std::optional<Type> type =
        operand != nullptr ? recorder.executor.get()->tapes().describe(*operand) : std::nullopt;
    if (!type)
      call.refuse(ErrorKind::invalid_argument, "expected types, or an executor that describes its operands");
    types.push_back(*type);
  }
  return types;
}

eager::BackwardOptions options_from(const Call& call, const tidu_backward_options* given) {
  const tidu_backward_options read = options_of(call, given, "options");
  if (read.more_workers < 0 || read.more_workers > 1024) {
    call.refuse(ErrorKind::invalid_argument,
                str("expected more_workers from 0 to 1024, got ", read.more_workers));
  }
  eager::BackwardOptions options;
  options.keep_graph = read.keep_graph != 0;
  options.create_graph = read.create_graph != 0;
  options.anomaly = read.anomaly != 0;
  options.workers = 1 + read.more_workers;
  return options;
}

std::vector<eager::Root<Operand>> roots_of(const Call& call, const tidu_recorder& recorder,
                                           std::span<const tidu_root> given) {
  std::vector<eager::Root<Operand>> roots;
  for (const tidu_root& root : given) {
    const eager::EagerOutput& output = call.need(root.variable, "roots->variable").output;
    eager::Root<Operand>& to = roots.emplace_back();
    to.key = output.key;
    to.trace = output.trace;
    if (root.seed != nullptr) to.seed = Operand::borrow(root.seed, *recorder.executor.get());
    if (root.seed_variable != nullptr) to.recorded_seed = root.seed_variable->output;
  }
  return roots;
}

const eager::Gradient<Operand>* gradient_of(const tidu_gradients& gradients, const tidu_variable& variable) {
  const eager::Key& key = variable.output.key;
  if (const auto* leaf = gradients.gradients.entry_of(key)) return leaf;
  for (const auto& requested : gradients.gradients.requested())
    if (requested.key == key && requested.value) return &requested;
  return nullptr;
}

}  // namespace

tidu_variable* tidu_variable_retain(const tidu_variable* variable) { return retain(variable); }
void tidu_variable_release(tidu_variable* variable) { release(variable); }
int32_t tidu_variable_requires_grad(const tidu_variable* variable) {
  return variable != nullptr && variable->output.requires_grad ? 1 : 0;
}
void tidu_variable_key(const tidu_variable* variable, uint64_t key[2]) {
  if (key == nullptr) return;
  const eager::Key of = variable != nullptr ? variable->output.key : eager::Key();
  key[0] = of.source;
  key[1] = of.counter;
}

tidu_status tidu_recorder_create(const tidu_executor* executor, const tidu_recorder_options* options,
                                 tidu_recorder** recorder) {
  clear(recorder);
  return guarded(__func__, [&](const Call& call) {
    call.need(executor, "executor");
    call.need(recorder, "recorder");
    const tidu_recorder_options read = options_of(call, options, "options");
    eager::RecorderOptions to;
    to.anomaly = read.anomaly != 0;
    to.save_everything = read.save_everything != 0;
    *recorder = new tidu_recorder(executor, to);
  });
}

void tidu_recorder_release(tidu_recorder* recorder) { delete recorder; }

tidu_status tidu_recorder_set_location(tidu_recorder* recorder, const char* file, uint32_t line) {
  return guarded(__func__, [&](const Call& call) {
    call.need(recorder, "recorder").where = {kept_text(file), line};
  });
}

tidu_status tidu_recorder_leaf(tidu_recorder* recorder, tidu_variable** leaf) {
  clear(leaf);
  return guarded(__func__, [&](const Call& call) {
    tidu_recorder& by = call.need(recorder, "recorder");
    call.need(leaf, "leaf");
    auto made = std::make_unique<tidu_variable>();
    made->output.key = by.recorder.keys().fresh();
    made->output.requires_grad = true;
    *leaf = made.release();
  });
}

tidu_status tidu_record(tidu_recorder* recorder, const tidu_graph* graph, const tidu_input* inputs,
                        size_t num_inputs, void* const* outputs, const tidu_retained* retained,
                        size_t num_retained, tidu_variable** variables, size_t num_outputs) {
  clear(variables, num_outputs);
  return guarded(__func__, [&](const Call& call) {
    tidu_recorder& to = call.need(recorder, "recorder");
    const tidu_graph& of = call.need(graph, "graph");
    const Invocation invocation(call, to, inputs, num_inputs, outputs, num_outputs);
    const auto given = call.list(retained, num_retained, "retained");
    std::vector<Operand> kept;
    std::vector<eager::Retained<Operand>> values;
    kept.reserve(given.size());
    for (const tidu_retained& value : given) {
      if (value.operand == nullptr) call.refuse_null("retained->operand");
      kept.push_back(Operand::borrow(value.operand, *to.executor.get()));
      values.push_back({value.value, &kept.back()});
    }
    record_and_give(call, to, of.recorded(), invocation, values, variables, num_outputs);
  });
}

tidu_status tidu_record_op(tidu_recorder* recorder, const tidu_primitive_set* primitives,
                           const char* primitive, const char* attributes, const tidu_input* inputs,
                           const tidu_type* types, size_t num_inputs, void* const* outputs,
                           tidu_variable** variables, size_t num_outputs) {
  clear(variables, num_outputs);
  return guarded(__func__, [&](const Call& call) {
    tidu_recorder& to = call.need(recorder, "recorder");
    const PrimitiveSet& set = set_of(primitives);
    const Op op = make_op(call, set, primitive, attributes);
    const Invocation invocation(call, to, inputs, num_inputs, outputs, num_outputs);
    const std::vector<Type> of = operand_types(call, to, invocation, types);
    record_and_give(call, to, eager::RecordedGraph::of(op, of, set), invocation, {}, variables, num_outputs);
  });
}

tidu_status tidu_backward(tidu_recorder* recorder, const tidu_root* roots, size_t num_roots,
                          const tidu_variable* const* wanted, size_t num_wanted,
                          const tidu_backward_options* options, tidu_gradients** gradients) {
  clear(gradients);
  return guarded(__func__, [&](const Call& call) {
    tidu_recorder& by = call.need(recorder, "recorder");
    call.need(gradients, "gradients");
    const eager::BackwardOptions how = options_from(call, options);
    const auto from = roots_of(call, by, call.list(roots, num_roots, "roots"));
    std::vector<eager::Requested> requested;
    for (const tidu_variable* variable : call.handles(wanted, num_wanted, "wanted"))
      requested.emplace_back(variable->output);
    NewHandles<tidu_gradients> made(1);
    made.add(eager::Gradients<Operand>());
    made[0].gradients =
        eager::backward<Operand>(from, by.executor.get()->tapes(), how, requested, &by.recorder);
    made.give(gradients);
  });
}

void* tidu_gradients_find(const tidu_gradients* gradients, const tidu_variable* variable) {
  if (gradients == nullptr || variable == nullptr) return nullptr;
  const auto* gradient = gradient_of(*gradients, *variable);
  return gradient != nullptr ? gradient->value->data() : nullptr;
}

tidu_status tidu_gradients_variable(const tidu_gradients* gradients, const tidu_variable* variable,
                                    tidu_variable** recorded) {
  clear(recorded);
  return guarded(__func__, [&](const Call& call) {
    const auto* gradient = gradient_of(call.need(gradients, "gradients"), call.need(variable, "variable"));
    call.need(recorded, "recorded");
    if (gradient == nullptr || !gradient->recorded.key) return;
    auto made = std::make_unique<tidu_variable>();
    made->output = gradient->recorded;
    *recorded = made.release();
  });
}

void tidu_gradients_release(tidu_gradients* gradients) { delete gradients; }
