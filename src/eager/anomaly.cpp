// anomaly.cpp - finds the first value that is not finite, and reports it.
//
// Note [Checks on a device]: an executor of a device need not wait for it at every operation. It
// keeps a list of values to check, in the order in which they were enqueued, and the end of the backward call
// checks all of them. The report then names the operation where a value first was not finite; the elements
// may be gone, so it does not show them. A check may find values of another call, beside this one or around
// it: their reports are stored with that call, which finds them when it checks. A call that fails does not
// check, so later findings for it are dropped.
#include "eager/anomaly.hpp"

#include <algorithm>
#include <utility>

namespace tidu::eager::detail {
namespace {

using tidu::detail::printable;
using tidu::detail::str;
using Phase = NonFiniteError::Phase;

bool bad(const ErasedExecutor& host, const void* operand) {
  const std::optional<bool> finite = host.is_finite(operand);
  return finite && !*finite;
}

// The call that is asking on this thread.
thread_local Findings* asking = nullptr;

// See Note [Checks on a device]. A value that belongs to no call is reported to the call that
// checks.
bool watched(const Looker& looker, const void* operand, Phase phase, std::string name, std::string where,
             std::uint64_t sequence, std::string message) {
  return looker.host.watch_finite(
      operand, [findings = looker.findings, phase, name = std::move(name), where = std::move(where), sequence,
                message = std::move(message)] {
        const NonFiniteError error(phase, name, where, sequence, message + " is not finite");
        Findings* const concerned = findings != nullptr ? findings.get() : asking;
        if (concerned == nullptr) throw error;
        concerned->add(error);
      });
}

std::string at(const Node& node) {
  return node.file == nullptr ? std::string() : str(" (", printable(node.where()), ')');
}

[[noreturn]] void raise(Phase phase, const Node& node, const std::string& message) {
  throw NonFiniteError(phase, node.name(), node.where(), node.sequence, message);
}

// ` "w"`, where it has a name.
std::string name_of(const RecordInput& input) {
  return input.node != nullptr && input.key ? after_space(eager::name_of(TraceRef(input.node), input.key))
                                            : std::string();
}

// "loss > sub > log"
std::string path_text(const Path& path) {
  std::string text;
  const auto append = [&text](const Node* node) {
    std::string name = node->name();
    if (NodeExtension* extension = node->extension.load(std::memory_order_acquire); extension != nullptr) {
      const std::lock_guard<std::mutex> lock(extension->mutex);
      if (!extension->names.empty() && !node->is_leaf())
        name = extension->names.front().second + " = " + name;
    }
    text += str(text.empty() ? "" : " > ", printable(name));
  };
  for (const Node* node : path.first) append(node);
  if (path.omitted != 0) text += str(" > ... ", path.omitted, " more ...");
  for (const Node* node : path.last) append(node);
  return text;
}

}  // namespace

void Findings::add(const NonFiniteError& error) {
  const std::lock_guard lock(mutex_);
  if (!ended_ && !first_) first_ = error;
}

void Findings::end() {
  const std::lock_guard lock(mutex_);
  ended_ = true;
}

void Findings::raise() {
  const std::lock_guard lock(mutex_);
  if (first_) throw NonFiniteError(*first_);
}

void ask(const Looker& looker) {
  Findings* const before = std::exchange(asking, looker.findings.get());
  try {
    looker.host.check_watched();
  } catch (...) {
    asking = before;
    throw;
  }
  asking = before;
  looker.findings->raise();
}

void check_forward(const ErasedExecutor& host, const RecorderCore::Request& request) {
  for (std::size_t i = 0; i < request.outputs.size(); ++i) {
    const std::string name = request.graph->name();
    const std::string where =
        request.where.file == nullptr ? std::string() : str(request.where.file, ':', request.where.line);
    std::string message = str("non-finite value first appears in forward of ", printable(name),
                              where.empty() ? "" : str(" (", printable(where), ')'), ": its output ", i);
    if (watched({host, nullptr}, request.outputs[i], Phase::forward, name, where, 0, message)) continue;
    if (!bad(host, request.outputs[i])) continue;
    message += str(' ', host.statistics(request.outputs[i]));
    for (std::size_t k = 0; k < request.inputs.size(); ++k) {
      if (request.inputs[k].data != nullptr)
        message += str("\n  its input ", k, name_of(request.inputs[k]), ' ',
                       host.statistics(request.inputs[k].data));
    }
    message += first_within(host, request);
    throw NonFiniteError(Phase::forward, name, where, 0, message);
  }
}

void check_seed(const Looker& looker, const Cotangent& seed, const Node& root) {
  const ErasedExecutor& host = looker.host;
  if (watched(looker, seed.operand(), Phase::seed, root.name(), root.where(), root.sequence,
              str("non-finite seed of ", root.describe(), ": it")))
    return;
  if (!bad(host, seed.operand())) return;
  raise(Phase::seed, root,
        str("non-finite seed of ", root.describe(), ": it ", host.statistics(seed.operand())));
}

void check_sum(const Looker& looker, const Cotangent& sum, std::uint64_t sequence) {
  const ErasedExecutor& host = looker.host;
  std::string message = "non-finite cotangent first appears in the sum of ";
  if (sequence == Cotangent::of_seed) {
    message += "the seeds of a value: it";
    sequence = 0;
  } else if (sequence == 0) {
    message += "what the slot of a leaf holds and the gradient that is added to it: it";
  } else {
    message += str("the cotangents of a value, where that of operation ", sequence, " is added: it");
  }
  if (watched(looker, sum.operand(), Phase::backward, "add", {}, sequence, message)) return;
  if (!bad(host, sum.operand())) return;
  throw NonFiniteError(Phase::backward, "add", {}, sequence,
                       str(message, ' ', host.statistics(sum.operand())));
}

namespace {

// `what` says which cotangent of the node it is: "output 0 of ".
void check_left(const Looker& looker, const Cotangent& cotangent, const Node& node, const std::string& what) {
  const std::string message =
      str("non-finite cotangent of ", what, node.describe(), ", which a hook left so: it");
  if (watched(looker, cotangent.operand(), Phase::backward, node.name(), node.where(), node.sequence,
              message))
    return;
  if (!bad(looker.host, cotangent.operand())) return;
  raise(Phase::backward, node, str(message, ' ', looker.host.statistics(cotangent.operand())));
}

}  // namespace

void check_hooked(const Looker& looker, const Cotangent& cotangent, const Node& node, std::size_t slot) {
  check_left(looker, cotangent, node, node.is_leaf() ? std::string() : str("output ", slot, " of "));
}

void check_sent(const Looker& looker, std::span<Cotangent* const> outgoing, const Node& node) {
  for (std::size_t e = 0; e < outgoing.size(); ++e)
    if (outgoing[e] != nullptr)
      check_left(looker, *outgoing[e], node, str("input ", node.specialization->edges[e], " of "));
}

void check_backward(const Suspect& suspect, const std::function<std::vector<Node*>()>& reached) {
  const Cotangent* culprit = nullptr;
  const auto what = [&suspect](const Cotangent& cotangent) {
    return str("non-finite cotangent first appears in backward of operation ", suspect.node.sequence, ", ",
               printable(suspect.node.name()), at(suspect.node), ", along path ", path_text(suspect.path()),
               ": the cotangent of its input ", suspect.node.specialization->edges[cotangent.edge],
               after_space(name_of_input(suspect.node, suspect.node.specialization->edges[cotangent.edge])));
  };
  for (const Cotangent* cotangent : suspect.outgoing) {
    if (cotangent == nullptr || culprit != nullptr) continue;
    if (watched(suspect.looker, cotangent->operand(), Phase::backward, suspect.node.name(),
                suspect.node.where(), suspect.node.sequence, what(*cotangent)))
      continue;
    if (bad(suspect.looker.host, cotangent->operand())) culprit = cotangent;
  }
  if (culprit == nullptr) return;
  const ErasedExecutor& host = suspect.looker.host;

  // A value of the forward that is not finite already explains it.
  std::vector<Node*> nodes = reached();
  std::sort(nodes.begin(), nodes.end(),
            [](const Node* a, const Node* b) { return a->sequence < b->sequence; });
  for (Node* node : nodes) {
    const ReadGuard read(*node);
    if (!read.entered()) continue;
    std::string message;
    for (std::uint32_t k = 0; k < node->num_saved && message.empty(); ++k) {
      if (bad(host, node->saved(k))) {
        message = str("non-finite value first appears in forward at ", printable(node->name()), at(*node),
                      ": its ", NodeView(ref(node)).saved_name(k), ' ', host.statistics(node->saved(k)));
      }
    }
    if (message.empty()) continue;
    raise(Phase::forward, *node,
          str(message, "\n  met in backward of ", printable(suspect.node.name()), at(suspect.node),
              ", along path ", path_text(suspect.path())));
  }

  std::string message = str(what(*culprit), ' ', host.statistics(culprit->operand()));
  for (std::uint32_t k = 0; k < suspect.node.num_saved; ++k) {
    message += str("\n  its ", NodeView(ref(&suspect.node)).saved_name(k), ' ',
                   host.statistics(suspect.node.saved(k)));
  }
  for (const Cotangent* cotangent : suspect.incoming) {
    if (cotangent == nullptr) continue;
    message += bad(host, cotangent->operand())
                   ? "\n  its incoming cotangent is not finite, which a hook left so: it "
                   : "\n  its incoming cotangent is finite: it ";
    message += host.statistics(cotangent->operand());
  }
  raise(Phase::backward, suspect.node, message + suspect.within());
}

void profile_record(Profile& profile, const ErasedExecutor* host, const Node& node,
                    const RecorderCore::Request& request, std::int64_t begin) {
  ProfileEvent event;
  event.phase = ProfilePhase::record;
  event.name = request.graph->name();
  event.where = node.where();
  event.node = node.sequence;
  for (std::uint32_t k = 0; host != nullptr && k < node.num_saved; ++k)
    event.bytes += host->bytes(node.saved(k));
  event.begin = begin;
  event.end = profile.now();
  event.placement = node.placement();
  profile.add(std::move(event));
}

}  // namespace tidu::eager::detail
