// Additions of a vector that products take: when, when not, and the numbers, on the host against the
// reference executor.
#include <random>

#include "cpu/compare.hpp"
#include "cuda/fuse.hpp"
#include "cuda/machine.hpp"
#include "support/support.hpp"
#include "tidu/primitives/elementwise.hpp"
#include "tidu/primitives/structural.hpp"

namespace tidu::test::epilogues_cases {
namespace {

using cuda_detail::GemmStep;
using cuda_detail::Node;

// The product of x's last axis and w's first one.
Value product(Value x, Value w) {
  const auto last = static_cast<std::int64_t>(x.rank()) - 1;
  return ops::dot_general(x, w, {{last}, {0}, {}, {}});
}
struct Case {
  Graph graph;
  std::vector<Type> in;
};
// A graph of x, w and b.
template <class Body>
Case make(const Type& x, const Type& w, const Type& b, const Body& body) {
  GraphBuilder builder("biased", standard_primitives());
  const Value first = builder.input("x", x), second = builder.input("w", w), third = builder.input("b", b);
  return {builder.build({body(first, second, third)}), {x, w, b}};
}
std::size_t biases(const std::vector<Node>& nodes) {
  std::size_t found = 0;
  for (const Node& node : nodes) {
    for (const cuda_detail::Step& step : node.plan.steps) {
      const auto* const gemm = std::get_if<GemmStep>(&step);
      found += gemm != nullptr && gemm->has_bias ? 1 : 0;
    }
  }
  return found;
}

class Checks {
 public:
  void add(const Case& one) {
    std::vector<Tensor> inputs;
    for (const Type& type : one.in) inputs.push_back(random_tensor(type, {}, random_));
    differences(one.graph, inputs, cpu());
  }

