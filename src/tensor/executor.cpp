// executor.cpp - functions that all executors share: inputs by name, and the checks of inputs.
#include "tidu/tensor/executor.hpp"

#include <optional>

#include "graph/input_index.hpp"
#include "tensor/calls.hpp"

namespace tidu {

Executor::~Executor() = default;

std::vector<Tensor> Executor::run(const Graph& graph, std::span<const Tensor> inputs) const {
  return try_run(graph, inputs).value();
}

std::vector<Tensor> Executor::run(const Graph& graph, std::initializer_list<Tensor> inputs) const {
  return run(graph, std::span(inputs.begin(), inputs.size()));
}

std::vector<Tensor> Executor::run(const Graph& graph, std::initializer_list<NamedTensor> inputs) const {
  return run_named(graph, std::span(inputs.begin(), inputs.size()));
}

std::vector<Tensor> Executor::run_named(const Graph& graph, std::span<const NamedTensor> inputs) const {
  return run(graph, arrange_inputs(graph, inputs));
}

Result<std::vector<Tensor>> Executor::try_run_named(const Graph& graph,
                                                    std::span<const NamedTensor> inputs) const {
  return detail::capture([&] { return run_named(graph, inputs); });
}

void check_inputs(const Graph& graph, std::span<const Tensor> inputs) {
  if (!graph.externals().empty()) {
    throw Error(
        ErrorKind::invalid_argument,
        detail::str("run: expected a graph without externals, got ", detail::in_quotes(graph.name()),
                    " with ", graph.externals().size(), " (merge it with the graph that defines them)"));
  }
  if (inputs.size() != graph.inputs().size()) {
    std::string names;
    for (std::size_t i = 0; i < graph.inputs().size(); ++i) {
      names += detail::str(i == 0 ? " (" : ", ", detail::printable(graph.input_name(i)), ':',
                           graph.type(graph.inputs()[i]));
    }
    if (!names.empty()) names += ")";
    throw Error(ErrorKind::invalid_argument,
                detail::str("run: expected ", graph.inputs().size(), " inputs of ",
                            detail::in_quotes(graph.name()), names, ", got ", inputs.size()));
  }
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const Type expected = graph.type(graph.inputs()[i]);
    if (inputs[i].type() != expected) {
      throw Error(ErrorKind::type, detail::str("run: expected ", expected, " for input ",
                                               detail::printable(graph.input_name(i)), " of ",
                                               detail::in_quotes(graph.name()), ", got ", inputs[i].type()));
    }
  }
}

void detail::refuse_call(const Graph& graph, std::span<const Tensor* const> inputs, std::size_t num_outputs) {
  std::vector<Tensor> tensors;
  for (const Tensor* input : inputs) {
    if (input == nullptr) {
      throw Error(ErrorKind::invalid_argument,
                  detail::str("run: expected a tensor for input ", tensors.size(), " of ",
                              detail::in_quotes(graph.name()), ", got a null pointer"));
    }
    tensors.push_back(*input);
  }
  check_inputs(graph, tensors);
  throw Error(ErrorKind::invalid_argument,
              detail::str("run: expected space for the ", graph.outputs().size(), " outputs of ",
                          detail::in_quotes(graph.name()), ", got space for ", num_outputs));
}

std::vector<Tensor> arrange_inputs(const Graph& graph, std::span<const NamedTensor> inputs) {
  std::vector<std::optional<Tensor>> found(graph.inputs().size());
  const detail::InputIndex index(graph);
  for (const auto& [name, tensor] : inputs) {
    const auto position = index.find(name);
    if (!position) {
      throw Error(ErrorKind::invalid_argument,
                  detail::str("run: expected the names of inputs of ", detail::in_quotes(graph.name()),
                              ", got ", detail::in_quotes(name)));
    }
    if (found[*position]) {
      throw Error(ErrorKind::invalid_argument,
                  detail::str("run: expected one tensor for input ", detail::printable(name), " of ",
                              detail::in_quotes(graph.name()), ", got two"));
    }
    found[*position] = tensor;
  }
  std::vector<Tensor> arranged;
  arranged.reserve(found.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (!found[i]) {
      throw Error(ErrorKind::invalid_argument,
                  detail::str("run: expected a tensor for input ", detail::printable(graph.input_name(i)),
                              " of ", detail::in_quotes(graph.name()), ", got none"));
    }
    arranged.push_back(std::move(*found[i]));
  }
  return arranged;
}

}  // namespace tidu
