// explain.cpp - first the paths without any gradient, then those on which the gradient becomes zero, and the
// text on both.
#include "tidu/eager/explain.hpp"

#include <algorithm>
#include <deque>
#include <unordered_map>
#include <unordered_set>

#include "eager/node.hpp"
#include "eager/reach.hpp"
#include "eager/watch.hpp"

namespace tidu::eager {
namespace detail {
namespace {

using tidu::detail::in_quotes;
using tidu::detail::printable;
using tidu::detail::str;
using Status = Explanation::Status;
using Cause = Explanation::Cause;

// argmax (operation 21, head.cpp:77)
std::string operation(const Node& node) {
  return str(printable(node.name()), " (operation ", node.sequence,
             node.file != nullptr ? str(", ", printable(node.where())) : std::string(), ')');
}

// A list of operations and other sources: each named once, the first few by name.
class SourceList {
 public:
  void add(const Node* node, std::string text) {
    if (!known_.insert(text).second) return;
    texts_.push_back(std::move(text));
    nodes_.push_back(node);
  }
  bool empty() const { return texts_.empty(); }
  bool one() const { return texts_.size() == 1; }
  // "a", "a and b", "a, b, c and 5 more"
  std::string text() const {
    const std::size_t shown = std::min(texts_.size(), Explanation::named);
    std::string list;
    for (std::size_t i = 0; i < shown; ++i) {
      const bool last = i + 1 == texts_.size();
      list += str(i == 0 ? "" : last ? " and " : ", ", texts_[i]);
    }
    return texts_.size() > shown ? str(list, " and ", texts_.size() - shown, " more") : list;
  }
  void name_in(Explanation& explanation) const {
    for (const Node* node : nodes_) {
      if (explanation.operations.size() == Explanation::named) return;
      if (node == nullptr) continue;
      explanation.operations.push_back(ref(node).hold());
    }
  }

 private:
  std::vector<std::string> texts_;
  std::unordered_set<std::string> known_;
  std::vector<const Node*> nodes_;  // null: a leaf
};

class Explainer {
 public:
  /// The caller holds the objects of the request.
  explicit Explainer(const ExplainRequest& request)
      : request_(request),
        roots_(root_nodes(request)),
        target_{request.target.key,
                request.target.trace ? node_of(TraceRef(request.target.trace).node()) : nullptr},
        reach_(roots_, target_) {
    the_root_ = request.roots.size() == 1 ? "the root" : "the roots";
    name_ = name();
  }

  Explanation explain() {
    if (!request_.target.key || !(request_.target.requires_grad || on_tape())) return not_recorded();
    bool leads = false;
    for (const UntypedRoot& given : request_.roots) {
      const Node* root = differentiable(given);
      if (root == nullptr) continue;
      leads = leads || target_.is_at(root, root_slot(given)) || (!root->is_leaf() && reach_.leads(root));
    }
    return leads ? flow() : absent();
  }

 private:
  static std::vector<const Node*> root_nodes(const ExplainRequest& request) {
    std::vector<const Node*> nodes;
    for (const UntypedRoot& root : request.roots)
      if (root.node != nullptr) nodes.push_back(node_of(root.node));
    return nodes;
  }
  // The node of a root that has a derivative, or null.
  static const Node* differentiable(const UntypedRoot& root) {
    const Node* node = root.node != nullptr ? node_of(root.node) : nullptr;
    const bool gives =
        node != nullptr && (node->is_leaf() || node->specialization->output_active[root_slot(root)] != 0);
    return gives ? node : nullptr;
  }
  static std::uint32_t root_slot(const UntypedRoot& root) {
    return slot_of(TraceRef(root.node), root.key, "explain: root");
  }

  std::string name() const {
    if (!request_.name.empty()) return in_quotes(request_.name);
    std::string given;
    if (const Node* node = target_.is_leaf() ? reach_.leaf() : target_.node; node != nullptr)
      given = name_of(ref(node), target_.key);
    if (given.empty() && target_.node != nullptr) given = name_of(request_.target.trace, target_.key);
    if (!given.empty()) return in_quotes(given);
    if (target_.is_leaf()) return str("leaf ", to_string(target_.key));
    return str("output ", request_.target.output_slot, " of ", operation(*target_.node));
  }

  // For a target given by its key, which does not know it itself: is a gradient for it on the tape?
  bool on_tape() const {
    const Node* node = target_.node;
    if (node == nullptr) return reach_.leaf() != nullptr;
    if (node->is_leaf()) return target_.key == node->first_key;
    return !node->blocked && node->specialization->output_active[slot()] != 0;
  }

  // --- no gradient flows

