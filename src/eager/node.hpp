// node.hpp - the nodes of a tape. A node of an invocation is one block: the header, its edges (one for each
// input that requires a gradient), the saved operands, and their versions. A leaf is a block of its own kind.
//
// Note [Freed]: `uses` counts the backward calls that read the saved operands just now; freed_bit says that
// they are to go. Whoever leaves last after the bit was set destroys them, so that one call may free what
// another one is reading; dropped_bit says that it was done.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "eager/template.hpp"
#include "graph/light_mutex.hpp"
#include "tidu/eager/hooks.hpp"
#include "tidu/eager/operands.hpp"
#include "tidu/eager/trace.hpp"
#include "tidu/graph/pool.hpp"
#include "tidu/graph/value.hpp"

namespace tidu::eager::detail {

struct Edge {
  Node* target;  ///< held
  std::uint32_t slot;
};

/// The hooks of one node, in the order in which they run: by slot, then as they were added. Handles may
/// outlive the node.
class HookList {
 public:
  struct Entry {
    HookKind kind;
    std::uint32_t slot;
    std::atomic<bool> removed{false};
    UntypedHook hook;
  };
  using Hooks = std::vector<std::shared_ptr<Entry>>;
  using Position = std::pair<std::uint32_t, std::uint64_t>;  ///< slot, how many were added before

  Position add(std::shared_ptr<Entry> entry);
  /// Lets go of the hook, as soon as no call runs it any more.
  void remove(Position place);
  /// What a call runs, which later changes leave alone; null: none. Made at the first call after a change.
  std::shared_ptr<const Hooks> snapshot();

 private:
  std::mutex mutex_;
  std::map<Position, std::shared_ptr<Entry>> entries_;
  std::uint64_t added_ = 0;
  std::shared_ptr<const Hooks> made_;
};

/// What few nodes have: hooks and names.
struct NodeExtension {
  std::mutex mutex;
  std::shared_ptr<HookList> hooks;
  std::vector<std::pair<std::uint32_t, std::string>> names;

  std::shared_ptr<const HookList::Hooks> snapshot();
  std::shared_ptr<HookList> hooks_or_make();
};

/// The slot of a Leaf.
struct Accumulator {
  explicit Accumulator(const OperandTable& operands) : table(operands) {}
  ~Accumulator();
  const OperandTable& table;
  tidu::detail::LightMutex mutex;
  Cell* cell = nullptr;
  std::uint64_t changes = 0;
  bool closed = false;  ///< the Leaf is gone: nobody would read or clear it
};

struct Node : NodeCount {
  static constexpr std::uint32_t freed_bit = 0x80000000U;
  static constexpr std::uint32_t dropped_bit = 0x40000000U;
  static constexpr std::uint64_t no_version = ~std::uint64_t{0};  ///< of a saved operand that counts none

  std::atomic<std::uint32_t> uses{0};
  std::uint64_t sequence = 0;        ///< 0: a leaf
  Key first_key{};                   ///< of output 0; its source is the recorder's
  const Variant* variant = nullptr;  ///< null: a leaf
  const OperandTable* table = nullptr;
  const char* file = nullptr;
  std::uint32_t line = 0;
  std::uint32_t device = 0;
  std::uint64_t stream = 0;
  std::atomic<NodeExtension*> extension{nullptr};
  std::uint32_t num_edges = 0;
  std::uint32_t num_passive = 0;  ///< further edges, to blocked nodes, which explain() alone reads
  std::uint32_t num_saved = 0;
  bool has_versions = false;  ///< of one saved operand at least
  bool blocked = false;       ///< kept for explain() only: no gradient flows through it

  bool is_leaf() const { return variant == nullptr; }
  Edge* edges() { return reinterpret_cast<Edge*>(this + 1); }
  const Edge* edges() const { return reinterpret_cast<const Edge*>(this + 1); }
  std::byte* saved_at() { return reinterpret_cast<std::byte*>(edges() + num_edges + num_passive); }
  void* saved(std::size_t i) { return saved_at() + i * table->size; }
  const void* saved(std::size_t i) const { return const_cast<Node*>(this)->saved(i); }
  std::uint64_t* versions() {
    return reinterpret_cast<std::uint64_t*>(saved_at() + round(num_saved * table->size));
  }
  Accumulator*& accumulator() { return *reinterpret_cast<Accumulator**>(this + 1); }
  Accumulator* accumulator() const { return const_cast<Node*>(this)->accumulator(); }
  /// Which operands its cotangents are; null: a leaf without a slot, of any.
  const OperandTable* operands() const {
    if (!is_leaf()) return table;
    return accumulator() != nullptr ? &accumulator()->table : nullptr;
  }
  /// Throws Error (invalid_argument) unless they are those of `others`. `what`, say "root 0", is of `others`.
  void require_operands(const OperandTable& others, const std::string& what) const {
    const OperandTable* mine = operands();
    if (mine != nullptr && !same_operands(*mine, others)) refuse_operands(others, what);
  }
  [[noreturn]] void refuse_operands(const OperandTable& others, const std::string& what) const;
  Placement placement() const { return {device, stream}; }
  std::uint32_t num_outputs() const { return is_leaf() ? 1 : variant->num_outputs(); }
  Key key_of(std::uint32_t slot) const { return {first_key.source, first_key.counter + slot}; }
  NodeExtension& extension_or_make();
  std::string where() const;
  std::string name() const;
  std::string describe() const;
  bool freed() const { return (uses.load(std::memory_order_acquire) & freed_bit) != 0; }

