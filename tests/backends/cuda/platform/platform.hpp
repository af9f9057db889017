// platform.hpp - a CUDA platform in host memory: the CUDA runtime's functions that tidu calls, defined by
// cuda_*.cpp in place of libcudart_static, and libraries with the names of NVIDIA's (libraries/). The
// executor above it is the one that users have. Work is done when it is put on a stream; what it may rely on
// is told by vector clocks (order.hpp). Calls that CUDA refuses are refused, and each refusal, like each
// access that no event orders, is noted in faults(). Any call can be told to fail.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace tidu::test::platform {

/// A machine has as many devices.
constexpr int num_devices = 4;
/// Bytes of memory of each.
constexpr std::size_t device_bytes = std::size_t{4} << 30;

/// Bytes that work reads or writes.
struct Touch {
  const void* at = nullptr;
  std::size_t bytes = 0;
  bool writes = false;
};

/// Work that a library puts on a stream.
struct Work {
  std::string name;
  std::vector<Touch> touches;
  std::function<void()> run;
};

/// What was broken so far, in words; it is forgotten then.
std::vector<std::string> take_faults();

/// What has not been given back.
struct Held {
  std::size_t device_bytes = 0, pinned_bytes = 0, streams = 0, events = 0, graphs = 0, captures = 0,
              kernels = 0, handles = 0;
  friend bool operator==(const Held&, const Held&) = default;
};
Held held();
std::string to_string(const Held& held);

/// Pinned bytes at most since the last call of it.
std::size_t take_pinned_peak();

/// How often a function was called.
std::size_t calls(const std::string& function);

/// The n-th call of that function from now on fails with that error, a cudaError_t; with `sticky`, so does
/// every call on this platform after it, until recover(). Replaces an earlier order.
void fail(const std::string& function, int nth, int error, bool sticky = false);
/// Every call of that function fails, until recover().
void always_fail(const std::string& function);
/// Calls that failed because they were told to, since fail().
int failures();
/// No call is told to fail any more.
void recover();

/// Most bytes of pinned memory that there are.
void limit_pinned(std::size_t bytes);

}  // namespace tidu::test::platform

/// For libraries, which are loaded by name and find it in the program: puts work on a cudaStream_t of the
/// calling thread's current device. Gives a cudaError_t.
extern "C" int tidu_platform_put(void* stream, const tidu::test::platform::Work* work);
/// For libraries: a handle, descriptor or communicator was made (1) or destroyed (-1); and a rule was broken.
extern "C" void tidu_platform_count_handle(int change);
extern "C" void tidu_platform_fault(const char* words);
/// For libraries: is the call of that name told to fail? Gives a cudaError_t.
extern "C" int tidu_platform_enter(const char* function);
/// For libraries: does all of it lie in one allocation of a device?
extern "C" bool tidu_platform_holds(const void* at, std::size_t bytes);
