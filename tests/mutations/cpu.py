# cpu.py - faults of the CPU compiler where it combines operations, for scripts/mutations.py.


def fault(*what):
    mutation(*what, programs=("test_cpu",))


COMPILE = "backends/cpu/compile.cpp"
COMPILED = "backends/cpu/compiled.cpp"
STEPS = "backends/cpu/steps/"

# Operations on short arrays as one piece of code.
STRAIGHT_LINE = "backends/cpu/fusion/straight_line_plan.cpp"
fault("straight line", "what the operation right behind a block reads is not written", STRAIGHT_LINE,
      "if (last_read_[result] < end) continue;", "if (last_read_[result] <= end) continue;")
fault("straight line", "what a fusion repeats is not read", STRAIGHT_LINE,
      "          if (fusion && splats_[id] != no_index) read(splats_[id]);\n", "",
      (STRAIGHT_LINE, "const bool fusion = nodes[i].kind == NodeKind::fusion;\n      ", ""))
fault("straight line", "what a loop reads is not written", STRAIGHT_LINE,
      "        for (const BlockedLoop::Value& operand : schedule_.loops[nodes[i].index].operands) "
      "read(operand.id);\n", "")
fault("straight line", "arrays of two lengths are in one block", STRAIGHT_LINE,
      "(kind.elements != 1 && elements_ != 1 && kind.elements != elements_)", "false")
fault("straight line", "arrays of two dtypes are in one block", STRAIGHT_LINE,
      "(kind.dtype != bool_ && dtype_ != bool_ && kind.dtype != dtype_)", "false")
fault("straight line", "an addition that a matmul does is in a block, too", STRAIGHT_LINE,
      "(excluded_.empty() || !excluded_[node.index])", "(excluded_.empty() || true)")
fault("straight line", "the mask of what a vector does not fill is thought to outlive calls", "backends/cpu/fusion/straight_line_x86.cpp",
      "      tail_.forget_mask();\n", "")
fault("straight line", "sums begin with +0 where a vector is not filled", "backends/cpu/fusion/vector_x86_reduction.hpp",
      "if (is_sum(op)) return x_.constant(x_.sign_bit());", "if (is_sum(op)) return x_.constant(0);")
fault("straight line", "single elements are loaded again", "backends/cpu/fusion/straight_line_x86.cpp",
      "op == VectorOp::load || op == VectorOp::load_mask || op == VectorOp::immediate;",
      "op == VectorOp::load || op == VectorOp::load_mask || op == VectorOp::immediate || op == VectorOp::splat;")

# Integers in lanes, and reductions of few elements.
INTEGERS = "backends/cpu/fusion/vector_x86_arithmetic.hpp"
fault("integer vectors", "a product of 64 bits lacks a part", INTEGERS, "    x_.vpaddq(t, t, r);\n", "")
fault("integer vectors", "what is beyond all integers is the least of them", "backends/cpu/fusion/vector_lowering.cpp",
      "s.of(VectorOp::less_equal, s.immediate(0x1p31), x);", "s.of(VectorOp::less, x, x);")

# Columns that fusions gather, and rows of columns that they make.
COLUMNS = STEPS + "gather_prologues.cpp"
fault("columns", "a fusion that reduces has columns", COLUMNS,
      "if (!member.primitive().has_trait(Trait::elementwise) || (rows >= 0 && rows != size)) return 0;",
      "if (!member.primitive().has_trait(Trait::elementwise)) continue;\n"
      "    if (rows >= 0 && rows != size) return 0;")
fault("columns", "a part of a column is gathered from its beginning", COLUMNS,
      "line.dim(along) != rows || type.dim(along) != rows)", "line.dim(along) != rows)")
fault("columns", "what is brought together may be of several columns", COLUMNS,
      "[&](ValueId id) { return graph_.type(id).size() == rows; });",
      "[&](ValueId id) { return graph_.type(id).size() >= rows; });")
fault("columns", "rows that others read too are not taken", COLUMNS,
      "if (!is_column && reads[operation.output()] != readers_[operation.output()]) continue;",
      "if (!is_column && reads[operation.output()] == 0) continue;")
fault("columns", "rows are written where columns are read", COLUMNS, "  with.whole = of;\n", "")
fault("columns", "rows are taken along the wrong axis", COLUMNS,
      "          operation.op().integer(\"axis\") != static_cast<std::int64_t>(along) ||\n", "")
fault("columns", "columns of two arrays of indices are gathered by one of them", "backends/cpu/fusion/columns_plan.cpp",
      " &&\n                         gathered[k - 1].indices == column.indices;", ";")
fault("columns", "an index beyond the end is one behind it", "backends/cpu/kernels/columns.cpp",
      "std::clamp<std::int64_t>(indices[i], 0, last)", "std::clamp<std::int64_t>(indices[i], 0, last + 1)")
