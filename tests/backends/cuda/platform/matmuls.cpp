// Products that cuBLASLt has no algorithm for are tidu's own kernel's.
#include <cuda_runtime_api.h>
#include <doctest/doctest.h>

#include <random>

#include "cpu/compare.hpp"
#include "cuda/platform/platform.hpp"
#include "tidu/cuda.hpp"
#include "tidu/graph/builder.hpp"
#include "tidu/primitives/elementwise.hpp"
#include "tidu/primitives/linalg.hpp"
#include "tidu/primitives/structural.hpp"
#include "tidu/reference/executor.hpp"

namespace tidu::test::platform {
namespace {

// x y + bias, x and y transposed or not, and a batch.
Graph products(DType dtype, bool x_transposed, bool y_transposed) {
  GraphBuilder builder("products");
  const Shape x_shape = x_transposed ? Shape{5, 9} : Shape{9, 5},
              y_shape = y_transposed ? Shape{7, 5} : Shape{5, 7};
  const Value x = builder.input("x", Type(dtype, x_shape)), y = builder.input("y", Type(dtype, y_shape)),
              bias = builder.input("bias", Type(dtype, {7})), z = builder.input("z", Type(dtype, {3, 5, 5}));
  const Value xy = ops::dot_general(x, y, {{x_transposed ? 0 : 1}, {y_transposed ? 1 : 0}, {}, {}});
  const Value sum = ops::add(xy, ops::broadcast_in_dim(bias, {9, 7}, {1}));
  return builder.build({sum, ops::dot_general(z, z, {{2}, {1}, {0}, {0}})});
}

}  // namespace

TEST_CASE("What cuBLASLt has no algorithm for is computed by a kernel, with its bias, and captured") {
  CudaOptions options;
  options.device = num_devices - 1;
  for (const char* const why : {"no algorithm of cuBLASLt", "no support of cuBLASLt"}) {
    for (const DType dtype : {f16, bf16, f32, f64, c64, c128}) {
      for (int transposed = 0; transposed < 4; ++transposed) {
        const Graph graph = products(dtype, transposed % 2 != 0, transposed / 2 != 0);
        std::mt19937_64 random(7);
        std::vector<Tensor> inputs;
        for (const ValueId id : graph.inputs()) inputs.push_back(random_tensor(graph.type(id), {}, random));
        const std::vector<Tensor> expected = reference().run(graph, inputs);
        const CudaExecutor cuda(options);  // whose device forgets what was chosen with it
        const std::size_t before = calls("cublasLtMatmul");
        const CudaExecutable program = cuda.compile(graph, CudaCompileOptions{});
        std::vector<Tensor> there;
        for (const Tensor& input : inputs) there.push_back(cuda.put(input).value());
        for (int round = 0; round < 4; ++round) {
          always_fail(why);
          const std::vector<Tensor> got = program.run(std::span<const Tensor>(there));
          recover();
          for (std::size_t i = 0; i < got.size(); ++i) CHECK(difference(got[i], expected[i], 20) == "");
        }
        CHECK(calls("cublasLtMatmul") == before);
        CHECK(cuda.device_statistics().refused_captures == 0);
      }
    }
  }
  const std::vector<std::string> faults = take_faults();
  CHECK_MESSAGE(faults.empty(), detail::list(faults));
}

TEST_CASE(
    "[glue libraries] Each matmul adds the vector that it is given, though an algorithm is chosen once") {
  const CudaExecutor cuda;
  const Graph graph = products(f32, false, false);
  const CudaExecutable program = cuda.compile(graph, CudaCompileOptions{});
  std::mt19937_64 random(5);
  for (int round = 0; round < 6; ++round) {
    std::vector<Tensor> inputs;
    for (const ValueId id : graph.inputs()) inputs.push_back(random_tensor(graph.type(id), {}, random));
    const std::vector<Tensor> expected = reference().run(graph, inputs);
    const std::size_t before = calls("cublasLtMatmulAlgoGetHeuristic");
    const std::vector<Tensor> got = program.run(std::span<const Tensor>(inputs));
    for (std::size_t i = 0; i < got.size(); ++i) CHECK(difference(got[i], expected[i], 20) == "");
    if (round > 0) CHECK(calls("cublasLtMatmulAlgoGetHeuristic") == before);
  }
  CHECK(take_faults().empty());
}

}  // namespace tidu::test::platform
