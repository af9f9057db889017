# engine.py - faults of the backward engine, at least one for every line P1 to P15.

mutation("P1", "a root inside the graph does not wait for those behind it", "src/eager/call.cpp",
         "    if (state.dependencies == 0 && (state.needed || state.captured) && !state.listed) ready_.push(state);",
         "    if ((state.needed || state.captured) && !state.listed) ready_.push(state);")
mutation("P1", "a node runs when its first cotangent is there", "src/eager/call.cpp",
         "  if (--target.dependencies == 0) ready_.push(target);",
         "  if (--target.dependencies == 0 || !target.listed) ready_.push(target);")

mutation("P2", "the earliest of the ready nodes runs first", "src/eager/ready.hpp",
         "      case Order::latest_first: break;",
         "      case Order::latest_first: return ~node.sequence;",
         wide="sums are folded, and failures met, in the order in which nodes run")
mutation("P2", "leaves wait until all nodes have run", "src/eager/call.cpp",
         "    while (ready.has_leaves()) run_leaf(ready.pop_leaf());\n"
         "    if (!ready.has_nodes()) break;",
         "    if (!ready.has_nodes()) {\n"
         "      while (ready.has_leaves()) run_leaf(ready.pop_leaf());\n"
         "      break;\n"
         "    }")

mutation("P3", "the type of a seed is not checked", "src/eager/roots.cpp",
         "  if (type != nullptr && got && *got != *type) {",
         "  if (type != nullptr && got && false) {")
mutation("P3", "a root of several elements has an implicit seed too", "src/eager/roots.cpp",
         "  if (type == nullptr || type->size() != 1) {",
         "  if (type == nullptr) {")

mutation("P4", "nodes that are on no path to what is requested run", "src/eager/reached.cpp",
         "      state->needed = is_wanted(node.edges()[e]);",
         "      state->needed = true;")
mutation("P4", "a value is captured before the hooks on it have run", "src/eager/node_runner.cpp",
         "  if (hooks) hooks_.run(*hooks, HookKind::value, node, incoming, {});\n"
         "  if (state.captured) captures_.take(node, incoming, cotangents_);\n",
         "  if (state.captured) captures_.take(node, incoming, cotangents_);\n"
         "  if (hooks) hooks_.run(*hooks, HookKind::value, node, incoming, {});\n")
mutation("P4", "a value may be requested twice", "src/eager/roots.cpp",
         "    if (sorted[i].key && sorted[i].key == sorted[i + 1].key) {",
         "    if (false) {")

mutation("P5", "nothing is freed as it goes", "src/eager/node_runner.cpp",
         "  if (!options_.keep_graph && !cotangents_.creates_graph) node.free();",
         "  if (!options_.keep_graph && !cotangents_.creates_graph && false) node.free();")
mutation("P5", "keep_graph does not keep where more than two operands are saved", "src/eager/node_runner.cpp",
         "  if (!options_.keep_graph && !cotangents_.creates_graph) node.free();",
         "  if ((!options_.keep_graph || node.num_saved > 2) && !cotangents_.creates_graph) node.free();")

mutation("P6", "sums of cotangents are not recorded", "src/eager/cotangents.cpp",
         "  if (creates_graph && (into.trace != nullptr || from.trace != nullptr)) {",
         "  if (false) {")
mutation("P6", "seeds are taken for constants", "src/eager/roots.cpp",
         "  if (request_.options.create_graph) set_recorded(cotangent, *root.recorded);",
         "  if (false) set_recorded(cotangent, *root.recorded);")

mutation("P6", "what retained values and several outputs are of is dropped", "src/eager/derive.cpp",
         "    if (plan != nullptr) use_what_later_derivatives_read();\n", "")
mutation("P5", "other outputs of a root's node count as what the root depends on", "src/eager/reached.cpp",
         "  return depended_on_.contains({node, slot_in(*node, requested)});", "  return true;")
mutation("P4", "what leads to another output of a captured node runs", "src/eager/reached.cpp",
         "return captures_.contains(*edge.target, edge.slot);", "return edge.slot != no_index;")
mutation("P4", "cotangents that are not delivered are waited for", "src/eager/reached.cpp",
         "} else if (is_wanted(node.edges()[e])) {  // it is delivered", "} else {")
mutation("P14", "what is found of a call's values is raised by whoever asks", "src/eager/anomaly.cpp",
         "findings != nullptr ? findings.get() : asking;", "asking;")
mutation("P13", "roots of other operands are taken", "src/eager/roots.cpp",
         "  if (node->operands() != &table) node->require_operands(table, str(\"root \", i));\n", "  (void)table;\n")
mutation("P8", "a gradient of another type than the slot's is added", "src/eager/slots.cpp",
         "if (held && *held != from->type) {", "if (false) {")

mutation("P7", "a hook that was removed still runs", "src/eager/call_hooks.cpp",
         "    if (entry->kind != kind || entry->removed.load(std::memory_order_acquire)) continue;",
         "    if (entry->kind != kind) continue;")