fault("decompositions", "columns behind a panel are not solved for", "backends/cpu/kernels/decompositions_functions.hpp",
      ".template triangularView<Eigen::UnitLower>().solveInPlace(right);", ";")

# Slices, pads and rolls that fusions read where they come from, and where they stand in a schedule.
MAPS, FIND_LOADS = "backends/cpu/access_map.cpp", STEPS + "fused_loads.cpp"
fault("fused loads", "what was rolled is cut as if it were not", MAPS, "  if (axis.roll != 0) {\n    const bool behind",
      "  if (axis.roll < 0) {\n    const bool behind")
fault("fused loads", "a slice of what was padded begins where that does", MAPS,
      "    offset += std::max<std::int64_t>(0, start - axis.begin) * axis.stride;\n", "")
fault("fused loads", "what is around what was padded is taken for the same", MAPS,
      "  if (!padding.empty() && !std::ranges::equal(padding, element)) return false;\n", "")
fault("fused loads", "what something else reads, too, is not made", FIND_LOADS,
      "reading[record.first_output] != readers[record.first_output]", "readers[record.first_output] == 0")
fault("fused loads", "what a layout operation reads that is made after all is not made", FIND_LOADS,
      "    for (const ValueId id : layout.inputs()) materialize(id);\n", "")
BETWEEN = "backends/cpu/schedule/layout_placement"
mutation("layout placement", "a layout operation stands where it stood, behind a fusion that reads it", BETWEEN + ".hpp",
         "std::min(entries_[at_[root]].before, node)", "std::max(entries_[at_[root]].before, node)", programs=("test_cpu",))
mutation("layout placement", "what it reads stays behind it", BETWEEN + ".cpp",
         "entries[at].before = std::min(entries[at].before, entries[i].before)", "entries[at].before += 0",
         programs=("test_cpu",))
mutation("layout placement", "a fusion reads a layout operation of what it makes", "backends/cpu/schedule/fuse.cpp",
         "made_by_[id] >= node", "made_by_[id] > node", programs=("test_cpu",))

# Matmuls that are added to something.
UPDATE = STEPS + "matmul_epilogues.cpp"
fault("updates", "a matmul that something else reads is in no memory", UPDATE,
      "    if (readers_[id] != 1 + 2 * outputs_[id]) return false;\n", "")
fault("updates", "a matmul that is an output, too, is in no memory", UPDATE,
      "    if (outputs_[id] != 0) update.kept = id;\n", "")
fault("updates", "what is scaled may be a result", UPDATE,
      " || results.size() != 1) return", ") return",
      (UPDATE, "results[0] != sum.output()", "results.back() != sum.output()"))
fault("updates", "a matmul is added to itself", UPDATE, " || update.x == id)", ")")
fault("updates", "the result is written where the second operand is read", UPDATE,
      "values.whole = {values.operands[0], values.operands[1]};", "values.whole = {values.operands[0]};")
fault("updates", "an operand that is to be packed is read where it lies", "backends/cpu/matmul/matmul.cpp",
      "if (matmul.lhs.packed || matmul.rhs.packed) return std::nullopt;", "if (matmul.lhs.packed) return std::nullopt;")
fault("updates", "a matmul that is subtracted from is subtracted", UPDATE,
      "if (!is_second && (update.subtract || sum.inputs()[0] != scaled.output())) return std::nullopt;",
      "if (!is_second && sum.inputs()[0] != scaled.output()) return std::nullopt;")

# Outputs that take the memory of inputs.
REUSED = STEPS + "donation.cpp"
fault("donation", "what is read later is written over", REUSED,
      "input != position_.end() && last_read_[input->second] == node;",
      "input != position_.end() && last_read_[input->second] >= node;")
fault("donation", "what is read as a whole is written over", REUSED,
      "if (dies_at(id, node) && std::ranges::find(values.whole, id) == values.whole.end())", "if (dies_at(id, node))")
fault("donation", "an input that is an output, too, is written over", REUSED,
      "    for (const ValueId id : graph_.outputs()) position_.erase(program.roots()[id]);\n", "")
fault("donation", "the matmul of an update is written over what the sum reads", REUSED,
      "      if (id != values.results[0] && steps_.at(node).plan) continue;\n", "")
fault("donation", "a fusion of several passes is taken for one", "backends/cpu/fusion/fused.cpp",
      "return drafts_.size() == 1 && drafts_[0].operation == no_index && columns_ == nullptr", "return columns_ == nullptr")
fault("donation", "what may fail behind a step that writes over an input is called safe", REUSED,
      "if (!cannot_fail(i)) num_unsafe", "if (false) num_unsafe")
