// cuda_streams.cpp - the runtime's devices, streams and events.
#include <cuda.h>

#include <cstring>

#include "cuda/platform/state.hpp"

namespace tidu::test::platform {
namespace {

std::string name_of(const CUevent_st& event) { return "event " + std::to_string(event.number); }

// The functions of the driver that tidu asks for.
CUresult device_get(CUdevice* device, int ordinal) {
  *device = ordinal;
  return CUDA_SUCCESS;
}
CUresult context_state(CUdevice, unsigned* flags, int* active) {
  *flags = 0;
  *active = 1;
  return CUDA_SUCCESS;
}

bool is_capturing(const Capture* capture) { return state().captures.contains(const_cast<Capture*>(capture)); }

cudaError_t refuse_handle(const char* function) {
  return refuse(cudaErrorInvalidResourceHandle, std::string(function) + " of a handle that is none");
}

}  // namespace
}  // namespace tidu::test::platform

using namespace tidu::test::platform;

extern "C" {

// --- devices

cudaError_t cudaGetDeviceCount(int* count) {
  *count = num_devices;
  return cudaSuccess;
}
cudaError_t cudaGetDevice(int* device) {
  *device = current_device();
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int device) {
  TIDU_PLATFORM_ENTER();
  if (device < 0 || device >= num_devices) return give(cudaErrorInvalidDevice);
  current_device() = device;
  return cudaSuccess;
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int) {
  *properties = {};
  std::strcpy(properties->name, "a platform in host memory");
  properties->major = 9;
  properties->multiProcessorCount = 132;
  properties->totalGlobalMem = device_bytes;
  properties->l2CacheSize = 50 << 20;
  return cudaSuccess;
}
cudaError_t cudaGetDriverEntryPointByVersion(const char* name, void** function, unsigned, unsigned long long,
                                             cudaDriverEntryPointQueryResult* result) {
  *function = std::string_view(name) == "cuDeviceGet" ? reinterpret_cast<void*>(&device_get)
                                                      : reinterpret_cast<void*>(&context_state);
  *result = cudaDriverEntryPointSuccess;
  return cudaSuccess;
}
cudaError_t cudaDeviceSynchronize() {
  TIDU_PLATFORM_ENTER();
  State& s = state();
  const Lock lock(s.mutex);
  if (!s.captures.empty())
    return refuse(cudaErrorStreamCaptureUnsupported, "cudaDeviceSynchronize while something is captured");
  for (const CUstream_st* const stream : s.streams)
    if (stream->device == current_device()) pass(stream->clock);
  for (const Clock& clock : s.ended) pass(clock);
  s.ended.clear();
  pass(s.defaults[static_cast<std::size_t>(current_device())]->clock);
  return cudaSuccess;
}

// --- streams

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  TIDU_PLATFORM_ENTER();
  State& s = state();
  const Lock lock(s.mutex);
  if (flags != cudaStreamNonBlocking)
    return refuse(cudaErrorInvalidValue, "a stream that waits for the default stream");
  *stream = new CUstream_st{current_device(), s.next_process++, s.host, nullptr, false};
  s.streams.insert(*stream);
  return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  State& s = state();
  const Lock lock(s.mutex);
  if (s.streams.erase(stream) == 0) return refuse_handle("cudaStreamDestroy");
  if (stream->capture != nullptr) s.faults.emplace_back("a stream is destroyed that is being captured");
  s.ended.push_back(stream->clock);
  delete stream;
  return s.sticky;
}
// Work that the host has not waited for is done when it is asked for a second time.
cudaError_t cudaStreamQuery(cudaStream_t handle) {
  TIDU_PLATFORM_ENTER();
  const Lock lock(state().mutex);
  if (const cudaError_t error = refuse_in_capture("cudaStreamQuery"); error != cudaSuccess) return error;
  CUstream_st* const stream = find_stream(handle);
  if (stream == nullptr) return refuse_handle("cudaStreamQuery");
  stream->asked = !stream->asked && !is_before(stream->clock, state().host);
  if (stream->asked) return give(cudaErrorNotReady);
  pass(stream->clock);
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t handle) {
  TIDU_PLATFORM_ENTER();
  const Lock lock(state().mutex);
  if (const cudaError_t error = refuse_in_capture("cudaStreamSynchronize"); error != cudaSuccess)
    return error;
  const CUstream_st* const stream = find_stream(handle);
  if (stream == nullptr) return refuse_handle("cudaStreamSynchronize");
  if (stream->capture != nullptr)
    return refuse(cudaErrorStreamCaptureUnsupported, "the host waits for a stream that is being captured");
  pass(stream->clock);
  return cudaSuccess;
}

