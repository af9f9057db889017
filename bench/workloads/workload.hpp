// workload.hpp - Workload: a program that is compared with other libraries, under its name in
// scripts/bench.sh, and its bound written by hand.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <tidu/cpu/executor.hpp>
#include <tidu/graph/graph.hpp>
#include <tidu/tensor/tensor.hpp>
#include <vector>

namespace tidu {
class CudaExecutor;
}

namespace workloads {

/// The program and its timed form.
struct Workload {
  /// One run from the first inputs: its results, to be compared with those of others.
  std::function<std::vector<tidu::Tensor>()> results;
  std::function<void()> run;
  /// Optional: called before that many timed runs, and not timed itself.
  std::function<void(long runs)> before{};
  /// The same work, or the part of it that cannot be saved, by hand, in each of these ways; the fastest
  /// counts.
  std::vector<std::function<void()>> bounds{};
  /// The program or graph as text, if it is one.
  std::function<std::string()> text{};
  std::size_t peak_bytes = 0;  ///< predicted, above the inputs; for a device without outputs
  /// On a device: waits for the work that `run` and `bounds` have enqueued.
  std::function<void()> finish{};
  bool issuing = false;  ///< counts how long the host puts runs on the device, not how long they take there
};

/// The threads or device of a measurement, and its options.
struct Setting {
  tidu::ProgramOptions program{};  ///< of the CPU executor
  std::filesystem::path inputs;    ///< the folder of input files, which bench/inputs.py writes
  int threads = 1;
  const tidu::CudaExecutor* gpu = nullptr;  ///< where graphs run instead of the CPU
  bool own_memory = false;                  ///< which goes with the workload, and is not the executor's
};

using Make = std::function<Workload(const Setting& setting)>;
using Registry = std::map<std::string, Make>;

// By family: each adds its workloads.
void add_gmm(Registry& registry);
void add_adbench(Registry& registry);
void add_training(Registry& registry);
void add_transformer(Registry& registry);
void add_elementwise(Registry& registry);
void add_calls(Registry& registry);
void add_device(Registry& registry);

/// The executor of the device of that name, "cuda". Throws Error (execution) where there is none, and
/// std::runtime_error where tidu was built without.
/// With `in_steps` programs are not replayed as a whole.
const tidu::CudaExecutor* find_device(const std::string& name, bool in_steps = false);

/// Runs the workload on a device that was found `in_steps`, and prints how long each step took there at
/// least, in the order in which they began.
void print_steps(const Workload& workload, const tidu::CudaExecutor& gpu);

/// A workload that runs the graph, compiled for the CPU or for the setting's device, on these inputs. With
/// `first_state`, output `first_state` + i becomes input i of the next run, as for parameters in training.
constexpr std::size_t no_state = static_cast<std::size_t>(-1);
Workload of_graph(const tidu::Graph& graph, std::vector<tidu::Tensor> inputs, const Setting& setting,
                  std::size_t first_state = no_state);

/// A graph that was dumped, with the inputs that were: NAME.graph.json beside NAME.inputs.json, or a file
/// that has "graph" and "inputs".
Workload of_file(const std::filesystem::path& file, const Setting& setting);

/// Throws std::runtime_error unless they are equal to the last bit.
void expect_same(const std::vector<tidu::Tensor>& got, const std::vector<tidu::Tensor>& expected);

/// A file of tensors one after another, little-endian.
class InputFile {
 public:
  /// Throws std::runtime_error, naming the file, when it cannot be read.
  InputFile(const Setting& setting, const std::string& name);
  /// The next elements of the file.
  tidu::Tensor next(tidu::Type type);
  /// Throws std::runtime_error unless all was read.
  void end() const;

 private:
  std::filesystem::path file_;
  std::string bytes_;
  std::size_t position_ = 0;
};

}  // namespace workloads
