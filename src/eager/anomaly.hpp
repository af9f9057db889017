// anomaly.hpp - where values are looked at that may not be finite; called in anomaly mode alone.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "eager/node.hpp"
#include "tidu/eager/anomaly.hpp"
#include "tidu/eager/host.hpp"
#include "tidu/eager/profile.hpp"
#include "tidu/eager/recorder.hpp"

namespace tidu::eager::detail {

/// What was found of the values of one backward call, by whichever call asked the executor first.
class Findings {
 public:
  /// Keeps the first until the call ends: what is found out of its values after that concerns nobody.
  void add(const NonFiniteError& error);
  void end();
  /// Throws the first.
  void raise();

 private:
  std::mutex mutex_;
  bool ended_ = false;
  std::optional<NonFiniteError> first_;
};

/// Where a backward call has its values looked at.
struct Looker {
  const ErasedExecutor& host;
  std::shared_ptr<Findings> findings;
};

/// Asks the executor for all that is looked at, and throws what was first found of this call or of values of
/// the forward.
void ask(const Looker& looker);

/// Throws NonFiniteError for the first output that is not finite.
void check_forward(const ErasedExecutor& host, const RecorderCore::Request& request);
/// Of a seed.
void check_seed(const Looker& looker, const Cell& seed, const Node& root);

/// Of the sum of finite cotangents, the last of them from the node of that sequence number; 0: from a call,
/// into a slot.
void check_sum(const Looker& looker, const Cell& sum, std::uint64_t sequence);

/// Of the cotangent of a value, as hooks left it.
void check_hooked(const Looker& looker, const Cell& cell, const Node& node, std::size_t slot);

/// Of what a node gives, by edge, as hooks after it left it.
void check_sent(const Looker& looker, std::span<Cell* const> outgoing, const Node& node);

/// The nodes from a root to one that backward runs, both included.
struct Path {
  static constexpr std::size_t named = 8;  ///< of a long path that many of its beginning and of its end
  std::vector<const Node*> first;          ///< of a long path
  std::size_t omitted = 0;                 ///< between first and last
  std::vector<const Node*> last;           ///< all of a short path
};

/// What backward saw of a node when one of its cotangents turned out not to be finite.
struct Suspect {
  const Looker& looker;
  Node& node;
  std::function<Path()> path;  ///< to the node; asked for where something is said of it
  std::span<Cell* const> incoming;
  std::span<Cell* const> outgoing;  ///< by edge; null: absent
  /// Asked for what first_within says, when it is to be said.
  const std::function<std::string()>& within;
};
/// Throws NonFiniteError when one of `outgoing` is not finite: of the first saved operand in forward order
/// when one of the nodes that were reached holds such, else of the backward of this node.
void check_backward(const Suspect& suspect, const std::function<std::vector<Node*>()>& reached);

/// Which operation of a graph of several first gives what is not finite, in a line of its own; empty where
/// nobody can say, as of a single operation. Runs the graph again, with all that it computes as results.
std::string first_within(const ErasedExecutor& host, const RecorderCore::Request& request);
/// The same of the backward of a node, which was given `inputs` for its transposed graph.
std::string first_within(const ErasedExecutor& host, Node& node, const BackwardProgram& program,
                         std::span<const void* const> inputs);

/// Of a node that was recorded from `begin` until now.
void profile_record(Profile& profile, const ErasedExecutor* host, const Node& node,
                    const RecorderCore::Request& request, std::int64_t begin);

}  // namespace tidu::eager::detail