 private:
  std::mt19937_64 random_{17};
};

}  // namespace

TEST_CASE("a product takes the vector that is added to its rows") {
  const auto layer = [](Value x, Value w, Value b) {
    const Value y = product(x, w);
    const auto last = static_cast<std::int64_t>(y.rank()) - 1;
    return y + ops::broadcast_in_dim(b, y.shape(), {last});
  };
  const auto flipped = [](Value x, Value w, Value b) {
    const Value y = product(x, w);
    const auto last = static_cast<std::int64_t>(y.rank()) - 1;
    const Value wide = ops::broadcast_in_dim(b, y.shape(), {last});
    return wide + y;
  };
  const auto of_vector = [](Value x, Value w, Value b) { return product(x, w) + b; };
  const auto as_heads = [](Value x, Value w, Value b) {  // b is 2 x 3
    const Value y = ops::reshape(product(x, w), {4, 2, 3});
    return y + ops::broadcast_in_dim(b, {4, 2, 3}, {1, 2});
  };
  const auto of_row = [](Value x, Value w, Value b) {  // b is 1 x 6
    return product(x, w) + ops::broadcast_in_dim(b, {4, 6}, {0, 1});
  };
  const auto turned = [](Value x, Value w, Value b) {  // w is 6 x 5
    return ops::dot_general(x, w, {{1}, {1}, {}, {}}) + ops::broadcast_in_dim(b, {4, 6}, {1});
  };
  Checks checks;
  for (const DType dtype : {f32, f16, bf16}) {
    const auto type = [dtype](const Shape& shape) { return Type(dtype, shape); };
    const Case cases[] = {
        make(type({4, 5}), type({5, 6}), type({6}), layer),
        make(type({4, 5}), type({5, 6}), type({6}), flipped),
        make(type({2, 3, 5}), type({5, 6}), type({6}), layer),
        make(type({4, 5}), type({5, 2, 3}), type({3}),
             [](Value x, Value w, Value b) {
               return product(x, w) + ops::broadcast_in_dim(b, {4, 2, 3}, {2});
             }),
        make(type({5}), type({5, 6}), type({6}), of_vector),
        make(type({4, 5}), type({5, 6}), type({2, 3}), as_heads),
        make(type({4, 5}), type({5, 6}), type({1, 6}), of_row),
        make(type({4, 5}), type({6, 5}), type({6}), turned),
    };
    for (const Case& one : cases) {
      const std::vector<Node> nodes = cuda_detail::plan_nodes(one.graph);
      INFO(to_text(one.graph));
      const bool part = one.in[2].shape() == Shape{3};  // of a row
      CHECK(biases(nodes) == (part ? 0 : 1));
      if (!part) {
        REQUIRE(nodes.size() == 1);
        CHECK(nodes[0].plan.steps.size() == 1);
        CHECK(nodes[0].operations.size() == 2);
        CHECK(nodes[0].operands.size() == 3);
      }
      cuda_detail::NodeOptions apart;
      apart.fuse = false;
      CHECK(biases(cuda_detail::plan_nodes(one.graph, apart)) == 0);
      checks.add(one);
    }
  }
  // What follows reads the sum; relu keeps its not-a-numbers in a kernel of its own.
  const Case two = make(Type(f32, {4, 6}), Type(f32, {6, 6}), Type(f32, {6}), [&](Value x, Value w, Value b) {
    const Value h = layer(x, w, b);
    const Value y = ops::max(h, ops::full_like(h, 0.0));
    return layer(y, w, b);
  });
  const std::vector<Node> nodes = cuda_detail::plan_nodes(two.graph);
  CHECK(biases(nodes) == 2);
  CHECK(nodes.size() == 3);
  checks.add(two);
  // The vector is made between the product and the addition.
  const Case late = make(Type(f32, {4, 5}), Type(f32, {5, 6}), Type(f32, {6}), [](Value x, Value w, Value b) {
    const Value y = product(x, w);
    const Value doubled = ops::exp(b);
    return y + ops::broadcast_in_dim(doubled, {4, 6}, {1});
  });
  CHECK(biases(cuda_detail::plan_nodes(late.graph)) == 1);
  checks.add(late);
  finish_checks();
}

TEST_CASE("a product takes no addition that it cannot make") {
  Checks checks;
  const auto refuse = [&checks](const Case& one) {
    CHECK_MESSAGE(biases(cuda_detail::plan_nodes(one.graph)) == 0, to_text(one.graph));
    checks.add(one);
  };
  const auto along = [](std::int64_t axis) {
    return [axis](Value x, Value w, Value b) {
      const Value y = product(x, w);
      return y + ops::broadcast_in_dim(b, y.shape(), {axis});
    };
  };
  const auto square = [](DType dtype) { return Type(dtype, {5, 5}); };
  refuse(make(square(f32), square(f32), Type(f32, {5}), along(0)));  // to each column
  for (const DType dtype : {f64, c64, i32})                          // no library does it
    refuse(make(square(dtype), square(dtype), Type(dtype, {5}), along(1)));
  refuse(make(Type(f32, {5}), square(f32), Type(f32, {}), [](Value x, Value w, Value b) {
    return product(x, w) + ops::broadcast_in_dim(b, {5}, {});  // one number for all
  }));
  refuse(make(square(f32), square(f32), Type(f32, {5}), [&](Value x, Value w, Value b) {
    const Value y = product(x, w);
    const Value sum = y + ops::broadcast_in_dim(b, y.shape(), {1});
    return sum * y;  // which reads the product
  }));
  refuse(make(square(f32), square(f32), square(f32), [](Value x, Value w, Value b) {
    return product(x, w) + b;  // a matrix
  }));
  refuse(make(square(f32), square(f32), Type(f32, {5}), [](Value x, Value w, Value b) {
    const Value y = product(x, w);
    return y + ops::broadcast_in_dim(ops::rev(b, {0}), y.shape(), {1});  // not in memory
  }));
  refuse(make(Type(f32, {3, 4, 5}), Type(f32, {3, 5, 6}), Type(f32, {6}), [](Value x, Value w, Value b) {
    const Value y = ops::dot_general(x, w, {{2}, {1}, {0}, {0}});
    return y + ops::broadcast_in_dim(b, y.shape(), {2});  // a batch
  }));
  refuse(
      make(Type(f32, {65536, 2, 3}), Type(f32, {65536, 3, 2}), Type(f32, {2}), [](Value x, Value w, Value b) {
        const Value y = ops::dot_general(x, w, {{2}, {1}, {0}, {0}});
        return y + ops::broadcast_in_dim(b, y.shape(), {2});  // a batch of two calls, the second for one
      }));
  GraphBuilder builder("kept", standard_primitives());
  const Value x = builder.input("x", square(f32)), b = builder.input("b", Type(f32, {5}));
  const Value y = product(x, x);
  const Value sum = y + ops::broadcast_in_dim(b, y.shape(), {1});
  const Case kept{builder.build({sum, ops::reshape(y, {25})}), {square(f32), Type(f32, {5})}};
  refuse(kept);
  finish_checks();
}

TEST_CASE("one matmul with two vectors, in one program and from run to run, adds each where it belongs") {
  const Machine machine;
  const Type square(f32, {5, 5}), row(f32, {5});
  GraphBuilder builder("layers", standard_primitives());
  const Value x = builder.input("x", square), w = builder.input("w", square);
  const Value b = builder.input("b", row), c = builder.input("c", row);
  const auto layer = [&](Value in, Value bias) {
    const Value y = product(in, w);
    const Value sum = y + ops::broadcast_in_dim(bias, y.shape(), {1});
    return ops::tanh(sum);
  };
  const Value first = layer(x, b);
  const Graph graph = builder.build({layer(first, c)});
  CHECK(biases(cuda_detail::plan_nodes(graph)) == 2);
  const CudaExecutable program = machine.cuda.compile(graph);
  std::mt19937_64 random(71);
  std::vector<Tensor> host, there;
  for (const Type type : {square, square, row, row, row}) host.push_back(random_tensor(type, {}, random));
  for (const Tensor& tensor : host) there.push_back(machine.put(tensor));
  // Plain, captured and replayed; then with another vector, which changes the capture.
  for (const std::size_t last : {3U, 3U, 3U, 4U, 3U, 4U}) {
    const std::vector<Tensor> inputs{host[0], host[1], host[2], host[last]};
    const Tensor got = program.run({there[0], there[1], there[2], there[last]})[0];
    CHECK(difference(got, reference().run(graph, std::span<const Tensor>(inputs))[0]) == "");
  }
  CHECK(machine.device->count("replay") >= 4);
}

}  // namespace tidu::test::epilogues_cases
