// workload.cpp - graphs as workloads, and their input files.
#include "workload.hpp"

#include <algorithm>
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

void expect_same(const std::vector<Tensor>& got, const std::vector<Tensor>& expected) {
  const auto same = [](const Tensor& x, const Tensor& y) {
    return x.num_bytes() == y.num_bytes() && std::memcmp(x.bytes(), y.bytes(), x.num_bytes()) == 0;
  };
  if (!std::equal(got.begin(), got.end(), expected.begin(), expected.end(), same))
    throw std::runtime_error("what is timed computes something else");
}

namespace {

// The same of a CPU's executable and of a device's.
template <class Executable>
Workload of_executable(const Executable& executable, std::vector<Tensor> inputs, std::size_t outputs,
                       std::size_t first_state) {
  struct State {
    Executable executable;
    std::vector<Tensor> inputs, outputs;
    std::vector<const Tensor*> pointers;
    std::size_t first_state;
    State(const Executable& of, std::vector<Tensor> from, std::size_t count, std::size_t first)
        : executable(of), inputs(std::move(from)), outputs(count), first_state(first) {
      for (const Tensor& input : inputs) pointers.push_back(&input);
    }
    void run() {
      executable.run_into(pointers, outputs);
      for (std::size_t i = first_state; i < outputs.size(); ++i) pointers[i - first_state] = &outputs[i];
    }
  };
  const auto state = std::make_shared<State>(executable, inputs, outputs, first_state);
  // Of the first run; the timed form has to compute the same, in some runs.
  const auto results = [executable, inputs = std::move(inputs), outputs, first_state] {
    constexpr int runs = 3;
    State timed(executable, inputs, outputs, first_state);
    std::vector<Tensor> given = inputs, first;
    for (int k = 0; k < runs; ++k) {
      std::vector<Tensor> expected = executable.run(given);
      timed.run();
      expect_same(timed.outputs, expected);
      for (std::size_t i = first_state; i < expected.size(); ++i) given[i - first_state] = expected[i];
      if (k == 0) first = std::move(expected);
    }
    return first;
  };
  return {.results = results, .run = [state] { state->run(); }};
}

}  // namespace

Workload of_graph(const tidu::Graph& graph, std::vector<Tensor> inputs, const Setting& setting,
                  std::size_t first_state) {
  const std::size_t outputs = graph.outputs().size();
#ifdef TIDU_WITH_CUDA
  if (setting.gpu != nullptr) {
    for (Tensor& input : inputs) input = setting.gpu->put(input).value();
    const tidu::CudaExecutable executable = setting.gpu->compile(graph);
    Workload workload = of_executable(executable, std::move(inputs), outputs, first_state);
    workload.text = [executable] { return tidu::to_text(executable.graph()); };
    workload.peak_bytes = executable.workspace_bytes();
    workload.finish = [gpu = setting.gpu] { gpu->synchronize(); };
    return workload;
  }
#endif
  tidu::CpuOptions options;
  options.threads = setting.threads;
  options.program = setting.program;
  if (setting.own_memory) --options.cached_bytes;
  const tidu::Executable executable = tidu::cpu().with_options(options).compile(graph);
  Workload workload = of_executable(executable, std::move(inputs), outputs, first_state);
  workload.text = [executable] { return tidu::to_text(executable.program()); };
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
