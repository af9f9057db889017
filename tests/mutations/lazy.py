# lazy.py - faults of lazy evaluation (N) and of hot paths (G), for scripts/mutations.py.

LAZY = ("test_frontend", "test_frontend_threads")
EVALUATE = "src/frontend/lazy_evaluate.cpp"

mutation("N1", "what nobody refers to is computed too", EVALUATE,
         "if (waits(value) && referred(value)) want(value);", "if (waits(value)) want(value);", programs=LAZY)
mutation("N1", "operations run at once", "src/frontend/lazy.cpp",
         "  if (!takes(graph)) return false;", "  if (takes(graph)) return false;", programs=LAZY,
         wide="no promise is ever made")
mutation("N2", "what was computed on the way is not kept", EVALUATE,
         "if (value.wanted == sweep_ || referred(value)) {", "if (value.wanted == sweep_) {", programs=LAZY,
         wide="it is the one place where results are chosen")
mutation("N2", "a promise of another thread is taken for one of this trace", "src/frontend/lazy.cpp",
         "if (pending != nullptr && pending->maker != this) (void)input->bytes();",
         "if (pending != nullptr && pending->maker == nullptr) (void)input->bytes();", programs=LAZY)
mutation("N3", "which values are wanted is not in the key", EVALUATE,
         "for (const std::uint32_t id : run.output_values) words.push_back(values_[id].number);",
         "words.push_back(run.output_values.size());", programs=LAZY)
mutation("N4", "which values an operation reads is not in the key", EVALUATE,
         "words.push_back(word);", "words.push_back(0 * word);", programs=LAZY)
mutation("N4", "the executor is not in the key", EVALUATE,
         "words.push_back(runner_.executor->id());", "words.push_back(0 * runner_.executor->id());", programs=LAZY)
mutation("N5", "one value that fails keeps the others from theirs", EVALUATE,
         "if (waiting.size() < 2) throw;", "if (!waiting.empty()) throw;", programs=LAZY)
mutation("N5", "what failed is given to the next executor", EVALUATE,
         "    if (waits(value) && referred(value)) return false;\n  runner_ = runner;",
         "    if (false && waits(value)) return false;\n  runner_ = runner;", programs=LAZY)
mutation("N6", "a tensor that was written to is taken for what it was", "src/frontend/lazy.cpp",
         "if (values_[leaves_[at]].version == tensor.version()) return leaves_[at];",
         "if (values_[leaves_[at]].version <= tensor.version()) return leaves_[at];", programs=LAZY)
mutation("N9", "the stream is not in the key", EVALUATE,
         "words.push_back(runner_.placement.stream);", "words.push_back(0 * runner_.placement.stream);", programs=LAZY)
mutation("G1", "a batch is never compiled", EVALUATE,
         "if (greedy_ && is_new(address)) {", "if (greedy_) {", programs=LAZY)
mutation("G1", "two repetitions that differ are taken for equal", "src/frontend/hot.cpp",
         "if (hash(count_ - i * length, length) != last) return;",
         "if (hash(count_ - i * length, length) == 0 * last + 1) return;", programs=LAZY)
mutation("G2", "whoever reads one value of a batch leaves the others for another program", "src/frontend/lazy.cpp",
         "const bool all = trace->greedy_ && !evaluating();", "const bool all = trace->greedy_ && evaluating();",
         programs=LAZY)
mutation("G3", "backward is not seen", "src/frontend/context.hpp",
         "if (intercepts_.load(std::memory_order_relaxed) && intercepted(call, inputs, out)) [[unlikely]]",
         "if (intercepts_.load(std::memory_order_relaxed) && call.graph.outputs().empty()) [[unlikely]]", programs=LAZY)
mutation("G4", "what is pending when a sequence deviates stays so", "src/frontend/hot.cpp",
         "if (detector.deviated()) c.trace->evaluate_all();", "static_cast<void>(detector.deviated());", programs=LAZY)
mutation("G4", "a parameter that others see is replaced", "src/frontend/lazy.cpp",
         "const bool alone = old.exclusive();", "const bool alone = true;", programs=LAZY)
