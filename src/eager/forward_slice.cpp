// forward_slice.cpp - see forward_slice.hpp.
//
// Note [Compared residuals]
// A program that recomputes a value may round it differently than the program that computed it first, since
// it compiles it together with other operations. A comparison of such a value with a saved one that was made
// from it, as x = max x, would then find no equal elements. So the saved one is recomputed as well, by the
// same program.
#include "eager/forward_slice.hpp"

#include <algorithm>

#include "tidu/graph/error.hpp"

namespace tidu::eager::detail {

using tidu::detail::str;

void ForwardSlice::compute(std::span<const ValueId> values) {
  slice(values);
  if (compute_compared()) slice(values);
  std::sort(reads_.begin(), reads_.end());
}

void ForwardSlice::slice(std::span<const ValueId> values) {
  const GraphData& g = graph_.data();
  in_slice_.assign(g.operations.size(), 0);
  reads_.clear();
  std::vector<ValueId> stack(values.begin(), values.end());
  std::vector<char> seen(graph_.num_values(), 0);
  while (!stack.empty()) {
    const ValueId id = stack.back();
    stack.pop_back();
    if (seen[id] != 0) continue;
    seen[id] = 1;
    if (is_saved(id)) {
      reads_.push_back(id);
      continue;
    }
    const std::uint32_t operation = *graph_.producer(id);
    if (in_slice_[operation] != 0) continue;
    in_slice_[operation] = 1;
    const OperationRecord& record = g.operations[operation];
    if (record.op->impure) {
      throw Error(ErrorKind::invalid_argument,
                  str('[', record.op->primitive->name,
                      "] expected its results to be retained, since backward needs them and an impure "
                      "operation is not run twice\n  ",
                      describe_operation(graph_, operation)));
    }
    for (std::uint32_t k = 0; k < record.num_inputs; ++k) stack.push_back(g.operands[record.first_input + k]);
  }
}

// See Note [Compared residuals]. Says whether there are such.
bool ForwardSlice::compute_compared() {
  std::vector<ValueId> compared = compared_with_saved();
  if (compared.empty()) return false;
  const std::vector<char> read = read_by(std::move(compared));
  const GraphData& g = graph_.data();
  bool any = false;
  std::vector<char> follows(graph_.num_values(), 0);  // depends on values that are read and recomputed
  for (std::uint32_t i = 0; i < g.operations.size(); ++i) {
    const OperationRecord& record = g.operations[i];
    const bool arithmetic = !record.op->primitive->has_trait(Trait::shape_only);
    bool made = false;
    for (std::uint32_t k = 0; k < record.num_inputs; ++k)
      made = made || follows[g.operands[record.first_input + k]] != 0;
    for (ValueId id = record.first_output; id < record.first_output + record.num_outputs; ++id) {
      follows[id] = made || (in_slice_[i] != 0 && arithmetic && read[id] != 0) ? 1 : 0;
      if (!made || read[id] == 0 || saved_[id] != Saved::as_result || record.op->impure) continue;
      saved_[id] = Saved::no;
      any = true;
    }
  }
  return any;
}

// By value: is it one of these, or does it depend on them within the slice?
std::vector<char> ForwardSlice::read_by(std::vector<ValueId> stack) const {
  const GraphData& g = graph_.data();
  std::vector<char> read(graph_.num_values(), 0);
  while (!stack.empty()) {
    const ValueId id = stack.back();
    stack.pop_back();
    if (read[id] != 0) continue;
    read[id] = 1;
    if (is_saved(id)) continue;
    const OperationRecord& record = g.operations[*graph_.producer(id)];
    for (std::uint32_t k = 0; k < record.num_inputs; ++k) stack.push_back(g.operands[record.first_input + k]);
  }
  return read;
}

// The operands of comparisons in the slice of which one is computed anew, by arithmetic, and one reads saved
// results.
std::vector<ValueId> ForwardSlice::compared_with_saved() const {
  const GraphData& g = graph_.data();
  std::vector<char> anew(graph_.num_values(), 0), saved(graph_.num_values(), 0);
  for (const ValueId id : reads_) saved[id] = saved_[id] == Saved::as_result ? 1 : 0;
  std::vector<ValueId> compared;
  for (std::uint32_t i = 0; i < g.operations.size(); ++i) {
    if (in_slice_[i] == 0) continue;
    const OperationRecord& record = g.operations[i];
    const std::span<const ValueId> operands(g.operands.data() + record.first_input, record.num_inputs);
    bool made = false, reads_saved = false, inexact = false;
    for (const ValueId id : operands) {
      made = made || anew[id] != 0;
      reads_saved = reads_saved || saved[id] != 0;
      inexact = inexact || is_inexact(graph_.type(id).dtype());
    }
    const bool compares =
        operands.size() == 2 && inexact && is_bool(graph_.type(record.first_output).dtype());
    if (compares && made && reads_saved) compared.insert(compared.end(), operands.begin(), operands.end());
    const bool arithmetic = !record.op->primitive->has_trait(Trait::shape_only);
    for (ValueId id = record.first_output; id < record.first_output + record.num_outputs; ++id) {
      if (is_saved(id)) continue;
      anew[id] = made || arithmetic ? 1 : 0;
      saved[id] = reads_saved ? 1 : 0;
    }
  }
  return compared;
}

}  // namespace tidu::eager::detail
