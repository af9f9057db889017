// node_runner.hpp - NodeRunner: runs one node of a backward call: its hooks, the residuals that were not
// saved, its transposed graph, and the record of these for higher orders.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "eager/arrivals.hpp"
#include "eager/call_hooks.hpp"
#include "eager/captures.hpp"
#include "eager/contributions.hpp"
#include "eager/cotangents.hpp"
#include "eager/operand_buffer.hpp"
#include "eager/reached.hpp"
#include "tidu/eager/profile.hpp"

namespace tidu::eager::detail {

/// Has no state of its own. Threads may run different nodes at the same time.
class NodeRunner {
 public:
  /// The state of a call that a node takes cotangents from, or notes something in.
  struct Parts {
    const BackwardRequest& request;
    const CotangentOps& cotangents;
    ReachedNodes& reached;
    const Contributions& contributions;
    Captures& captures;
    CallHooks& hooks;
    Arrivals& arrivals;
  };
  /// The parts must outlive this object.
  explicit NodeRunner(const Parts& parts);

  /// Runs a node whose cotangents have all arrived. `outgoing` is by edge, without cotangents; `moves`: move
  /// those of the results to the devices of their targets.
  void run(State& state, std::span<Cotangent*> outgoing, bool moves) const;

 private:
  void run_with_hooks(State& state, std::span<Cotangent*> incoming, std::span<Cotangent*> outgoing,
                      const char*& phase) const;
  void move_outgoing(const Node& node, std::span<Cotangent*> outgoing) const;
  BackwardProgram& program_of(const Node& node, std::span<Cotangent* const> incoming,
                              std::shared_ptr<CachedLinearization>& keep) const;
  void check_versions(const Node& node, const BackwardProgram& program) const;
  void run_transposed(Node& node, std::span<Cotangent*> incoming, std::span<Cotangent*> outgoing,
                      const char*& phase) const;
  void compute_residuals(const Node& node, BackwardProgram& program, OperandBuffer& computed) const;
  void make_cotangents(const Node& node, const BackwardProgram& program, OperandBuffer& results,
                       std::span<Cotangent*> outgoing, std::span<Cotangent*> made) const;
  void check_cotangents(const Node& node, std::span<Cotangent* const> made) const;
  void record(const Node& node, BackwardProgram& program, std::span<Cotangent* const> incoming,
              std::byte* computed, std::span<Cotangent* const> results) const;
  void look_for_anomaly(Node& node, std::span<Cotangent* const> incoming,
                        std::span<Cotangent* const> outgoing,
                        const std::function<std::string()>& within) const;
  std::int64_t now() const { return options_.profile != nullptr ? options_.profile->now() : 0; }
  void profile(ProfilePhase phase, const Node& node, std::byte* operands, std::size_t count,
               std::int64_t begin) const;

  const BackwardRequest& request_;
  const ErasedExecutor& host_;
  const BackwardOptions& options_;
  const OperandTable& table_;
  const CotangentOps& cotangents_;
  ReachedNodes& reached_;
  const Contributions& contributions_;
  Captures& captures_;
  CallHooks& hooks_;
  Arrivals& arrivals_;
};

}  // namespace tidu::eager::detail
