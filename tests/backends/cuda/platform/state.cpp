// state.cpp - the order of work, captures, and what tests ask.
#include "cuda/platform/state.hpp"

#include <algorithm>
#include <utility>

#include "tidu/graph/error.hpp"

namespace tidu::test::platform {

State& state() {
  static State* const all = [] {
    auto* made = new State;  // never destroyed: threads may end after main
    for (int device = 0; device < num_devices; ++device) {
      made->defaults.push_back(std::make_unique<CUstream_st>());
      made->defaults.back()->device = device;
      made->defaults.back()->number = made->next_process++;
    }
    return made;
  }();
  return *all;
}

namespace {

thread_local cudaError_t last_error = cudaSuccess;

}  // namespace

int& current_device() {
  thread_local int device = 0;
  return device;
}

cudaError_t give(cudaError_t error) {
  if (error != cudaSuccess) last_error = error;
  return error;
}

cudaError_t refuse(cudaError_t error, const std::string& why) {
  state().faults.push_back(why);
  return give(error);
}

cudaError_t enter(const char* function) {
  State& s = state();
  const Lock lock(s.mutex);
  ++s.calls[function];
  if (s.failing == function && (s.failing_at < 0 || (s.failing_at > 0 && --s.failing_at == 0))) {
    ++s.failed;
    if (s.failing_sticks) s.sticky = s.failing_with;
    return give(s.failing_with);
  }
  return s.sticky != cudaSuccess ? give(s.sticky) : cudaSuccess;
}

cudaError_t refuse_in_capture(const char* function) {
  for (Capture* const one : state().captures) {
    if (one->thread != std::this_thread::get_id()) continue;
    one->broken = std::string(function) + " by a thread that captures";
    return refuse(cudaErrorStreamCaptureUnsupported, one->broken);
  }
  return cudaSuccess;
}

CUstream_st* find_stream(cudaStream_t handle) {
  State& s = state();
  if (handle == nullptr || handle == cudaStreamLegacy)
    return s.defaults[static_cast<std::size_t>(current_device())].get();
  return s.streams.contains(handle) ? handle : nullptr;
}

namespace {

// Notes what the work touches, and does it; nobody else waits meanwhile, as ranks of a collective do.
void perform(const Task& task, int device, std::size_t process, Clock& clock) {
  State& s = state();
  {
    const Lock lock(s.mutex);
    tick(clock, process);
    ++s.time;
    const std::size_t faults = s.faults.size();
    for (const bool writes : {false, true}) {
      for (const Touch& one : task.work.touches) {
        if (one.writes != writes) continue;
        if (std::string broken = s.device.touch(one, task.work.name, device, process, clock, s.host);
            !broken.empty())
          s.faults.push_back(std::move(broken));
      }
    }
    if (task.transfer) task.transfer(process, clock[process]);
    if (s.faults.size() != faults) return;
  }
  if (task.work.run) task.work.run();
}

}  // namespace

cudaError_t put(cudaStream_t handle, Task task) {
  State& s = state();
  CUstream_st* on = nullptr;
  {
    const Lock lock(s.mutex);
    on = find_stream(handle);
    if (on == nullptr) return refuse(cudaErrorInvalidResourceHandle, task.work.name + " on no stream");
    if (on->capture != nullptr) {
      on->capture->graph.steps.push_back({Captured::Kind::work, on->number, 0, std::move(task)});
      return cudaSuccess;
    }
    join(on->clock, s.host);
  }
  perform(task, on->device, on->number, on->clock);
  return cudaSuccess;
}

void replay(CUgraphExec_st& exec, CUstream_st& on) {
  State& s = state();
  const CUgraph_st& graph = exec.graph;
  std::map<std::size_t, Clock> lanes, events;
  {
    const Lock lock(s.mutex);
    join(on.clock, s.host);
    join(on.clock, exec.done);
    tick(on.clock, on.number);
    for (const Captured& step : graph.steps) {
      if (exec.processes.try_emplace(step.lane, s.next_process).second) ++s.next_process;
      lanes.try_emplace(step.lane, on.clock);
    }
    lanes.try_emplace(graph.origin, on.clock);
  }
  for (const Captured& step : graph.steps) {
    Clock& clock = lanes[step.lane];
    if (step.kind == Captured::Kind::record) events[step.event] = clock;
    if (step.kind == Captured::Kind::wait) join(clock, events[step.event]);
    if (step.kind == Captured::Kind::work) perform(step.task, graph.device, exec.processes[step.lane], clock);
  }
  const Lock lock(s.mutex);
  join(on.clock, lanes[graph.origin]);
  exec.done = on.clock;
}

std::vector<std::size_t> unjoined_lanes(const CUgraph_st& graph) {
  std::map<std::size_t, Clock> lanes, events;
  for (const Captured& step : graph.steps) {
    Clock& clock = lanes[step.lane];
    if (step.kind == Captured::Kind::record) events[step.event] = clock;
    if (step.kind == Captured::Kind::wait) join(clock, events[step.event]);
    if (step.kind != Captured::Kind::record) tick(clock, step.lane);
  }
  std::vector<std::size_t> left;
  for (const auto& [lane, clock] : lanes) {
    const Clock& end = lanes[graph.origin];
    if (clock.size() > lane && (end.size() <= lane || end[lane] < clock[lane])) left.push_back(lane);
  }
  return left;
}

void pass(const Clock& clock) {
  State& s = state();
  join(s.host, clock);
  for (std::string& broken : s.transfers.settle(s.host)) s.faults.push_back(std::move(broken));
}

// --- for tests

std::vector<std::string> take_faults() {
  const Lock lock(state().mutex);
  return std::exchange(state().faults, {});
}

Held held() {
  const State& s = state();
  const Lock lock(state().mutex);
  return {s.device.bytes(),
          s.pinned.bytes(),
          s.streams.size(),
          s.events.size(),
          s.graphs.size() + s.executables.size(),
          s.captures.size(),
          s.kernels,
          static_cast<std::size_t>(s.handles)};
}

std::string to_string(const Held& held) {
  return detail::str(held.device_bytes, " bytes, ", held.pinned_bytes, " pinned bytes, ", held.streams,
                     " streams, ", held.events, " events, ", held.graphs, " graphs, ", held.captures,
                     " captures, ", held.kernels, " kernels, ", held.handles, " handles of libraries");
}

std::size_t take_pinned_peak() {
  const Lock lock(state().mutex);
  return std::exchange(state().pinned_peak, state().pinned.bytes());
}

std::size_t calls(const std::string& function) {
  const Lock lock(state().mutex);
  return state().calls[function];
}

void fail(const std::string& function, int nth, int error, bool sticky) {
  State& s = state();
  const Lock lock(s.mutex);
  s.failing = function;
  s.failing_at = nth;
  s.failed = 0;
  s.failing_with = static_cast<cudaError_t>(error);
  s.failing_sticks = sticky;
}

void always_fail(const std::string& function) { fail(function, -1, cudaErrorUnknown); }

int failures() {
  const Lock lock(state().mutex);
  return state().failed;
}

void recover() {
  State& s = state();
  const Lock lock(s.mutex);
  s.failing.clear();
  s.sticky = cudaSuccess;
}

void limit_pinned(std::size_t bytes) {
  const Lock lock(state().mutex);
  state().pinned_limit = bytes;
}

}  // namespace tidu::test::platform

