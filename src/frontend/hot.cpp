// hot.cpp - finding and leaving hot sequences; the HotPaths scope.
#include "frontend/hot.hpp"

#include <algorithm>

#include "frontend/context.hpp"
#include "frontend/lazy.hpp"

namespace tidu::frontend_detail {

HotDetector::HotDetector()
    : tokens_(window, nullptr), prefix_(window, 0), powers_(most + 1, 1), last_seen_(4096) {
  for (std::size_t i = 1; i < powers_.size(); ++i) powers_[i] = powers_[i - 1] * base;
}

void HotDetector::look() {
  constexpr std::size_t needed = 3;
  const std::uint64_t here = hash(count_, gram);
  LastSeen& seen = last_seen_[here >> 52];
  const LastSeen before = std::exchange(seen, LastSeen{here, count_});
  if (before.hash != here || before.last == 0) return;
  const std::uint64_t length = count_ - before.last;
  if (length > most) return;
  if (needed * length + gram > std::min<std::uint64_t>(count_, window)) return;
  const std::uint64_t last = hash(count_, length);
  for (std::size_t i = 1; i < needed; ++i)
    if (hash(count_ - i * length, length) != last) return;
  expect(length);
}

void HotDetector::expect(std::size_t length) {
  const auto token = [&](std::uint64_t number) { return tokens_[number & (window - 1)]; };
  for (std::size_t i = 0; i < length; ++i)
    if (token(count_ - i) != token(count_ - i - length)) return;
  sequence_.clear();
  do {
    for (std::size_t i = 0; i < length; ++i) sequence_.push_back(token(count_ - length + 1 + i));
  } while (sequence_.size() < least);
  position_ = 0;
  in_sequence_ = true;
  ++statistics_.sequences;
}

// Tokens that have left the ring again by then need not be entered, in whole repetitions, so that it stays
// the same.
void HotDetector::enter_owed() {
  const std::size_t length = sequence_.size();
  if (owed_ > window + length) owed_ -= (owed_ - window) / length * length;
  std::size_t at = (position_ + length - owed_ % length) % length;
  for (; owed_ != 0; --owed_) {
    enter(sequence_[at]);
    if (++at == length) at = 0;
  }
}

void HotDetector::leave() {
  if (!in_sequence_) return;
  enter_owed();
  in_sequence_ = false;
  deviated_ = true;
  ++statistics_.deviations;
}

// An operation as it is done while hot sequences are looked for.
bool record_hot(Context& c, const Graph& graph, const LazyRunner& runner,
                std::span<const Tensor* const> inputs, std::span<Tensor> out) {
  HotDetector& detector = *c.hot;
  const bool expected = detector.advance(&graph.data());
  if (detector.deviated()) c.trace->evaluate_all();
  if (!expected) return false;
  LazyTrace& trace = c.trace->is_run_by(runner) ? *c.trace : c.trace_for(runner);
  if (!trace.record(graph, inputs, out)) return false;
  end_repetition(c);
  return true;
}

void end_repetition(Context& c) {
  if (!c.hot->at_end()) return;
  // An early read has cut the repetition where that suits the program.
  if (c.trace->counters().lazy.evaluations == c.evaluations_before) c.trace->evaluate_all();
  c.evaluations_before = c.trace->counters().lazy.evaluations;
}

void Context::set_hot(bool on) {
  if (on && trace == nullptr) trace = LazyTrace::make();
  if (on && hot == nullptr) hot = std::make_unique<HotDetector>();
  hot_on = on;
  update();
}

void Context::update() {
  intercepts = lazy != 0 || hot_on;
  host.set_intercepts(intercepts);
  if (trace != nullptr) trace->set_greedy(hot_on && lazy == 0);
}

}  // namespace tidu::frontend_detail

namespace tidu {

using frontend_detail::context;

HotPaths::HotPaths(bool enabled) : before_(context().hot_on) { context().set_hot(enabled); }

HotPaths::~HotPaths() {
  if (frontend_detail::current_context == nullptr) return;  // of static duration, as with Lazy
  frontend_detail::Context& c = context();
  c.set_hot(before_);
  if (before_ || c.lazy != 0 || c.trace == nullptr) return;
  try {
    c.trace->evaluate_all();
  } catch (...) {  // the readers of failed values get the error
  }
}

HotStatistics hot_statistics() {
  const frontend_detail::Context& c = context();
  if (c.hot == nullptr) return {};
  HotStatistics result = c.hot->statistics();
  const frontend_detail::LazyCounters counters = c.trace->counters();
  result.compiled += counters.hot_compiled;
  result.deferred += counters.hot_deferred;
  result.recomputed += counters.hot_recomputed;
  return result;
}

}  // namespace tidu
