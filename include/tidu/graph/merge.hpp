// merge.hpp - lookup of values by key over several graphs, and the merge of several graphs into one. An
// external of one graph that another graph defines becomes an ordinary value, and equal operations become
// one.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "tidu/graph/graph.hpp"

namespace tidu {

/// A value of one graph of a list.
struct LocatedValue {
  std::size_t graph = 0;  ///< position in the list
  ValueId value = 0;      ///< of that graph
  friend bool operator==(const LocatedValue&, const LocatedValue&) = default;
};

/// Finds values by key, in constant time each, among the inputs and results of some graphs; externals are no
/// definitions. If several values are equal, it finds the first one, by graph and then by id.
class KeyIndex {
 public:
  /// Linear in the graphs.
  explicit KeyIndex(std::span<const Graph> graphs);
  /// The definition of the value with that key, or nothing.
  std::optional<LocatedValue> find(const ValueKey& key) const;
  const std::vector<Graph>& graphs() const { return graphs_; }

 private:
  struct Slot {
    std::uint32_t graph = no_index;
    ValueId value = 0;
  };
  std::size_t home(const ValueKey& key) const { return (key.low ^ key.high >> 32) & (slots_.size() - 1); }
  std::vector<Graph> graphs_;
  std::vector<Slot> slots_;  // open addressing; a power of two
};

/// The graph and id that define the value with that key, or nothing. Linear in the graphs: for many keys make
/// a KeyIndex.
std::optional<LocatedValue> resolve(std::span<const Graph> graphs, const ValueKey& key);

/// Replaces an input by a value of one of the graphs.
struct Substitution {
  InputKey input;  ///< the input that disappears
  ValueKey value;  ///< its replacement
};

/// One graph that computes `outputs`, values of any of the graphs; without them all outputs of all graphs, in
/// order. Inputs of equal key are one input, in the order in which the graphs first name them; substituted
/// ones are gone. Externals that a graph defines are resolved, in any direction between the graphs; others
/// stay externals. Equal operations are merged, dead ones dropped, impure ones kept once each. Keys of
/// substitutions and outputs are those that the graphs give. Linear in the graphs, and without recursion.
/// Throws Error: `type` where an external, a substitution or inputs of one key have different types;
/// `invalid_argument` for an unknown input or value, an input that is substituted twice, or values that
/// through substitution depend on themselves.
Graph materialize_merge(std::span<const Graph> graphs, std::span<const Substitution> substitutions = {});
Graph materialize_merge(std::span<const Graph> graphs, std::span<const ValueKey> outputs,
                        std::span<const Substitution> substitutions);

}  // namespace tidu
