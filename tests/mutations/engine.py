# engine.py - faults of the backward engine, at least one for every line P1 to P15.

mutation("P1", "a root inside the graph does not wait for those behind it", "src/eager/discover.cpp",
         "    if (state.dependencies == 0 && (state.needed || state.captured) && !state.listed) push_ready(state);",
         "    if ((state.needed || state.captured) && !state.listed) push_ready(state);")
mutation("P1", "a node runs when its first cotangent is there", "src/eager/order.cpp",
         "  if (--target.dependencies == 0) push_ready(target);",
         "  if (--target.dependencies == 0 || !target.listed) push_ready(target);")

mutation("P2", "the earliest of the ready nodes runs first", "src/eager/order.cpp",
         "    case Order::latest_first: break;",
         "    case Order::latest_first: priority = ~priority; break;",
         wide="sums are folded, and failures met, in the order in which nodes run")
mutation("P2", "leaves wait until all nodes have run", "src/eager/order.cpp",
         "    while (!host_ready.leaves.empty()) finish_or_keep(leaves.list()[host_ready.pop_leaf()]);\n"
         "    if (host_ready.nodes.empty()) break;",
         "    if (host_ready.nodes.empty()) {\n"
         "      while (!host_ready.leaves.empty()) finish_or_keep(leaves.list()[host_ready.pop_leaf()]);\n"
         "      break;\n"
         "    }")

mutation("P3", "the type of a seed is not checked", "src/eager/discover.cpp",
         "      if (got && *got != *type) {",
         "      if (got && false) {")
mutation("P3", "a root of several elements has an implicit seed too", "src/eager/discover.cpp",
         "      if (!type || type->size() != 1) {",
         "      if (!type) {")

mutation("P4", "nodes that are on no path to what is requested run", "src/eager/discover.cpp",
         "      state->needed = is_wanted(node.edges()[e]);",
         "      state->needed = true;")
mutation("P4", "a value is captured before the hooks on it have run", "src/eager/engine.cpp",
         "    if (hooks) run_hooks(*hooks, HookKind::value, node, incoming, {});\n"
         "    if (state.captured) capture(node, incoming);\n",
         "    if (state.captured) capture(node, incoming);\n"
         "    if (hooks) run_hooks(*hooks, HookKind::value, node, incoming, {});\n")
mutation("P4", "a value may be requested twice", "src/eager/discover.cpp",
         "    if (sorted[i].key && sorted[i].key == sorted[i + 1].key) {",
         "    if (false) {")

mutation("P5", "nothing is freed as it goes", "src/eager/engine.cpp",
         "  if (!options.keep_graph && !cotangents.creates_graph) node.free();",
         "  if (!options.keep_graph && !creates_graph && false) node.free();")
mutation("P5", "keep_graph does not keep where more than two operands are saved", "src/eager/engine.cpp",
         "  if (!options.keep_graph && !cotangents.creates_graph) node.free();",
         "  if ((!options.keep_graph || node.num_saved > 2) && !cotangents.creates_graph) node.free();")

mutation("P6", "sums of cotangents are not recorded", "src/eager/cotangents.cpp",
         "  if (creates_graph && (into.trace != nullptr || from.trace != nullptr)) {",
         "  if (false) {")
mutation("P6", "seeds are taken for constants", "src/eager/discover.cpp",
         "    if (cotangents.creates_graph) set_recorded(*cell, *root.recorded);",
         "    if (false) set_recorded(*cell, *root.recorded);")

mutation("P6", "what retained values and several outputs are of is dropped", "src/eager/derive.cpp",
         "    if (plan != nullptr) use_what_later_derivatives_read();\n", "")
mutation("P5", "other outputs of a root's node count as what the root depends on", "src/eager/discover.cpp",
         "  return depended_on.contains({node, slot_in(*node, requested)});", "  return true;")
mutation("P4", "what leads to another output of a captured node runs", "src/eager/discover.cpp",
         "return captures.contains({edge.target, edge.slot});", "return edge.slot != no_index;")
mutation("P4", "cotangents that are not delivered are waited for", "src/eager/discover.cpp",
         "} else if (is_wanted(node.edges()[e])) {  // it is delivered", "} else {")
mutation("P14", "what is found of a call's values is raised by whoever asks", "src/eager/anomaly.cpp",
         "findings != nullptr ? findings.get() : asking;", "asking;")
mutation("P13", "roots of other operands are taken", "src/eager/discover.cpp",
         "    if (node->operands() != &table) node->require_operands(table, str(\"root \", i));\n", "")
mutation("P8", "a gradient of another type than the slot's is added", "src/eager/finish.cpp",
         "if (held && *held != from->type) {", "if (false) {")

mutation("P7", "a hook that was removed still runs", "src/eager/hooks.cpp",
         "    if (entry->kind != kind || entry->removed.load(std::memory_order_acquire)) continue;",
         "    if (entry->kind != kind) continue;")