  Explanation not_recorded() const {
    Explanation result{Status::absent, Cause::not_recorded, {}, {}};
    const Node* node = target_.node;
    std::string why;
    if (node == nullptr || node->is_leaf() ||
        (!node->blocked && node->specialization->output_active[slot()] != 0)) {
      why = "it is a constant or was detached";
    } else {
      result.operations.push_back(ref(node).hold());
      if (node->num_edges == 0) {
        why = str("it was made by ", operation(*node), ", none of whose operands requires one");
      } else {
        result.cause = Cause::no_derivative;
        why = str("it was made by ", operation(*node), ", which has no derivative",
                  node->blocked ? std::string() : str(" for its output ", slot()));
      }
    }
    result.text = str("absent: ", name_, " does not require a gradient: ", why);
    return result;
  }
  std::uint32_t slot() const { return slot_of(request_.target.trace, target_.key, "explain"); }

  Explanation absent() const {
    Explanation result{Status::absent, Cause::no_dependency, {}, {}};
    SourceList blocked, detached;
    for (const Cut& cut : reach_.cuts()) {
      switch (cut.kind) {
        case Cut::Kind::no_derivative: blocked.add(cut.node, operation(*cut.node)); break;
        case Cut::Kind::inactive_output:
          blocked.add(cut.node, str("output ", cut.slot, " of ", operation(*cut.node)));
          break;
        case Cut::Kind::detached: detached.add(cut.node, operation(*cut.node)); break;
      }
    }
    for (const UntypedRoot& root : request_.roots) {  // the root itself may have no derivative
      const Node* node = root.node != nullptr ? node_of(root.node) : nullptr;
      if (node != nullptr && differentiable(root) == nullptr && reach_.leads(node))
        blocked.add(node, str("output ", root_slot(root), " of ", operation(*node)));
    }
    if (blocked.empty() && detached.empty()) {
      result.text = str("absent: ", no_dependency());
      return result;
    }
    result.cause = blocked.empty() ? Cause::detached : Cause::no_derivative;
    blocked.name_in(result);
    detached.name_in(result);
    result.text = str("absent: ", name_, " reaches ", the_root_, " only ");
    if (!blocked.empty())
      result.text +=
          str("through ", blocked.text(), ", which ", blocked.one() ? "has" : "have", " no derivative");
    if (!detached.empty()) {
      result.text +=
          str(blocked.empty() ? "" : ", or ", "where ", detached.text(), detached.one() ? " takes" : " take",
              " it as a constant (it was detached, or recording was off)");
    }
    return result;
  }

  std::string no_dependency() const {
    std::string text = roots_.empty() ? str(the_root_, request_.roots.size() == 1 ? " was" : " were",
                                            " not recorded, nothing there depends on ", name_)
                                      : str("no root depends on ", name_);
    if (!reach_.has_blocked() && !request_.keeps_blocked) {
      text +=
          ", or only through operations without derivative, which the tape does not hold (record with"
          " RecorderOptions::keep_blocked, or Arrays under an ExplainGuard, to have them named)";
    }
    return text;
  }

  // --- a gradient flows: is it zero?

  Explanation flow() {
    std::string unseen = run();
    find_zeros();
    Explanation result;
    const Flow at_end = final_;
    if (at_end == Flow::there) {
      result.text = str("present: ", name_, " reaches ", the_root_, number_of_operations(), unseen);
      return result;
    }
    result.status = Status::zero;
    std::vector<std::string> reasons;
    const auto because = [&](Cause cause, const SourceList& places, const std::string& before,
                             const std::string& after) {
      if (places.empty()) return;
      if (result.cause == Cause::none) result.cause = cause;
      places.name_in(result);
      reasons.push_back(str(before, places.text(), after));
    };
    because(Cause::structure, structural_, "the derivative of ", " is zero whatever its operands are");
    if (zero_seed_) {
      if (result.cause == Cause::none) result.cause = Cause::seed;
      reasons.push_back(str("the seed of ", the_root_, " is zero"));
    }
    because(Cause::operation, zero_, "the cotangent becomes zero in backward of ", "");
    because(Cause::cancellation, cancelled_, "what comes to ", " cancels");
    because(Cause::hook, hooked_, "a hook leaves nothing of the cotangent of ", "");
    result.text = str("zero: on every way from ", the_root_, " to ", name_, ' ');
    for (std::size_t i = 0; i < reasons.size(); ++i) result.text += str(i == 0 ? "" : ", or ", reasons[i]);
    result.text += unseen;
    return result;
  }

  std::string number_of_operations() const {
    std::size_t count = 0;
    for (const Node* node : reach_.nodes()) count += reach_.leads(node) ? 1 : 0;
    return count == 0   ? std::string(" as a root itself")
           : count == 1 ? std::string(" through 1 operation")
                        : str(" through ", count, " operations");
  }