// --- events

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  TIDU_PLATFORM_ENTER();
  State& s = state();
  const Lock lock(s.mutex);
  *event = new CUevent_st;
  (*event)->device = current_device();
  (*event)->number = s.next_event++;
  (*event)->timed = (flags & cudaEventDisableTiming) == 0;
  s.events.insert(*event);
  return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  State& s = state();
  const Lock lock(s.mutex);
  if (s.events.erase(event) == 0) return refuse_handle("cudaEventDestroy");
  delete event;
  return s.sticky;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t handle) {
  TIDU_PLATFORM_ENTER();
  State& s = state();
  const Lock lock(s.mutex);
  CUstream_st* const stream = find_stream(handle);
  if (!s.events.contains(event) || stream == nullptr) return refuse_handle("cudaEventRecord");
  if (event->device != stream->device)
    return refuse(cudaErrorInvalidResourceHandle, name_of(*event) + " is recorded on another device");
  if (event->capture != stream->capture && is_capturing(event->capture))
    s.faults.push_back(name_of(*event) + " of a capture that has not ended is recorded anew");
  event->recorded = true;
  event->asked = false;
  event->time = ++s.time;
  event->capture = stream->capture;
  if (stream->capture != nullptr) {
    stream->capture->graph.steps.push_back({Captured::Kind::record, stream->number, event->number, {}});
    return cudaSuccess;
  }
  join(stream->clock, s.host);
  event->clock = stream->clock;
  return cudaSuccess;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t handle, cudaEvent_t event, unsigned) {
  TIDU_PLATFORM_ENTER();
  State& s = state();
  const Lock lock(s.mutex);
  CUstream_st* const stream = find_stream(handle);
  if (!s.events.contains(event) || stream == nullptr) return refuse_handle("cudaStreamWaitEvent");
  if (!event->recorded) s.faults.push_back(name_of(*event) + " is waited for, which was never recorded");
  if (event->capture != nullptr && !is_capturing(event->capture))
    return refuse(cudaErrorCapturedEvent, name_of(*event) + " of a capture that has ended is waited for");
  if (stream->capture == nullptr) stream->capture = event->capture;
  if (stream->capture != event->capture) {
    stream->capture->broken = "a capture waits for what is outside";
    return refuse(cudaErrorStreamCaptureIsolation, stream->capture->broken);
  }
  if (stream->capture != nullptr) {
    stream->capture->graph.steps.push_back({Captured::Kind::wait, stream->number, event->number, {}});
    return cudaSuccess;
  }
  join(stream->clock, s.host);
  join(stream->clock, event->clock);
  return cudaSuccess;
}
// Work that the host has not waited for is done when it is asked for a second time.
cudaError_t cudaEventQuery(cudaEvent_t event) {
  TIDU_PLATFORM_ENTER();
  State& s = state();
  const Lock lock(s.mutex);
  if (!s.events.contains(event)) return refuse_handle("cudaEventQuery");
  if (const cudaError_t error = refuse_in_capture("cudaEventQuery"); error != cudaSuccess) return error;
  if (is_capturing(event->capture))
    return refuse(cudaErrorCapturedEvent, name_of(*event) + " is asked for, which is captured");
  if (!is_before(event->clock, s.host) && !event->asked) {
    event->asked = true;
    return give(cudaErrorNotReady);
  }
  pass(event->clock);
  return cudaSuccess;
}
// A microsecond between two events and the next two.
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t begin, cudaEvent_t end) {
  TIDU_PLATFORM_ENTER();
  State& s = state();
  const Lock lock(s.mutex);
  for (const CUevent_st* const event : {begin, end}) {
    if (!s.events.contains(const_cast<cudaEvent_t>(event)) || !event->timed || !event->recorded)
      return refuse_handle("cudaEventElapsedTime");
    if (!is_before(event->clock, s.host)) return give(cudaErrorNotReady);
  }
  if (begin->device != end->device)
    return refuse(cudaErrorInvalidResourceHandle, "the time between events of two devices");
  *milliseconds = 0.001F * (static_cast<float>(end->time) - static_cast<float>(begin->time));
  return cudaSuccess;
}
}
