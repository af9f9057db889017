// custom_support.hpp - helpers of the tests of operations that hold a function: inputs for any of their
// graphs, comparison of two graphs on both executors, a net of layers.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "check/helpers.hpp"
#include "support/probe.hpp"
#include "tidu/cpu/executor.hpp"
#include "tidu/primitives/custom.hpp"

namespace tidu::test::custom_calls {

inline const Type v3{f64, {3}};

inline bool mentions(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

/// Random tensors, 2 for an i64.
inline Tensors inputs_of(const Graph& graph, std::uint64_t seed) {
  Random random(seed);
  Tensors inputs;
  for (const ValueId id : graph.inputs()) {
    inputs.push_back(graph.type(id) == Type(i64) ? Tensor::scalar<std::int64_t>(2)
                                                 : check::random_tensor(random, graph.type(id)));
  }
  return inputs;
}
/// Both graphs have equal outputs, on both executors.
inline void check_same(const Graph& a, const Graph& b, std::uint64_t seed, double tolerance = 1e-11) {
  const Tensors inputs = inputs_of(a, seed);
  const Tensors left = reference().run(a, inputs), right = reference().run(b, inputs),
                fast = cpu().run(a, inputs);
  REQUIRE(left.size() == right.size());
  for (std::size_t k = 0; k < left.size(); ++k) {
    CAPTURE(k);
    CHECK(near(left[k], right[k], tolerance));
    CHECK(near(fast[k], right[k], tolerance));
  }
}

/// tanh(w x) applied `depth` times, each layer a checkpoint of that policy, or not.
inline Graph layers(std::size_t depth, std::int64_t width, const std::optional<CheckpointPolicy>& policy) {
  const Type matrix(f64, {width, width}), vector(f64, {16, width});
  GraphBuilder layer("layer");
  const Value a = layer.input("a", vector), b = layer.input("b", matrix);
  Value h = a;
  for (int i = 0; i < 4; ++i) h = ops::tanh(ops::matmul(h, b));
  const Graph inner = layer.build({h});
  GraphBuilder g("net");
  Value x = g.input("x", vector);
  const Value w = g.input("w", matrix);
  for (std::size_t i = 0; i < depth; ++i) {
    const std::vector<Value> operands{x, w};
    x = policy ? ops::checkpoint(inner, operands, *policy)[0] : ops::call(inner, operands)[0];
  }
  return g.build({ops::reduce_sum(x * x, {0, 1})});
}

}  // namespace tidu::test::custom_calls