  // Runs backward with an observer; returns the reason if that is not possible.
  std::string run() {
    if (request_.host == nullptr) return " (the values were not looked at: no executor was given)";
    const ErasedExecutor& host = *request_.host;
    for (const Node* node : reach_.nodes()) {
      if (reach_.leads(node) && node->freed()) {
        return " (the values were not looked at: an earlier backward call freed them; keep_graph keeps them)";
      }
    }
    watch_.emplace(host);
    std::deque<HeldOperand> ones;
    std::vector<UntypedRoot> roots;
    bool target_is_root = false;
    for (const UntypedRoot& root : request_.roots) {
      const Node* node = differentiable(root);
      if (node == nullptr) continue;
      if (root.seed == nullptr && node->is_leaf()) {  // its type is unknown, and nothing runs for it
        target_is_root = target_is_root || target_.is_at(node, root_slot(root));
        seeds_.push_back(Flow::there);
        continue;
      }
      roots.push_back(root);
      if (root.seed == nullptr) {
        HeldOperand& made = ones.emplace_back(host.table);
        made.filled = host.ones_like(node->specialization->owner->output_types[root_slot(root)], made.get());
        if (made.filled) roots.back().seed = made.get();
      }
      if (roots.back().seed != nullptr)
        seeds_.push_back(watch_->flow_of(roots.back().seed));
      else
        seeds_.push_back(Flow::there);
    }
    if (!roots.empty()) {
      BackwardOptions options;
      options.keep_graph = true;
      options.context = request_.context;
      const Requested wanted(request_.target);
      const BackwardOutcome outcome =
          run_backward({host, nullptr, roots, {&wanted, 1}, options, nullptr, nullptr, &*watch_});
      const Cotangent* cotangent = outcome.requested[0].cotangent;
      final_ = cotangent == nullptr ? Flow::absent : watch_->flow_of(cotangent->operand());
    }
    if (target_is_root) final_ = Flow::there;
    return {};
  }

  // Follows the gradient from the roots down to the target, and records where it becomes zero.
  void find_zeros() {
    std::unordered_map<const Node*, std::vector<Flow>> incoming;
    Flow arrived = Flow::absent;
    const auto deliver = [&](const Node* node, std::uint32_t at, Flow flow) {
      if (target_.is_at(node, at)) arrived = std::max(arrived, flow);
      if (node->is_leaf()) return;
      std::vector<Flow>& flows = incoming[node];
      flows.resize(node->num_outputs(), Flow::absent);
      flows[at] = std::max(flows[at], flow);
    };
    std::size_t seed = 0;
    for (const UntypedRoot& root : request_.roots) {
      const Node* node = differentiable(root);
      if (node == nullptr) continue;
      const Flow flow = watch_ ? seeds_[seed++] : Flow::there;
      const bool useful = target_.is_at(node, root_slot(root)) || reach_.leads(node);
      zero_seed_ = zero_seed_ || (useful && flow == Flow::zero);
      deliver(node, root_slot(root), flow);
    }
    const auto& nodes = reach_.nodes();
    for (std::size_t i = nodes.size(); i-- > 0;) {
      const Node* node = nodes[i];
      const auto at = incoming.find(node);
      if (at == incoming.end() || !reach_.leads(node)) continue;
      if (!watch_) {
        follow(*node, at->second, deliver);
      } else if (const NodeFlow* seen = watch_->find(node); seen != nullptr) {
        follow(*node, at->second, *seen, deliver);
      }
    }
    if (!watch_) {
      final_ = arrived;
    } else if (target_.is_leaf()) {
      if (const NodeFlow* seen = watch_->find(target_.key); seen != nullptr)
        note_losses(nullptr, name_, arrived, seen->arrived[0], seen->left[0]);
    } else if (const NodeFlow* seen = watch_->find(target_.node); seen != nullptr) {
      note_losses(target_.node, name_, arrived, seen->arrived[slot()], seen->left[slot()]);
    }
  }

  // For a value: the cotangents that were sent to it, their sum, and the sum after hooks.
  void note_losses(const Node* node, std::string what, Flow sent, Flow sum, Flow left) {
    if (sent == Flow::there && sum == Flow::zero)
      cancelled_.add(node, std::move(what));
    else if (sum == Flow::there && left != Flow::there)
      hooked_.add(node, std::move(what));
  }

