// files.cpp - programs that are dumped: NAME.graph.json with NAME.inputs.json beside it, or a file that has
// "graph" and "inputs", as the conformance cases are.
#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <tidu/graph/json.hpp>
#include <tidu/tensor/json.hpp>

#include "workload.hpp"

namespace workloads {

namespace {

nlohmann::json read(const std::filesystem::path& file) {
  std::ifstream in(file);
  if (!in) throw std::runtime_error(file.string() + ": expected a dump, got no file");
  return nlohmann::json::parse(in);
}

}  // namespace

Workload of_file(const std::filesystem::path& file, const Setting& setting) {
  const std::string name = file.string(), ending = ".graph.json";
  nlohmann::json graph, inputs;
  if (name.ends_with(ending)) {
    graph = read(file);
    inputs = read(name.substr(0, name.size() - ending.size()) + ".inputs.json");
  } else {
    nlohmann::json both = read(file);
    graph = both.at("graph");
    inputs = both.at("inputs");
  }
  const tidu::Graph program = tidu::graph_from_json(graph.dump());
  std::vector<tidu::Tensor> tensors;
  for (std::size_t i = 0; i < program.inputs().size(); ++i)
    tensors.push_back(tidu::tensor_from_json(inputs.at(std::string(program.input_name(i))).dump()));
  return of_graph(program, std::move(tensors), setting);
}

}  // namespace workloads
