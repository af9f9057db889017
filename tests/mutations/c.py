# c.py - faults of counting, order, sums and lifetimes, for scripts/mutations.py: one or more for each C line.
# C11 says that an operation has all its parts; there a part is taken away.

mutation("C1", "x x counts one", "src/eager/reached.cpp",
         "      } else {\n        ++reach(target).dependencies;\n      }\n    }\n  }\n}\n\nvoid ReachedNodes::mark_needed",
         "      } else if (e == 0 || edges[e - 1].target != target) {\n        ++reach(target).dependencies;\n"
         "      }\n    }\n  }\n}\n\nvoid ReachedNodes::mark_needed")
mutation("C1", "a node runs when the first of its cotangents has come", "src/eager/call.cpp",
         "if (--target.dependencies == 0) ready_.push(target);",
         "--target.dependencies;\n  if (!target.listed) ready_.push(target);")
mutation("C2", "cotangents are folded as they come", "src/eager/cotangents.cpp",
         "    if (a->sequence != b->sequence) return a->sequence > b->sequence;\n"
         "    return a->source != b->source ? a->source > b->source : a->edge > b->edge;",
         "    return false;",
         ("src/eager/cotangents.cpp",
          "std::sort(cotangents.begin(), cotangents.end(), [](const Cotangent* a, const Cotangent* b) {",
          "std::stable_sort(cotangents.begin(), cotangents.end(), [](const Cotangent* a, const Cotangent* b) {"))
mutation("C2", "ties between recorders are broken by chance", "src/eager/cotangents.cpp",
         "return a->source != b->source ? a->source > b->source : a->edge > b->edge;",
         "return a->edge != b->edge ? a->edge > b->edge : a < b;")
mutation("C3", "cotangents are summed in a second place too", "src/eager/cotangents.cpp",
         "  host_.add_operands({into.type, graph, placement}, into.operand(), from.operand());",
         "  Cotangent* second[] = {duplicate(into)};\n  const CotangentGuard spare(table_, second);\n"
         "  host_.add_operands({into.type, graph, placement}, second[0]->operand(), from.operand());\n"
         "  host_.add_operands({into.type, graph, placement}, into.operand(), from.operand());")
mutation("C4", "what a slot holds flows into the graph", "src/eager/call.cpp",
         "  std::swap(cotangents[0], leaf.cotangent);\n}\n",
         "  std::swap(cotangents[0], leaf.cotangent);\n"
         "  const Node& node = *leaf.node;\n"
         "  if (!options_.accumulate && node.accumulator() != nullptr && node.accumulator()->gradient != nullptr &&\n"
         "      leaf.cotangent != nullptr)\n"
         "    cotangents_.fold(leaf.cotangent, cotangents_.duplicate(*node.accumulator()->gradient), leaf.set, node);\n"
         "}\n")
mutation("C5", "a node without a cotangent runs", "src/eager/node_runner.cpp",
         "  if (!any) return;\n", "")
mutation("C6", "consumed cotangents live until the end", "src/eager/node_runner.cpp",
         "  const CotangentGuard guard(table_, incoming);\n  const char* phase = BackwardPhase::add;",
         "  struct Keep {\n    Captures& captures;\n    std::span<Cotangent*> cotangents;\n    ~Keep() {\n"
         "      for (Cotangent* cotangent : cotangents)\n        if (cotangent != nullptr) captures.keep(cotangent);\n    }\n"
         "  } const guard{captures_, incoming};\n  const char* phase = BackwardPhase::add;",
         ("src/eager/captures.hpp", "  /// By request; null: none, or a leaf's.\n",
          "  void keep(Cotangent* cotangent) { cotangents_.push_back(cotangent); }\n  /// By request; null: none, or a leaf's.\n"))
mutation("C7", "a node forgets to let go of one producer", "src/eager/node.cpp",
         "for (std::uint32_t i = 0; i < at->num_edges + at->num_passive; ++i)",
         "for (std::uint32_t i = 1; i < at->num_edges + at->num_passive; ++i)")
mutation("C7", "saved operands are not destroyed", "src/eager/node.cpp",
         "  for (std::uint32_t i = 0; i < num_saved; ++i) table->destroy(saved(i));", "")
mutation("C8", "operands beyond the 64th are left out", "src/eager/node_runner.cpp",
         "    if (!selective || reached_.is_wanted(node.edges()[e])) set(wanted, e);",
         "    if (e < 64 && (!selective || reached_.is_wanted(node.edges()[e]))) set(wanted, e);")
mutation("C8", "operands beyond the eighth are left out", "src/eager/node_runner.cpp",
         "    std::uint64_t wanted = (std::uint64_t{1} << node.num_edges) - 1;",
         "    std::uint64_t wanted = (std::uint64_t{1} << std::min(node.num_edges, 8U)) - 1;")
mutation("C9", "versions are kept where the last saved operand has one alone", "src/eager/recorder.cpp",
         "has_versions = has_versions || version.has_value();", "has_versions = version.has_value();")
mutation("C9", "changed values are read", "src/eager/node_runner.cpp",
         "    if (!now || *now == saved) return;", "    return;")
mutation("C9", "versions of what computes residuals only are checked", "src/eager/node_runner.cpp",
         "  for (const std::uint32_t k : program.residuals)\n    if ((k & BackwardProgram::computed_bit) == 0) check(k);",
         "")
mutation("C9", "versions of all that is saved are checked", "src/eager/node_runner.cpp",
         "  for (const std::uint32_t k : program.forward_inputs) check(k);",
         "  for (std::uint32_t k = 0; k < node.num_saved; ++k) check(k);")
mutation("C10", "a forward on one thread waits for that on another", "src/eager/specialization.cpp",
         "  specialization->owner = this;",
         "  static std::recursive_mutex one_at_a_time;\n"
         "  const std::lock_guard<std::recursive_mutex> lock(one_at_a_time);\n  specialization->owner = this;",
         programs=("test_eager_threads",))
mutation("C10", "a forward inside another is refused", "src/eager/recorder.cpp",
         "  const std::size_t num_outputs = request.graph->output_types.size();\n  const std::int64_t begin",
         "  static thread_local int inside = 0;\n"
         "  struct Guard {\n    Guard() { ++inside; }\n    ~Guard() { --inside; }\n  } const nesting;\n"
         "  if (inside > 1) throw Error(ErrorKind::invalid_argument, \"a forward inside another\");\n"
         "  const std::size_t num_outputs = request.graph->output_types.size();\n  const std::int64_t begin")
mutation("C11", "an operation has no row in the table of derivative checks", "tests/check/primitive_table.cpp",
         '  t.push_back(binary("nextafter", real, wide, wide));\n', "", programs=("test_check",))