mutation("P7", "what a removed hook held stays until the next change", "src/eager/node.cpp",
         "  entries_.erase(at);\n  before.swap(made_);", "  entries_.erase(at);")
mutation("P13", "errors of users' types come out as plain ones", "src/eager/failure.cpp",
         "if (typeid(made) == typeid(error)) made.raise();", "made.raise();")
mutation("P7", "the callbacks after one that throws do not run", "src/eager/final_callbacks.hpp",
         "        if (!failure) failure = std::current_exception();",
         "        failure = std::current_exception();\n        break;")

mutation("P8", "a slot is overwritten, not added to", "src/eager/slots.cpp",
         "      if (slot.gradient != nullptr) sums_[i] = cotangents_.duplicate(*slot.gradient);",
         "      if (false) sums_[i] = cotangents_.duplicate(*slot.gradient);")
mutation("P8", "a slot is given away before the sum is made", "src/eager/slots.cpp",
         "      if (slot.gradient != nullptr) sums_[i] = cotangents_.duplicate(*slot.gradient);",
         "      if (slot.gradient != nullptr) sums_[i] = std::exchange(slot.gradient, nullptr);")
mutation("P9", "a node takes 8 KB of stack", "src/eager/node_runner.cpp",
         "  const char* phase = BackwardPhase::add;\n  try {\n",
         "  const char* phase = BackwardPhase::add;\n  [[maybe_unused]] volatile char room[8192];\n  room[0] = 0;\n  try {\n")
mutation("P9", "a device's thread does not serve its device while it waits", "src/eager/parallel.cpp",
         "    if (run_next(0, lock) || (owner_device_ != 0 && run_next(owner_device_, lock))) continue;",
         "    if (run_next(0, lock)) continue;",
         ("src/eager/parallel.cpp",
          "      if (!owner_queue_->runs.empty()) other = owner_queue_->take_deepest();", ""),
         programs=("test_eager_threads",))

mutation("P10", "the caller's thread state is not installed on workers", "src/eager/parallel.cpp",
         "    if (state_ != nullptr) before = state_->install();", "", programs=("test_eager_threads",))
mutation("P10", "no helper comes", "src/eager/parallel.cpp",
         "    if (wanted > 1) workers.help(",
         "    if (wanted > 1000) workers.help(", programs=("test_eager_threads",))
mutation("P10", "cotangents are folded in the order in which they come", "src/eager/call.cpp",
         "  if (threaded_ || options_.order != Order::latest_first) contributions_.list_until_taken();\n",
         "", programs=("test_eager_threads",))
mutation("P10", "a child after fork believes that it has the threads of its parent", "src/eager/parallel.cpp",
         "    while (workers == nullptr || workers->process_ != process) {",
         "    while (workers == nullptr) {", programs=("test_eager_threads",))

mutation("P11", "nobody waits for the stream that a cotangent comes from", "src/eager/contributions.cpp",
         "  cotangents_.move_to(*cotangent, placement);",
         "  cotangent->device = placement.device;\n  cotangent->stream = placement.stream;")
mutation("P11", "the caller does not wait at the end", "src/eager/call.cpp",
         "  join_streams({});", "")
mutation("P11", "seeds are taken to be made where the caller is", "src/eager/roots.cpp",
         "  const Placement placement = root.placement.value_or(caller);",
         "  const Placement placement = caller;")

mutation("P12", "the type of what a node returns is not checked", "src/eager/node_runner.cpp",
         "    cotangents_.check_type(*cotangent, cotangent->type, node, \"the \", \"cotangent of input\", input);", "")
mutation("P12", "its device is not checked", "src/eager/node_runner.cpp",
         "    cotangents_.check_device(*cotangent, node, input);", "")

mutation("P13", "the last error is kept, not the first", "src/eager/failure.hpp",
         "    if (!error_) error_ = std::move(error);",
         "    error_ = std::move(error);")
mutation("P13", "what depends on a failed node runs all the same", "src/eager/call.cpp",
         "  if (state.failed) return;\n", "")

mutation("P14", "of the values of the forward the last that is not finite is named", "src/eager/anomaly.cpp",
         "[](const Node* a, const Node* b) { return a->sequence < b->sequence; }",
         "[](const Node* a, const Node* b) { return a->sequence > b->sequence; }")
mutation("P14", "seeds are not looked at", "src/eager/roots.cpp",
         "  if (request_.options.anomaly) check_seed(cotangents.looker, cotangent, node);", "")
mutation("P14", "sums are not looked at", "src/eager/cotangents.cpp",
         "  if (options_.anomaly) [[unlikely]]\n    check_sum(looker, into, from.sequence);\n", "")

mutation("P15", "a tape is freed by recursion", "src/eager/node.cpp",
         "  if (dead.busy) return;\n", "", programs=("test_eager_small_stack",))
