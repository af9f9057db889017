// states.hpp - States: the state of each node that one backward call reaches. States are stored in pages of
// 64, indexed by sequence number, so a chain of nodes touches them in succession, and no node address is
// hashed. Nodes of different recorders with the same number are chained.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "eager/node.hpp"
#include "tidu/graph/memory.hpp"

namespace tidu::eager::detail {

struct State {
  Node* node;
  State* chain;            ///< same sequence number, other recorder
  Cotangent* cotangent;    ///< of a node with one output, or the first of those that wait to be added
  Cotangent** cotangents;  ///< by output, for a node with several; null until the first arrives
  std::uint32_t dependencies;
  bool needed;    ///< on a path to a wanted value, so it runs
  bool captured;  ///< one of its outputs was requested
  bool listed;
  bool failed;  ///< a node that it depends on failed
};

class States {
 public:
  States() = default;
  States(const States&) = delete;
  States& operator=(const States&) = delete;
  ~States() {
    for (const Chunk& chunk : chunks_) release(chunk);
  }

  /// The node's state. Creates it, and sets `*made`, if there is none.
  State& get(Node* node, bool* made) {
    Page& page = page_of(node->sequence / per_page);
    const std::size_t index = node->sequence % per_page;
    const std::uint64_t bit = std::uint64_t{1} << index;
    State* state = page.states + index;
    if ((page.occupied & bit) == 0) {
      page.occupied |= bit;
      *made = true;
      return *::new (static_cast<void*>(state))
          State{node, nullptr, nullptr, nullptr, 0, false, false, false, false};
    }
    for (;; state = state->chain) {
      if (state->node == node) {
        *made = false;
        return *state;
      }
      if (state->chain == nullptr) break;
    }
    auto* more = static_cast<State*>(take(sizeof(State)));
    *made = true;
    state->chain = ::new (static_cast<void*>(more))
        State{node, nullptr, nullptr, nullptr, 0, false, false, false, false};
    return *more;
  }
  /// The state of a node that was reached, or null.
  State* find(const Node* node) {
    Page* page = find_page(node->sequence / per_page);
    if (page == nullptr || (page->occupied >> (node->sequence % per_page) & 1U) == 0) return nullptr;
    for (State* state = page->states + node->sequence % per_page; state != nullptr; state = state->chain)
      if (state->node == node) return state;
    return nullptr;
  }
  template <class Visit>
  void for_each(const Visit& visit) {
    for (Page* page : pages_) {
      for (std::uint64_t left = page->occupied; left != 0; left &= left - 1) {
        State* state = page->states + std::countr_zero(left);
        for (; state != nullptr; state = state->chain) visit(*state);
      }
    }
  }

 private:
  static constexpr std::size_t per_page = 64;
  struct Page {
    std::uint64_t number;
    std::uint64_t occupied;
    State states[per_page];
  };
  struct Chunk {
    std::byte* data;
    std::size_t bytes;
  };

  Page& page_of(std::uint64_t number) {
    if (last_ != nullptr && last_->number == number) return *last_;
    Page* page = find_page(number);
    if (page == nullptr) page = add_page(number);
    last_ = page;
    return *page;
  }
  Page* find_page(std::uint64_t number) {
    if (last_ != nullptr && last_->number == number) return last_;
    if (table_.empty()) return nullptr;
    for (std::size_t i = home(number);; i = (i + 1) & (table_.size() - 1)) {
      if (table_[i] == nullptr) return nullptr;
      if (table_[i]->number == number) return table_[i];
    }
  }
  Page* add_page(std::uint64_t number) {
    if (pages_.size() == pages_.capacity()) pages_.reserve(2 * pages_.size() + 16);
    if (2 * (pages_.size() + 1) > table_.size()) grow();
    auto* page = static_cast<Page*>(take(sizeof(Page)));
    page->number = number;
    page->occupied = 0;
    pages_.push_back(page);
    enter(page);
    return page;
  }
  void grow() {
    std::vector<Page*> larger(table_.empty() ? 16 : 2 * table_.size(), nullptr);
    table_.swap(larger);
    for (Page* page : pages_) enter(page);
  }
  void enter(Page* page) {
    std::size_t i = home(page->number);
    while (table_[i] != nullptr) i = (i + 1) & (table_.size() - 1);
    table_[i] = page;
  }
  std::size_t home(std::uint64_t number) const {
    return static_cast<std::size_t>(number * 0x9e3779b97f4a7c15ULL >> 32) & (table_.size() - 1);
  }
  void* take(std::size_t bytes) {
    if (left_ < bytes) {
      const std::size_t next =
          std::max(bytes, std::min(chunks_.empty() ? bytes : 2 * chunks_.back().bytes, largest));
      if (chunks_.size() == chunks_.capacity()) chunks_.reserve(2 * chunks_.size() + 8);
      std::byte* data = next < tidu::detail::recycled_from
                            ? static_cast<std::byte*>(::operator new(next))
                            : static_cast<std::byte*>(tidu::detail::allocate_recycled(next));
      chunks_.push_back({data, next});
      at_ = data;
      left_ = next;
    }
    void* taken = at_;
    at_ += bytes;
    left_ -= bytes;
    return taken;
  }
  static void release(const Chunk& chunk) {
    if (chunk.bytes < tidu::detail::recycled_from) {
      ::operator delete(chunk.data);
    } else {
      tidu::detail::deallocate_recycled(chunk.data, chunk.bytes);
    }
  }
  static constexpr std::size_t largest = std::size_t{1} << 20;