  /// Begins to read saved operands; false when they are freed.
  bool enter() noexcept {
    if (num_saved == 0) return true;
    if ((tidu::detail::count_up(uses, 1U, std::memory_order_acquire) & freed_bit) == 0) return true;
    leave();
    return false;
  }
  void leave() noexcept {
    if (num_saved == 0 || tidu::detail::count_down(uses) != (freed_bit | 1)) return;
    std::uint32_t expected = freed_bit;
    if (uses.compare_exchange_strong(expected, freed_bit | dropped_bit, std::memory_order_acq_rel))
      drop_saved();
  }
  /// While entered: the saved operands go when nobody reads them any more.
  void free() noexcept {
    if (num_saved != 0) uses.fetch_or(freed_bit, std::memory_order_acq_rel);
  }

  /// The same where nobody has entered, all at once.
  void free_now() noexcept {
    if (num_saved == 0) return;
    std::uint32_t expected = 0;
    if (TIDU_SINGLE_THREADED && uses.load(std::memory_order_relaxed) == 0) {
      uses.store(freed_bit | dropped_bit, std::memory_order_relaxed);
      return drop_saved();
    }
    if (uses.compare_exchange_strong(expected, freed_bit | dropped_bit, std::memory_order_acq_rel))
      return drop_saved();
    if (!enter()) return;
    free();
    leave();
  }

  /// Of the whole block.
  std::size_t bytes() const {
    if (is_leaf()) return sizeof(Node) + 16;
    return bytes_for(num_edges + num_passive, num_saved, table->size, has_versions);
  }
  /// Of that of an invocation; `versions`: of saved operands, are they kept?
  static constexpr std::size_t bytes_for(std::size_t edges, std::size_t saved, std::size_t operand_size,
                                         bool versions) {
    return sizeof(Node) + edges * sizeof(Edge) + round(saved * operand_size) +
           (versions ? saved * sizeof(std::uint64_t) : 0);
  }
  /// One of an invocation in a block of its own, which nobody has entered yet, and whose edges, saved
  /// operands and versions are still to be put there. Throws std::bad_alloc.
  static Node* make(const Variant& variant, const OperandTable& table, std::size_t passive, std::size_t saved,
                    bool versions) {
    const std::size_t edges = variant.edges.size();
    Node* const node =
        ::new (tidu::detail::pool_allocate(bytes_for(edges + passive, saved, table.size, versions))) Node;
    node->variant = &variant;
    node->table = &table;
    node->num_edges = static_cast<std::uint32_t>(edges);
    node->num_passive = static_cast<std::uint32_t>(passive);
    node->num_saved = static_cast<std::uint32_t>(saved);
    node->has_versions = versions;
    return node;
  }
  static constexpr std::size_t round(std::size_t bytes) { return (bytes + 15) / 16 * 16; }

 private:
  void drop_saved() noexcept;
  friend void destroy(NodeCount* node) noexcept;
};
static_assert(sizeof(Node) % 16 == 0);

Node* make_leaf(const Key& key, Placement placement);
inline Node* node_of(NodeCount* count) noexcept { return static_cast<Node*>(count); }
inline const Node* node_of(const NodeCount* count) noexcept { return static_cast<const Node*>(count); }
inline TraceRef ref(const Node* node) { return TraceRef(const_cast<Node*>(node)); }

/// The operand is not constructed yet.
Cell* make_cell(const OperandTable& table, Type type);
Cell* copy_cell(const OperandTable& table, Type type, const void* operand);
/// The cell holds what the user says it was recorded as; a leaf may come without a trace.
void set_recorded(Cell& cell, const EagerOutput& recorded);
/// Destroys the operand and lets go of the trace.
void destroy_cell(const OperandTable& table, Cell* cell) noexcept;
/// The memory alone.
void free_cell(const OperandTable& table, Cell* cell) noexcept;

/// Reads saved operands of a node while it lives, unless they are freed.
class ReadGuard {
 public:
  explicit ReadGuard(Node& node) : node_(node), entered_(node.enter()) {}
  ReadGuard(const ReadGuard&) = delete;
  ReadGuard& operator=(const ReadGuard&) = delete;
  ~ReadGuard() {
    if (entered_) node_.leave();
  }
  bool entered() const { return entered_; }

 private:
  Node& node_;
  bool entered_;
};

/// The name that an input of an invocation was given, or an empty one: also of inputs without a gradient.
std::string name_of_input(const Node& node, std::size_t input);
/// ` "w"`, or nothing of an empty name.
std::string after_space(std::string_view name);

}  // namespace tidu::eager::detail