  // A node whose incoming and outgoing cotangents were observed.
  template <class Deliver>
  void follow(const Node& node, const std::vector<Flow>& flows, const NodeFlow& seen,
              const Deliver& deliver) {
    bool live = false;
    for (std::size_t k = 0; k < flows.size(); ++k) {
      if (node.specialization->output_active[k] == 0) continue;
      live = live || seen.left[k] == Flow::there;
      note_losses(&node, str("output ", k, " of ", operation(node)), flows[k], seen.arrived[k], seen.left[k]);
    }
    if (seen.made.empty()) return;
    for (std::uint32_t e = 0; e < node.num_edges; ++e) {
      if (!reach_.edge_leads(node.edges()[e])) continue;
      const std::uint32_t input = node.specialization->edges[e];
      if (seen.made[e] == Flow::absent)
        structural_.add(&node, str(operation(node), " with respect to its input ", input));
      else if (live && seen.made[e] == Flow::zero)
        zero_.add(&node, operation(node));
      else if (seen.made[e] == Flow::there && seen.sent[e] != Flow::there)
        hooked_.add(&node, str("input ", input, " of ", operation(node)));
      deliver(node.edges()[e].target, node.edges()[e].slot, seen.sent[e]);
    }
  }

  // One of which the structure alone is known.

  template <class Deliver>
  void follow(const Node& node, const std::vector<Flow>& flows, const Deliver& deliver) {
    Mask seeded = make_mask(flows.size());
    Mask wanted = make_mask(node.num_edges);
    bool any = false;
    for (std::size_t k = 0; k < flows.size(); ++k) {
      if (flows[k] == Flow::absent || node.specialization->output_active[k] == 0) continue;
      set(seeded, k);
      any = true;
    }
    if (!any) return;
    for (std::uint32_t e = 0; e < node.num_edges; ++e)
      if (reach_.edge_leads(node.edges()[e])) set(wanted, e);
    std::shared_ptr<CachedLinearization> keep;
    const BackwardProgram& program =
        node.specialization->program(seeded, wanted, true, request_.context, keep);
    for (std::uint32_t e = 0; e < node.num_edges; ++e) {
      if (!test(wanted, e)) continue;
      const auto& there = program.output_edge;
      if (std::find(there.begin(), there.end(), e) == there.end()) {
        structural_.add(&node,
                        str(operation(node), " with respect to its input ", node.specialization->edges[e]));
        continue;
      }
      deliver(node.edges()[e].target, node.edges()[e].slot, Flow::there);
    }
  }

  const ExplainRequest request_;
  std::vector<const Node*> roots_;
  TapeValue target_;
  Reach reach_;
  std::string the_root_;
  std::string name_;
  std::optional<Watch> watch_;
  std::vector<Flow> seeds_;  // by root that has a derivative
  Flow final_ = Flow::absent;
  bool zero_seed_ = false;
  SourceList structural_, zero_, cancelled_, hooked_;
};

}  // namespace

Explanation explain(const ExplainRequest& request) {
  // Hooks may let go of the roots and of the target.
  std::vector<Trace> roots;
  for (const UntypedRoot& root : request.roots) roots.push_back(TraceRef(root.node).hold());
  const EagerOutput& given = request.target;
  const EagerOutput target{given.key, TraceRef(given.trace).hold(), given.requires_grad, given.output_slot};
  return Explainer(
             {request.host, request.roots, target, request.name, request.keeps_blocked, request.context})
      .explain();
}

std::string why_no_gradient(const UntypedRoot& root) {
  constexpr std::size_t max_leaves = 3;
  std::vector<Key> leaves;
  for (const Key& leaf : leaves_below(node_of(root.node))) {
    if (leaves.size() < max_leaves) leaves.push_back(leaf);
  }
  std::string text;
  for (const Key& leaf : leaves) {
    const Explanation why = explain({nullptr, {&root, 1}, {leaf, {}, true, 0}, {}, true, nullptr});
    constexpr std::string_view status = "absent: ";
    if (!why.text.starts_with(status)) continue;
    text += (text.empty() ? "" : ", and ") + why.text.substr(status.size());
  }
  return text;
}

bool gives_gradient(TraceRef trace, const Key& key) {
  const Node* node = node_of(trace.node());
  return node->is_leaf() ||
         (!node->blocked && node->specialization->output_active[slot_of(trace, key, "value")] != 0);
}

}  // namespace detail

std::string_view to_string(Explanation::Status status) {
  constexpr std::string_view names[] = {"present", "zero", "absent"};
  return names[static_cast<std::size_t>(status)];
}

std::string_view to_string(Explanation::Cause cause) {
  constexpr std::string_view names[] = {"none",         "not recorded", "no dependency", "no derivative",
                                        "detached",     "structure",    "seed",          "operation",
                                        "cancellation", "hook"};
  return names[static_cast<std::size_t>(cause)];
}

}  // namespace tidu::eager
