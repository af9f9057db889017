// replay.cpp - capturing a run on several streams, and launching what was captured. See Note [Replay].
#include <algorithm>
#include <shared_mutex>

#include "cuda/compiled.hpp"
#include "tidu/graph/error.hpp"

namespace tidu::cuda_detail {
namespace {

constexpr std::size_t max_replays = 4;
constexpr std::size_t bytes_of_captured_step = 1024;
// So many captures in a row that were launched once, and addresses are taken not to come again...
constexpr std::uint64_t max_misses = 8;
// ... but for one run in so many.
constexpr std::uint64_t retry_every = 64;
// So many captures that failed, and there are no more.
constexpr std::uint32_t max_failures = 2;

class StreamLease {
 public:
  StreamLease(Runtime& runtime, std::size_t count)
      : runtime_(runtime), streams_(runtime.lease_streams(count, Runtime::StreamUse::capture)) {}
  StreamLease(const StreamLease&) = delete;
  StreamLease& operator=(const StreamLease&) = delete;
  ~StreamLease() { runtime_.return_streams(streams_, Runtime::StreamUse::capture); }
  std::span<const Stream> get() const { return streams_; }

 private:
  Runtime& runtime_;
  std::vector<Stream> streams_;
};

}  // namespace

// Events of one capture, which must not be recorded anew until it has ended.
class EventLease {
 public:
  explicit EventLease(EventPool& pool) : pool_(pool) {}
  EventLease(const EventLease&) = delete;
  EventLease& operator=(const EventLease&) = delete;
  ~EventLease() {
    for (const Event event : events_) pool_.release(event);
  }
  Event take() {
    events_.reserve(events_.size() + 1);
    events_.push_back(pool_.acquire());
    return events_.back();
  }

 private:
  EventPool& pool_;
  std::vector<Event> events_;
};

// The first stream is that of the capture; the others come from it and lead back to it.
void Compiled::issue_on_streams(const Addresses& at, std::span<const Stream> streams,
                                EventLease& events) const {
  Device& device = runtime_->device();
  std::vector<Memory> table;
  bind(at, table);
  if (streams.size() > 1) {
    const Event start = events.take();
    device.record(start, streams[0]);
    for (std::size_t lane = 1; lane < streams.size(); ++lane) device.wait(streams[lane], start);
  }
  std::vector<Event> done(nodes_.size());
  for (std::size_t n = 0; n < nodes_.size(); ++n) {
    const Stream stream = streams[streams_of_nodes_.stream_of[n]];
    for (const std::uint32_t other : streams_of_nodes_.waits[n]) device.wait(stream, done[other]);
    issue(nodes_[n], at, table, stream);
    if (streams_of_nodes_.tells[n]) {
      done[n] = events.take();
      device.record(done[n], stream);
    }
  }
  for (std::size_t lane = 1; lane < streams.size(); ++lane) {
    const Event end = events.take();
    device.record(end, streams[lane]);
    device.wait(streams[0], end);
  }
  issue_copies(at, streams[0]);
}

ReplayGraph Compiled::capture(const Addresses& at, ReplayGraph& previous) const {
  Device& device = runtime_->device();
  const StreamLease streams(*runtime_, streams_of_nodes_.used);
  const Stream origin = streams.get()[0];
  EventLease events(runtime_->events());
  const std::shared_lock captures(runtime_->captures());
  device.begin_capture(origin);
  try {
    issue_on_streams(at, streams.get(), events);
  } catch (...) {
    device.abandon_capture(origin);
    throw;
  }
  return device.end_capture(origin, std::exchange(previous, {}));
}

std::size_t Compiled::kept_bytes() const {
  return layout_.constant_bytes + (can_replay_ ? max_replays * bytes_of_captured_step * num_steps_ : 0);
}

// False, and nothing done, where the steps are to be put on the stream one by one.
bool Compiled::replay(const Addresses& at, Stream stream) const {
  const std::lock_guard lock(mutex_);
  const std::uint64_t run = runs_++;
  if (run == 0 || refuses_capture_) return false;
  for (Replay& known : replays_) {
    if (known.addresses != at) continue;
    known.last_used = run;
    misses_ = 0;
    launch(known.graph, stream);
    return true;
  }
  if (++misses_ > max_misses && run % retry_every != 0) return false;
  ReplayGraph previous;
  if (replays_.size() == max_replays) {
    const auto oldest =
        std::min_element(replays_.begin(), replays_.end(),
                         [](const Replay& a, const Replay& b) { return a.last_used < b.last_used; });
    previous = oldest->graph;
    replays_.erase(oldest);
  }
  ReplayGraph graph;
  try {
    replays_.reserve(max_replays);
    graph = capture(at, previous);
  } catch (const Error& error) {
    runtime_->device().destroy_graph(previous);
    // What is wrong with it, if anything, the steps themselves will say. They may also load what a library
    // had not loaded before, and could not while it was captured.
    if (++failed_captures_ == max_failures) refuses_capture_ = true;
    runtime_->note_refusal(error.what());
    return false;
  } catch (...) {
    runtime_->device().destroy_graph(previous);
    throw;
  }
  replays_.push_back({at, graph, run});
  launch(graph, stream);
  return true;
}

}  // namespace tidu::cuda_detail
