// fake_device.hpp - FakeDevice: a device in the host's memory. It notes every call as a line of text, runs
// kernels through the emulator, fails where it is told to, and checks what it is asked: work that reads what
// other work has written, or writes where other work has read or written, must come after it by the order of
// a stream, by an event, or because the host has waited. Memory must be there, streams too, and the device's
// own, launches within CUDA's limits, steps of libraries such as these take (fake_rules.hpp), and everything
// must be given back. What is copied to the host is there when that has waited. A thread that captures asks
// for nothing that CUDA refuses then: memory, whether an event is done, waiting.
//
// Work is done at once, when it is put on a stream; what comes before what is told by clocks, one for each
// stream and one for the host, that streams and events carry along.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "cuda/device.hpp"
#include "cuda/emulator.hpp"
#include "cuda/fake_rules.hpp"

namespace tidu::test {

class FakeDevice final : public cuda_detail::Device {
 public:
  using Event = cuda_detail::Event;
  using Stream = cuda_detail::Stream;
  using Bindings = cuda_detail::Bindings;

  /// Without `computes`, kernels are noted and checked, not run.
  explicit FakeDevice(std::size_t memory_bytes = std::size_t{1} << 30, bool computes = true);
  ~FakeDevice() override;

  // --- for tests
  /// The calls so far, one a line: "record e2 on s1".
  const std::vector<std::string>& log() const { return log_; }
  void clear_log() { log_.clear(); }
  /// How many lines begin like this.
  std::size_t count(const std::string& beginning) const;
  /// What rules were broken, in words.
  const std::vector<std::string>& faults() const { return faults_; }
  /// The n-th call from now on whose line begins like this fails (counted from 1): "allocate", "launch",
  /// "copy", …
  void fail(const std::string& beginning, int nth);
  /// CUDA's default stream.
  static Stream legacy_stream() { return cuda_detail::legacy_stream(); }
  /// From now on a new stream has the handle of one that has ended, where there is one, as CUDA's may.
  void recycle_streams() { recycles_ = true; }
  /// Device memory that was not given back, in bytes.
  std::size_t held() const;
  /// Streams, events, graphs and communicators that were not given back.
  std::size_t handles() const;

  const cuda_detail::DeviceProperties& properties() const override { return properties_; }
  cuda_detail::DeviceCounters counters() const override { return counters_; }
  std::byte* allocate(std::size_t bytes) override;
  void deallocate(std::byte* at, std::size_t bytes) noexcept override;
  std::byte* allocate_pinned(std::size_t bytes) override;
  void deallocate_pinned(std::byte* at, std::size_t bytes) noexcept override;
  void copy_to_device(std::byte* to, const std::byte* from, std::size_t bytes, Stream stream) override;
  void copy_to_host(std::byte* to, const std::byte* from, std::size_t bytes, Stream stream) override;
  void copy(std::byte* to, const std::byte* from, std::size_t bytes, Stream stream) override;
  void clear(std::byte* at, std::size_t bytes, Stream stream) override;
  Stream create_stream() override;
  void destroy_stream(Stream stream) noexcept override;
  Event create_event(bool timed) override;
  void destroy_event(Event event) noexcept override;
  void record(Event event, Stream stream) override;
  void wait(Stream stream, Event event) override;
  bool is_done(Event event) override;
  double elapsed(Event begin, Event end) override;
  void synchronize(Stream stream) override;
  void synchronize_all() override;
  cuda_detail::Kernel load(const cuda_detail::KernelSource& source) override;
  void launch(const cuda_detail::Launch& launch, cuda_detail::Kernel kernel, const Bindings& at,
              Stream stream) override;
  void run(const cuda_detail::GemmStep& step, const Bindings& at, Stream stream) override;
  void run(const cuda_detail::ConvolutionStep& step, const Bindings& at, Stream stream) override;
  void run(const cuda_detail::SortStep& step, const Bindings& at, Stream stream) override;
  void run(const cuda_detail::SolverStep& step, const Bindings& at, Stream stream) override;
  void run(const cuda_detail::CollectiveStep& step, const Bindings& at, Stream stream) override;
  std::size_t workspace_bytes(const cuda_detail::Step& step) const override;
  cuda_detail::CommunicatorKey communicator_id() override;
  void* join(const cuda_detail::CommunicatorKey& id, int rank, int ranks) override;
  void leave(void* communicator) noexcept override;
  bool can_capture(const cuda_detail::Step& step) const override;
  void begin_capture(Stream stream) override;
  cuda_detail::ReplayGraph end_capture(Stream stream, cuda_detail::ReplayGraph previous) override;
  void abandon_capture(Stream stream) noexcept override;
  void launch(cuda_detail::ReplayGraph graph, Stream stream) override;
  void destroy_graph(cuda_detail::ReplayGraph graph) noexcept override;

