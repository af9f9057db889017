// fake_device.cpp - calls noted, run and checked.
#include "cuda/fake_device.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "cuda/fake_collectives.hpp"
#include "tidu/graph/error.hpp"

namespace tidu::test {

using namespace cuda_detail;

FakeDevice::FakeDevice(std::size_t memory_bytes, bool computes) : computes_(computes) {
  properties_.name = "a fake device";
  properties_.memory_bytes = memory_bytes;
  legacy_.device = this;
  legacy_.number = next_process_++;
}

FakeDevice::~FakeDevice() {
  for (const auto& [at, allocation] : memory_) std::free(at);
}

std::size_t FakeDevice::count(const std::string& beginning) const {
  const std::lock_guard lock(mutex_);
  return static_cast<std::size_t>(std::count_if(log_.begin(), log_.end(), [&](const std::string& line) {
    return line.compare(0, beginning.size(), beginning) == 0;
  }));
}

std::size_t FakeDevice::held() const {
  const std::lock_guard lock(mutex_);
  std::size_t bytes = 0;
  for (const auto& [at, allocation] : memory_) bytes += allocation.bytes;
  return bytes;
}
std::size_t FakeDevice::handles() const { return streams_.size() + events_ + graphs_ + communicators_; }

void FakeDevice::fail(const std::string& beginning, int nth) { failures_.push_back({beginning, nth}); }

// Throws where the call is to fail.
void FakeDevice::note(const std::string& line) {
  log_.push_back(line);
  for (auto at = failures_.begin(); at != failures_.end(); ++at) {
    if (line.compare(0, at->beginning.size(), at->beginning) != 0 || --at->left != 0) continue;
    failures_.erase(at);
    throw Error(ErrorKind::execution, "[cuda] " + line + ": cudaErrorLaunchFailure, told to fail");
  }
}

void FakeDevice::fault(const std::string& text) { faults_.push_back(text); }

FakeDevice::StreamState& FakeDevice::state(Stream stream) {
  if (stream == legacy_stream()) return legacy_;
  StreamState& on = *static_cast<StreamState*>(stream.handle);
  if (on.is_gone) fault("s" + std::to_string(on.number) + " is used, which was destroyed");
  if (on.device != this) fault("s" + std::to_string(on.number) + " of another device is used");
  return on;
}

void FakeDevice::refuse_in_capture(const char* what) {
  for (const auto& [graph, thread] : captures_)
    if (thread == std::this_thread::get_id()) fault(std::string(what) + " by a thread that captures");
}

void FakeDevice::check_launch(const Launch& launch) {
  constexpr std::uint32_t most[] = {0x7fffffffU, 65535, 65535};
  bool fits = launch.block >= 1 && launch.block <= 1024 && launch.shared_bytes <= 48U * 1024 &&
              launch.arguments.size() <= max_arguments;
  for (std::size_t axis = 0; axis < 3; ++axis)
    fits = fits && launch.grid[axis] >= 1 && launch.grid[axis] <= most[axis];
  // Lanes of a warp speak to each other all together.
  if (launch.kernel->text.find("together::") != std::string::npos) fits = fits && launch.block % 32 == 0;
  if (!fits) fault(launch.kernel->entry + " is launched beyond CUDA's limits");
}

// --- clocks

void FakeDevice::join(Clock& into, const Clock& other) {
  if (into.size() < other.size()) into.resize(other.size());
  for (std::size_t i = 0; i < other.size(); ++i) into[i] = std::max(into[i], other[i]);
}
bool FakeDevice::is_before(const Access& access, const Clock& clock) {
  return access.process < clock.size() && clock[access.process] >= access.tick;
}
void FakeDevice::tick(Clock& clock, std::size_t process) {
  if (clock.size() <= process) clock.resize(process + 1);
  ++clock[process];
}

void FakeDevice::touch(const Touch& touch, const std::string& what, std::size_t process, const Clock& clock) {
  if (touch.bytes == 0) return;
  auto at = memory_.upper_bound(touch.at);
  if (at == memory_.begin() || std::prev(at)->first + std::prev(at)->second.bytes < touch.at + touch.bytes)
    return fault(what + (touch.writes ? " writes" : " reads") + " memory that is nobody's");
  Allocation& allocation = std::prev(at)->second;
  const auto begin = static_cast<std::size_t>(touch.at - std::prev(at)->first);
  const std::size_t end = begin + touch.bytes;
  for (const Access& other : allocation.accesses) {
    if (other.end <= begin || other.begin >= end || (!touch.writes && !other.writes)) continue;
    if (!is_before(other, clock)) {
      fault(what + (touch.writes ? " writes" : " reads") + " what " + other.what +
            (other.writes ? " writes" : " reads") + ", and has not waited for it");
    }
  }
  // What lies below a write is no longer asked about.
  if (touch.writes) {
    std::erase_if(allocation.accesses,
                  [&](const Access& other) { return other.begin >= begin && other.end <= end; });
  }
  allocation.accesses.push_back({begin, end, process, clock[process], touch.writes, what});
}

void FakeDevice::perform(const Work& work, std::size_t process, Clock& clock) {
  tick(clock, process);
  ++time_;
  for (const bool writes : {false, true})
    for (const Touch& one : work.touches)
      if (one.writes == writes) touch(one, work.line, process, clock);
  if (work.act) work.act();
}

void FakeDevice::put(Stream stream, Work work) {
  StreamState& on = state(stream);
  work.line += " on s" + std::to_string(on.number);
  note(work.line);
  if (on.capture != nullptr) {
    on.capture->steps.push_back({Captured::Kind::work, on.number, 0, std::move(work)});
    return;
  }
  join(on.clock, host_);
  perform(work, on.number, on.clock);
}

// --- memory

std::byte* FakeDevice::make(std::size_t bytes, bool pinned) {
  const std::lock_guard lock(mutex_);
  refuse_in_capture("memory is asked for");
  try {
    note((pinned ? "pin " : "allocate ") + std::to_string(bytes));
  } catch (const Error&) {
    return nullptr;
  }
  if (!pinned && in_use_ + bytes > properties_.memory_bytes) return nullptr;
  auto* const at = static_cast<std::byte*>(std::aligned_alloc(256, (bytes + 255) / 256 * 256));
  std::memset(at, 0xa5, bytes);
  memory_[at] = {bytes, pinned, {}};
  if (!pinned) in_use_ += bytes;
  return at;
}

void FakeDevice::drop(std::byte* at, std::size_t bytes, bool pinned) noexcept {
  const std::lock_guard lock(mutex_);
  refuse_in_capture("memory is given back");
  log_.push_back((pinned ? "unpin " : "free ") + std::to_string(bytes));
  const auto found = memory_.find(at);
  if (found == memory_.end() || found->second.bytes != bytes || found->second.pinned != pinned)
    return fault("memory is given back that is nobody's");
  if (!pinned) in_use_ -= bytes;
  transfers_.forget(at, bytes);
  memory_.erase(found);
  std::free(at);
}

std::byte* FakeDevice::allocate(std::size_t bytes) { return make(bytes, false); }
void FakeDevice::deallocate(std::byte* at, std::size_t bytes) noexcept { drop(at, bytes, false); }
std::byte* FakeDevice::allocate_pinned(std::size_t bytes) { return make(bytes, true); }
void FakeDevice::deallocate_pinned(std::byte* at, std::size_t bytes) noexcept { drop(at, bytes, true); }

// Copies from and to the host are never captured, and their memory of the host is pinned.
void FakeDevice::check_transfer(const std::byte* host, Stream stream) {
  auto at = memory_.upper_bound(const_cast<std::byte*>(host));
  if (at == memory_.begin() || !std::prev(at)->second.pinned) fault("a copy of memory that is not pinned");
  if (state(stream).capture != nullptr) fault("a copy between host and device is captured");
}
void FakeDevice::copy_to_device(std::byte* to, const std::byte* from, std::size_t bytes, Stream stream) {
  const std::lock_guard lock(mutex_);
  check_transfer(from, stream);
  put(stream, {"upload " + std::to_string(bytes),
               {{const_cast<std::byte*>(from), bytes, false}, {to, bytes, true}},
               [=] { std::memcpy(to, from, bytes); }});
  const StreamState& on = state(stream);
  transfers_.upload(from, bytes, on.number, on.clock[on.number]);
}
void FakeDevice::copy_to_host(std::byte* to, const std::byte* from, std::size_t bytes, Stream stream) {
  const std::lock_guard lock(mutex_);
  check_transfer(to, stream);
  put(stream, {"download " + std::to_string(bytes),
               {{const_cast<std::byte*>(from), bytes, false}, {to, bytes, true}},
               nullptr});
  const StreamState& on = state(stream);
  transfers_.download(to, {from, from + bytes}, on.number, on.clock[on.number]);
}
void FakeDevice::copy(std::byte* to, const std::byte* from, std::size_t bytes, Stream stream) {
  const std::lock_guard lock(mutex_);
  put(stream, {"copy " + std::to_string(bytes),
               {{const_cast<std::byte*>(from), bytes, false}, {to, bytes, true}},
               [=] { std::memcpy(to, from, bytes); }});
}
void FakeDevice::clear(std::byte* at, std::size_t bytes, Stream stream) {
  const std::lock_guard lock(mutex_);
  put(stream, {"clear " + std::to_string(bytes), {{at, bytes, true}}, [=] { std::memset(at, 0, bytes); }});
}

// --- streams and events

Stream FakeDevice::create_stream() {
  const std::lock_guard lock(mutex_);
  auto stream = std::make_unique<StreamState>();
  if (recycles_ && !destroyed_.empty()) {
    stream = std::move(destroyed_.back());
    destroyed_.pop_back();
    *stream = {};
  }
  stream->device = this;
  stream->number = next_process_++;
  note("create s" + std::to_string(stream->number));
  streams_.push_back(stream.get());
  return {stream.release()};
}
void FakeDevice::destroy_stream(Stream stream) noexcept {
  const std::lock_guard lock(mutex_);
  StreamState& gone = state(stream);
  std::erase(streams_, &gone);
  gone.is_gone = true;
  destroyed_.emplace_back(&gone);
}
Event FakeDevice::create_event(bool timed) {
  const std::lock_guard lock(mutex_);
  auto event = std::make_unique<EventState>();
  event->timed = timed;
  event->number = next_event_++;
  ++events_;
  return {event.release()};
}
void FakeDevice::destroy_event(Event event) noexcept {
  const std::lock_guard lock(mutex_);
  --events_;
  delete static_cast<EventState*>(event.handle);
}

void FakeDevice::record(Event event, Stream stream) {
  const std::lock_guard lock(mutex_);
  EventState& at = state(event);
  StreamState& on = state(stream);
  note("record e" + std::to_string(at.number) + " on s" + std::to_string(on.number));
  if (at.capture != on.capture && captures_.count(at.capture) != 0)
    fault("an event of a capture that has not ended is recorded anew");
  at.recorded = true;
  at.time = ++time_;
  at.capture = on.capture;
  if (on.capture != nullptr) {
    on.capture->steps.push_back({Captured::Kind::record, on.number, at.number, {}});
    return;
  }
  join(on.clock, host_);
  at.clock = on.clock;
}

void FakeDevice::wait(Stream stream, Event event) {
  const std::lock_guard lock(mutex_);
  const EventState& at = state(event);
  StreamState& on = state(stream);
  note("wait s" + std::to_string(on.number) + " for e" + std::to_string(at.number));
  if (!at.recorded) fault("an event is waited for that was never recorded");
  if (at.capture != nullptr && on.capture == nullptr) on.capture = at.capture;
  if (on.capture != at.capture) return fault("a capture waits for what is outside, or the other way round");
  if (on.capture != nullptr) {
    on.capture->steps.push_back({Captured::Kind::wait, on.number, at.number, {}});
    return;
  }
  join(on.clock, host_);
  join(on.clock, at.clock);
}

bool FakeDevice::is_done(Event event) {
  const std::lock_guard lock(mutex_);
  refuse_in_capture("an event is asked for");
  if (captures_.count(state(event).capture) != 0) fault("an event of a capture is asked for");
  const Clock& clock = state(event).clock;
  for (std::size_t i = 0; i < clock.size(); ++i)
    if (clock[i] > (i < host_.size() ? host_[i] : 0)) return false;
  return true;
}
// A microsecond between two events and the next two.
double FakeDevice::elapsed(Event begin, Event end) {
  const std::lock_guard lock(mutex_);
  if (!state(begin).timed || !state(end).timed) fault("the time of an event is asked that tells none");
  if (!is_done(begin) || !is_done(end)) fault("the time of an event is asked that was not passed");
  return 0.001 * (static_cast<double>(state(end).time) - static_cast<double>(state(begin).time));
}

void FakeDevice::synchronize(Stream stream) {
  const std::lock_guard lock(mutex_);
  StreamState& on = state(stream);
  note("synchronize s" + std::to_string(on.number));
  refuse_in_capture("the device is waited for");
  if (on.capture != nullptr) fault("the host waits for a stream that is being captured");
  ++counters_.synchronizations;
  join(host_, on.clock);
  for (const std::string& broken : transfers_.settle(host_)) fault(broken);
}

void FakeDevice::synchronize_all() {
  const std::lock_guard lock(mutex_);
  note("synchronize all");
  if (!captures_.empty()) fault("the device is waited for while something is captured");
  ++counters_.synchronizations;
  for (const StreamState* const one : streams_) join(host_, one->clock);
  for (const auto& gone : destroyed_) join(host_, gone->clock);
  join(host_, legacy_.clock);
  for (const std::string& broken : transfers_.settle(host_)) fault(broken);
}

// --- work

cuda_detail::Kernel FakeDevice::load(const KernelSource& source) {
  const std::lock_guard lock(mutex_);
  note("load " + source.entry);
  std::unique_ptr<std::string>& kernel = kernels_[source.text];
  if (kernel == nullptr) {
    kernel = std::make_unique<std::string>(source.entry);
    ++counters_.kernels_compiled;
  }
  return {kernel.get()};
}

namespace {

bool is_written(const BufferRef& place) { return place.kind != BufferRef::Kind::operand; }

// What is bound now, for when it is run.
class Bound {
 public:
  explicit Bound(const Bindings& at)
      : operands_(at.operands.begin(), at.operands.end()),
        results_(at.results.begin(), at.results.end()),
        scratch_(at.scratch) {}
  Bindings bindings() const { return {operands_, results_, scratch_}; }

