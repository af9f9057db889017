// libraries.cpp - the libraries of a device: which runs what, and what may be captured.
#include "cuda/libraries/libraries.hpp"

#include <atomic>
#include <mutex>
#include <vector>

#include "cuda/libraries/library_calls.hpp"
#include "cuda/libraries/library_collectives.hpp"
#include "cuda/libraries/library_convolutions.hpp"
#include "cuda/libraries/library_matmul.hpp"
#include "cuda/libraries/library_solver.hpp"
#include "cuda/libraries/library_sorting.hpp"

namespace tidu::cuda_detail {
namespace {

class ToolkitLibraries final : public Libraries {
 public:
  bool run(const GemmStep& step, const Bindings& at, Stream stream) override {
    return matmuls_.run(step, at, stream);
  }

  void run(const ConvolutionStep& step, const Bindings& at, Stream stream) override {
    convolutions_.run(step, at, stream);
  }

  void run(const SortStep& step, const Bindings& at, Stream stream) override {
    SortCall call = call_of(step);
    call.keys = at.at(step.keys);
    call.keys_out = at.at(step.keys_out);
    call.values = reinterpret_cast<const std::uint32_t*>(at.at(step.values));
    call.values_out = reinterpret_cast<std::uint32_t*>(at.at(step.values_out));
    call.stream = stream.handle;
    std::size_t bytes = step.workspace_bytes;
    check("cub::DeviceRadixSort", sort_by_radix(call, at.at(step.workspace), bytes));
  }

  void run(const SolverStep& step, const Bindings& at, Stream stream) override {
    solver_.run(step, at, stream);
  }

  void run(const CollectiveStep& step, const Bindings& at, Stream stream) override {
    run_collective(step, at, stream);
  }
  CommunicatorKey communicator_id() override { return make_communicator_key(); }
  void* join(const CommunicatorKey& id, int rank, int ranks) override {
    void* const communicator = join_communicator(id, rank, ranks);
    const std::lock_guard lock(joined_mutex_);
    joined_.push_back(communicator);
    num_joined_ = joined_.size();
    return communicator;
  }
  void leave(void* communicator) noexcept override {
    {
      const std::lock_guard lock(joined_mutex_);
      std::erase(joined_, communicator);
      num_joined_ = joined_.size();
    }
    leave_communicator(communicator);
  }
  void check_communicators(std::chrono::duration<double> waited) override {
    const std::lock_guard lock(joined_mutex_);
    for (void* const communicator : joined_) check_communicator(communicator, waited);
  }
  bool has_communicators() const override { return num_joined_ != 0; }

  std::size_t workspace_bytes(const Step& step) const override {
    if (const auto* const solving = std::get_if<SolverStep>(&step)) return solver_.workspace_bytes(*solving);
    std::size_t bytes = 0;
    if (const auto* const sorting = std::get_if<SortStep>(&step))
      check("cub::DeviceRadixSort", sort_by_radix(call_of(*sorting), nullptr, bytes));
    return bytes;
  }

  // Some solvers wait for the device, and each stream has handles of its own.
  bool can_capture(const Step& step) const override {
    if (std::holds_alternative<GemmStep>(step)) matmuls_.prepare();
    if (std::holds_alternative<ConvolutionStep>(step)) convolutions_.prepare();
    return !std::holds_alternative<SolverStep>(step);
  }

 private:
  static SortCall call_of(const SortStep& step) {
    SortCall call;
    call.key_bytes = step.key_bytes;
    call.segments = step.segments;
    call.length = step.length;
    return call;
  }
  static void check(const char* routine, int status) {
    check_runtime(routine, static_cast<cudaError_t>(status));
  }
  std::mutex joined_mutex_;
  std::vector<void*> joined_;
  std::atomic<std::size_t> num_joined_{0};
  mutable MatmulLibrary matmuls_;  // made ready where something is going to be captured
  mutable ConvolutionLibrary convolutions_;
  mutable SolverLibrary solver_;
};

}  // namespace

std::unique_ptr<Libraries> make_libraries() { return std::make_unique<ToolkitLibraries>(); }

}  // namespace tidu::cuda_detail