 private:
  using Clock = std::vector<std::uint64_t>;  // by process: a stream's number, 0 for the host
  struct Access {                            // of bytes [begin, end) of an allocation
    std::size_t begin, end, process;
    std::uint64_t tick;
    bool writes;
    std::string what;
  };
  struct Allocation {
    std::size_t bytes = 0;
    bool pinned = false;
    std::vector<Access> accesses;
  };
  struct Touch {
    std::byte* at;
    std::size_t bytes;
    bool writes;
  };
  struct Work {
    std::string line;
    std::vector<Touch> touches;
    std::function<void()> act;
  };
  struct Captured {
    enum class Kind : std::uint8_t { work, record, wait } kind;
    std::size_t lane;  // number of the stream
    std::size_t event;
    Work work;
  };
  struct Graph {
    std::size_t number = 0, origin = 0;
    std::vector<Captured> steps;
  };
  struct StreamState {
    const FakeDevice* device = nullptr;
    std::size_t number = 0;
    Clock clock;
    Graph* capture = nullptr;
    bool is_gone = false;
  };
  struct EventState {
    std::size_t number = 0;
    Clock clock;
    bool recorded = false;
    bool timed = false;
    std::uint64_t time = 0;  // in ticks of all devices
    Graph* capture = nullptr;
  };

  StreamState& state(Stream stream);
  static EventState& state(Event event) { return *static_cast<EventState*>(event.handle); }
  static void join(Clock& into, const Clock& other);
  static bool is_before(const Access& access, const Clock& clock);
  void note(const std::string& line);
  void fault(const std::string& text);
  void refuse_in_capture(const char* what);
  void check_launch(const cuda_detail::Launch& launch);
  void check_transfer(const std::byte* host, Stream stream);
  void tick(Clock& clock, std::size_t process);
  void put(Stream stream, Work work);
  void perform(const Work& work, std::size_t process, Clock& clock);
  void touch(const Touch& touch, const std::string& what, std::size_t process, const Clock& clock);
  void run_library(const cuda_detail::Step& step, const char* name, const Bindings& at, Stream stream);
  Graph* end(Stream stream);
  std::byte* make(std::size_t bytes, bool pinned);
  void drop(std::byte* at, std::size_t bytes, bool pinned) noexcept;

  cuda_detail::DeviceProperties properties_;
  cuda_detail::DeviceCounters counters_;
  bool computes_, recycles_ = false;
  mutable std::recursive_mutex mutex_;
  std::vector<std::string> log_, faults_;
  struct Failure {
    std::string beginning;
    int left;
  };
  std::vector<Failure> failures_;
  std::map<std::byte*, Allocation> memory_;
  Transfers transfers_;
  std::map<std::string, std::unique_ptr<std::string>> kernels_;  // by text
  std::size_t next_process_ = 1, next_event_ = 1, next_graph_ = 1;
  std::size_t events_ = 0, graphs_ = 0, communicators_ = 0;
  std::vector<StreamState*> streams_;
  StreamState legacy_;  // CUDA's default stream, which others make work for
  std::vector<std::unique_ptr<StreamState>> destroyed_;
  std::map<Graph*, std::thread::id> captures_;                        // by which thread they were begun
  std::map<std::pair<std::size_t, std::size_t>, std::size_t> lanes_;  // processes by graph and stream
  Clock host_;
  std::size_t in_use_ = 0;
  std::uint64_t time_ = 0;
};

}  // namespace tidu::test
