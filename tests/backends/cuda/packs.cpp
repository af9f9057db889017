// Kernels take several elements by one access wherever these lie in order; where memory is not aligned for
// that they compute the same, to the last bit.
#include <doctest/doctest.h>

#include <array>
#include <cstring>

#include "cuda/emulator.hpp"
#include "cuda/fuse.hpp"
#include "fuzz/generator.hpp"

#include "tidu/linearize/transforms.hpp"
#include "tidu/optimizer/optimize.hpp"
#include "tidu/primitives/elementwise.hpp"
#include "tidu/primitives/structural.hpp"

namespace tidu::test::packs_cases {
namespace {

using cuda_detail::Launch;
using cuda_detail::Node;

Graph program_of(const Graph& graph) { return optimize(graph); }
std::vector<Node> nodes_of(const Graph& graph) { return cuda_detail::plan_nodes(program_of(graph)); }
const std::string& first_kernel(const Node& node) {
  return std::get<Launch>(node.plan.steps.at(0)).kernel->text;
}

// e^x / (1 + x^2), element by element; with_sum: its sum over axes as well.
Graph quotient(const Type& type, const Ints& axes) {
  GraphBuilder g("quotient");
  const Value x = g.input("x", type), y = g.input("y", type);
  const Value e = ops::exp(x), squared = ops::square(y);
  const Value below = ops::add(squared, ops::full(g, type, 1));
  const Value all = ops::div(e, below);
  if (axes.empty()) return g.build({all});
  return g.build({all, ops::reduce_sum(all, axes)});
}
// x - log of the sum of its exponentials, along rows.
Graph log_softmax(const Type& type) {
  GraphBuilder g("log_softmax");
  const Value x = g.input("x", type), y = g.input("y", type), z = ops::add(x, y);
  const Value total = ops::logsumexp(z, {1});
  return g.build({ops::sub(z, ops::broadcast_in_dim(total, type.shape(), {0}))});
}

}  // namespace

TEST_CASE("what lies in order is read and written by accesses of sixteen bytes") {
  for (const auto& [dtype, width] :
       {std::pair(f32, "4"), std::pair(f64, "2"), std::pair(bf16, "8"), std::pair(c64, "2")}) {
    for (const Graph& graph : {quotient(Type(dtype, {64, 1000}), {}), quotient(Type(dtype, {64, 1000}), {1}),
                               quotient(Type(dtype, {64000}), {0}), log_softmax(Type(f32, {64, 1000}))}) {
      const std::vector<Node> nodes = nodes_of(graph);
      REQUIRE(nodes.size() == 1);
      const std::string w = graph.name() == "log_softmax" ? "4" : width;
      const std::string& text = first_kernel(nodes[0]);
      CHECK_MESSAGE(text.find("x0[j] = load_pack<" + w + ">(p0") != std::string::npos, text);
      CHECK_MESSAGE(text.find("x1[j] = load_pack<" + w + ">(p1") != std::string::npos, text);
      CHECK_MESSAGE(text.find("store_pack<" + w + ">(q0") != std::string::npos, text);
    }
  }
  // Lengths that no access divides, and folds along columns.
  for (const Graph& graph : {quotient(Type(f32, {64, 1001}), {1}), quotient(Type(f32, {1000, 64}), {0}),
                             log_softmax(Type(f32, {5, 33}))})
    CHECK(first_kernel(nodes_of(graph).at(0)).find("load_pack<1>(p0") != std::string::npos);
}

TEST_CASE("what ends before the loop does is read where it is, not ahead") {
  GraphBuilder g("ends");
  const Value a = g.input("a", Type(f32, {1000})), b = g.input("b", Type(f32, {64000}));
  const Value both[] = {a, b};
  const Value joined = ops::sin(ops::concatenate(both, 0));
  const Value padded = ops::pad(a, ops::full(g, Type(f32), 0), {{0, 64000, 0}});
  const Graph graph = g.build({ops::add(joined, padded), ops::reduce_sum(joined, {0})});
  const std::vector<Node> nodes = nodes_of(graph);
  for (const Node& node : nodes) {
    const std::string& text = first_kernel(node);
    CHECK_MESSAGE(text.find(">(p0") == std::string::npos, text);
    CHECK_MESSAGE(text.find("p0[") != std::string::npos, text);
    CHECK_MESSAGE(text.find("store_pack<4>(q0") != std::string::npos, text);
  }
  // What is longer than the loop may be read ahead.
  GraphBuilder more("begins");
  const Value long_one = more.input("x", Type(f32, {64000}));
  const Graph begins = more.build({ops::exp(ops::slice(long_one, {0}, {1000}, {1}))});
  CHECK(first_kernel(nodes_of(begins).at(0)).find("load_pack<4>(p0") != std::string::npos);
}

TEST_CASE("coordinates of what is padded far apart are counted in 64 bits") {
  constexpr std::int64_t far = std::int64_t{1} << 32;
  GraphBuilder g("apart");
  const Value x = g.input("x", Type(f32, {3}));
  const Graph graph = g.build({ops::pad(x, ops::full(g, Type(f32), 0), {{-far, -far, far - 1}})});
  const std::vector<Node> nodes = nodes_of(graph);
  REQUIRE(graph.type(graph.outputs()[0]).shape() == Shape{1});
  CHECK(first_kernel(nodes.at(0)).find("typedef u64 index_t") != std::string::npos);
  if (!Emulator::is_enabled()) return;
  const std::array inputs{Tensor::from<float>({3}, {1.0F, 2.0F, 3.0F})};
  CHECK(Emulator::shared().run(program_of(graph), nodes, inputs).at(0).at(0) == 2.0);
}

TEST_CASE("memory that is not aligned for wide accesses gives the same bits") {
  if (!Emulator::is_enabled()) return;
  check::Random random(11);
  for (const DType dtype : {f32, f64, f16}) {
    for (const Shape& shape :
         {Shape{7, 100}, Shape{3, 1024}, Shape{2, 6000}, Shape{5, 33}, Shape{1, 40000}}) {
      const Type type(dtype, shape);
      for (const Graph& function : {quotient(type, {}), quotient(type, {1}), quotient(type, {0}),
                                    quotient(type, {0, 1}), log_softmax(type), vjp(log_softmax(type))}) {
        const Graph graph = program_of(function);
        for (const Node& node : cuda_detail::plan_nodes(graph)) {
          std::vector<Type> types;
          std::vector<Tensor> aligned, moved;
          for (const ValueId id : node.operands) types.push_back(graph.type(id));
          for (const ValueId id : node.results) {
            aligned.emplace_back(graph.type(id));
            moved.emplace_back(graph.type(id));
          }
          const std::vector<Tensor> operands = random_numbers(random, types, false);
          Emulator::shared().run(node.plan, operands, aligned);
          Emulator::shared().run(node.plan, operands, moved, true);
          for (std::size_t k = 0; k < aligned.size(); ++k)
            CHECK(std::memcmp(aligned[k].bytes(), moved[k].bytes(), aligned[k].num_bytes()) == 0);
        }
      }
    }
  }
}

TEST_CASE("sine and cosine of one argument are made together") {
  GraphBuilder g("wave");
  const Type type(f32, {1000});
  const Value x = g.input("x", type);
  const Graph backward = vjp(g.build({ops::mul(ops::sin(x), ops::exp(ops::cos(x)))}));
  const std::vector<Node> nodes = nodes_of(backward);
  REQUIRE(nodes.size() == 1);
  const std::string& text = first_kernel(nodes[0]);
  CHECK(text.find("sin_cos(") != std::string::npos);
  CHECK(text.find("op::sin(") == std::string::npos);
  CHECK(text.find("op::cos(") == std::string::npos);
}

}  // namespace tidu::test::packs_cases
