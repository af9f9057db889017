// The CUDA executor on a fake device: what it computes, and what it asks of the device.
#include "tidu/cuda.hpp"

#include <doctest/doctest.h>

#include <array>
#include <complex>
#include <limits>

#include "cpu/compare.hpp"
#include "cuda/machine.hpp"
#include "tidu/dlpack.hpp"
#include "tidu/eager/anomaly.hpp"
#include "tidu/frontend/array.hpp"
#include "tidu/frontend/functions.hpp"
#include "tidu/frontend/lazy.hpp"
#include "tidu/frontend/modes.hpp"
#include "tidu/optimizer/cache.hpp"

namespace tidu::test {
namespace {

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

// Arrays of the frontend on the device: eagerly, lazily, with derivatives, and on a stream of the caller's.
Array loss_of(const Array& x, const Array& y) { return sum(sin(x * y) + exp(-x)); }

TEST_CASE("Arrays are computed and differentiated on a device, and only reading them waits") {
  const Tensor x_host = Tensor::from<double>({12}, iota(12)), y_host = Tensor::from<double>({12}, iota(12));
  Tensor expected_value, expected_gradient;
  const auto differentiate = [&](Tensor& value, Tensor& gradient) {
    Array x(x_host);
    x.set_requires_grad();
    const Array y(y_host);
    const Array loss = loss_of(x, y);
    loss.backward();
    value = loss.tensor();
    gradient = x.grad()->tensor();
  };
  differentiate(expected_value, expected_gradient);
  for (const bool lazily : {false, true}) {
    Machine machine;
    machine.cuda.open();
    {
      const ExecutorGuard guard(machine.cuda);
      Tensor value, gradient;
      if (lazily) {
        const Lazy lazy;
        differentiate(value, gradient);
      } else {
        const CudaStream stream = CudaStream::make(machine.cuda);
        const CudaStreamGuard on(stream);
        differentiate(value, gradient);
        CHECK(machine.device->count("synchronize") == 0);
      }
      CHECK(difference(value, expected_value) == "");
      CHECK(difference(gradient, expected_gradient) == "");
    }
  }
}

TEST_CASE("Anomaly mode on a device waits once, and says where") {
  Machine machine;
  const ExecutorGuard guard(machine.cuda);
  const AnomalyGuard anomaly;
  Array x(Tensor::from<double>({3}, {1.0, 0.0, 4.0}));
  x.set_requires_grad();
  const Array loss = sum(sqrt(x));
  CHECK(machine.device->count("synchronize") == 0);
  try {
    loss.backward();
    FAIL("expected an error");
  } catch (const eager::NonFiniteError& error) {
    CHECK(error.phase() == eager::NonFiniteError::Phase::backward);
    CHECK(error.operation() == "sqrt");
    CHECK(std::string(error.what()).find("is not finite") != std::string::npos);
  }
  CHECK(machine.device->count("synchronize") == 1);
}

TEST_CASE("Anomaly mode looks at both parts of complex tensors on a device") {
  using Complex = std::complex<double>;
  Machine machine;
  const ExecutorGuard guard(machine.cuda);
  const AnomalyGuard anomaly;
  constexpr double inf = std::numeric_limits<double>::infinity();
  for (const Complex odd : {Complex(2, 1), Complex(inf, 1), Complex(1, -inf)}) {
    Array x(Tensor::from<Complex>({2}, {Complex(1, 1), odd}));
    x.set_requires_grad();
    const auto differentiate = [&] { sum(real(x * x)).backward(); };
    if (odd == Complex(2, 1)) {
      differentiate();
      CHECK(x.grad()->tensor().num_bytes() == 2 * sizeof(Complex));
    } else {
      CHECK_THROWS_AS(differentiate(), eager::NonFiniteError);
    }
  }
}

TEST_CASE("A DLPack struct carries device memory out and in") {
  Machine machine;
  const Tensor x = machine.cuda.put(Tensor::from<double>({2, 3}, iota(6))).value();
  DLManagedTensorVersioned* const out = machine.cuda.to_dlpack(x, nullptr);
  const Tensor back = machine.cuda.from_dlpack(out, nullptr);
  CHECK(back.type() == x.type());
  CHECK(difference(back, x) == "");
  CHECK_THROWS_AS(machine.cuda.from_dlpack(nullptr, nullptr), Error);
  CHECK_THROWS_WITH_AS(machine.cuda.from_dlpack(to_dlpack(back.clone()).release(), nullptr),
                       doctest::Contains("expected memory of CUDA device 0"), Error);
}

TEST_CASE("Without a device an executor says so in one line") {
  CudaOptions options;
  options.device = 1000;
  const CudaExecutor executor(options);
  const Result<std::vector<Tensor>> failed = executor.try_run(
      small_graph(), std::array{Tensor::zeros(Type(f64, {40})), Tensor::zeros(Type(f64, {40}))});
  REQUIRE(!failed);
  CHECK(failed.error().kind() == ErrorKind::execution);
  const std::string message = failed.error().what();
  CHECK(message.find("no CUDA device") == 0);
  CHECK(message.find('\n') == std::string::npos);
  CHECK_THROWS_AS(cuda(1000), Error);
}

}  // namespace
}  // namespace tidu::test
