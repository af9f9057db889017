// The caller's streams in backward calls: seeds, nodes and gradients of several streams wait for one another
// by events alone; memory that runs out in the middle; and staged copies.
#include <array>

#include "cpu/compare.hpp"
#include "cuda/machine.hpp"
#include "cuda/runtime.hpp"
#include "tidu/cpu/executor.hpp"
#include "tidu/frontend/array.hpp"
#include "tidu/frontend/functions.hpp"
#include "tidu/frontend/modes.hpp"

namespace tidu::test::streams_cases {
namespace {

Tensor numbers(double first) {
  return Tensor::from<double>({4}, {first, first + 0.25, first - 0.5, first + 1.5});
}
Array on(const Machine& machine, double first) { return Array(numbers(first)).to(machine.cuda); }

// Reads the elements on the stream as a kernel of the caller's own would: without asking tidu to wait.
void read_there(const Machine& machine, const Array& array, const CudaStream& stream) {
  const auto* const there = static_cast<const cuda_detail::DeviceStorage*>(array.body()->tensor.resident());
  std::byte* const copy = machine.device->allocate(there->bytes());
  machine.device->copy(copy, there->address(), there->bytes(), {stream.handle()});
  machine.device->deallocate(copy, there->bytes());
}

TEST_CASE("a seed that was made on another stream is waited for by an event") {
  const Machine machine;
  Array x = on(machine, 1);
  x.set_requires_grad();
  const CudaStream forward = CudaStream::make(machine.cuda), other = CudaStream::make(machine.cuda);
  std::optional<Array> y, seed;
  {
    const CudaStreamGuard guard(forward);
    y = sin(x) * x;
  }
  {
    const CudaStreamGuard guard(other);
    seed = exp(on(machine, 2));
  }
  machine.device->clear_log();
  {
    const CudaStreamGuard guard(forward);
    y->backward(*seed);
  }
  CHECK(machine.device->count("wait") != 0);
  CHECK(machine.waits() == 0);
  const Array host(numbers(1));
  const Array wanted = (sin(host) + cos(host) * host) * exp(Array(numbers(2)));
  CHECK(difference(x.grad()->tensor(), wanted.tensor()) == "");
}

TEST_CASE("gradients are safe on the caller's stream, whatever streams the nodes ran on") {
  const Machine machine;
  Array x = on(machine, 1), w = on(machine, 2);
  x.set_requires_grad();
  w.set_requires_grad();
  const CudaStream first = CudaStream::make(machine.cuda), second = CudaStream::make(machine.cuda);
  const CudaStream caller = CudaStream::make(machine.cuda);
  std::optional<Array> a, b;
  {
    const CudaStreamGuard guard(first);
    a = sin(x * w);
  }
  {
    const CudaStreamGuard guard(second);
    b = exp(x) * w;
  }
  {
    const CudaStreamGuard guard(caller);
    sum(*a + *b).backward();
  }
  read_there(machine, *x.grad(), caller);
  read_there(machine, *w.grad(), caller);
  CHECK(machine.waits() == 0);
  CHECK(machine.device->faults().empty());
  const Array x_host(numbers(1)), w_host(numbers(2));
  CHECK(difference(x.grad()->tensor(), (cos(x_host * w_host) * w_host + exp(x_host) * w_host).tensor()) ==
        "");
  CHECK(difference(w.grad()->tensor(), (cos(x_host * w_host) * x_host + exp(x_host)).tensor()) == "");
}

TEST_CASE("training steps on a stream wait for nothing") {
  const Machine machine;
  const auto train = [&](const auto& put) {
    Array w = put(Array(numbers(1)));
    w.set_requires_grad();
    for (int step = 0; step < 6; ++step) {
      const Array x = put(Array(numbers(0.1 * step)));
      sum(square(tanh(x * w) - x)).backward();
      const NoGrad off;
      w -= *w.grad() * 0.1;
      w.zero_grad();
    }
    return w.detach();
  };
  const CudaStream stream = CudaStream::make(machine.cuda);
  const CudaStreamGuard guard(stream);
  const Array got = train([&](const Array& a) { return a.to(machine.cuda); });
  CHECK(machine.waits() == 0);
  CHECK(machine.device->count("upload") == 1 + 6 + 2);  // each batch; a number and a seed once

  const Array wanted = train([](const Array& a) { return a; });
  CHECK(difference(got.tensor(), wanted.tensor()) == "");
}

TEST_CASE("copies are staged in pinned memory, which is used again when the device is done") {
  const Machine machine;
  const Tensor host = numbers(1);
  (void)machine.put(host);
  CHECK(machine.device->count("pin") == 1);
  for (int round = 0; round < 10; ++round) {
    machine.cuda.synchronize();
    (void)machine.put(host);
  }
  CHECK(machine.device->count("pin") == 1);
  machine.device->fail("pin", 1);
  const Tensor large = Tensor::zeros(Type(f64, {1 << 16}));
  const Result<Tensor> failed = machine.cuda.put(large);
  if (!failed) CHECK(failed.error().kind() == ErrorKind::out_of_memory);
  CHECK(machine.cuda.put(large).has_value());
}

TEST_CASE("a backward call that runs out of memory changes nothing, and works when there is memory") {
  CudaOptions options;
  options.memory_limit = std::size_t{64} << 20;
  const Machine machine(options);
  constexpr std::int64_t count = std::int64_t{1} << 20;  // 8 MiB
  Array x = Array(Tensor::zeros(Type(f64, {count}))).to(machine.cuda);
  x.set_requires_grad();
  const Array loss = sum(sin(sin(x)));
  std::vector<Array> ballast;
  const Tensor block = Tensor::zeros(Type(f64, {count}));
  while (true) {
    try {
      ballast.push_back(Array(block).to(machine.cuda));
    } catch (const Error& error) {
      CHECK(error.kind() == ErrorKind::out_of_memory);
      break;
    }
  }
  REQUIRE(ballast.size() >= 2);
  BackwardOptions keep;
  keep.keep_graph = true;
  try {
    loss.backward(keep);
    FAIL("expected an error");
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::out_of_memory);
    CHECK(std::string(error.what()).find("bytes of device memory") != std::string::npos);
  }
  CHECK_FALSE(x.grad().has_value());
  ballast.clear();
  loss.backward();
  CHECK(x.grad()->tensor().at(5) == 1.0);
}

}  // namespace
}  // namespace tidu::test::streams_cases
