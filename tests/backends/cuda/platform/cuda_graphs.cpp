// cuda_graphs.cpp - the runtime's captures and graphs.
#include <algorithm>
#include <memory>

#include "cuda/platform/state.hpp"

namespace tidu::test::platform {
namespace {

// A graph is changed to another one where nodes are of the same kinds and depend on each other alike.
bool is_alike(const CUgraph_st& a, const CUgraph_st& b) {
  std::map<std::size_t, std::size_t> lanes, events;
  const auto meets = [](std::map<std::size_t, std::size_t>& map, std::size_t from, std::size_t to) {
    return map.try_emplace(from, to).first->second == to;
  };
  const auto kind = [](const Captured& step) {
    return step.task.work.name.substr(0, step.task.work.name.find(' '));
  };
  return a.device == b.device && std::equal(a.steps.begin(), a.steps.end(), b.steps.begin(), b.steps.end(),
                                            [&](const Captured& x, const Captured& y) {
                                              return x.kind == y.kind && kind(x) == kind(y) &&
                                                     meets(lanes, x.lane, y.lane) &&
                                                     meets(events, x.event, y.event);
                                            });
}

// What a capture was, if nothing was wrong with it.
cudaError_t finish(Capture& capture, cudaGraph_t* graph) {
  State& s = state();
  if (!capture.broken.empty()) return give(cudaErrorStreamCaptureInvalidated);
  if (const auto left = unjoined_lanes(capture.graph); !left.empty())
    return refuse(cudaErrorStreamCaptureUnjoined, "a capture ends with work on stream " +
                                                      std::to_string(left[0]) + " that nothing waits for");
  *graph = new CUgraph_st(std::move(capture.graph));
  s.graphs.insert(*graph);
  return cudaSuccess;
}

}  // namespace
}  // namespace tidu::test::platform

using namespace tidu::test::platform;

extern "C" {

cudaError_t cudaStreamBeginCapture(cudaStream_t handle, cudaStreamCaptureMode mode) {
  TIDU_PLATFORM_ENTER();
  State& s = state();
  const Lock lock(s.mutex);
  CUstream_st* const stream = s.streams.contains(handle) ? handle : nullptr;
  if (stream == nullptr || stream->capture != nullptr || mode != cudaStreamCaptureModeThreadLocal)
    return refuse(cudaErrorIllegalState, "a capture of no stream, or within another one");
  stream->capture = new Capture{std::this_thread::get_id(), {}, {stream->device, stream->number, {}}};
  s.captures.insert(stream->capture);
  return cudaSuccess;
}
cudaError_t cudaStreamEndCapture(cudaStream_t handle, cudaGraph_t* graph) {
  State& s = state();
  const Lock lock(s.mutex);
  *graph = nullptr;
  CUstream_st* const stream = s.streams.contains(handle) ? handle : nullptr;
  if (stream == nullptr || stream->capture == nullptr || stream->capture->graph.origin != stream->number ||
      stream->capture->thread != std::this_thread::get_id())
    return refuse(cudaErrorIllegalState, "the end of a capture that did not begin there");
  const std::unique_ptr<Capture> capture(stream->capture);
  for (CUstream_st* const one : s.streams)
    if (one->capture == capture.get()) one->capture = nullptr;
  s.captures.erase(capture.get());
  TIDU_PLATFORM_ENTER();
  return finish(*capture, graph);
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  State& s = state();
  const Lock lock(s.mutex);
  if (s.graphs.erase(graph) == 0) return refuse(cudaErrorInvalidValue, "cudaGraphDestroy of no graph");
  delete graph;
  return s.sticky;
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* exec, cudaGraph_t graph, unsigned long long) {
  TIDU_PLATFORM_ENTER();
  State& s = state();
  const Lock lock(s.mutex);
  if (!s.graphs.contains(graph)) return refuse(cudaErrorInvalidValue, "cudaGraphInstantiate of no graph");
  if (graph->device != current_device())
    s.faults.emplace_back("a graph is instantiated where another device is current");
  *exec = new CUgraphExec_st{*graph, {}, {}};
  s.executables.insert(*exec);
  return cudaSuccess;
}
cudaError_t cudaGraphExecUpdate(cudaGraphExec_t exec, cudaGraph_t graph, cudaGraphExecUpdateResultInfo*) {
  TIDU_PLATFORM_ENTER();
  State& s = state();
  const Lock lock(s.mutex);
  if (!s.executables.contains(exec) || !s.graphs.contains(graph))
    return refuse(cudaErrorInvalidValue, "cudaGraphExecUpdate of no graph");
  if (!is_alike(exec->graph, *graph)) return give(cudaErrorGraphExecUpdateFailure);
  exec->graph = *graph;
  return cudaSuccess;
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) {
  State& s = state();
  const Lock lock(s.mutex);
  if (s.executables.erase(exec) == 0)
    return refuse(cudaErrorInvalidValue, "cudaGraphExecDestroy of no graph");
  delete exec;
  return s.sticky;
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t handle) {
  TIDU_PLATFORM_ENTER();
  State& s = state();
  CUstream_st* stream = nullptr;
  {
    const Lock lock(s.mutex);
    stream = find_stream(handle);
    if (!s.executables.contains(exec) || stream == nullptr)
      return refuse(cudaErrorInvalidResourceHandle, "cudaGraphLaunch of no graph, or on no stream");
    if (stream->capture != nullptr || exec->graph.device != stream->device)
      return refuse(cudaErrorInvalidValue, "a graph is launched in a capture, or on another device");
  }
  replay(*exec, *stream);
  return cudaSuccess;
}
}
