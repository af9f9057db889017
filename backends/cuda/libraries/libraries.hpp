// libraries.hpp - Libraries: who runs the steps that are calls of a library, on an opened device of the CUDA
// runtime.
#pragma once

#include <chrono>
#include <memory>

#include "cuda/device.hpp"

namespace tidu::cuda_detail {

/// Any thread may call anything at any time, the device being its current one; each stream is one thread's at
/// a time. Libraries are loaded when
/// they are first needed. All throw Error: execution with the library's name for what it refused,
/// out_of_memory.
class Libraries {
 public:
  Libraries() = default;
  Libraries(const Libraries&) = delete;
  Libraries& operator=(const Libraries&) = delete;
  virtual ~Libraries() = default;

  /// False, and nothing is done, where the library has no algorithm for it.
  [[nodiscard]] virtual bool run(const GemmStep& step, const Bindings& at, Stream stream) = 0;
  virtual void run(const ConvolutionStep& step, const Bindings& at, Stream stream) = 0;
  virtual void run(const SortStep& step, const Bindings& at, Stream stream) = 0;
  virtual void run(const SolverStep& step, const Bindings& at, Stream stream) = 0;
  virtual void run(const CollectiveStep& step, const Bindings& at, Stream stream) = 0;
  /// Bytes that sorting and solvers work in; 0 for other steps.
  virtual std::size_t workspace_bytes(const Step& step) const = 0;
  /// See Device.
  virtual CommunicatorKey communicator_id() = 0;
  virtual void* join(const CommunicatorKey& id, int rank, int ranks) = 0;
  virtual void leave(void* communicator) noexcept = 0;
  /// Throws where a rank of a communicator that was joined has failed, or the host has waited too long for
  /// them. Cheap where none was joined.
  virtual void check_communicators(std::chrono::duration<double> waited) = 0;
  virtual bool has_communicators() const = 0;
  /// Not where a call waits for the device.
  virtual bool can_capture(const Step& step) const = 0;
};

/// The libraries of one device.
std::unique_ptr<Libraries> make_libraries();

}  // namespace tidu::cuda_detail
