# lazy.py - faults of lazy evaluation (N) and of hot paths (G), for scripts/mutations.py.

LAZY = ("test_frontend", "test_frontend_threads")
EVALUATE = "src/frontend/lazy_evaluate.cpp"
OPS = "src/frontend/lazy_ops.cpp"

mutation("N1", "what nobody refers to is computed too", OPS,
         "if (values_[i].waits() && values_[i].is_referred()) want(values_[i]);", "if (values_[i].waits()) want(values_[i]);", programs=LAZY)
mutation("N1", "operations run at once", "src/frontend/lazy.cpp",
         "  if (!known.takes) return false;", "  if (known.takes) return false;", programs=LAZY,
         wide="no lazy tensor is ever made")
mutation("N2", "what was computed on the way is not kept", OPS,
         "if (value.wanted == sweep_ || value.is_referred()) {", "if (value.wanted == sweep_) {", programs=LAZY,
         wide="it is the one place where results are chosen")
mutation("N2", "a lazy tensor of another thread is taken for one of this trace", "src/frontend/lazy.cpp",
         "pending != nullptr && pending->producer != this)\n", "pending != nullptr && pending->producer == nullptr)\n",
         programs=LAZY)
mutation("N3", "which values are wanted is not in the key", OPS,
         "for (const std::uint32_t id : run.output_values) words.push_back(values_[id].number);",
         "words.push_back(run.output_values.size());", programs=LAZY)
mutation("N4", "which values an operation reads is not in the key", OPS,
         "run.words.push_back(word);", "run.words.push_back(0 * word);", programs=LAZY)
mutation("N4", "the executor is not in the key", OPS,
         "words.push_back(runner.executor->id());", "words.push_back(0 * runner.executor->id());", programs=LAZY)
mutation("N5", "one value that fails keeps the others from theirs", EVALUATE,
         "if (waiting.size() < 2) throw;", "if (!waiting.empty()) throw;", programs=LAZY)
mutation("N5", "what failed is given to the next executor", "src/frontend/lazy_traces.cpp",
         "  if (values().are_awaited()) return false;\n  try {", "  try {", programs=LAZY)
mutation("N6", "a tensor that was written to is taken for what it was", OPS,
         "if (entry != no_index && values_[entry].version == tensor.version()) return entry;",
         "if (entry != no_index && values_[entry].version <= tensor.version()) return entry;", programs=LAZY)
mutation("N9", "the stream is not in the key", OPS,
         "words.push_back(runner.placement.stream);", "words.push_back(0 * runner.placement.stream);", programs=LAZY)
mutation("G1", "a batch is never compiled", "src/frontend/lazy_evaluator.cpp",
         "if (greedy && seen_.is_new(address)) {", "if (greedy) {", programs=LAZY)
mutation("G1", "two repetitions that differ are taken for equal", "src/frontend/hot.cpp",
         "if (hash(count_ - i * length, length) != last) return;",
         "if (hash(count_ - i * length, length) == 0 * last + 1) return;", programs=LAZY)
mutation("G2", "whoever reads one value of a batch leaves the others for another program", EVALUATE,
         "const bool all = greedy_ && !evaluating();", "const bool all = greedy_ && evaluating();",
         programs=LAZY)
mutation("G3", "backward is not seen", "src/frontend/context.hpp",
         "if (intercepts_.load(std::memory_order_relaxed) && intercepted(call, inputs, out)) [[unlikely]]",
         "if (intercepts_.load(std::memory_order_relaxed) && call.graph.outputs().empty()) [[unlikely]]", programs=LAZY)
mutation("G4", "what is pending when a sequence deviates stays so", "src/frontend/hot.cpp",
         "if (detector.deviated()) c.trace->evaluate_all();", "static_cast<void>(detector.deviated());", programs=LAZY)
mutation("G4", "a parameter that others see is replaced", OPS,
         "const bool unique = old.exclusive();\n  held = old;", "const bool unique = true;\n  held = old;", programs=LAZY)

mutation("G4", "memory that something else refers to is lent", "src/frontend/lazy_runs.cpp",
         "kept->references.load(std::memory_order_acquire) != 2)",
         "kept->references.load(std::memory_order_acquire) < 2)", programs=LAZY)

DEFERRED = "src/frontend/lazy_deferred.cpp"
mutation("G2", "results that were left are never read", "src/frontend/lazy_program.hpp",
         "runs_for_reading * read.load(std::memory_order_relaxed);", "0 * runs_for_reading;", programs=LAZY)
mutation("G2", "matmuls of large arrays are deferred, too", DEFERRED,
         "if (times_smaller * bytes <= graph_.type(result).bytes())", "if (times_smaller > 0)", programs=LAZY)