mutation("P7", "what a removed hook held stays until the next change", "src/eager/node.cpp",
         "  entries_.erase(at);\n  before.swap(made_);", "  entries_.erase(at);")
mutation("P13", "errors of users' types come out as plain ones", "src/eager/engine.cpp",
         "if (typeid(made) == typeid(error)) made.raise();", "made.raise();")
mutation("P7", "the callbacks after one that throws do not run", "src/eager/finish.cpp",
         "      if (!failure) failure = std::current_exception();",
         "      failure = std::current_exception();\n      break;")

mutation("P8", "a slot is overwritten, not added to", "src/eager/finish.cpp",
         "        if (slot.cell != nullptr) sums[i] = cotangents.duplicate(*slot.cell);",
         "        if (false) sums[i] = cotangents.duplicate(*slot.cell);")
mutation("P8", "a slot is given away before the sum is made", "src/eager/finish.cpp",
         "        if (slot.cell != nullptr) sums[i] = cotangents.duplicate(*slot.cell);",
         "        if (slot.cell != nullptr) sums[i] = std::exchange(slot.cell, nullptr);")
mutation("P9", "a node takes 8 KB of stack", "src/eager/engine.cpp",
         "  const char* phase = \"add_operands\";\n  try {\n    take_incoming(state, incoming);",
         "  const char* phase = \"add_operands\";\n  [[maybe_unused]] volatile char room[8192];\n  room[0] = 0;\n  try {\n"
         "    take_incoming(state, incoming);")
mutation("P9", "a device's thread does not serve its device while it waits", "src/eager/parallel.cpp",
         "    if (run_next(0, lock) || (owner_device_ != 0 && run_next(owner_device_, lock))) continue;",
         "    if (run_next(0, lock)) continue;",
         ("src/eager/parallel.cpp",
          "      if (!owner_queue_->runs.empty()) other = owner_queue_->take_deepest();", ""),
         programs=("test_eager_threads",))

mutation("P10", "the caller's thread state is not installed on workers", "src/eager/parallel.cpp",
         "    if (state_ != nullptr) before = state_->install();", "", programs=("test_eager_threads",))
mutation("P10", "no helper comes", "src/eager/parallel.cpp",
         "    if (call_.options.workers > 1) workers.help(",
         "    if (call_.options.workers > 1000) workers.help(", programs=("test_eager_threads",))
mutation("P10", "cotangents are folded in the order in which they come", "src/eager/order.cpp",
         "  call->folds_at_once = request.options.order == Order::latest_first && !call->threaded;",
         "  call->folds_at_once = true;", programs=("test_eager_threads",))
mutation("P10", "a child after fork believes that it has the threads of its parent", "src/eager/parallel.cpp",
         "    while (workers == nullptr || workers->process_ != process) {",
         "    while (workers == nullptr) {", programs=("test_eager_threads",))

mutation("P11", "nobody waits for the stream that a cotangent comes from", "src/eager/order.cpp",
         "  cotangents.move_to(*cell, placement);",
         "  cell->device = placement.device;\n  cell->stream = placement.stream;")
mutation("P11", "the caller does not wait at the end", "src/eager/finish.cpp",
         "  join_streams({});", "")
mutation("P11", "seeds are taken to be made where the caller is", "src/eager/discover.cpp",
         "    const Placement placement = root.placement.value_or(caller);",
         "    const Placement placement = caller;")

mutation("P12", "the type of what a node returns is not checked", "src/eager/engine.cpp",
         "    cotangents.check_type(*made[i], made[i]->type, node, \"the \", \"cotangent of input\", input);", "")
mutation("P12", "its device is not checked", "src/eager/engine.cpp",
         "    cotangents.check_device(*made[i], node, input);", "")

mutation("P13", "the last error is kept, not the first", "src/eager/order.cpp",
         "  if (!first_error) first_error = std::move(error);",
         "  first_error = std::move(error);")
mutation("P13", "what depends on a failed node runs all the same", "src/eager/order.cpp",
         "  if (state.failed) return;\n", "")

mutation("P14", "of the values of the forward the last that is not finite is named", "src/eager/anomaly.cpp",
         "[](const Node* a, const Node* b) { return a->sequence < b->sequence; }",
         "[](const Node* a, const Node* b) { return a->sequence > b->sequence; }")
mutation("P14", "seeds are not looked at", "src/eager/discover.cpp",
         "    if (options.anomaly) check_seed(cotangents.looker, *cell, node);", "")
mutation("P14", "sums are not looked at", "src/eager/cotangents.cpp",
         "  if (options_.anomaly) [[unlikely]]\n    check_sum(looker, into, from.sequence);\n", "")

mutation("P15", "a tape is freed by recursion", "src/eager/node.cpp",
         "  if (dead.busy) return;\n", "", programs=("test_eager_small_stack",))
