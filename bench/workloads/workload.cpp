// workload.cpp - graphs as workloads, and their input files.
#include "workload.hpp"

#include <cstring>
#include <fstream>
#include <iterator>
#include <memory>
#include <stdexcept>

#ifdef TIDU_WITH_CUDA
#include <tidu/cuda.hpp>
#endif

namespace workloads {

using tidu::Tensor;

namespace {

// The same of a CPU's executable and of a device's.
template <class Executable>
Workload of_executable(const Executable& executable, std::vector<Tensor> inputs, std::size_t outputs,
                       std::size_t first_state) {
  struct State {
    Executable executable;
    std::vector<Tensor> inputs, outputs;
    std::vector<const Tensor*> pointers;
  };
  const auto state = std::make_shared<State>(
      State{executable, inputs, std::vector<Tensor>(outputs), std::vector<const Tensor*>()});
  for (const Tensor& input : state->inputs) state->pointers.push_back(&input);
  const auto run = [state, first_state, running = false]() mutable {
    state->executable.run_into(state->pointers, state->outputs);
    if (running || first_state == no_state) return;
    running = true;
    for (std::size_t i = first_state; i < state->outputs.size(); ++i)
      state->pointers[i - first_state] = &state->outputs[i];
  };
  return {.results = [executable, inputs = std::move(inputs)] { return executable.run(inputs); },
          .run = run,
          .program = executable.program(),
          .peak_bytes = executable.program().peak_bytes()};
}

}  // namespace

Workload of_graph(const tidu::Graph& graph, std::vector<Tensor> inputs, const Setting& setting,
                  std::size_t first_state) {
  const std::size_t outputs = graph.outputs().size();
#ifdef TIDU_WITH_CUDA
  if (setting.gpu != nullptr) {
    for (Tensor& input : inputs) input = setting.gpu->put(input).value();
    Workload workload = of_executable(setting.gpu->compile(graph), std::move(inputs), outputs, first_state);
    workload.finish = [gpu = setting.gpu] { gpu->synchronize(); };
    return workload;
  }
#endif
  tidu::CpuOptions options;
  options.threads = setting.threads;
  if (setting.own_memory) --options.cached_bytes;
  const tidu::Executable executable = tidu::cpu().with_options(options).compile(graph);
  Workload workload = of_executable(executable, std::move(inputs), outputs, first_state);
  workload.peak_bytes = executable.peak_bytes();
  return workload;
}

InputFile::InputFile(const Setting& setting, const std::string& name)
    : file_(setting.inputs / (name + ".bin")) {
  std::ifstream in(file_, std::ios::binary);
  if (!in)
    throw std::runtime_error(file_.string() +
                             ": expected a file of inputs, got none; bench/inputs.py makes it");
  bytes_.assign(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>());
}

Tensor InputFile::next(tidu::Type type) {
  Tensor tensor(type);
  if (bytes_.size() - position_ < tensor.num_bytes())
    throw std::runtime_error(file_.string() + ": expected " + std::to_string(tensor.num_bytes()) +
                             " more bytes, got " + std::to_string(bytes_.size() - position_));
  std::memcpy(tensor.mutable_bytes(), bytes_.data() + position_, tensor.num_bytes());
  position_ += tensor.num_bytes();
  return tensor;
}

void InputFile::end() const {
  if (position_ != bytes_.size())
    throw std::runtime_error(file_.string() + ": expected no more than " + std::to_string(position_) +
                             " bytes, got " + std::to_string(bytes_.size()));
}

}  // namespace workloads
