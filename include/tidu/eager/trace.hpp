// trace.hpp - Trace: a counted handle to the tape node that made a value; TraceRef: the same, borrowed; and
// NodeView: read access to a node. A tape is a set of nodes that hold their producers: it is freed, in
// constant stack, with the last handle.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "tidu/eager/executor.hpp"
#include "tidu/eager/key.hpp"
#include "tidu/eager/recorded_graph.hpp"
#include "tidu/graph/counter.hpp"
#include "tidu/graph/value.hpp"

namespace tidu::eager {

class Trace;

namespace detail {
struct Node;
struct NodeCount {
  std::atomic<std::uint32_t> references{1};
};
void destroy(NodeCount* node) noexcept;
inline void retain(NodeCount* node) noexcept { tidu::detail::count_up(node->references); }
inline void release(NodeCount* node) noexcept {
  if (tidu::detail::count_down(node->references) == 1) destroy(node);
}
Node* node_of(const Trace& trace) noexcept;
}  // namespace detail

/// Holds a node. Empty for a value that was not recorded.
class Trace {
 public:
  Trace() = default;
  Trace(const Trace& other) noexcept : node_(other.node_) {
    if (node_ != nullptr) detail::retain(node_);
  }
  Trace(Trace&& other) noexcept : node_(std::exchange(other.node_, nullptr)) {}
  Trace& operator=(Trace other) noexcept {
    std::swap(node_, other.node_);
    return *this;
  }
  ~Trace() {
    if (node_ != nullptr) detail::release(node_);
  }
  explicit operator bool() const { return node_ != nullptr; }
  friend bool operator==(const Trace& a, const Trace& b) { return a.node_ == b.node_; }

  /// For the eager layer itself.
  static Trace adopt(detail::NodeCount* node) noexcept {
    Trace trace;
    trace.node_ = node;
    return trace;
  }
  static Trace share(detail::NodeCount* node) noexcept {
    if (node != nullptr) detail::retain(node);
    return adopt(node);
  }
  detail::NodeCount* node() const { return node_; }

 private:
  detail::NodeCount* node_ = nullptr;
};

/// A borrowed node, for arguments: another handle must keep it alive.
class TraceRef {
 public:
  TraceRef() = default;
  /// Borrows; the trace must live on.
  TraceRef(const Trace& trace) : node_(trace.node()) {}
  /// For the eager layer itself.
  explicit TraceRef(detail::NodeCount* node) : node_(node) {}
  explicit operator bool() const { return node_ != nullptr; }
  friend bool operator==(const TraceRef& a, const TraceRef& b) { return a.node_ == b.node_; }
  detail::NodeCount* node() const { return node_; }
  /// A handle of one's own.
  Trace hold() const { return Trace::share(node_); }

 private:
  detail::NodeCount* node_ = nullptr;
};

/// One output of a recorded invocation; an output that was not recorded is {key}.
struct EagerOutput {
  Key key;                        ///< who it is on the tape
  Trace trace;                    ///< of the invocation; empty when no gradient can flow through it
  bool requires_grad = false;     ///< can a gradient flow through it?
  std::uint32_t output_slot = 0;  ///< which output of the invocation
};

/// Reads a node; valid while a handle to it exists. Functions that take an index throw Error
/// (invalid_argument) for one out of range.
class NodeView {
 public:
  /// A view of the node of that trace. Throws Error (invalid_argument) when the trace is empty.
  explicit NodeView(TraceRef trace) : node_(trace) {
    if (!trace) refuse_empty();
  }

  bool is_leaf() const;
  /// Name of the primitive, or of the composite graph; the name of a leaf, or empty.
  std::string name() const;
  /// "file:line" of the invocation in the user's program, or empty.
  std::string where() const;
  /// Larger than that of every node whose outputs this one reads; 0 for a leaf.
  std::uint64_t sequence() const;
  Placement placement() const;
  /// Nothing for a leaf.
  std::optional<RecordedGraph> graph() const;
  std::size_t num_outputs() const;
  /// Key of one output.
  Key output_key(std::size_t slot) const;
  /// Recorded inputs: those that require a gradient.
  std::size_t num_edges() const;
  /// Position of that recorded input among all inputs.
  std::size_t edge_input(std::size_t edge) const;
  /// The node that made that recorded input.
  TraceRef edge_node(std::size_t edge) const;
  /// Which output of that node the recorded input is.
  std::uint32_t edge_slot(std::size_t edge) const;
  /// Operands that the node keeps for backward; 0 once they were freed.
  std::size_t num_saved() const;
  /// The name of the saved operand: "input 0 (f64[3])", "output 0 (f64[3])".
  std::string saved_name(std::size_t saved) const;
  bool freed() const;
  /// "mul, recorded at loss.cpp:17": how messages name the node.
  std::string describe() const;
  TraceRef trace() const { return node_; }

 private:
  [[noreturn]] static void refuse_empty();
  TraceRef node_;
};

/// Gives an output a name that messages use ("loss"). Throws Error (invalid_argument) when the key is not one
/// of the trace's outputs.
void set_name(TraceRef trace, const Key& key, std::string name);
/// The name that was given, or empty.
std::string name_of(TraceRef trace, const Key& key);

}  // namespace tidu::eager
