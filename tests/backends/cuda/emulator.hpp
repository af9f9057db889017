// emulator.hpp - runs plans on the host: kernels are compiled by the system's C++ compiler behind the same
// prelude, the threads of a block that wait for each other are fibers. So every kernel's numbers are tested
// where there is no GPU. A strict one runs the prelude's device branch and checks each access (strict.hpp).
#pragma once

#include <array>
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "cuda/device.hpp"
#include "cuda/fuse.hpp"
#include "cuda/host_kernels.hpp"
#include "cuda/plan.hpp"
#include "cuda/strict.hpp"
#include "tidu/tensor/tensor.hpp"

namespace tidu::test {

/// While one lives, Emulator::shared() is strict. In a process with TIDU_STRICT_SEED in the environment it
/// always is, with that seed and at most TIDU_STRICT_BLOCKS blocks along x, if that is set.
class StrictScope {
 public:
  explicit StrictScope(const StrictOptions& options);
  ~StrictScope();
  StrictScope(const StrictScope&) = delete;
  StrictScope& operator=(const StrictScope&) = delete;

 private:
  std::optional<StrictOptions> before_;
};

class Emulator {
 public:
  Emulator();
  explicit Emulator(const StrictOptions& strictly);
  ~Emulator();
  Emulator(const Emulator&) = delete;
  Emulator& operator=(const Emulator&) = delete;

  /// Not in builds with sanitizers, which know nothing of what is compiled here and of its fibers: there,
  /// plans are made and not run.
  static bool is_enabled();
  /// One for the process, or a strict one, so that no kernel is compiled twice.
  static Emulator& shared();

  /// Notes the kernels of a plan, to be compiled with others.
  void add(const cuda_detail::Plan& plan);
  /// Compiles what was noted. Throws std::runtime_error with the compiler's words.
  void compile();
  /// Where a place lies in memory.
  using Locate = std::function<std::byte*(const cuda_detail::BufferRef&)>;
  /// Runs one launch; its kernel is compiled first if it is not yet. Throws std::runtime_error when threads
  /// of a block do not all wait.
  void launch(const cuda_detail::Launch& launch, const cuda_detail::Bindings& at);
  /// Other blocks are not run from now on: of kernels over more memory than is worth computing.
  using Choose = std::function<bool(const cuda_detail::Launch&, const std::array<std::uint32_t, 3>& block)>;
  void only_blocks(Choose only) { only_ = std::move(only); }
  /// Runs one step of any kind.
  void step(const cuda_detail::Step& step, const cuda_detail::Bindings& at);
  /// Runs all steps of a plan, with operands and results at aligned addresses, or one element after such.
  /// Throws std::runtime_error for a write out of bounds of results or scratch memory.
  void run(const cuda_detail::Plan& plan, std::span<const Tensor> operands, std::span<Tensor> results,
           bool unaligned = false);
  void run(const cuda_detail::Plan& plan, const cuda_detail::Bindings& at);
  /// Runs the nodes of a graph. What is a library's on a device, the reference interpreter does.
  std::vector<Tensor> run(const Graph& graph, const std::vector<cuda_detail::Node>& nodes,
                          std::span<const Tensor> inputs);
  /// Kernels compiled so far.
  std::size_t num_kernels() const { return entries_.size(); }

 private:
  void load(const KernelSources& kernels);
  const HostKernel& entry_of(const cuda_detail::Launch& launch);
  void launch(const cuda_detail::Launch& launch, const cuda_detail::Bindings& at,
              std::vector<StrictMemory>* arrays);
  void run_blocks(const cuda_detail::Launch& launch, const HostKernel& entry, void** arguments);

  std::optional<StrictOptions> strict_;
  Choose only_;
  std::mutex mutex_;                                     // of launches: blocks of threads are one at a time
  std::unordered_map<std::string, HostKernel> entries_;  // by the kernel's entry
  std::unordered_map<std::string, std::shared_ptr<const cuda_detail::KernelSource>> noted_;
};

}  // namespace tidu::test
