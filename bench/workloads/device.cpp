// device.cpp - measurements on a device alone: chains over so many elements that memory bounds them, compared
// with a copy of as many bytes, and the host's time to enqueue a captured program.
#include <algorithm>
#include <cstdio>
#include <tidu/eager/profile.hpp>
#include <tidu/frontend/functions.hpp>
#include <tidu/frontend/trace.hpp>
#include <tidu/linearize/transforms.hpp>
#include <vector>

#include "workload.hpp"

#ifdef TIDU_WITH_CUDA
#include <tidu/cuda.hpp>

#include "cuda/device.hpp"
#endif

namespace workloads {
namespace {

using namespace tidu;

// Ten operations that no unit but memory is busy with.
Array cheap(const Array& x) {
  const Array a = x * 0.5 + 1;
  const Array b = a * a - x;
  const Array c = maximum(b, x) * 0.25 + a;
  return sqrt(abs(c) + 1) - b;
}

Array costly(const Array& x) {
  const Array c = square(x);
  return sum(tanh(sin(x) * x + exp(-c)) * sqrt(c + 1));
}

// The file's elements over and over.
Tensor elements(const Setting& setting, std::int64_t count) {
  constexpr std::int64_t given = std::int64_t{1} << 20;
  InputFile file(setting, "elementwise10");
  const Tensor x = file.next({f32, {given}});
  file.end();
  Tensor all({f32, {count}});
  for (std::int64_t i = 0; i < count; i += given)
    std::copy_n(x.data<float>(), given, all.mutable_data<float>() + i);
  return all;
}

// One copy within the device, of memory with no other use, on the stream of the workloads.
void add_copy(Workload& workload, const Setting& setting, std::size_t bytes) {
#ifdef TIDU_WITH_CUDA
  if (setting.gpu == nullptr) return;
  const std::shared_ptr<cuda_detail::Device> device =
      cuda_detail::open_device(setting.gpu->options().device, "", 0);
  struct Copy {
    std::shared_ptr<cuda_detail::Device> device;
    std::size_t bytes;
    std::byte *from, *to;
    Copy(std::shared_ptr<cuda_detail::Device> on, std::size_t size)
        : device(std::move(on)), bytes(size), from(device->allocate(bytes)), to(device->allocate(bytes)) {}
    Copy(const Copy&) = delete;
    Copy& operator=(const Copy&) = delete;
    ~Copy() {
      if (from != nullptr) device->deallocate(from, bytes);
      if (to != nullptr) device->deallocate(to, bytes);
    }
  };
  const auto copy = std::make_shared<Copy>(device, bytes);
  if (copy->from == nullptr || copy->to == nullptr) return;
  const CudaStream stream = CudaStream::current(*setting.gpu);
  workload.bounds = {
      [copy, stream] { copy->device->copy(copy->to, copy->from, copy->bytes, {stream.handle()}); }};
#else
  static_cast<void>(workload);
  static_cast<void>(setting);
  static_cast<void>(bytes);
#endif
}

Workload chain(const Setting& setting, std::int64_t count) {
  const Tensor x = elements(setting, count);
  Workload workload = of_graph(trace(cheap, x.type()), {x}, setting);
  add_copy(workload, setting, x.num_bytes());
  return workload;
}

Workload costly_chain(const Setting& setting, std::int64_t count) {
  const Tensor x = elements(setting, count);
  Workload workload = of_graph(value_and_grad(trace(costly, x.type())), {x}, setting);
  add_copy(workload, setting, x.num_bytes());
  return workload;
}

// Twenty small matmuls one after another, captured; small factors, which make no difference of rounding
// grow.
Workload launch(const Setting& setting) {
  InputFile file(setting, "elementwise10");
  const Tensor x = file.next({f32, {16, 16}});
  const auto f = [](const Array& a) {
    const Array w = a * 0.0625;
    Array y = a;
    for (int i = 0; i < 20; ++i) y = tanh(matmul(y, w));
    return y;
  };
  Workload workload = of_graph(trace(f, x.type()), {x}, setting);
  workload.issuing = setting.gpu != nullptr;
  return workload;
}

}  // namespace

void add_device(Registry& registry) {
  for (const auto& [name, count] : {std::pair("1M", 1 << 20), {"256M", 1 << 28}}) {
    registry[std::string("chain/") + name] = [count = count](const Setting& setting) {
      return chain(setting, count);
    };
    registry[std::string("elementwise10/") + name] = [count = count](const Setting& setting) {
      return costly_chain(setting, count);
    };
  }
  registry["launch"] = launch;
}

const CudaExecutor* find_device(const std::string& name, [[maybe_unused]] bool in_steps) {
  if (name != "cuda") throw std::runtime_error("expected the device cuda, got " + name);
#ifdef TIDU_WITH_CUDA
  if (!in_steps) return &cuda();
  static const CudaExecutor plain = [] {
    CudaOptions options;
    options.replay = false;
    return CudaExecutor(options);
  }();
  plain.open();
  return &plain;
#else
  throw std::runtime_error("no CUDA device: expected tidu built with its CUDA executor, got one without");
#endif
}

void print_steps([[maybe_unused]] const Workload& workload, [[maybe_unused]] const CudaExecutor& gpu) {
#ifdef TIDU_WITH_CUDA
  struct Step {
    std::string name;
    std::uint64_t bytes;
    double us;
  };
  std::vector<Step> steps;
  for (int round = 0; round < 6; ++round) {
    eager::Profile profile;
    const std::shared_ptr<const void> watched = gpu.profile_device(profile);
    workload.run();
    gpu.synchronize();
    if (round == 0) continue;  // the first round warms up
    std::vector<eager::ProfileEvent> events = profile.events();
    std::erase_if(events, [](const auto& event) { return event.phase != eager::ProfilePhase::device; });
    std::stable_sort(events.begin(), events.end(),
                     [](const auto& a, const auto& b) { return a.begin < b.begin; });
    if (steps.size() != events.size()) steps.assign(events.size(), {"", 0, 1e300});
    for (std::size_t i = 0; i < events.size(); ++i) {
      const double us = static_cast<double>(events[i].end - events[i].begin) / 1000;
      steps[i] = {events[i].name, events[i].bytes, std::min(us, steps[i].us)};
    }
  }
  double all = 0;
  for (const Step& step : steps) {
    std::printf("%10.1f us %10.2f MB  %s\n", step.us, static_cast<double>(step.bytes) / 1e6,
                step.name.c_str());
    all += step.us;
  }
  std::printf("%10.1f us all %zu steps\n", all, steps.size());
#else
  (void)workload, (void)gpu;
#endif
}

}  // namespace workloads