fault("donation", "nothing is called safe behind a step that may fail", REUSED,
      "std::size_t k = num_unsafe; k <", "std::size_t k = num_unsafe; num_unsafe == 0 && k <")
fault("donation", "whatever is no fusion may fail", "backends/cpu/compile.cpp",
      "else if (operation(node.index, ", "else if (!operation(node.index, ")
fault("donation", "tensors that others refer to are written over", COMPILED,
      "!x->exclusive() ||", "false ||")
fault("donation", "what is given twice is written over", COMPILED, "if (times[own] == 1 && (", "if ((")

# Layout operations of layout operations.
ELISION = STEPS + "copy_elision.cpp"
PARTS = STEPS + "concat_map.cpp"
fault("copy elision", "a layout operation whose result is an output is left out", ELISION,
      "    for (const ValueId id : graph_.outputs()) readers_.erase(program_.roots()[id]);\n", "")
fault("copy elision", "what is read in another shape is left out", ELISION,
      "        if (id != made) return false;  // in another shape\n", "")
fault("copy elision", "a slice begins where its own steps lead", MAPS,
      "    offset += start * axis.stride;\n", "    offset += start * axis.stride * step;\n")
fault("copy elision", "parts of a part begin where the part does", PARTS,
      "piece.begin[along] += begin;", "piece.begin[along] = begin;")
fault("copy elision", "what is copied from does not live until then", STEPS + "step_graph.cpp",
      "return step.absorbed || step.plan || ", "return ")

# Operands of concatenates in their places.
PARTS = STEPS + "concat_in_place.cpp"
fault("parts", "all parts are made at the beginning", PARTS, "      offset += bytes;\n", "")
fault("parts", "no part is made in its place", PARTS, "if (steps.program().options().in_place && !steps.empty())", "if (false)")
fault("parts", "parts of what is no stretch are taken for such", PARTS,
      "AxisShape::of(graph_.type(result), axis).outer == 1;", "AxisShape::of(graph_.type(result), axis).outer > 0;")

# Row fusions: places and periods, and straight-line code where nothing is reduced.
fault("rows", "what is held of a row's last vector is held for all", "backends/cpu/fusion/rows_x86_memory.hpp",
      "    tile_.select_column(key.second);\n    memory_.load_elements",
      "    tile_.select_column(tile_.num_vectors() - 1);\n    memory_.load_elements")
fault("rows", "what rows are reduced to stays in registers", "backends/cpu/fusion/rows_x86.cpp",
      "    held_reductions_.store();\n", "")
fault("rows", "values of some rows stand for those of the next ones, too", "backends/cpu/fusion/rows_x86_reductions.hpp",
      "vinsertf128(Ymm(7), Ymm(7), Xmm(6), 1);", "vinsertf128(Ymm(7), Ymm(7), Xmm(7), 1);")
fault("rows", "of eight rows values change places", "backends/cpu/fusion/rows_x86_reductions.hpp",
      "{std::pair(0, 2), std::pair(4, 6), ", "{std::pair(0, 4), std::pair(2, 6), ")
fault("rows", "a held row's first vector is taken for all", "backends/cpu/fusion/rows_x86.cpp",
      "held_columns_.find(key)", "held_columns_.find({step.index, 0})")
fault("rows", "rows of a period are read in two ways", "backends/cpu/fusion/rows_plan.cpp",
      "            std::binary_search(plan_.periodic.begin(), plan_.periodic.end(), at->second))\n"
      "          return false;",
      "            std::binary_search(plan_.periodic.begin(), plan_.periodic.end(), at->second))\n"
      "          break;")

fault("copy elision", "whatever more memory it takes, what is copied lives on", COMPILE,
      "if (plan_->large_bytes <= given_.plan().large_bytes + little) return;", "if (little != 0) return;")

# Terms and elements that are left out of matmuls.
ZEROS = "backends/cpu/matmul/gemm_zeros.hpp"
KERNELS = "backends/cpu/matmul/gemm_kernels.hpp"
fault("matmuls", "terms of a packed panel are those of its first block", ZEROS,
      "common_terms(all[i], {first, first + k})", "common_terms(all[i], {0 * first, k})")
fault("matmuls", "a piece takes the terms of the first columns' panels", KERNELS,
      "terms_of_packed(call, b) + range.column_begin * kScalars / kWidth", "terms_of_packed(call, b)")
fault("matmuls", "all that a take leads to is read, whatever is read of it", "backends/cpu/demanded_elements.cpp",
      "if (at(elements, i * by.inner + j)) read", "read")

fault("matmuls", "what two read is what both of them do", "backends/cpu/demanded_elements.cpp",
      "both[i] = both[i] || (*elements)[i];", "both[i] = both[i] && (*elements)[i];")