  std::vector<Page*> pages_;
  std::vector<Page*> table_;  // open addressing by number; a power of two
  Page* last_ = nullptr;
  std::vector<Chunk> chunks_;
  std::byte* at_ = nullptr;
  std::size_t left_ = 0;
};

/// The state of a leaf in a call.
struct LeafState {
  Key key{};
  Node* node = nullptr;               ///< one of its nodes; one with a slot or hooks, if there is any
  Cotangent* cotangent = nullptr;     ///< or the first of those that wait to be added
  const PrimitiveSet* set = nullptr;  ///< of a node that reads it
  Type type;                          ///< of the cotangents that arrived
  std::uint32_t dependencies = 0;
  bool wanted = false;
  bool done = false;
  bool failed = false;
};

/// Leaves by key.
class Leaves {
 public:
  LeafState& get(Node* node) {
    if (last_ < list_.size() && list_[last_].key == node->first_key) return list_[last_];
    last_ = index_of(node->first_key);
    if (last_ == list_.size()) {
      LeafState leaf;
      leaf.key = node->first_key;
      leaf.node = node;
      if (list_.size() == list_.capacity()) list_.reserve(2 * list_.size() + 8);
      if (2 * (list_.size() + 1) > table_.size()) grow();
      list_.push_back(leaf);
      enter(static_cast<std::uint32_t>(last_));
    }
    return list_[last_];
  }
  /// As get, during discovery: keeps the best of the leaf's nodes, and others that may have hooks.
  LeafState& reach(Node* node) {
    LeafState& leaf = get(node);
    if (leaf.node != node) choose(leaf, node);
    return leaf;
  }
  /// Further nodes of a leaf that may have hooks, by its index; in the order of discovery.
  using Others = std::vector<std::pair<std::uint32_t, Node*>>;
  const Others& others() const { return others_; }
  LeafState* find(const Key& key) {
    const std::size_t index = index_of(key);
    return index < list_.size() ? &list_[index] : nullptr;
  }
  std::vector<LeafState>& list() { return list_; }
  std::uint32_t index(const LeafState& leaf) const {
    return static_cast<std::uint32_t>(&leaf - list_.data());
  }

 private:
  static bool has_extension(const Node& node) {
    return node.extension.load(std::memory_order_acquire) != nullptr;
  }
  static int rank(const Node& node) {
    return node.accumulator() != nullptr ? 2 : (has_extension(node) ? 1 : 0);
  }
  [[gnu::noinline]] void choose(LeafState& leaf, Node* node) {
    if (rank(*node) > rank(*leaf.node)) std::swap(leaf.node, node);
    if (!has_extension(*node)) return;
    const Others::value_type other{index(leaf), node};
    if (std::find(others_.begin(), others_.end(), other) == others_.end()) others_.push_back(other);
  }
  std::size_t home(const Key& key) const { return std::hash<Key>()(key) & (table_.size() - 1); }
  std::size_t index_of(const Key& key) const {
    if (table_.empty()) return list_.size();
    for (std::size_t i = home(key);; i = (i + 1) & (table_.size() - 1)) {
      if (table_[i] == no_index) return list_.size();
      if (list_[table_[i]].key == key) return table_[i];
    }
  }
  void grow() {
    std::vector<std::uint32_t> larger(table_.empty() ? 16 : 2 * table_.size(), no_index);
    table_.swap(larger);
    for (std::uint32_t i = 0; i < list_.size(); ++i) enter(i);
  }
  void enter(std::uint32_t index) {
    std::size_t i = home(list_[index].key);
    while (table_[i] != no_index) i = (i + 1) & (table_.size() - 1);
    table_[i] = index;
  }

  std::vector<LeafState> list_;
  std::vector<std::uint32_t> table_;
  std::size_t last_ = 0;
  Others others_;
};

}  // namespace tidu::eager::detail
