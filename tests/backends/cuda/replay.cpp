// Programs that are captured and replayed, streams and events, memory, and failures, on a fake device.
#include <doctest/doctest.h>

#include <array>

#include "cpu/compare.hpp"
#include "cuda/layout.hpp"
#include "cuda/machine.hpp"
#include "cuda/memory.hpp"
#include "cuda/runtime.hpp"
#include "tidu/cuda.hpp"
#include "tidu/optimizer/cache.hpp"

namespace tidu::test {
namespace {

using namespace cuda_detail;

CudaOptions without_fusion() {
  CudaOptions options;
  options.compile.fuse = false;
  return options;
}

// Three products that depend on the inputs alone, and their sum.
Graph branches() {
  GraphBuilder builder("branches");
  const Value x = builder.input("x", Type(f32, {64}));
  const Value y = builder.input("y", Type(f32, {64}));
  const Value a = ops::sin(ops::mul(x, y));
  const Value b = ops::cos(ops::add(x, y));
  const Value c = ops::exp(ops::sub(x, y));
  const Value ab = ops::add(a, b);
  const Value sum = ops::add(ab, c);
  return builder.build({sum});
}

Tensor numbers(std::int64_t count, float first) {
  std::vector<float> all(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = first + static_cast<float>(i) / 100;
  return Tensor::from<float>({count}, std::span<const float>(all));
}

TEST_CASE("The same addresses are replayed, on streams that wait for each other") {
  Machine machine(without_fusion());
  const Graph graph = branches();
  const Tensor host[] = {numbers(64, 0.5F), numbers(64, -0.25F)};
  const std::vector<Tensor> expected = reference().run(graph, std::span<const Tensor>(host));
  const CudaExecutable program = machine.cuda.compile(graph);
  const std::array inputs{machine.put(host[0]), machine.put(host[1])};
  for (int round = 0; round < 5; ++round)
    CHECK(difference(program.run(std::span<const Tensor>(inputs))[0], expected[0]) == "");
  CHECK(machine.device->count("capture") == 1);
  CHECK(machine.device->count("replay") == 4);
  CHECK(machine.cuda.device_statistics().launches == program.num_steps());
  CHECK(machine.device->count("create s") >= 3);  // the default one, and some for branches
}

TEST_CASE("Other addresses change a capture, and many of them end capturing") {
  Machine machine(without_fusion());
  const CudaExecutable program = machine.cuda.compile(branches());
  const Tensor y = machine.put(numbers(64, 1));
  std::vector<Tensor> kept;
  for (int round = 0; round < 40; ++round) {
    kept.push_back(machine.put(numbers(64, static_cast<float>(round))));
    const Tensor got = program.run({kept.back(), y})[0];
    kept.push_back(got);
    const Tensor host[] = {kept[kept.size() - 2].clone(), y.clone()};
    CHECK(difference(got, reference().run(branches(), std::span<const Tensor>(host))[0]) == "");
  }
  CHECK(machine.device->count("capture") <= 9);
}

TEST_CASE("Work on one stream waits for what was made on another, and memory is not taken too soon") {
  Machine machine(without_fusion());
  const CudaExecutable program = machine.cuda.compile(branches());
  const CudaStream one = CudaStream::make(machine.cuda), two = CudaStream::make(machine.cuda);
  const std::array host{numbers(64, 1), numbers(64, 2)};
  Tensor x = machine.put(host[0]);
  const Tensor y = machine.put(host[1]);
  Tensor same = host[0];
  for (int round = 0; round < 6; ++round) {
    const std::array inputs{x, y};
    x = program.run(std::span<const Tensor>(inputs), round % 2 == 0 ? one : two)[0];
    const std::array at{same, host[1]};
    same = reference().run(branches(), std::span<const Tensor>(at))[0];
  }
  CHECK(machine.device->count("synchronize") == 0);
  CHECK(difference(x, same) == "");
}

TEST_CASE("A guard chooses the thread's stream, and placements name it") {
  Machine machine;
  const CudaStream stream = CudaStream::make(machine.cuda);
  CHECK(machine.cuda.current_placement().stream == 0);
  {
    const CudaStreamGuard guard(stream);
    CHECK(machine.cuda.current_placement().stream == reinterpret_cast<std::uintptr_t>(stream.handle()));
    const auto state = machine.cuda.thread_state();
    CHECK(CudaStream::current(machine.cuda).handle() == stream.handle());
    const CudaStreamGuard inner(CudaStream::of(machine.cuda, nullptr));
    CHECK(machine.cuda.current_placement().stream == 1);  // cudaStreamLegacy
    const auto before = state->install();
    CHECK(machine.cuda.current_placement().stream == reinterpret_cast<std::uintptr_t>(stream.handle()));
    before->install();
    CHECK(machine.cuda.current_placement().stream == 1);
  }
  CHECK(machine.cuda.current_placement().stream == 0);
  CHECK(machine.cuda.current_placement().device == 1);
}

TEST_CASE("Out of memory says how much was wanted, and leaves everything usable") {
  CudaOptions options;
  options.memory_limit = std::size_t{8} << 20;
  Machine machine(options);
  const auto large = [](std::int64_t count) {
    GraphBuilder builder("large");
    const Value x = builder.input("x", Type(f32, {count}));
    return builder.build({ops::exp(x)});
  };
  const std::int64_t too_many = std::int64_t{3} << 20;
  const Tensor host = Tensor::zeros(Type(f32, {too_many}));
  const Result<std::vector<Tensor>> failed = machine.cuda.try_run(large(too_many), std::span(&host, 1));
  REQUIRE(!failed);
  CHECK(failed.error().kind() == ErrorKind::out_of_memory);
  CHECK(std::string(failed.error().what()).find("the limit is 8388608") != std::string::npos);
  const Tensor small = numbers(100, 0);
  CHECK(machine.cuda.try_run(large(100), std::span(&small, 1)).has_value());
  // What was kept for other sizes is given back when it is needed.
  const Tensor half = Tensor::zeros(Type(f32, {std::int64_t{3} << 18}));
  for (int round = 0; round < 3; ++round)
    CHECK(machine.cuda.try_run(large(std::int64_t{3} << 18), std::span(&half, 1)).has_value());
  CHECK(machine.cuda.device_statistics().memory_held <= options.memory_limit);
}

TEST_CASE("Whatever call fails, the next run works and nothing is lost") {
  for (const char* const call : {"allocate", "pin", "upload", "launch", "capture", "end of capture", "replay",
                                 "record", "wait", "create s", "download", "synchronize"}) {
    for (int nth = 1; nth <= 3; ++nth) {
      compile_cache().clear();
      Machine machine(without_fusion());
      CAPTURE(call);
      const std::array host{numbers(64, 1), numbers(64, 2)};
      machine.device->fail(call, nth);
      int failures = 0;
      for (int round = 0; round < 6; ++round) {
        try {
          const CudaStream stream = CudaStream::make(machine.cuda);
          const CudaExecutable program = machine.cuda.compile(branches());
          const Tensor got = program.run(std::span<const Tensor>(host), stream)[0];
          const std::string found =
              difference(got, reference().run(branches(), std::span<const Tensor>(host))[0]);
          CHECK(found == "");
        } catch (const Error& error) {
          CHECK((error.kind() == ErrorKind::execution || error.kind() == ErrorKind::out_of_memory));
          ++failures;
        }
      }
      if (std::string_view(call) == "capture" && nth == 1) {
        CHECK(machine.cuda.device_statistics().refused_captures == 1);
        CHECK(machine.cuda.device_statistics().last_refusal.find("told to fail") != std::string::npos);
        CHECK(machine.device->count("replay") != 0);  // captured the next time
      }
      CHECK(failures <= 1);
    }
  }
  compile_cache().clear();
}

TEST_CASE("Everything is given back in the end") {
  const auto device = std::make_shared<FakeDevice>();
  {
    const CudaExecutor cuda(device, without_fusion());
    const CudaExecutable program = cuda.compile(branches());
    const std::array inputs{numbers(64, 1), numbers(64, 2)};
    for (int round = 0; round < 3; ++round) (void)program.run(std::span<const Tensor>(inputs))[0].bytes();
    CHECK(device->held() != 0);
  }
  compile_cache().clear();
  CHECK(device->held() == 0);
  CHECK(device->handles() == 0);
  CHECK_MESSAGE(device->faults().empty(), detail::list(device->faults()));
}

TEST_CASE("A capture that gets no streams loses nothing") {
  const auto device = std::make_shared<FakeDevice>();
  {
    const CudaExecutor cuda(device, without_fusion());
    const CudaExecutable program = cuda.compile(branches());
    const Tensor y = cuda.put(numbers(64, 1)).value();
    Runtime& runtime = static_cast<DeviceStorage*>(y.resident())->runtime();
    std::vector<Tensor> kept;
    const auto run = [&] {
      kept.push_back(cuda.put(numbers(64, 2)).value());
      kept.push_back(program.run({kept.back(), y})[0]);
    };
    while (device->count("capture") < 4) run();
    const std::vector<Stream> taken = runtime.lease_streams(4, Runtime::StreamUse::capture);
    device->fail("create s", 1);
    run();  // in place of the oldest of four captures
    CHECK(cuda.device_statistics().refused_captures == 1);
    runtime.return_streams(taken, Runtime::StreamUse::capture);
  }
  compile_cache().clear();
  CHECK(device->handles() == 0);
  CHECK_MESSAGE(device->faults().empty(), detail::list(device->faults()));
}

TEST_CASE("Written on the host, a tensor is uploaded anew") {
  Machine machine;
  const Graph graph = branches();
  Tensor x = machine.put(numbers(64, 1));
  const Tensor y = machine.put(numbers(64, 2));
  (void)machine.cuda.run(graph, {x, y});
  x.mutable_data<float>()[3] = 7;
  const Tensor got = machine.cuda.run(graph, {x, y})[0];
  const std::array host{x.clone(), y.clone()};
  CHECK(difference(got, reference().run(graph, std::span<const Tensor>(host))[0]) == "");
  CHECK(x.reshaped({8, 8}).at(3) == 7.0);
}

TEST_CASE("Anomaly mode's flags are asked for together") {
  Machine machine;
  const Tensor fine = machine.put(numbers(64, 1));
  const Tensor odd = machine.put(Tensor::from<float>({2}, {1.0F, std::numeric_limits<float>::infinity()}));
  std::string said;
  const auto says = [&](const char* text) {
    return [&said, text] {
      said += text;
      if (text[0] == 'o') throw Error(ErrorKind::non_finite, text);
    };
  };
  CHECK(machine.cuda.watch_finite(fine, says("fine")));
  CHECK(machine.cuda.watch_finite(odd, says("nobody's, ")));
  CHECK(machine.cuda.watch_finite(odd, says("odd")));
  CHECK(machine.cuda.watch_finite(odd, says("later")));
  CHECK(machine.device->count("synchronize") == 0);
  CHECK_THROWS_AS(machine.cuda.check_watched(), Error);
  CHECK(machine.device->count("synchronize") == 1);
  CHECK(said == "nobody's, odd");
  machine.cuda.check_watched();
  CHECK(said == "nobody's, odd");
}

TEST_CASE("Lanes: what depends on one node goes on there, what is free goes elsewhere, and waits are few") {
  // 0 -> 1 -> 3, 0 -> 2 -> 3, 4 alone, 5 after 3 and 4.
  const StreamPlan streams = spread({{}, {0}, {0}, {1, 2}, {}, {3, 4}}, 3);
  CHECK(streams.stream_of[0] == streams.stream_of[1]);
  CHECK(streams.stream_of[2] != streams.stream_of[1]);
  CHECK(streams.waits[2] == std::vector<std::uint32_t>{0});
  CHECK(streams.waits[3].size() == 1);
  CHECK(streams.used == 3);
  CHECK(streams.waits[5].size() == 1);
  // Who is behind a node is behind all that that one was behind of.
  const StreamPlan chain = spread({{}, {}, {0, 1}, {0, 1, 2}}, 2);
  CHECK(chain.waits[3].empty());
  const StreamPlan one = spread({{}, {}, {0}, {1}}, 1);
  for (const auto& waits : one.waits) CHECK(waits.empty());
}

TEST_CASE("The pool gives a stream its own memory back first, and another's only when that is done") {
  FakeDevice device;
  {
    EventPool events(device);
    Pool pool(device, events, std::size_t{28} << 20);
    const Stream a = device.create_stream(), b = device.create_stream();
    const Memory first = pool.acquire(1000, a);
    pool.release(first, std::array{a});
    CHECK(pool.acquire(1000, a).at == first.at);
    pool.release(first, std::array{a});
    device.clear(first.at, 1000, a);
    const Memory second = pool.acquire(1000, b);
    CHECK(second.at != first.at);
    pool.release(second, std::array{b});
    const Memory large = pool.acquire(std::size_t{24} << 20, a);
    CHECK(pool.statistics().held <= pool.statistics().limit);
    device.clear(large.at, 1000, a);
    pool.release(large, std::array{a});
    // No memory is left but this: the other stream waits for it.
    CHECK(pool.acquire(std::size_t{24} << 20, b).at == large.at);
    CHECK(device.count("wait") == 1);
    pool.release(large, std::array{b});
    CHECK_THROWS_WITH_AS(pool.acquire(std::size_t{40} << 20, a), doctest::Contains("bytes of device memory"),
                         Error);
    CHECK(pool.trim() == 0);  // that was tried
    device.destroy_stream(a);
    device.destroy_stream(b);
  }
  CHECK(device.held() == 0);
}

TEST_CASE("What small blocks were cut from goes back to the device when all of them wait for reuse") {
  FakeDevice device;
  {
    constexpr std::size_t limit = std::size_t{8} << 20;
    EventPool events(device);
    Pool pool(device, events, limit);
    const Stream stream = device.create_stream();
    std::vector<Memory> blocks;
    const auto fill = [&](std::size_t bytes) {
      blocks.clear();
      for (std::size_t held = 0; held < limit; held += bytes) blocks.push_back(pool.acquire(bytes, stream));
      CHECK(pool.statistics().held == limit);
    };
    fill(1024);
    // One that is somebody's holds its neighbours.
    for (std::size_t k = 1; k < blocks.size(); ++k) pool.release(blocks[k], std::array{stream});
    CHECK(pool.trim() == limit - (std::size_t{2} << 20));
    CHECK(pool.statistics().held == device.held());
    CHECK(pool.acquire(1024, stream).at != blocks[0].at);
    pool.release(blocks[1], std::array{stream});
    pool.release(blocks[0], std::array{stream});
    CHECK(pool.trim() == std::size_t{2} << 20);
    CHECK(pool.trim() == 0);
    CHECK(device.held() == 0);
    // Room for blocks of another size, and for large ones.
    fill(1024);
    for (const Memory block : blocks) pool.release(block, std::array{stream});
    fill(std::size_t{1} << 20);
    for (const Memory block : blocks) pool.release(block, std::array{stream});
    pool.release(pool.acquire(limit, stream), std::array{stream});
    CHECK(pool.statistics().in_use == 0);
    device.destroy_stream(stream);
  }
  CHECK(device.held() == 0);
}

TEST_CASE("The compile cache counts what a program keeps on the device") {
  const Machine machine;
  const auto counted = [&](std::int64_t count) {
    GraphBuilder builder("scaled");
    const Value factors = ops::constant(builder, numbers(count, 1).to_literal());
    const Graph graph = builder.build({ops::mul(builder.input("x", Type(f32, {count})), factors)});
    compile_cache().clear();
    (void)machine.cuda.compile(graph);
    return compile_cache().statistics().bytes;
  };
  CHECK(counted(1 << 18) >= (std::size_t{1} << 20));
  CHECK(counted(16) < (std::size_t{1} << 16));
  compile_cache().clear();
  (void)machine.cuda.compile(branches());
  const std::size_t replayed = compile_cache().statistics().bytes;
  CudaOptions plainly;
  plainly.replay = false;
  const CudaExecutor other(machine.device, plainly);
  compile_cache().clear();
  (void)other.compile(branches());
  CHECK(compile_cache().statistics().bytes <= replayed);
  compile_cache().clear();
}

}  // namespace
}  // namespace tidu::test
