// state.hpp - what the platform knows: memory, streams, events, captures and graphs, who was told to fail.
// The CUDA runtime's functions (cuda_*.cpp) look up what they were given here, and put work here.
#pragma once

#include <cuda_runtime_api.h>

#include <map>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include "cuda/fake_rules.hpp"
#include "cuda/platform/order.hpp"
#include "cuda/platform/platform.hpp"

namespace tidu::test::platform {

/// Work, and for a copy from or to the host what is noted of it when it is done: process and tick.
struct Task {
  Work work;
  std::function<void(std::size_t process, std::uint64_t tick)> transfer;
};

/// What a capture keeps, in order. `lane` is the number of the stream, `event` of the event.
struct Captured {
  enum class Kind : std::uint8_t { work, record, wait } kind = Kind::work;
  std::size_t lane = 0, event = 0;
  Task task;
};

}  // namespace tidu::test::platform

struct CUgraph_st {
  int device = 0;
  std::size_t origin = 0;  ///< the lane that it begins and ends with
  std::vector<tidu::test::platform::Captured> steps;
};
struct CUgraphExec_st {
  CUgraph_st graph;
  std::map<std::size_t, std::size_t> processes;  ///< by lane
  tidu::test::platform::Clock done;              ///< launches of one graph come one after another
};

namespace tidu::test::platform {

struct Capture {
  std::thread::id thread;
  std::string broken;  ///< why it is invalid, or empty
  CUgraph_st graph;
};

}  // namespace tidu::test::platform

struct CUstream_st {
  int device = 0;
  std::size_t number = 0;
  tidu::test::platform::Clock clock;
  tidu::test::platform::Capture* capture = nullptr;
  bool asked = false;
};
struct CUevent_st {
  int device = 0;
  std::size_t number = 0;
  bool timed = false, recorded = false, asked = false;
  std::uint64_t time = 0;
  tidu::test::platform::Clock clock;
  tidu::test::platform::Capture* capture = nullptr;
};

namespace tidu::test::platform {

/// All of it. Whoever looks at it holds `mutex`.
struct State {
  std::recursive_mutex mutex;
  Allocations device, pinned;
  std::size_t pinned_peak = 0, pinned_limit = std::size_t{1} << 40;
  std::set<cudaStream_t> streams;
  std::vector<std::unique_ptr<CUstream_st>> defaults;  ///< the default stream of each device
  std::vector<Clock> ended;                            ///< of streams that were destroyed
  std::set<cudaEvent_t> events;
  std::set<cudaGraph_t> graphs;
  std::set<cudaGraphExec_t> executables;
  std::set<Capture*> captures;
  std::size_t kernels = 0;
  std::ptrdiff_t handles = 0;
  Clock host;
  Transfers transfers;
  std::size_t next_process = 1, next_event = 1;
  std::uint64_t time = 0;

  std::vector<std::string> faults;
  std::map<std::string, std::size_t> calls;
  std::string failing;
  int failing_at = 0, failed = 0;
  cudaError_t failing_with = cudaSuccess, sticky = cudaSuccess;
  bool failing_sticks = false;
};
State& state();
using Lock = std::lock_guard<std::recursive_mutex>;

/// Keeps the error for cudaGetLastError().
cudaError_t give(cudaError_t error);
/// Notes why a call is refused.
cudaError_t refuse(cudaError_t error, const std::string& why);
/// Counts the call; the error that it is told to fail with, or that of a call before it that sticks.
cudaError_t enter(const char* function);
/// Refuses what a thread that captures may not call, which ends its capture as invalid.
cudaError_t refuse_in_capture(const char* function);
/// This thread's device.
int& current_device();

/// The stream, the default one of the current device for null or cudaStreamLegacy; null if there is none.
CUstream_st* find_stream(cudaStream_t handle);
/// Puts work on a stream: done now, or kept where the stream is captured.
cudaError_t put(cudaStream_t handle, Task task);
/// Does all that a graph holds, after what was put on the stream.
void replay(CUgraphExec_st& graph, CUstream_st& on);
/// Lanes of a graph with work that its end does not wait for.
std::vector<std::size_t> unjoined_lanes(const CUgraph_st& graph);
/// The host has waited for all of that.
void pass(const Clock& clock);

}  // namespace tidu::test::platform

/// At the beginning of each function of the runtime.
#define TIDU_PLATFORM_ENTER() \
  if (const cudaError_t told = tidu::test::platform::enter(__func__); told != cudaSuccess) return told
