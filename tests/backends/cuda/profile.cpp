// What a device did, in a profile: each step with its begin and end, told by events, and nobody waits.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "cuda/machine.hpp"
#include "tidu/eager/profile.hpp"
#include "tidu/frontend/array.hpp"
#include "tidu/frontend/functions.hpp"
#include "tidu/frontend/modes.hpp"
#include "tidu/graph/builder.hpp"
#include "tidu/optimizer/cache.hpp"
#include "tidu/primitives/elementwise.hpp"

namespace tidu::test {
namespace {

using eager::Profile;
using eager::ProfileEvent;
using eager::ProfilePhase;

std::vector<ProfileEvent> device_events(const Profile& profile) {
  std::vector<ProfileEvent> found;
  for (const ProfileEvent& event : profile.events())
    if (event.phase == ProfilePhase::device) found.push_back(event);
  return found;
}

CudaOptions step_by_step() {
  CudaOptions options;
  options.compile.fuse = false;
  return options;
}

Graph three_steps() {
  GraphBuilder builder("three");
  const Value x = builder.input("x", Type(f32, {8}));
  return builder.build({ops::exp(ops::sin(ops::neg(x)))});
}

TEST_CASE("times of a profile begin at once, whatever a stream that was given back has to do") {
  const Machine machine(step_by_step());
  const CudaExecutable program = machine.cuda.compile(three_steps());
  const Tensor x = machine.put(Tensor::zeros(Type(f32, {8})));
  {
    const CudaStream busy = CudaStream::make(machine.cuda);
    const CudaStreamGuard guard(busy);
    (void)program.run({x});
  }
  machine.device->clear_log();
  Profile profile;
  const std::shared_ptr<const void> watched = machine.cuda.profile_device(profile);
  REQUIRE(machine.device->log().size() >= 2);
  const std::string& created = machine.device->log()[0];
  CHECK(created.rfind("create s", 0) == 0);  // where nothing else is put
  const std::string& recorded = machine.device->log()[1];
  CHECK(recorded.substr(recorded.rfind(' ') + 1) == created.substr(created.rfind(' ') + 1));
}

TEST_CASE("a profile has the steps of a device, once it has done them") {
  const Machine machine(step_by_step());
  Profile profile;
  const CudaExecutable program = machine.cuda.compile(three_steps());
  const Tensor x = machine.put(Tensor::zeros(Type(f32, {8})));
  machine.device->clear_log();
  (void)program.run({x});
  CHECK(machine.device->count("record") == 0);
  {
    const std::shared_ptr<const void> watched = machine.cuda.profile_device(profile);
    for (int round = 0; round < 3; ++round) (void)program.run({x});
  }
  (void)program.run({x});
  CHECK(machine.waits() == 0);
  CHECK(device_events(profile).empty());  // nothing is known to have ended
  machine.cuda.synchronize();
  const std::vector<ProfileEvent> events = device_events(profile);
  CHECK(machine.waits() == 1);
  // The second run of the program is the first that is watched: it and the others are replayed.
  REQUIRE(events.size() == 3);
  for (std::size_t i = 0; i < events.size(); ++i) {
    CHECK(events[i].name == "three (3 steps)");
    CHECK(events[i].bytes == 32);
    CHECK(events[i].placement == eager::Placement{1, 0});
    CHECK(events[i].begin < events[i].end);
    if (i != 0) CHECK(events[i - 1].end <= events[i].begin);
  }
  CHECK(device_events(profile).size() == 3);
  profile.clear();
  CHECK(profile.events().empty());
}

TEST_CASE("steps that run one by one are told one by one, with the copies, in rows of the device's own") {
  CudaOptions options = step_by_step();
  options.replay = false;
  const Machine machine(options);
  Profile profile;
  Tensor result;
  {
    const std::shared_ptr<const void> watched = machine.cuda.profile_device(profile);
    const CudaStream stream = CudaStream::make(machine.cuda);
    const CudaStreamGuard guard(stream);
    result = machine.cuda.compile(three_steps()).run({Tensor::zeros(Type(f32, {8}))})[0];
    (void)result.bytes();
  }
  std::vector<std::string> names;
  for (const ProfileEvent& event : device_events(profile)) names.push_back(event.name);
  CHECK(names == std::vector<std::string>{"to device", "neg", "sin", "exp", "to host"});
  const nlohmann::json trace = nlohmann::json::parse(profile.to_chrome_trace());
  std::size_t rows = 0, steps = 0;
  for (const nlohmann::json& event : trace["traceEvents"]) {
    if (event["name"] == "thread_name" &&
        event["args"]["name"].get<std::string>().find("activity of stream") == 0)
      ++rows;
    if (event["ph"] == "X" && event["cat"] == "device") {
      ++steps;
      CHECK(event["pid"] == 1);
    }
  }
  CHECK(rows == 1);
  CHECK(steps == 5);
}

TEST_CASE("a ProfileGuard watches the device that Arrays are on") {
  const Machine machine;
  Array x = Array(Tensor::zeros(Type(f64, {4}))).to(machine.cuda);
  x.set_requires_grad();
  Profile profile;
  {
    const ProfileGuard guard(profile);
    sum(sin(x)).backward();
  }
  CHECK(machine.waits() == 0);
  (void)x.grad()->tensor().bytes();
  std::vector<std::string> names;
  for (const ProfileEvent& event : device_events(profile)) names.push_back(event.name);
  CHECK(std::find(names.begin(), names.end(), "sin") != names.end());
  CHECK(std::find(names.begin(), names.end(), "reduce_sum") != names.end());
  CHECK(names.size() >= 4);
}

TEST_CASE("a profile that ends before the device, and events that fail, leave nothing behind") {
  auto machine = std::make_unique<Machine>(step_by_step());
  const std::shared_ptr<FakeDevice> device = machine->device;
  {
    const CudaExecutable program = machine->cuda.compile(three_steps());
    std::shared_ptr<const void> watched;
    {
      Profile profile;
      watched = machine->cuda.profile_device(profile);
      (void)program.run({Tensor::zeros(Type(f32, {8}))});
    }
    (void)program.run({Tensor::zeros(Type(f32, {8}))});
    device->fail("record", 2);
    CHECK_THROWS_AS((void)program.run({Tensor::zeros(Type(f32, {8}))}), Error);
    (void)program.run({Tensor::zeros(Type(f32, {8}))});
  }
  machine.reset();
  compile_cache().clear();
  CHECK(device->handles() == 0);
  CHECK(device->held() == 0);
}

}  // namespace
}  // namespace tidu::test
