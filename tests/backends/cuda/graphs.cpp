// Whole graphs, as nodes of several operations, against the reference interpreter, on the host or on this
// machine's device where that is chosen: the conformance programs with their gradients, ADBench's, and random
// graphs.
#include <doctest/doctest.h>

#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>

#include "cuda/emulator.hpp"
#include "cuda/this_machine.hpp"
#include "fuzz/generator.hpp"
#ifdef TIDU_WITH_ADBENCH
#include "adbench/problem.hpp"
#endif
#include "support/distance.hpp"
#include "support/shard.hpp"
#include "support/support.hpp"
#include "tidu/graph/json.hpp"
#include "tidu/linearize/transforms.hpp"
#include "tidu/optimizer/optimize.hpp"
#include "tidu/primitives/control_flow.hpp"
#include "tidu/primitives/elementwise.hpp"
#include "tidu/primitives/structural.hpp"
#include "tidu/reference/executor.hpp"
#include "tidu/tensor/json.hpp"

namespace tidu::test {
namespace {

double tolerance_of(DType dtype) {
  switch (dtype) {
    case DType::f16: return 1e-2;
    case DType::bf16: return 6e-2;
    case DType::f32:
    case DType::c64: return 2e-5;
    default: return 1e-9;
  }
}

// Does what it gives depend on signs of vectors, which are the library's?
bool has_signs_of_library(const Graph& graph) {
  for (std::uint32_t i = 0; i < graph.num_operations(); ++i) {
    const std::string_view name = graph.operation(i).name();
    if (name == "svd" || name == "eigh" || name == "qr") return true;
  }
  return false;
}

// Graphs whose kernels are compiled together.
class Batch {
 public:
  void add(const Graph& graph, std::vector<Tensor> inputs, std::string name) {
    ++all_;
    if (!shard_.next()) return;
    Case one{optimize(with_control_flow_unrolled(graph)), {}, std::move(inputs), std::move(name)};
    try {
      one.nodes = cuda_detail::plan_nodes(one.graph);
    } catch (const Error&) {
      ++refused_;  // a library's operation without a rule
      return;
    }
    for (const cuda_detail::Node& node : one.nodes) {
      if (device_ == nullptr) Emulator::shared().add(node.plan);
      operations_ += node.operations.size();
    }
    nodes_ += one.nodes.size();
    cases_.push_back(std::move(one));
  }
  void check() {
    const bool emulated = device_ == nullptr && Emulator::is_enabled();
    if (emulated) Emulator::shared().compile();
    for (const Case& one : cases_) {
      if (!emulated && device_ == nullptr) break;
      if (device_ != nullptr && has_signs_of_library(one.graph)) continue;
      const std::vector<Tensor> expected = reference().run(one.graph, one.inputs);
      std::vector<Tensor> got;
      try {
        got = emulated ? Emulator::shared().run(one.graph, one.nodes, one.inputs)
                       : run_there(*device_, one.graph, one.inputs);
      } catch (const Error& error) {
        CHECK_MESSAGE(false, one.name, ": ", error.what());
      }
      for (std::size_t k = 0; k < got.size(); ++k) {
        const double apart = distance(expected[k], got[k]);
        CHECK_MESSAGE(apart <= tolerance_of(got[k].dtype()), one.name, " output ", k, " is apart by ", apart,
                      "\n", to_text(one.graph));
      }
    }
    std::cout << cases_.size() << " graphs of " << operations_ << " operations ran as " << nodes_
              << " nodes; " << refused_ << " wait for rules\n";
  }
  std::size_t size() const { return all_; }
  std::size_t operations() const { return operations_; }
  std::size_t nodes() const { return nodes_; }

