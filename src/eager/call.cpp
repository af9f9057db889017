// call.cpp - see call.hpp.
#include "eager/call.hpp"

#include <algorithm>
#include <array>
#include <memory>

#include "eager/anomaly.hpp"
#include "eager/slots.hpp"

namespace tidu::eager {
namespace detail {

thread_local std::uint32_t calls_on_this_thread = 0;

BackwardCall::BackwardCall(const BackwardRequest& request)
    : request_(request),
      options_(request.options),
      table_(request.host.table),
      depth_(calls_on_this_thread),
      cotangents_(request),
      hooks_(request, cotangents_),
      roots_(request),
      captures_(request.host.table, request.requested.size()),
      reached_(request, roots_, captures_),
      contributions_(request.host.table, cotangents_, reached_),
      ready_(request.options),
      runner_({request, cotangents_, reached_, contributions_, captures_, hooks_, arrivals_}) {}

BackwardCall::~BackwardCall() {
  if (cotangents_.looker.findings != nullptr) cotangents_.looker.findings->end();
}

// --- before the first node runs

void BackwardCall::prepare() {
  roots_.check_and_hold();
  caller_ = request_.host.current_placement();
  reached_.discover();
  threaded_ = wants_threads();
  if (threaded_) ready_.separate_devices();
  if (threaded_ || options_.order != Order::latest_first) contributions_.list_until_taken();
  reached_.mark_needed();
  reached_.check_not_freed();
  check_stop();
}

// The order in which several threads run nodes depends on how fast each is, that of collectives must not.
bool BackwardCall::wants_threads() {
  const int workers = options_.workers;
  if (cotangents_.creates_graph || (workers <= 1 && (!reached_.has_devices() || workers == 0))) return false;
  bool has_collectives = false;
  reached_.states().for_each([&](const State& state) {
    has_collectives = has_collectives || state.node->specialization->owner->graph.data().has_collectives;
  });
  return !has_collectives;
}

// Seeds are contributions that come before all others.
void BackwardCall::seed_roots() {
  // All of them are there and fit before any two are added.
  ShortArray<Cotangent*, 4> seeds(roots_.size());
  std::fill_n(seeds.data(), seeds.size(), nullptr);
  const CotangentGuard guard(table_, {seeds.data(), seeds.size()});
  for (std::size_t i = seeds.size(); i-- > 0;) seeds[i] = roots_.make_seed(i, cotangents_, caller_);
  for (std::size_t i = seeds.size(); i-- > 0;) {
    const char* phase = BackwardPhase::move;
    contributions_.add(roots_.node(i), std::exchange(seeds[i], nullptr), nullptr, phase);
  }
  // A node that waits for no cotangent is ready.
  for (std::size_t i = 0; i < roots_.size(); ++i) {
    Node& node = roots_.node(i);
    if (node.is_leaf()) {
      LeafState& leaf = reached_.leaf(node);
      if (leaf.dependencies == 0 && leaf.wanted && !leaf.done) push_ready(leaf);
      continue;
    }
    State& state = reached_.state(node);
    if (state.dependencies == 0 && (state.needed || state.captured) && !state.listed) ready_.push(state);
  }
}

// --- the run

void BackwardCall::check_stop() const {
  if (options_.stop.stop_requested()) throw Error(ErrorKind::cancelled, "backward: the caller asked to stop");
}

void BackwardCall::run() {
  if (threaded_) return run_threaded();
  try {
    run_serially();
  } catch (...) {
    errors_.keep(std::current_exception());
  }
}

void BackwardCall::run_serially() {
  std::vector<Cotangent*> many;
  std::array<Cotangent*, 8> few;
  ReadyQueue& ready = ready_.host();
  while (!ready.empty()) {
    while (ready.has_leaves()) run_leaf(ready.pop_leaf());
    if (!ready.has_nodes()) break;
    State& state = ready.pop_node();
    const std::size_t count = state.node->num_edges;
    if (count > few.size()) many.resize(count);
    const std::span<Cotangent*> outgoing(count > few.size() ? many.data() : few.data(), count);
    std::fill(outgoing.begin(), outgoing.end(), nullptr);
    const CotangentGuard guard(table_, outgoing);
    run_node(state, outgoing);
    deliver(state, outgoing);
  }
}

void BackwardCall::run_node(State& state, std::span<Cotangent*> outgoing) {
  if (state.failed) return;
  check_stop();
  if (options_.exit_at_once) return runner_.run(state, outgoing, threaded_);
  try {
    runner_.run(state, outgoing, threaded_);
  } catch (...) {
    errors_.keep(std::current_exception());
    state.failed = true;
    for (Cotangent*& cotangent : outgoing)
      if (cotangent != nullptr) destroy_cotangent(table_, std::exchange(cotangent, nullptr));
  }
}

void BackwardCall::run_leaf(std::uint32_t index) {
  LeafState& leaf = reached_.leaves().list()[index];
  if (leaf.failed) return;
  if (options_.exit_at_once) return finish_leaf(leaf);
  try {
    finish_leaf(leaf);
  } catch (...) {
    errors_.keep(std::current_exception());
  }
}

// Its cotangent stays in the leaf.
void BackwardCall::finish_leaf(LeafState& leaf) {
  Cotangent* cotangents[] = {nullptr};
  const CotangentGuard guard(table_, cotangents);
  const char* phase = BackwardPhase::add;
  try {
    contributions_.take(leaf, cotangents);
    hooks_.show(CallHooks::When::arrived, *leaf.node, cotangents);
    phase = BackwardPhase::hook;
    if (cotangents[0] != nullptr) run_leaf_hooks(leaf, cotangents);
  } catch (const Error& error) {
    explain_failure(error, *leaf.node, phase);
  }
  std::swap(cotangents[0], leaf.cotangent);
}

void BackwardCall::run_leaf_hooks(LeafState& leaf, std::span<Cotangent*> cotangent) {
  Node& node = *leaf.node;
  std::vector<std::shared_ptr<const HookList::Hooks>> all;  // of the nodes that stand for the leaf
  const auto take = [&all](const Node& from) {
    NodeExtension* extension = from.extension.load(std::memory_order_acquire);
    if (extension == nullptr) return;
    if (auto hooks = extension->snapshot()) all.push_back(std::move(hooks));
  };
  take(node);
  const Leaves& leaves = reached_.leaves();
  for (const auto& [index, other] : leaves.others())
    if (index == leaves.index(leaf)) take(*other);
  for (const HookKind kind : {HookKind::value, HookKind::accumulate})
    for (const auto& hooks : all) hooks_.run(*hooks, kind, node, cotangent, {});
  if (!all.empty()) hooks_.check_left(node, cotangent);
}

// --- where cotangents go

void BackwardCall::deliver(const State& state, std::span<Cotangent*> outgoing) {
  const Node& node = *state.node;
  const bool selective = reached_.is_selective();
  for (std::uint32_t e = node.num_edges; e-- > 0;) {
    const Edge& edge = node.edges()[e];
    if (selective && !reached_.is_wanted(edge)) continue;
    if (outgoing[e] != nullptr) {
      if (options_.anomaly) [[unlikely]]
        arrivals_.note(*edge.target, node);  // when it throws, the cotangent is still the caller's
      Cotangent* const cotangent = std::exchange(outgoing[e], nullptr);
      cotangent->target_slot = edge.slot;
      const char* phase = BackwardPhase::move;
      try {
        contributions_.add(*edge.target, cotangent, &node.specialization->owner->graph.primitives(), phase);
      } catch (...) {
        keep_failure(*edge.target, phase);
      }
    }
    settle(edge, state.failed);
  }
}

// An exception while cotangents are summed is an error of the node that they belong to. Called in a handler.
void BackwardCall::keep_failure(Node& target, const char* phase) {
  try {
    try {
      throw;
    } catch (const Error& error) {
      explain_failure(error, reached_.representative(target), phase);
    }
  } catch (...) {
    if (options_.exit_at_once) throw;
    errors_.keep(std::current_exception());
    (target.is_leaf() ? reached_.leaf(target).failed : reached_.state(target).failed) = true;
  }
}

// One consumer less to wait for.
void BackwardCall::settle(const Edge& edge, bool failed) {
  if (edge.target->is_leaf()) {
    LeafState& leaf = reached_.leaf(*edge.target);
    leaf.failed = leaf.failed || failed;
    if (--leaf.dependencies == 0 && !leaf.done) push_ready(leaf);
    return;
  }
  State& target = reached_.state(*edge.target);
  target.failed = target.failed || failed;
  if (--target.dependencies == 0) ready_.push(target);
}

// --- the end

// The caller's stream waits for values that were made on others.
void BackwardCall::join_streams(std::span<Cotangent* const> sums) {
  const ErasedExecutor& host = request_.host;
  const Placement here = host.current_placement();
  std::vector<Placement> waited{here};
  const auto join = [&](const Cotangent* cotangent) {
    if (cotangent == nullptr) return;
    const Placement at{cotangent->device, cotangent->stream};
    if (std::find(waited.begin(), waited.end(), at) != waited.end()) return;
    waited.push_back(at);
    if (const Event event = host.record(at)) host.wait(here, event);
  };
  for (const LeafState& leaf : reached_.leaves().list()) join(leaf.cotangent);
  for (const Cotangent* cotangent : captures_.cotangents()) join(cotangent);
  for (const Cotangent* cotangent : sums) join(cotangent);
}

void BackwardCall::accumulate() {
  SlotUpdate update(request_, cotangents_, reached_.leaves().list());
  do {
    update.make_sums();
    join_streams(update.sums());
    if (options_.anomaly) [[unlikely]]
      ask(cotangents_.looker);
  } while (!update.store());
}

BackwardOutcome BackwardCall::finish() {
  errors_.raise();
  contributions_.all_taken();
  BackwardOutcome outcome(table_);
  join_streams({});
  if (options_.anomaly) [[unlikely]]
    ask(cotangents_.looker);
  Leaves& leaves = reached_.leaves();
  outcome.requested.reserve(request_.requested.size());
  for (std::size_t i = 0; i < request_.requested.size(); ++i) {
    const Requested& wanted = request_.requested[i];
    UntypedGradient& gradient =
        outcome.requested.emplace_back(UntypedGradient{wanted.key, nullptr, Absence::none});
    LeafState* leaf = leaves.find(wanted.key);
    gradient.cotangent = leaf != nullptr && leaf->cotangent != nullptr
                             ? cotangents_.duplicate(*leaf->cotangent)
                             : captures_.release(i);
    if (gradient.cotangent == nullptr) gradient.absence = reached_.why_absent(wanted);
  }
  outcome.leaves.reserve(leaves.list().size());
  if (request_.reserve != nullptr)
    request_.reserve(request_.result, leaves.list().size(), request_.requested.size());
  if (options_.accumulate) accumulate();
  for (LeafState& leaf : leaves.list()) {
    if (leaf.cotangent != nullptr)
      outcome.leaves.push_back({leaf.key, std::exchange(leaf.cotangent, nullptr), Absence::none});
  }
  std::sort(outcome.leaves.begin(), outcome.leaves.end(),
            [](const UntypedGradient& a, const UntypedGradient& b) { return a.key < b.key; });
  hooks_.callbacks().run();
  return outcome;
}

BackwardOutcome run_backward(const BackwardRequest& request) {
  const auto call = std::make_unique<BackwardCall>(request);
  const DepthGuard depth(call->depth() + 1);
  call->prepare();
  call->seed_roots();
  call->run();
  return call->finish();
}

BackwardOutcome::~BackwardOutcome() {
  for (const auto* list : {&leaves, &requested}) {
    for (const UntypedGradient& gradient : *list)
      if (gradient.cotangent != nullptr) destroy_cotangent(table, gradient.cotangent);
  }
}

}  // namespace detail

std::string_view to_string(Absence absence) {
  constexpr std::string_view names[] = {"present", "not recorded", "unreachable", "zero"};
  return names[static_cast<std::size_t>(absence)];
}

}  // namespace tidu::eager
