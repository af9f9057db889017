// The CUDA executor on a fake device: what it computes, and what it asks of the device.
#include "tidu/cuda.hpp"

#include <doctest/doctest.h>

#include "cpu/compare.hpp"
#include "cuda/fake_device.hpp"
#include "tidu/program/cache.hpp"

namespace tidu::test {
namespace {

struct Machine {
  explicit Machine(CudaOptions options = {}, std::size_t memory = std::size_t{1} << 30)
      : device(std::make_shared<FakeDevice>(memory)), cuda(device, options) {}
  ~Machine() { CHECK_MESSAGE(device->faults().empty(), detail::list(device->faults())); }
  std::shared_ptr<FakeDevice> device;
  CudaExecutor cuda;
};

std::vector<double> iota(std::size_t count) {
  std::vector<double> all(count);
  for (std::size_t i = 0; i < count; ++i) all[i] = static_cast<double>(i) / 7;
  return all;
}

// z = sin(x y) + x, which is two branches and one value that both read.
Graph small_graph() {
  GraphBuilder builder("small");
  const Value x = builder.input("x", Type(f64, {40}));
  const Value y = builder.input("y", Type(f64, {40}));
  const Value product = ops::mul(x, y);
  const Value a = ops::sin(product);
  const Value b = ops::exp(ops::neg(product));
  const Value z = ops::add(a, b);
  return builder.build({z, product});
}

TEST_CASE("A program runs on a device and gives what the reference executor gives") {
  Machine machine;
  const Graph graph = small_graph();
  const std::vector<Tensor> inputs{Tensor::from<double>({40}, iota(40)),
                                   Tensor::from<double>({40}, iota(40))};
  const std::vector<Tensor> expected = reference().run(graph, std::span<const Tensor>(inputs));
  const CudaExecutable program = machine.cuda.compile(graph);
  for (int round = 0; round < 5; ++round) {
    const std::vector<Tensor> got = program.run(std::span<const Tensor>(inputs));
    REQUIRE(got.size() == 2);
    for (std::size_t i = 0; i < got.size(); ++i) CHECK(difference(got[i], expected[i]) == "");
  }
}

TEST_CASE("Nothing waits for the device but who reads on the host") {
  Machine machine;
  const CudaExecutable program = machine.cuda.compile(small_graph());
  Tensor x = machine.cuda.put(Tensor::from<double>({40}, iota(40))).value();
  for (int round = 0; round < 4; ++round) x = program.run({x, x})[0];
  CHECK(machine.device->count("synchronize") == 0);
  (void)x.bytes();
  CHECK(machine.device->count("synchronize") == 1);
  (void)x.bytes();
  CHECK(machine.device->count("synchronize") == 1);
}

}  // namespace
}  // namespace tidu::test
