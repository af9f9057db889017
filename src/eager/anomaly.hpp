// anomaly.hpp - anomaly mode: checks that values of the forward and cotangents of backward are finite, and
// explains the first one that is not. Called in anomaly mode only.
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

/// The first finding about values of one backward call, from any call's query of the executor.
class Findings {
 public:
  /// Keeps the first error until the call ends; later findings are ignored.
  void add(const NonFiniteError& error);
  void end();
  /// Throws the first error.
  void raise();

 private:
  std::mutex mutex_;
  bool ended_ = false;
  std::optional<NonFiniteError> first_;
};

/// The executor and the findings of a backward call.
struct Looker {
  const ErasedExecutor& host;
  std::shared_ptr<Findings> findings;
};

/// Queries the executor about all checked values. Throws the first error of this call or of forward values.
void ask(const Looker& looker);

/// Throws NonFiniteError for the first output that is not finite.
void check_forward(const ErasedExecutor& host, const RecorderCore::Request& request);
/// Checks a seed.
void check_seed(const Looker& looker, const Cotangent& seed, const Node& root);

/// Checks the sum of finite cotangents. `sequence`: of the node that sent the last of them; 0: a call, into a
/// leaf's slot.
void check_sum(const Looker& looker, const Cotangent& sum, std::uint64_t sequence);

/// Checks the cotangent of a value after its hooks.
void check_hooked(const Looker& looker, const Cotangent& cotangent, const Node& node, std::size_t slot);

/// Checks the results of a node, by edge, after the hooks that follow it.
void check_sent(const Looker& looker, std::span<Cotangent* const> outgoing, const Node& node);

/// The nodes from a root to a node that backward runs, both included.
struct Path {
  static constexpr std::size_t named = 8;  ///< number of nodes that messages name at each end of a long path
  std::vector<const Node*> first;          ///< of a long path
  std::size_t omitted = 0;                 ///< between first and last
  std::vector<const Node*> last;           ///< all of a short path
};

/// The state of a node when one of its cotangents is not finite.
struct Suspect {
  const Looker& looker;
  Node& node;
  std::function<Path()> path;  ///< computes the path to the node, for messages
  std::span<Cotangent* const> incoming;
  std::span<Cotangent* const> outgoing;  ///< by edge; null: absent
  /// Computes the text of first_within, for messages.
  const std::function<std::string()>& within;
};
/// Throws NonFiniteError if one of `outgoing` is not finite. It names the first saved operand that is not
/// finite, in forward order among the `reached` nodes, or else the backward of this node.
void check_backward(const Suspect& suspect, const std::function<std::vector<Node*>()>& reached);

/// Names the operation of a graph of several that first gives a value that is not finite, in a line of its
/// own. Empty if that is not known, as for a single operation. Runs the graph again, with all its values as
/// results.
std::string first_within(const ErasedExecutor& host, const RecorderCore::Request& request);
/// As above for the backward of a node, whose transposed graph got `inputs`.
std::string first_within(const ErasedExecutor& host, Node& node, const BackwardProgram& program,
                         std::span<const void* const> inputs);

/// Adds a node that was recorded from `begin` until now.
void profile_record(Profile& profile, const ErasedExecutor* host, const Node& node,
                    const RecorderCore::Request& request, std::int64_t begin);

}  // namespace tidu::eager::detail