fault("matmuls", "one of two updates of a place is taken", "src/primitives/simplify_scattered.cpp",
      "if (update != none) return std::nullopt;", "if (update != none) continue;")

# What a run takes.
fault("memory", "a term that is added to a sum has a place", STEPS + "accumulate_in_place.cpp",
      "    step.values.results = {addition.output()};\n", "")
fault("memory", "constants of programs inside are not counted", "backends/cpu/compile.cpp",
      "memory_stats_.constants += bytes;", "if (&memory_stats_ == &to_.memory_stats_) memory_stats_.constants += bytes;")
fault("memory", "blocks are whole huge pages", "backends/cpu/arena.cpp", "const std::size_t rounded = to_whole_pages(bytes);\n  const Block",
      "const std::size_t rounded = (bytes + 511 * page) / (512 * page) * (512 * page);\n  const Block")

fault("prepacked", "members of a batch are all of the first B", "backends/cpu/matmul/gemm_small.hpp",
      "++q, a += of_.stride_a, b += of_.stride_b, c += of_.stride_c) {", "++q, a += of_.stride_a, c += of_.stride_c) {")
fault("gemm", "0.0 is not added in tiles", "backends/cpu/matmul/gemm_tiles.hpp",
      "sum[r][v] += Lanes{};", "sum[r][v] -= Lanes{};")
fault("gemm", "0.0 is added as the result is", "backends/cpu/matmul/gemm_methods.hpp",
      "call.add_zero ? Adding::to_zero", "call.add_zero ? Adding::to_result")

# Places of what is read and left, once that is known.
PLACES = STEPS + "step_graph.cpp"
fault("columns", "constants have places in the workspace", PLACES,
      "program_.slot(slot).storage == Storage::constant;", "program_.slot(slot).storage != Storage::constant && false;")
fault("step readers", "an output that something else reads is read once", PLACES,
      "readers[program_.roots()[id]] += 2;", "readers[program_.roots()[id]] += 0;")
fault("step readers", "what several nodes read is read once", PLACES,
      "for (const ValueId id : step.values.operands) ++readers[id];",
      "for (const ValueId id : step.values.operands) readers[id] = 1;")

# Two vectors at once.
PAIRS = "backends/cpu/fusion/vector_x86.cpp"
fault("vector code", "both vectors of a pair read the first's elements", PAIRS,
      "x_.vmovups(to, elements(from));", "x_.vmovups(to, ptr[from + r14 * x_.element_bytes()]);")
fault("vector code", "both vectors of a pair read the first's mask", PAIRS,
      "x_.vpmovzxb(to, mask(from));", "x_.vpmovzxb(to, ptr[from + r14]);")
fault("vector code", "both vectors of a pair write the first's mask", PAIRS,
      "arithmetic_.store_bytes(mask(to), ", "arithmetic_.store_bytes(ptr[to + r14], ")
fault("vector code", "the vector that is left behind pairs begins with values of theirs", PAIRS,
      "    emitter_.emit_all(code_.steps);\n",
      "    if (!pairs_) emitter_.begin(code_.steps);\n"
      "    for (std::size_t i = 0; i < code_.steps.size(); ++i) emitter_.emit(i);\n")
fault("vector code", "the vector that is left behind pairs is not computed", PAIRS,
      "      x_.cmp(r14, r13);\n      x_.jge(end, x_.T_NEAR);\n", "      x_.jmp(end, x_.T_NEAR);\n")

# Constants in registers, and powers of two where these are no products.
REGISTERS = "backends/cpu/fusion/vector_x86_registers.hpp"
LANES = "backends/cpu/fusion/vector_x86_instructions.hpp"
fault("vector code", "a constant is held where a value is put", REGISTERS,
      "        taken_ = std::max(taken_, r + 1);\n", "        taken_ = std::max(taken_, r);\n")
fault("vector code", "subnormal numbers are powers of two", LANES,
      "exponent == 0 ||", "false ||")
fault("vector code", "negative powers of two lose their sign", LANES,
      "const std::uint64_t exponent = bits >> x_.mantissa_bits();\n    if (exponent << x_.mantissa_bits() != bits",
      "const std::uint64_t exponent = (bits & ~x_.sign_bit()) >> x_.mantissa_bits();\n"
      "    if (exponent << x_.mantissa_bits() != (bits & ~x_.sign_bit())")

# Buffers of the pieces of a fusion.
FUSION_RUN = "backends/cpu/fusion/fused_run.cpp"
fault("fused loads", "a part of a line is thought to be where another was brought", FUSION_RUN,
      "      brought_[index].at = nullptr;  // the new copy overwrites it\n", "")
fault("columns", "a column that is taken twice is written once", FUSION_RUN,
      "if (number / row != first || to != nullptr) flush();", "if (number / row != first) flush();")