// --- for libraries

extern "C" {

int tidu_platform_put(void* stream, const tidu::test::platform::Work* work) {
  return tidu::test::platform::put(static_cast<cudaStream_t>(stream), {*work, {}});
}

void tidu_platform_count_handle(int change) {
  const tidu::test::platform::Lock lock(tidu::test::platform::state().mutex);
  tidu::test::platform::state().handles += change;
}

void tidu_platform_fault(const char* words) {
  const tidu::test::platform::Lock lock(tidu::test::platform::state().mutex);
  tidu::test::platform::state().faults.emplace_back(words);
}

int tidu_platform_enter(const char* function) { return tidu::test::platform::enter(function); }

bool tidu_platform_holds(const void* at, std::size_t bytes) {
  const tidu::test::platform::Lock lock(tidu::test::platform::state().mutex);
  return bytes == 0 || tidu::test::platform::state().device.find(at, bytes) != nullptr;
}

// --- errors of the runtime

cudaError_t cudaGetLastError() {
  namespace platform = tidu::test::platform;
  const platform::Lock lock(platform::state().mutex);
  if (platform::state().sticky != cudaSuccess) return platform::state().sticky;
  return std::exchange(platform::last_error, cudaSuccess);
}

const char* cudaGetErrorName(cudaError_t error) {
  switch (error) {
    case cudaErrorInvalidValue: return "cudaErrorInvalidValue";
    case cudaErrorMemoryAllocation: return "cudaErrorMemoryAllocation";
    case cudaErrorInvalidConfiguration: return "cudaErrorInvalidConfiguration";
    case cudaErrorInvalidResourceHandle: return "cudaErrorInvalidResourceHandle";
    case cudaErrorIllegalAddress: return "cudaErrorIllegalAddress";
    case cudaErrorLaunchFailure: return "cudaErrorLaunchFailure";
    case cudaErrorStreamCaptureUnsupported: return "cudaErrorStreamCaptureUnsupported";
    case cudaErrorStreamCaptureInvalidated: return "cudaErrorStreamCaptureInvalidated";
    case cudaErrorStreamCaptureUnjoined: return "cudaErrorStreamCaptureUnjoined";
    default: return "another error of CUDA";
  }
}

const char* cudaGetErrorString(cudaError_t error) { return cudaGetErrorName(error); }
}
