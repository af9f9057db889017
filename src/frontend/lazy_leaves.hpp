// lazy_leaves.hpp - LeafTable: finds the leaf of a trace that has given elements.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "frontend/lazy_values.hpp"

namespace tidu::frontend_detail {

/// A hash table of numbers of values, with open addressing. `values` are the values of the trace.
class LeafTable {
 public:
  /// The entry of the leaf with the tensor's elements: its number, or no_index if there is none yet. The
  /// reference is valid until the next call.
  const std::uint32_t& entry(const LazyValues& values, const Tensor& tensor) {
    if (2 * (count_ + 1) > entries_.size()) grow(values);
    return entries_[find_entry(values, tensor)];
  }
  /// Sets an entry.
  void set(const std::uint32_t& entry, std::uint32_t id) {
    count_ += entry == no_index ? 1 : 0;
    entries_[static_cast<std::size_t>(&entry - entries_.data())] = id;
  }
  /// The leaf with the tensor's elements, or no_index.
  std::uint32_t find(const LazyValues& values, const Tensor& tensor) const {
    return entries_.empty() ? no_index : entries_[find_entry(values, tensor)];
  }
  /// Fills the table with the leaves among the values. Returns their bytes.
  std::size_t list(const LazyValues& values) {
    std::fill(entries_.begin(), entries_.end(), no_index);
    count_ = 0;
    std::size_t bytes = 0;
    for (std::uint32_t id = 0; id < values.size(); ++id) {
      if (values[id].op != no_index) continue;
      bytes += values[id].tensor.num_bytes();
      if (2 * (count_ + 1) > entries_.size()) grow(values);
      insert(entries_, values[id].tensor, id);
      ++count_;
    }
    return bytes;
  }
  void clear() {
    entries_.clear();
    count_ = 0;
  }

 private:
  static std::size_t hash(const Tensor& tensor) {
    const auto mixed = (reinterpret_cast<std::uintptr_t>(tensor.place()) >> 4) * 0x9e3779b97f4a7c15ULL;
    return static_cast<std::size_t>(mixed >> 32);
  }
  std::size_t find_entry(const LazyValues& values, const Tensor& tensor) const {
    std::size_t at = hash(tensor) & (entries_.size() - 1);
    for (; entries_[at] != no_index; at = (at + 1) & (entries_.size() - 1)) {
      const Tensor& leaf = values[entries_[at]].tensor;
      if (leaf.place() == tensor.place() && leaf.type() == tensor.type() && leaf.shares_storage_with(tensor))
        break;
    }
    return at;
  }
  static void insert(std::vector<std::uint32_t>& entries, const Tensor& leaf, std::uint32_t id) {
    std::size_t at = hash(leaf) & (entries.size() - 1);
    while (entries[at] != no_index) at = (at + 1) & (entries.size() - 1);
    entries[at] = id;
  }
  void grow(const LazyValues& values) {
    std::vector<std::uint32_t> larger(std::max<std::size_t>(64, 2 * entries_.size()), no_index);
    for (const std::uint32_t id : entries_) {
      if (id != no_index) insert(larger, values[id].tensor, id);
    }
    entries_.swap(larger);
  }

  std::vector<std::uint32_t> entries_;  // a power of two
  std::size_t count_ = 0;
};

}  // namespace tidu::frontend_detail