 private:
  struct Case {
    Graph graph;
    std::vector<cuda_detail::Node> nodes;
    std::vector<Tensor> inputs;
    std::string name;
  };
  const CudaExecutor* device_ = chosen_device();
  Shard shard_;
  std::vector<Case> cases_;
  std::size_t all_ = 0, operations_ = 0, nodes_ = 0, refused_ = 0;
};

}  // namespace

TEST_CASE("conformance programs and their gradients in fusions") {
  Batch batch;
  for (const auto& entry : std::filesystem::directory_iterator(source_dir() / "tests/data/conformance")) {
    if (entry.path().extension() != ".json") continue;
    std::ifstream file(entry.path());
    const auto content = nlohmann::json::parse(file);
    if (!content.contains("graph")) continue;
    const Graph graph = graph_from_json(content["graph"].dump());
    std::vector<Tensor> inputs;
    for (std::size_t i = 0; i < graph.inputs().size(); ++i)
      inputs.push_back(tensor_from_json(content["inputs"][graph.input_name(i)].dump()));
    batch.add(graph, inputs, entry.path().stem().string());
    try {
      const Graph backward = vjp(graph);
      for (std::size_t i = inputs.size(); i < backward.inputs().size(); ++i) {
        const Type type = backward.type(backward.inputs()[i]);
        GraphBuilder builder("ones");
        inputs.push_back(
            reference().run(builder.build({ops::full(builder, type, 1)}), std::vector<Tensor>())[0]);
      }
      batch.add(backward, inputs, entry.path().stem().string() + " backward");
    } catch (const Error&) {
      continue;  // no derivative
    }
  }
  batch.check();
  CHECK(batch.size() > 100);
}

// exp(x - max) / sum, as frontends write it.
Value softmax(Value x) {
  const auto last = static_cast<std::int64_t>(x.rank()) - 1;
  Ints kept;
  for (std::int64_t k = 0; k < last; ++k) kept.push_back(k);
  const Value most = ops::reduce_max(x, {last});
  const Value shifted = ops::sub(x, ops::broadcast_in_dim(most, x.type().shape(), kept));
  const Value e = ops::exp(shifted);
  const Value sum = ops::reduce_sum(e, {last});
  return ops::div(e, ops::broadcast_in_dim(sum, x.type().shape(), kept));
}
// (x - mean) / sqrt(variance + 1) * scale + shift
Value layer_norm(Value x, Value scale, Value shift) {
  const auto last = static_cast<std::int64_t>(x.rank()) - 1;
  const Type type = x.type();
  Ints kept;
  for (std::int64_t k = 0; k < last; ++k) kept.push_back(k);
  const Shape rows(type.shape().begin(), type.shape().end() - 1);
  const Value count =
      ops::full(*x.emitter(), type.with_shape(rows), static_cast<double>(type.shape().back()));
  const Value sum = ops::reduce_sum(x, {last});
  const Value mean = ops::div(sum, count);
  const Value centred = ops::sub(x, ops::broadcast_in_dim(mean, type.shape(), kept));
  const Value squares = ops::reduce_sum(ops::mul(centred, centred), {last});
  const Value variance = ops::div(squares, count);
  const Value one = ops::full(*x.emitter(), type.with_shape(rows), 1);
  const Value scaled_by = ops::rsqrt(ops::add(variance, one));
  const Value normal = ops::mul(centred, ops::broadcast_in_dim(scaled_by, type.shape(), kept));
  const Value wide_scale = ops::broadcast_in_dim(scale, type.shape(), {last});
  const Value wide_shift = ops::broadcast_in_dim(shift, type.shape(), {last});
  const Value product = ops::mul(normal, wide_scale);
  return ops::add(product, wide_shift);
}

TEST_CASE("softmax and normalisation of rows are one kernel") {
  check::Random random(7);
  Batch batch;
  for (const DType dtype : {f32, f64, bf16}) {
    for (const Shape& shape :
         {Shape{5}, Shape{40, 7}, Shape{3, 1}, Shape{2, 3, 300}, Shape{3, 2000}, Shape{3, 5000},
          Shape{270, 20000}, Shape{2, 20000}, Shape{2, 3, 4, 5}, Shape{9, 8}, Shape{9, 1024}}) {
      if (shape[0] == 270 && dtype != f32) continue;
      GraphBuilder rows("softmax");
      const Value x = rows.input("x", Type(dtype, shape));
      const Graph graph = rows.build({softmax(x)});
      const bool in_one = shape.back() > 1 && shape != Shape{2, 20000};
      if (in_one) CHECK(cuda_detail::plan_nodes(graph).size() == 1);
      const std::vector<Type> types{Type(dtype, shape)};
      const auto numbers = random_numbers(random, types, false);
      batch.add(graph, numbers, "softmax");
      if (shape[0] == 270) continue;
      const Graph backward = vjp(graph);
      const std::vector<Type> two{types[0], types[0]};
      batch.add(backward, random_numbers(random, two, false), "softmax backward");

      GraphBuilder norm("norm");
      const Value y = norm.input("y", Type(dtype, shape)),
                  scale = norm.input("scale", Type(dtype, {shape.back()})),
                  shift = norm.input("shift", Type(dtype, {shape.back()}));
      const Graph normal = norm.build({layer_norm(y, scale, shift)});
      if (in_one) CHECK(cuda_detail::plan_nodes(normal).size() == 1);
      const std::vector<Type> three{types[0], Type(dtype, {shape.back()}), Type(dtype, {shape.back()})};
      batch.add(normal, random_numbers(random, three, false), "norm");
      const std::vector<Type> four{three[0], three[1], three[2], types[0]};
      batch.add(vjp(normal), random_numbers(random, four, false), "norm backward");
    }
  }
  batch.check();
}

TEST_CASE("what takes longer to write and to read is computed again where another kernel needs it") {
  check::Random random(8);
  Batch batch;
  // A few instructions of everything, tanh of what is large and single.
  for (const auto& [dtype, rows, costly, again] : {std::tuple{f32, 64, false, true},
                                                   {f32, 64, true, false},
                                                   {f32, 2700, true, true},
                                                   {f64, 1400, true, false}}) {
    const Type type(dtype, {rows, 100}), row(dtype, {100});
    GraphBuilder g("again");
    const Value x = g.input("x", type), mean = g.input("mean", row);
    const Value difference = ops::sub(x, ops::broadcast_in_dim(mean, type.shape(), {1}));
    const Value centred = costly ? ops::tanh(difference) : difference;
    const Value squares = ops::reduce_sum(ops::square(centred), {1});
    const Value scale = ops::cumsum(squares, 0);  // a node by itself
    const Graph graph = g.build({ops::mul(centred, ops::broadcast_in_dim(scale, type.shape(), {0}))});
    const std::vector<cuda_detail::Node> nodes = cuda_detail::plan_nodes(graph);
    REQUIRE(nodes.size() == 3);
    CHECK(nodes[0].results.size() == (again ? 1 : 2));
    CHECK(nodes[2].operands.size() == (again ? 3 : 2));
    const std::vector<Type> types{type, row};
    batch.add(graph, random_numbers(random, types, false), "again");
    batch.add(vjp(graph), random_numbers(random, std::vector<Type>{type, row, type}, false),
              "again backward");
  }
  const Type type(f32, {64, 100}), row(f32, {100});
  // A row's maximum and sum are in memory; exponentials of a softmax are not where something stands between
  // its parts.
  {
    const Type wide(f32, {2700, 100});
    GraphBuilder g("softmax");
    const Value x = g.input("x", wide);
    const Value top = ops::broadcast_in_dim(ops::reduce_max(x, {1}), wide.shape(), {0});
    const Value powers = ops::exp(x - top);
    const Value sums = ops::cumsum(ops::reduce_sum(powers, {1}), 0);
    const Graph graph = g.build({powers / ops::broadcast_in_dim(sums, wide.shape(), {0})});
    const std::vector<cuda_detail::Node> nodes = cuda_detail::plan_nodes(graph);
    REQUIRE(nodes.size() == 3);
    CHECK(graph.type(nodes[0].results[0]).rank() + graph.type(nodes[0].results[1]).rank() == 2);
    batch.add(graph, random_numbers(random, std::vector<Type>{wide}, false), "softmax in parts");
  }
  // What is read many times each is made once.
  {
    const Type flat(f32, {300000}), twice(f32, {2, 300000});
    GraphBuilder g("spread");
    const Value x = g.input("x", flat), z = g.input("z", twice);
    const Graph graph = g.build({ops::broadcast_in_dim(ops::tanh(x), twice.shape(), {1}) * z});
    CHECK(cuda_detail::plan_nodes(graph).size() == 2);
    batch.add(graph, random_numbers(random, std::vector<Type>{flat, twice}, false), "spread");
  }
  // Nothing is left of a kernel whose results all others compute again.
  GraphBuilder g("nothing");
  const Value x = g.input("x", type), y = g.input("y", row);
  const Value sum = ops::cumsum(x, 0), difference = ops::sub(x, ops::broadcast_in_dim(y, type.shape(), {1}));
  const Graph graph = g.build({ops::mul(ops::cumsum(sum, 1), difference)});
  CHECK(cuda_detail::plan_nodes(graph).size() == 3);
  const std::vector<Type> types{type, row};
  batch.add(graph, random_numbers(random, types, false), "nothing");
  batch.check();
}

#ifdef TIDU_WITH_ADBENCH
TEST_CASE("ADBench programs and their derivatives in fusions") {
  const auto data = source_dir() / "examples/data/adbench";
  Batch batch;
  for (const adbench::Problem& problem :
       {adbench::read_gmm(data / "gmm_test.txt", false), adbench::read_ba(data / "ba_test.txt"),
        adbench::read_hand(data / "hand_test.txt", data / "model", false),
        adbench::read_hand(data / "hand_test_complicated.txt", data / "model", true),
        adbench::read_lstm(data / "lstm_three_layers.txt", adbench::LstmForm::flat)}) {
    batch.add(problem.objective, problem.inputs, problem.name);
    batch.add(problem.derivative, problem.inputs, problem.name + " derivative");
  }
  batch.check();
}
#endif

TEST_CASE("random graphs in fusions") {
  Batch batch;
  for (std::uint64_t seed = 0; seed < scaled(300); ++seed) {
    SeededChoices choices(seed);
    const RandomCase random = random_case(choices);
    batch.add(random.graph, random.inputs, "seed " + std::to_string(seed));
  }
  batch.check();
  CHECK(batch.nodes() < batch.operations());
}

}  // namespace tidu::test
