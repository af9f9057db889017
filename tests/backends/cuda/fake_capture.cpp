// fake_capture.cpp - a fake device's captures: work that is kept, and checked and run when it is launched.
#include <map>
#include <memory>
#include <string>
#include <thread>

#include "cuda/fake_device.hpp"

namespace tidu::test {

using namespace cuda_detail;

void FakeDevice::begin_capture(Stream stream) {
  const std::lock_guard lock(mutex_);
  StreamState& on = state(stream);
  note("capture s" + std::to_string(on.number));
  auto graph = std::make_unique<Graph>();
  graph->number = next_graph_++;
  graph->origin = on.number;
  ++graphs_;
  ++counters_.captures;
  captures_[graph.get()] = std::this_thread::get_id();
  on.capture = graph.release();
}

FakeDevice::Graph* FakeDevice::end(Stream stream) {
  Graph* const graph = state(stream).capture;
  for (StreamState* const one : streams_)
    if (one->capture == graph) one->capture = nullptr;
  captures_.erase(graph);
  return graph;
}

ReplayGraph FakeDevice::end_capture(Stream stream, ReplayGraph previous) {
  const std::lock_guard lock(mutex_);
  if (previous.handle != nullptr) destroy_graph(previous);
  Graph* const graph = end(stream);
  try {
    note("end of capture s" + std::to_string(state(stream).number));
  } catch (...) {
    destroy_graph({graph});
    throw;
  }
  return {graph};
}

void FakeDevice::abandon_capture(Stream stream) noexcept {
  const std::lock_guard lock(mutex_);
  Graph* const graph = end(stream);
  destroy_graph({graph});
}

void FakeDevice::launch(ReplayGraph handle, Stream stream) {
  const std::lock_guard lock(mutex_);
  const Graph& graph = *static_cast<Graph*>(handle.handle);
  StreamState& on = state(stream);
  note("replay g" + std::to_string(graph.number) + " on s" + std::to_string(on.number));
  ++counters_.graph_launches;
  join(on.clock, host_);
  tick(on.clock, on.number);
  std::map<std::size_t, Clock> lanes;
  std::map<std::size_t, Clock> events;
  const auto lane = [&](std::size_t number) -> Clock& {
    return lanes.try_emplace(number, on.clock).first->second;
  };
  // Each lane of each graph is a process of its own.
  const auto process = [&](std::size_t number) {
    const auto [at, fresh] = lanes_.try_emplace({graph.number, number}, next_process_);
    if (fresh) ++next_process_;
    return at->second;
  };
  for (const Captured& step : graph.steps) {
    Clock& clock = lane(step.lane);
    if (step.kind == Captured::Kind::record) events[step.event] = clock;
    if (step.kind == Captured::Kind::wait) join(clock, events[step.event]);
    if (step.kind == Captured::Kind::work) perform(step.work, process(step.lane), clock);
  }
  const Clock& end = lane(graph.origin);
  for (const auto& [number, clock] : lanes) {
    const std::size_t of = process(number);
    if (of < clock.size() && (end.size() <= of || end[of] < clock[of]))
      fault("a capture ends with work on s" + std::to_string(number) + " that nothing waits for");
  }
  join(on.clock, end);
}

void FakeDevice::destroy_graph(ReplayGraph graph) noexcept {
  if (graph.handle == nullptr) return;
  const std::lock_guard lock(mutex_);
  --graphs_;
  delete static_cast<Graph*>(graph.handle);
}

}  // namespace tidu::test
