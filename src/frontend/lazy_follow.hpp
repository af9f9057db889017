// lazy_follow.hpp - what following a pattern takes for each operand and result, by whichever way operations
// come. See Note [Following] in lazy.hpp.
#pragma once

#include "frontend/lazy.hpp"

namespace tidu::frontend_detail {

// Are these the elements that were meant, as they were?
inline bool is_leaf_again(const Tensor& tensor, const Tensor& leaf, std::uint64_t version) {
  return tensor.shares_storage_with(leaf) && tensor.type() == leaf.type() && tensor.version() == version &&
         tensor.place() == leaf.place();
}

// Is that the operand which has that number in the pattern? A leaf that comes here first is taken up. One
// that nobody else can write to need not be watched; `on_host`: it may be nowhere else.
[[gnu::always_inline]] inline bool LazyTrace::follow_operand(const Pattern& pattern, std::uint32_t id,
                                                             const Tensor& tensor, bool watched,
                                                             bool on_host) {
  if (id < values_.size()) {
    const Value& value = values_[id];
    if (value.promise != nullptr) return tensor.lies_in(*value.promise);  // none has elements yet
    return tensor.pending() == nullptr && is_leaf_again(tensor, value.tensor, value.version);
  }
  if (id != values_.size() || pattern.results[id] != 0 || tensor.pending() != nullptr || tensor.borrowed())
    return false;
  if (on_host && tensor.device() != 0) return false;
  values_.emplace_back(tensor);
  follows_->leaf_nodes[id] = nullptr;
  if (watched) tensor.watch();
  return true;
}

// The promise of the next result of the next operation, whose results begin at `first_value`. Where it throws
// nothing of the operation is there.
[[gnu::always_inline]] inline Tensor& LazyTrace::follow_result(std::uint32_t first_value) {
  if (Value* const kept = values_.kept(); kept != nullptr) [[likely]] {
    values_.take_kept();
    return kept->tensor;
  }
  try {
    const auto id = static_cast<std::uint32_t>(values_.size());
    return values_.emplace_back(make_lazy_result(follows_->types[id], id), static_cast<std::uint32_t>(at_))
        .tensor;
  } catch (...) {
    values_.truncate(first_value);
    throw;
  }
}

}  // namespace tidu::frontend_detail