mutation("G2", "layout operations of a deferred matmul are left out", DEFERRED,
         "layouts.push_back(*layout);", "if (layouts.size() > 99) layouts.push_back(*layout);", programs=LAZY)
mutation("G2", "a result that was left is an operand as it is", "src/frontend/lazy.cpp",
         "    if (result == nullptr || !result->is_deferred()) continue;\n", "    if (result == nullptr || true) continue;\n", programs=LAZY)

mutation("N7", "tracing evaluates the arguments", "src/frontend/trace.cpp",
         "for (const Array& array : arrays) types.push_back(array.type());",
         "for (const Array& array : arrays) types.push_back(array.is_traced() ? array.type() : array.tensor().type());",
         programs=LAZY)
mutation("N7", "a graph is replayed at once", "src/frontend/run_graph.cpp",
         """  if (c.intercepts) {
    std::vector<Tensor> results(count""", """  if (c.intercepts && c.lazy == 0) {
    std::vector<Tensor> results(count""", programs=LAZY)
mutation("N8", "the results of an operation are handed out in another order", OPS,
         "out[i] = values_[first_value + i].tensor;", "out[i] = values_[first_value + num_results - 1 - i].tensor;",
         programs=LAZY)
mutation("N8", "each result of an operation is its first", "src/frontend/lazy_program.cpp",
         "= results[step.graph.outputs()[slot]];", "= results[step.graph.outputs()[0 * slot]];", programs=LAZY)
mutation("G5", "a write evaluates what waits on every thread", "src/frontend/lazy.cpp",
         "if (trace->reads(storage)) trace->evaluate_all();",
         "if (trace->reads(storage) || true) trace->evaluate_all();", programs=LAZY)
mutation("G5", "all threads have one trace", "src/frontend/lazy.cpp",
         "auto trace = std::make_shared<LazyTrace>();",
         "static const std::shared_ptr<LazyTrace> trace = std::make_shared<LazyTrace>();", programs=LAZY,
         wide="a thread that ends takes the values of the others along")
mutation("N5", "a thread that waits for a compilation holds its trace", "src/frontend/lazy_evaluator.cpp",
         "if (auto known = compile_cache().find<LazyProgram>(request); known != nullptr) return known;\n"
         "  const StandaloneOps copy = ops.copy_ops(run);\n  lock.unlock();\n"
         "  return compile_cache().get<LazyProgram>(request, [&] {\n",
         "return compile_cache().get<LazyProgram>(request, [&] {\n"
         "    const StandaloneOps copy = ops.copy_ops(run);\n    lock.unlock();\n", programs=LAZY)

REPLAY = "src/frontend/lazy_replay.cpp"
OPERANDS = "src/frontend/lazy_replay.hpp"

mutation("G1", "no hot trace is ever replayed to its end", REPLAY,
         "if (!is_at_end()) return nullptr;", "if (at_ != hot_trace.num_ops + 1) return nullptr;", programs=LAZY)
mutation("G2", "what is referred to is taken for what was the last time", REPLAY,
         "value->is_referred() != (expected != 0)) return false;", "expected > 1) return false;", programs=LAZY)
mutation("G4", "operands are not compared with those that were replayed", OPERANDS,
         "return tensor.lies_in(*value.result);", "return tensor.pending() != nullptr;", programs=LAZY)
mutation("G4", "another leaf is taken for the one that was replayed", OPERANDS,
         "return tensor.shares_storage_with(leaf) &&", "return (tensor.shares_storage_with(leaf) || version == 0) &&",
         (OPERANDS, "tensor.place() == leaf.place();", "(tensor.place() == leaf.place() || version == 0);"), programs=LAZY)
mutation("G4", "what was replayed is lost where a sequence deviates", REPLAY,
         "ops.take({done.begin(), done.end()},", "ops.take({done.begin(), done.begin()},", programs=LAZY)

BACKWARD = "src/frontend/lazy_backward.cpp"

mutation("G3", "a backward call is never done again", BACKWARD,
         "|| !detector.expects(known->tokens)) return false;", "|| detector.expects(known->tokens)) return false;",
         programs=LAZY)
mutation("G3", "a tape that hangs together otherwise is taken for the one that was learned", BACKWARD,
         "if (target != edge.target) return false;", "if (target->is_leaf() != edge.target->is_leaf()) return false;",
         programs=LAZY)
mutation("G3", "two leaves that are one are taken for two", BACKWARD,
         "        if (leaves[i]->first_key == leaves[k]->first_key) return false;",
         "        if (leaves[i] == nullptr) return false;", programs=LAZY)
mutation("G3", "a tape that saved other values is taken for the one that was learned", BACKWARD,
         "if (result == nullptr || result->number() != id) return false;",
         "if (result == nullptr || result->number() == no_index) return false;", programs=LAZY)
