# t.py - faults of recording and of backward, for scripts/mutations.py: one or more for each T line.

mutation("T1", "the slot of an input is not found by its key where there are more than two", "src/eager/recorder.cpp",
         "  return static_cast<std::uint32_t>(slot);\n}\n\nconst void* saved_data",
         "  return static_cast<std::uint32_t>(slot < 2 ? slot : slot - 1);\n}\n\nconst void* saved_data")
mutation("T1", "a trace that did not make the key is accepted", "src/eager/recorder.cpp",
         "if (input.key.source != node->first_key.source || slot >= node->num_outputs()) {",
         "if (false) {")
mutation("T1", "what the frontend retains is not offered to backward", "src/eager/derive.cpp",
         "for (std::size_t i = 0; i < specialization_.retained.size(); ++i)\n      enter(",
         "for (std::size_t i = 0; i < 0 * specialization_.retained.size(); ++i)\n      enter(")
mutation("T2", "composite graphs of equal structure are not shared", "src/eager/cached_graph.cpp",
         "if (!same(entry->graph->graph, graph)) continue;",
         "if (graph.num_operations() > 1 || !same(entry->graph->graph, graph)) continue;")
mutation("T3", "all sources of keys are one", "src/eager/key.cpp",
         "start + 0x9e3779b97f4a7c15ULL * (count.fetch_add(1, std::memory_order_relaxed) + 1);",
         "start + 0 * (count.fetch_add(1, std::memory_order_relaxed) + 1);")
mutation("T3", "the child of a fork makes its parent's names", "src/graph/key.cpp",
         "pthread_atfork(nullptr, nullptr, renew_key_of_process);", "static_cast<void>(renew_key_of_process);")
mutation("T3", "keys of a node's outputs are handed out again", "src/eager/recorder.cpp",
         "enter(*node, sequence, request.graph->output_types.size());", "enter(*node, sequence, 1);")
mutation("T4", "outputs without a derivative have a trace too", "src/eager/recorder.cpp",
         "active[slot] = specialization.output_active[slot] != 0;", "active[slot] = true;")
mutation("T4", "backward starts at the first output, whichever is named", "src/eager/roots.cpp",
         "slots_.push_back(slot_of(TraceRef(root.node), root.key, \"backward\"));",
         "slots_.push_back(0 * slot_of(TraceRef(root.node), root.key, \"backward\"));")
mutation("T5", "cotangents that are absent are taken for there", "src/eager/node_runner.cpp",
         "  for (const Cotangent* cotangent : incoming) any = any || cotangent != nullptr;\n  if (!any) return;",
         "  for (const Cotangent* cotangent : incoming) any = any || cotangent != nullptr;\n"
         "  if (!any && node.num_saved != 0)\n"
         "    host_.add_operands({Type(), nullptr, node.placement()}, node.saved(0), node.saved(0));\n"
         "  if (!any) return;")
mutation("T5", "residuals of composites are computed though the result was retained", "src/eager/derive.cpp",
         "if (specialization_.outputs_given) {\n      for (std::size_t i = 0; i < graph_.outputs().size(); ++i)\n        enter(",
         "if (specialization_.outputs_given && graph_.num_operations() == 1) {\n"
         "      for (std::size_t i = 0; i < graph_.outputs().size(); ++i)\n        enter(")
mutation("T6", "inactive inputs of two are differentiated", "src/eager/recorder.cpp",
         "    if (is_active(request, i)) mask |= std::uint64_t{1} << i;",
         "    if (is_inexact(request.graph->input_types[i].dtype()) && (request.inputs[i].requires_grad || "
         "(num_inputs == 2 && request.inputs[i].key)))\n      mask |= std::uint64_t{1} << i;")
mutation("T6", "cotangents of edges that nobody wants are computed", "src/eager/node_runner.cpp",
         "        if (!reached_.is_wanted(node.edges()[e])) wanted &= ~(std::uint64_t{1} << e);",
         "        if (false) wanted &= ~(std::uint64_t{1} << e);")
mutation("T7", "messages do not say which node failed", "src/eager/failure.cpp",
         "    place = str(\"the backward of \", printable(node.name()), '(', types, ')',",
         "    place = str(\"backward \", '(', types, ')',")
mutation("T7", "a rule's passing failure is kept for good", "src/eager/specialization.cpp",
         "if (!lies_in_the_graph(error)) throw;", "if (false && !lies_in_the_graph(error)) throw;")
mutation("T8", "JVP rules get no context", "src/eager/derive.cpp",
         "  options.context = context;\n  count_linearization();", "  count_linearization();")
mutation("T8", "what one context gave is used for another", "src/eager/specialization.cpp",
         "if (at->context == key) cached = at;", "cached = at;")
mutation("T8", "what a context without a key gave is kept", "src/eager/specialization.cpp",
         "    keep = make_linearization(*this, user);\n    cached = keep.get();",
         "    static_cast<void>(keep);\n"
         "    cached = linearizations.head() != nullptr ? linearizations.head() : linearizations.publish(\n"
         "        make_linearization(*this, user), [](const CachedLinearization&) { return false; });")
mutation("T9", "where everything is saved the seed goes to every output", "src/eager/derive.cpp",
         "const bool seeded = test(program_->seeded, slot);\n      seeds.push_back(seeded);",
         "const bool seeded = test(program_->seeded, slot);\n      seeds.push_back(seeded || specialization_.saves_everything);")
mutation("T10", "roots may name an output that there is not", "src/eager/node.cpp",
         "key.counter - node->first_key.counter < node->num_outputs();",
         "key.counter - node->first_key.counter <= node->num_outputs();")
mutation("T10", "a request is answered twice", "src/eager/roots.cpp",
         "if (sorted[i].key && sorted[i].key == sorted[i + 1].key) {", "if (false) {")
mutation("T10", "outputs that are one value get one cotangent", "src/eager/roots.cpp",
         "cotangent.target_slot = slots_[i];", "cotangent.target_slot = 0;")
