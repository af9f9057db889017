// Convolutions of layers and their gradients as steps of a library: which they are, and their numbers by the
// step's formula against the reference executor.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <random>

#include "cpu/compare.hpp"
#include "cuda/convolution_layers.hpp"
#include "cuda/emulator.hpp"
#include "cuda/fuse.hpp"
#include "cuda/libraries/library_convolutions.hpp"
#include "support/support.hpp"
#include "tidu/linearize/transforms.hpp"
#include "tidu/optimizer/optimize.hpp"

namespace tidu::test::convolutions_cases {
namespace {

using cuda_detail::ConvolutionStep;
using cuda_detail::Node;
using Kind = ConvolutionStep::Kind;

std::vector<Node> nodes_of(const Graph& graph) {
  cuda_detail::NodeOptions options;
  options.cudnn = true;
  return cuda_detail::plan_nodes(graph, options);
}
std::vector<Kind> kinds_in(const std::vector<Node>& nodes) {
  std::vector<Kind> kinds;
  for (const Node& node : nodes) {
    for (const cuda_detail::Step& step : node.plan.steps) {
      const auto* const convolution = std::get_if<ConvolutionStep>(&step);
      if (convolution != nullptr) kinds.push_back(convolution->kind);
    }
  }
  return kinds;
}

struct Case {
  Graph graph;
  std::vector<Node> nodes;
  std::vector<Tensor> inputs;
};

}  // namespace

TEST_CASE("convolutions of layers and their gradients are steps of a library") {
  std::mt19937_64 random(3);
  std::vector<Case> cases;
  for (const ConvolutionLayer& layer : convolution_layers()) {
    for (const DType dtype : {f32, f64, f16, bf16}) {
      if (dtype != f32 && layer.groups == 1 && layer.strides != Ints{2, 2}) continue;
      const Graph graph = graph_of(layer, dtype);
      const Graph both = optimize(vjp(graph));
      for (const Graph& one : {graph, both}) {
        Case made{one, nodes_of(one), {}};
        for (const ValueId input : one.inputs())
          made.inputs.push_back(random_tensor(one.type(input), {}, random));
        for (const Node& node : made.nodes) Emulator::shared().add(node.plan);
        cases.push_back(std::move(made));
      }
      INFO(to_text(both));
      const bool even = layer.padding[0][0] == layer.padding[0][1];
      CHECK(kinds_in(cases[cases.size() - 2].nodes) == std::vector<Kind>(even ? 1 : 0, Kind::forward));
      if (layer.groups != 1 || !even) continue;
      std::vector<Kind> kinds = kinds_in(cases.back().nodes);
      std::sort(kinds.begin(), kinds.end());
      const bool strided = std::any_of(layer.strides.begin(), layer.strides.end(),
                                       [](std::int64_t stride) { return stride != 1; });
      // A gradient without strides is a convolution like another.
      CHECK(kinds == std::vector<Kind>{Kind::forward, strided ? Kind::data : Kind::forward, Kind::filter});
    }
  }
  if (!Emulator::is_enabled()) return;
  Emulator::shared().compile();
  for (const Case& one : cases) {
    const std::vector<Tensor> wanted = reference().run(one.graph, one.inputs);
    const std::vector<Tensor> got = Emulator::shared().run(one.graph, one.nodes, one.inputs);
    for (std::size_t i = 0; i < got.size(); ++i) {
      const std::string found = difference(got[i], wanted[i], 10);
      CHECK_MESSAGE(found.empty(), found, "\n", to_text(one.graph));
    }
  }
}

TEST_CASE("convolutions that no library has are made of products") {
  const auto kinds = [](const ConvolutionLayer& layer, DType dtype) {
    return kinds_in(nodes_of(graph_of(layer, dtype)));
  };
  const ConvolutionLayer plain{{2, 3, 6, 5}, {4, 3, 3, 2}, {1, 1}, {1, 1}, {{0, 0}, {0, 0}}};
  CHECK(kinds(plain, i32).empty());
  CHECK(kinds(plain, c64).empty());
  CHECK(kinds_in(cuda_detail::plan_nodes(graph_of(plain, f32))).empty());  // not asked for
  ConvolutionLayer cut = plain;
  cut.padding = {{-1, 0}, {0, 0}};
  CHECK(kinds(cut, f32).empty());
}

TEST_CASE("an operand that cuDNN may not take where it lies is an error that says what to do") {
  cuda_detail::ConvolutionLibrary library;
  cuda_detail::ConvolutionStep step;
  step.x = cuda_detail::operand(0);
  step.w = cuda_detail::operand(1);
  step.y = cuda_detail::result();
  alignas(16) std::array<std::byte, 64> memory{};
  const cuda_detail::Memory in[] = {{memory.data() + 4, 16}, {memory.data(), 16}};
  const cuda_detail::Memory out{memory.data() + 32, 16};
  std::string message;
  try {
    library.run(step, {in, {&out, 1}, {}}, {});
  } catch (const Error& error) {
    message = error.what();
  }
  const bool is_built = message.find("a build without cuDNN") == std::string::npos;
  CHECK_MESSAGE((!is_built || message.find("at multiples of 16 bytes") != std::string::npos), message);
}

}  // namespace tidu::test::convolutions_cases
