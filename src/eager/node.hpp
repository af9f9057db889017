// node.hpp - Node: the nodes of a tape. The node of an invocation is one block of memory: header, edges (one
// for each input that requires a gradient), saved operands, and their versions. A leaf is a block of another
// kind.
//
// Note [Freed]: `uses` counts the backward calls that read the saved operands at the moment. freed_bit
// requests their destruction: the last call that leaves after it was set destroys them, so one call may free
// operands that another one reads. dropped_bit says that they are destroyed.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "eager/cached_graph.hpp"
#include "graph/light_mutex.hpp"
#include "tidu/eager/hooks.hpp"
#include "tidu/eager/operands.hpp"
#include "tidu/eager/trace.hpp"
#include "tidu/graph/pool.hpp"
#include "tidu/graph/value.hpp"

namespace tidu::eager::detail {

struct Edge {
  Node* target;  ///< holds a reference
  std::uint32_t slot;
};

/// The hooks of one node, in the order of execution: by slot, then by time of addition. Handles may outlive
/// the node.
class HookList {
 public:
  struct Entry {
    HookKind kind;
    std::uint32_t slot;
    std::atomic<bool> removed{false};
    UntypedHook hook;
  };
  using Hooks = std::vector<std::shared_ptr<Entry>>;
  using Position = std::pair<std::uint32_t, std::uint64_t>;  ///< slot, number of hooks added before

  Position add(std::shared_ptr<Entry> entry);
  /// Removes the hook; it is destroyed when no call runs it any more.
  void remove(Position place);
  /// The hooks for one call, which later changes do not affect; null: none. Created on the first call after a
  /// change.
  std::shared_ptr<const Hooks> snapshot();

 private:
  std::mutex mutex_;
  std::map<Position, std::shared_ptr<Entry>> entries_;
  std::uint64_t added_ = 0;
  std::shared_ptr<const Hooks> made_;
};

/// Data that few nodes have: hooks and names.
struct NodeExtension {
  std::mutex mutex;
  std::shared_ptr<HookList> hooks;
  std::vector<std::pair<std::uint32_t, std::string>> names;

  std::shared_ptr<const HookList::Hooks> snapshot();
  std::shared_ptr<HookList> hooks_or_make();
};

/// The slot of a Leaf, in which its gradient accumulates.
struct Accumulator {
  explicit Accumulator(const OperandTable& operands) : table(operands) {}
  ~Accumulator();
  const OperandTable& table;
  tidu::detail::LightMutex mutex;
  Cotangent* gradient = nullptr;
  std::uint64_t changes = 0;
  bool closed = false;  ///< the Leaf is gone: nothing could read or clear the slot
};

struct Node : NodeCount {
  static constexpr std::uint32_t freed_bit = 0x80000000U;
  static constexpr std::uint32_t dropped_bit = 0x40000000U;
  static constexpr std::uint64_t no_version = ~std::uint64_t{0};  ///< of a saved operand without count

  std::atomic<std::uint32_t> uses{0};
  std::uint64_t sequence = 0;                      ///< 0: a leaf
  Key first_key{};                                 ///< of output 0; its source is the recorder's
  const Specialization* specialization = nullptr;  ///< null: a leaf
  const OperandTable* table = nullptr;
  const char* file = nullptr;
  std::uint32_t line = 0;
  std::uint32_t device = 0;
  std::uint64_t stream = 0;
  std::atomic<NodeExtension*> extension{nullptr};
  std::uint32_t num_edges = 0;
  std::uint32_t num_passive = 0;  ///< further edges, to blocked nodes; only explain() reads them
  std::uint32_t num_saved = 0;
  bool has_versions = false;  ///< does any saved operand have one?
  bool blocked = false;       ///< kept for explain() only: no gradient flows through it

  bool is_leaf() const { return specialization == nullptr; }
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
  /// The operand type of its cotangents; null: a leaf without a slot, with any type.
  const OperandTable* operands() const {
    if (!is_leaf()) return table;
    return accumulator() != nullptr ? &accumulator()->table : nullptr;
  }
  /// Throws Error (invalid_argument) unless the operand type is `others`. `what` names the other value, such
  /// as "root 0".
  void require_operands(const OperandTable& others, const std::string& what) const {
    const OperandTable* mine = operands();
    if (mine != nullptr && !same_operands(*mine, others)) refuse_operands(others, what);
  }
  [[noreturn]] void refuse_operands(const OperandTable& others, const std::string& what) const;
  Placement placement() const { return {device, stream}; }
  std::uint32_t num_outputs() const { return is_leaf() ? 1 : specialization->num_outputs(); }
  Key key_of(std::uint32_t slot) const { return {first_key.source, first_key.counter + slot}; }
  NodeExtension& extension_or_make();
  std::string where() const;
  std::string name() const;
  std::string describe() const;
  bool freed() const { return (uses.load(std::memory_order_acquire) & freed_bit) != 0; }

  /// Begins to read the saved operands; false if they are freed.
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
  /// Between enter() and leave(): frees the saved operands after the last reader has left.
  void free() noexcept {
    if (num_saved != 0) uses.fetch_or(freed_bit, std::memory_order_acq_rel);
  }

  /// The same without enter() and leave().
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

  /// Bytes of the whole block.
  std::size_t bytes() const {
    if (is_leaf()) return sizeof(Node) + 16;
    return bytes_for(num_edges + num_passive, num_saved, table->size, has_versions);
  }
  /// Size of the block of an invocation. `versions`: does it store versions of saved operands?
  static constexpr std::size_t bytes_for(std::size_t edges, std::size_t saved, std::size_t operand_size,
                                         bool versions) {
    return sizeof(Node) + edges * sizeof(Edge) + round(saved * operand_size) +
           (versions ? saved * sizeof(std::uint64_t) : 0);
  }
  /// Allocates the node of an invocation. Edges, saved operands and versions are not initialized. Throws
  /// std::bad_alloc.
  static Node* make(const Specialization& specialization, const OperandTable& table, std::size_t passive,
                    std::size_t saved, bool versions) {
    const std::size_t edges = specialization.edges.size();
    Node* const node =
        ::new (tidu::detail::pool_allocate(bytes_for(edges + passive, saved, table.size, versions))) Node;
    node->specialization = &specialization;
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
Cotangent* make_cotangent(const OperandTable& table, Type type);
Cotangent* copy_cotangent(const OperandTable& table, Type type, const void* operand);
/// Records the cotangent as the user says; a leaf may have no trace.
void set_recorded(Cotangent& cotangent, const EagerOutput& recorded);
/// Destroys the operand and releases the trace.
void destroy_cotangent(const OperandTable& table, Cotangent* cotangent) noexcept;
/// Frees the memory only.
void free_cotangent(const OperandTable& table, Cotangent* cotangent) noexcept;

/// Guards reads of a node's saved operands during its lifetime, unless they were freed.
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

/// The name of an input of an invocation, with or without a gradient; empty if it has none.
std::string name_of_input(const Node& node, std::size_t input);
/// ` "w"`, or nothing for an empty name.
std::string after_space(std::string_view name);

}  // namespace tidu::eager::detail