mutation("G3", "a tape that saved other operands is taken for the one that was learned", BACKWARD,
         "!same_elements(tensor, values[id].tensor) || version", "tensor.type() != values[id].tensor.type() || version",
         programs=LAZY)
mutation("G3", "slots that hold gradients are taken for empty", BACKWARD,
         "  return slot->gradient == nullptr && !slot->closed;", "  return slot->changes != 0 && !slot->closed;",
         (BACKWARD, "empty = empty && sorted[i]->gradient == nullptr && !sorted[i]->closed;",
          "empty = empty && !sorted[i]->closed;"),
         programs=LAZY)
mutation("G3", "slots of leaves that are gone are filled", BACKWARD,
         "  return slot->gradient == nullptr && !slot->closed;", "  return slot->gradient == nullptr;",
         (BACKWARD, "empty = empty && sorted[i]->gradient == nullptr && !sorted[i]->closed;",
          "empty = empty && sorted[i]->gradient == nullptr;"),
         programs=LAZY)
mutation("G3", "hooks of a hot tape are not called", BACKWARD,
         "return node.extension.load(std::memory_order_acquire) == nullptr && node.device == 0",
         "return (node.is_leaf() || node.sequence != 0) && node.device == 0", programs=LAZY)
mutation("G3", "hooks of leaves of a hot tape are not called", BACKWARD,
         "if (leaf.extension.load(std::memory_order_acquire) != nullptr || leaf.device != 0) return false;",
         "if (leaf.device != 0) return false;", programs=LAZY)
mutation("G3", "a tape stays as it was when its backward is done again", BACKWARD,
         "node->free_now();", "static_cast<void>(node);", programs=LAZY)

CALL = "src/frontend/hot_call.cpp"

mutation("G1", "what a call was in a place is never learned", "src/frontend/invoke.cpp",
         "if (c.hot_on && device == 0) learn_hot(", "if (c.hot_on && device != 0) learn_hot(", programs=LAZY)
mutation("G1", "which sequence came next is forgotten", "src/frontend/hot_trace.hpp",
         "if (last_ != nullptr) last_->next = &hot_trace;", "if (last_ != nullptr) last_->next = nullptr;", programs=LAZY)
mutation("G1", "a sequence of known calls has no end", CALL,
         "    end_repetition(c);\n  } catch", "    if (where.line == 0) end_repetition(c);\n  } catch", programs=LAZY)
mutation("G4", "a known call is told without its name", "src/frontend/hot_trace.hpp",
         "if (name != call.name ||", "if (name == nullptr ||", programs=LAZY)
mutation("G4", "a known call is told without its arguments", "src/frontend/hot_trace.hpp",
         "if (static_args[i] != call.static_args[i]) return false;", "if (static_args[i] > call.static_args[i] + 100) return false;",
         programs=LAZY)
mutation("G4", "a known call is told without its operands' types", "src/frontend/hot_trace.hpp",
         "if (types[i] != operands[i].tensor->type().identity()) return false;",
         "if (operands[i].tensor->type().identity() == nullptr) return false;", programs=LAZY)
mutation("G3", "a known call is told without what requires a gradient", CALL,
         "if ((c.grad_mode ? grads : 0) != known.grads || values", "if (values", programs=LAZY)
mutation("G3", "a known call is recorded where nothing is", CALL,
         "if ((c.grad_mode ? grads : 0) != known.grads || values", "if (grads != known.grads || values", programs=LAZY)
mutation("G3", "the node of a known call does not know what was written to", CALL,
         "*version++ = tensor.version();", "*version++ = 0 * tensor.version();", programs=LAZY)
mutation("G3", "the node of a known call saves operands for results", CALL,
         "source.kind == SavedSource::Kind::output ?", "source.kind == SavedSource::Kind::retained ?", programs=LAZY)
mutation("G3", "the node of a known call reads the first output of what made an operand", CALL,
         "static_cast<std::uint32_t>(body.key.counter - target->first_key.counter)",
         "static_cast<std::uint32_t>(0 * (body.key.counter - target->first_key.counter))", programs=LAZY)
mutation("G3", "the node of a known call does not say where it stands", CALL,
         "node->line = where.line;", "node->line = 0 * where.line;", programs=LAZY)
mutation("G3", "transforms do not see what known calls use", CALL,
         "c.lowest = lowest;", "static_cast<void>(lowest);", programs=LAZY)
mutation("G3", "a leaf that comes in another's place is taken for it", CALL,
         "return known == target && target->is_leaf();", "return target->is_leaf();", programs=LAZY)
mutation("G3", "hooks of a tape of known calls are not called", BACKWARD,
         "if (node->extension.load(std::memory_order_acquire) != nullptr || node->freed()) return false;",
         "if (node->freed()) return false;", programs=LAZY)