 private:
  std::vector<Memory> operands_, results_;
  Memory scratch_;
};

}  // namespace

void FakeDevice::launch(const Launch& launch, cuda_detail::Kernel kernel, const Bindings& at, Stream stream) {
  const std::lock_guard lock(mutex_);
  if (kernel.handle == nullptr) fault("a kernel is launched that was not loaded");
  check_launch(launch);
  std::vector<Touch> touches;
  for (const Argument& argument : launch.arguments) {
    if (!argument.is_place) continue;
    const Memory memory = at.memory(argument.place);
    touches.push_back({memory.at, memory.bytes, is_written(argument.place)});
  }
  if (state(stream).capture == nullptr) ++counters_.launches;
  const auto run = [launch, bound = Bound(at)] { Emulator::shared().launch(launch, bound.bindings()); };
  put(stream, {"launch " + launch.kernel->entry, touches, computes_ ? std::function<void()>(run) : nullptr});
}

// A library is taken to read all operands of its node and to write all results.
void FakeDevice::run_library(const Step& step, const char* name, const Bindings& at, Stream stream) {
  const std::lock_guard lock(mutex_);
  if (const std::string rule = broken_rule(step, at); !rule.empty()) fault(std::string(name) + ": " + rule);
  std::vector<Touch> touches;
  for (const Memory& memory : at.operands) touches.push_back({memory.at, memory.bytes, false});
  for (const Memory& memory : at.results) touches.push_back({memory.at, memory.bytes, true});
  touches.push_back({at.scratch.at, at.scratch.bytes, true});
  const auto run = [step, bound = Bound(at)] { Emulator::shared().step(step, bound.bindings()); };
  put(stream,
      {std::string("run ") + name, std::move(touches), computes_ ? std::function<void()>(run) : nullptr});
}

void FakeDevice::run(const GemmStep& step, const Bindings& at, Stream stream) {
  run_library(step, "gemm", at, stream);
}
void FakeDevice::run(const ConvolutionStep& step, const Bindings& at, Stream stream) {
  run_library(step, "convolution", at, stream);
}
void FakeDevice::run(const SortStep& step, const Bindings& at, Stream stream) {
  run_library(step, "sort", at, stream);
}
void FakeDevice::run(const SolverStep& step, const Bindings& at, Stream stream) {
  run_library(step, "solver", at, stream);
}
// Devices of one communicator are driven by a thread each, which wait for one another in the work itself.
void FakeDevice::run(const CollectiveStep& step, const Bindings& at, Stream stream) {
  if (step.communicator == nullptr) return run_library(step, "collective", at, stream);
  const std::lock_guard lock(mutex_);
  std::vector<Touch> touches;
  for (const Memory& memory : at.operands) touches.push_back({memory.at, memory.bytes, false});
  for (const Memory& memory : at.results) touches.push_back({memory.at, memory.bytes, true});
  touches.push_back({at.scratch.at, at.scratch.bytes, true});
  const auto exchange = [step, bound = Bound(at)] {
    run_collective(step, [at = bound.bindings()](const BufferRef& place) { return at.at(place); });
  };
  put(stream, {"run collective", std::move(touches), exchange});
}

CommunicatorKey FakeDevice::communicator_id() {
  const std::lock_guard lock(mutex_);
  note("communicator id");
  return new_communicator();
}
void* FakeDevice::join(const CommunicatorKey& id, int rank, int ranks) {
  {
    const std::lock_guard lock(mutex_);
    note("join as " + std::to_string(rank) + " of " + std::to_string(ranks));
    ++communicators_;
  }
  return join_group(id, ranks);
}
void FakeDevice::leave(void* communicator) noexcept {
  const std::lock_guard lock(mutex_);
  --communicators_;
  leave_group(communicator);
}

std::size_t FakeDevice::workspace_bytes(const Step& step) const {
  const auto* const sorting = std::get_if<SortStep>(&step);
  if (sorting != nullptr) return sorting->workspace_bytes + 1000;  // more than was guessed
  return std::holds_alternative<SolverStep>(step) ? 1000 : 0;
}
bool FakeDevice::can_capture(const Step& step) const { return !std::holds_alternative<SolverStep>(step); }

}  // namespace tidu::test
