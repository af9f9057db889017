# dead_code.py - faults of dead code elimination through inner graphs, and of merging operations, for
# scripts/mutations.py.

UNREAD = "src/graph/dead_code.cpp"


def fault(*what):
    mutation("dead code", *what, programs=("test_optimizer",))


fault("a carry that is only read inside is left out", UNREAD,
      "      need(*inside.holder, inside.binding_of[id]);\n", "")
fault("what is needed of an op is not read by its later holders", UNREAD,
      "if (below.needed[s]) read_operands(below.region_bindings[s], below.holders.back());", "(void)s;")
fault("what is needed later is not read by earlier holders", UNREAD,
      "    for (const Holder::HeldAt& held_at : holder.holders) read_operands(needed, held_at);\n", "")
fault("what ends a loop is not needed", UNREAD, "      if (holder.region_bindings[s].always) need(holder, s);\n",
      "      (void)s;\n")
fault("what has effects is cut", UNREAD, "op.primitive->region_bindings != nullptr && !op.impure",
      "op.primitive->region_bindings != nullptr")
fault("operations of one op are cut alike, whatever is read of them", UNREAD,
      "results.push_back(read[record.first_output + slot]);",
      "results.push_back(slot == 0 || read[record.first_output + slot]);")
fault("operands that nobody reads any more are computed", UNREAD,
      "if (cut == nullptr || cut->operands[k]) read", "read")
fault("roles are those of all operands", "src/graph/copying.cpp", "operands == nullptr || (*operands)[k]",
      "true")
fault("a cond's operand is not that of the other branches", "src/primitives/cond.cpp",
      "    binding.inputs = in_branches(i);\n", "    binding.inputs = in_branches(branches[0].inputs().size() - 1 - i);\n")

MERGE = "src/optimizer/merge_loops.cpp"
fault("loops that carry other things are one", MERGE, " || !is_equal(j, j))", ")")
fault("loops of other lengths or directions are one", MERGE,
      "return !x.second.graphs().empty() || x.second == y.second;", "return true;")
fault("a result that another graph gives otherwise is one with it", MERGE,
      "if (outputs[g][k].id() != other_outputs[g][j].id()) return false;",
      "if (g == 0 && outputs[g][k].id() != other_outputs[g][j].id()) return false;")
fault("what is computed alike of merged loops stays apart", MERGE, "any_ && next_ <= i", "any_ && next_ < i - i")
fault("layers that hand out much are not merged", MERGE, "long_lived_[k].last_reader < i ?", "i > 0 ?")
fault("loops that have little in common are one", MERGE, "if (2 * (all - both) < less)", "if (less == ~all)")
