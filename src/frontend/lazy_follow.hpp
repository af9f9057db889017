// lazy_follow.hpp - replay of a pattern, for one operand and one result; both ways in which operations arrive
// (graphs and known calls) use it. See Note [Pattern replay] in lazy.hpp.
#pragma once

#include "frontend/lazy.hpp"

namespace tidu::frontend_detail {

// Is it the same leaf, unchanged?
inline bool is_leaf_again(const Tensor& tensor, const Tensor& leaf, std::uint64_t version) {
  return tensor.shares_storage_with(leaf) && tensor.type() == leaf.type() && tensor.version() == version &&
         tensor.place() == leaf.place();
}

// Is `tensor` the operand with that number in the pattern? A leaf that occurs for the first time is added.
// Unless `watched`, nothing else can write to it; `on_host`: it must be on the host.
[[gnu::always_inline]] inline bool LazyTrace::follow_operand(const Pattern& pattern, std::uint32_t id,
                                                             const Tensor& tensor, bool watched,
                                                             bool on_host) {
  if (id < values_.size()) {
    const Value& value = values_[id];
    if (value.promise != nullptr) return tensor.lies_in(*value.promise);  // no result has elements yet
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

// The lazy tensor of the next result of the next operation, whose results begin at `first_value`. If it
// throws, nothing of the operation remains.
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
