// strict.cpp - the strict emulator's scheduler of fibers and its checks of each access.
#include "cuda/strict.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <stdexcept>

#include "cuda/fibers.hpp"

namespace tidu::test {

StrictMemory::StrictMemory(std::string name, std::byte* at, std::size_t bytes, Kind kind, bool initialised)
    : name_(std::move(name)),
      begin_(reinterpret_cast<std::uintptr_t>(at)),
      bytes_(bytes),
      granule_(bytes > std::size_t{1} << 21 ? 4 : 1),
      kind_(kind),
      initialised_(initialised) {
  // Zeroes that take no memory before they are written.
  if (kind != Kind::read_only)
    cells_.reset(static_cast<StrictCell*>(std::calloc(bytes / granule_ + 1, sizeof(StrictCell))));
}

void StrictMemory::note_written(std::size_t offset, std::size_t bytes) {
  if (bytes == 0 || cells_ == nullptr) return;
  for (std::size_t i = offset / granule_; i <= (offset + bytes - 1) / granule_; ++i) cell(i).written = true;
}

std::size_t StrictMemory::first_unwritten(std::size_t offset, std::size_t bytes) const {
  const std::size_t end = offset + bytes;
  if (initialised_ || cells_ == nullptr) return end;
  for (std::size_t at = offset; at < end; at += granule_)
    if (!cells_.get()[at / granule_].written) return at;
  return end;
}

namespace {

constexpr std::uint32_t warp_threads = 32;
constexpr std::uint16_t many_readers = 0xffff;

std::string in_bytes(std::size_t count) { return std::to_string(count) + (count == 1 ? " byte" : " bytes"); }

class Launcher {
 public:
  Launcher(const StrictLaunch& launch, const StrictOptions& options)
      : launch_(launch), options_(options), random_(options.seed * 0x9e3779b97f4a7c15U) {
    for (const char c : launch.kernel) random_ = (random_ ^ static_cast<unsigned char>(c)) * 0x100000001b3U;
    random_ |= 1U;
    for (StrictMemory& memory : launch.memory) add(memory);
    for (StrictMemory& memory : launch.shared) add(memory);
    // Of arrays that begin at one address the longest, and the one that may be written, is found first.
    std::stable_sort(arrays_.begin(), arrays_.end(), [](const StrictMemory* a, const StrictMemory* b) {
      if (a->begin() != b->begin()) return a->begin() < b->begin();
      if (a->end() != b->end()) return a->end() < b->end();
      return a->kind() < b->kind();
    });
    Dl_info info;
    if (dladdr(reinterpret_cast<const void*>(launch.call), &info) != 0) library_ = info.dli_fbase;
  }

  void run();
  void access(const void* at, std::size_t bytes, bool writes, bool aligned);
  void wait_at_barrier(const void* called_from);
  std::uint32_t shuffle(std::uint32_t mask, std::uint32_t value, std::uint32_t from, std::uint32_t operation);

 private:
  enum class State : std::uint8_t { ready, at_barrier, in_shuffle, ended };
  struct Thread {
    State state = State::ready;
    const void* barrier = nullptr;                                   // by whom it was called
    std::uint32_t operation = 0, value = 0, from = 0, received = 0;  // of a shuffle
  };

  void add(StrictMemory& memory) {
    if (memory.begin() != memory.end()) arrays_.push_back(&memory);
  }
  std::uint64_t random() {
    random_ ^= random_ << 13U;
    random_ ^= random_ >> 7U;
    random_ ^= random_ << 17U;
    return random_;
  }
  void run_block();
  void run_ready_threads();
  bool release_warps();
  void release_barrier();
  std::uint32_t count(State state, std::uint32_t begin, std::uint32_t end) const;
  StrictMemory* find(std::uintptr_t from, std::size_t bytes);
  std::string outside(std::uintptr_t from) const;
  void check(StrictMemory& memory, StrictCell& cell, bool writes, std::size_t offset, std::size_t bytes);
  void check_race(const StrictMemory& memory, const StrictCell& cell, bool writes, std::size_t offset,
                  std::size_t bytes);
  void note(const StrictMemory& memory, StrictCell& cell, bool writes) const;
  std::string thread_of(std::uint32_t interval, std::uint32_t thread) const;
  // The fiber that calls it never goes on.
  void report(const std::string& words) {
    find(words);
    fiber_wait();
  }
  void find(const std::string& words) {
    if (finding_.empty())
      finding_ =
          "strict emulator, seed " + std::to_string(options_.seed) + ": " + launch_.kernel + ": " + words;
  }
  void report_access(bool writes, std::size_t bytes, const std::string& words) {
    report(thread_of(interval_, current_) + (writes ? " writes " : " reads ") + in_bytes(bytes) + " " +
           words);
  }
  static std::string place(const StrictMemory& memory, std::size_t offset) {
    return "at byte " + std::to_string(offset) + " of " + memory.name() + " (" +
           in_bytes(memory.end() - memory.begin()) + ")";
  }

  const StrictLaunch& launch_;
  const StrictOptions& options_;
  std::uint64_t random_;
  std::vector<StrictMemory*> arrays_;  // by address
  std::size_t last_ = 0;               // the array accessed last
  const void* library_ = nullptr;
  std::vector<Thread> threads_;
  std::vector<std::uint32_t> order_;
  std::vector<std::pair<std::uint32_t, std::uint64_t>> blocks_;  // each begins with that interval
  std::uint32_t current_ = 0;                                    // thread
  std::uint32_t launch_begin_ = 0, block_begin_ = 0, interval_ = 0;
  std::string finding_;
};

Launcher* running = nullptr;
std::uint32_t intervals = 0;  // of all launches
StrictCounts counts;

std::uint32_t Launcher::count(State state, std::uint32_t begin, std::uint32_t end) const {
  return static_cast<std::uint32_t>(
      std::count_if(threads_.begin() + begin, threads_.begin() + end,
                    [=](const Thread& thread) { return thread.state == state; }));
}

std::string Launcher::thread_of(std::uint32_t interval, std::uint32_t thread) const {
  auto at = std::upper_bound(blocks_.begin(), blocks_.end(), interval,
                             [](std::uint32_t a, const auto& block) { return a < block.first; });
  const std::string block = at == blocks_.begin() ? "?" : std::to_string(std::prev(at)->second);
  return (thread == many_readers ? "several threads" : "thread " + std::to_string(thread)) + " of block " +
         block;
}

// --- threads

void Launcher::run() {
  StrictDevice& device = strict_device();
  const auto& grid = launch_.grid;
  const std::uint64_t blocks = std::uint64_t{grid[0]} * grid[1] * grid[2];
  device.threads = {launch_.block, 1, 1};
  device.grid = {grid[0], grid[1], grid[2]};
  threads_.resize(launch_.block);
  order_.resize(launch_.block);
  std::iota(order_.begin(), order_.end(), 0U);
  launch_begin_ = intervals + 1;
  const std::uint64_t first = random() % blocks;
  const bool backward = random() % 2 != 0;
  for (std::uint64_t i = 0; i < blocks; ++i) {
    const std::uint64_t block = (first + (backward ? blocks - i : i)) % blocks;
    device.block = {static_cast<std::uint32_t>(block % grid[0]),
                    static_cast<std::uint32_t>(block / grid[0] % grid[1]),
                    static_cast<std::uint32_t>(block / grid[0] / grid[1])};
    block_begin_ = interval_ = ++intervals;
    blocks_.emplace_back(block_begin_, block);
    run_block();
    if (!finding_.empty()) throw std::runtime_error(finding_);
  }
}

void Launcher::run_block() {
  const std::function<void()> body = [this] {
    launch_.call(launch_.arguments);
    threads_[current_].state = State::ended;
  };
  std::fill(threads_.begin(), threads_.end(), Thread{});
  begin_fibers(launch_.block, body);
  for (;;) {
    run_ready_threads();
    if (!finding_.empty() || count(State::ended, 0, launch_.block) == launch_.block) return;
    if (!release_warps()) release_barrier();
    if (!finding_.empty()) return;
  }
}

void Launcher::run_ready_threads() {
  for (std::size_t i = order_.size(); i > 1; --i) std::swap(order_[i - 1], order_[random() % i]);
  for (const std::uint32_t thread : order_) {
    if (threads_[thread].state != State::ready) continue;
    current_ = thread;
    strict_device().thread = {thread, 0, 0};
    resume_fiber(thread);
    if (!finding_.empty()) return;
  }
}

// Lanes go on from a shuffle when all of their warp are there.
bool Launcher::release_warps() {
  bool any = false;
  for (std::uint32_t begin = 0; begin + warp_threads <= launch_.block; begin += warp_threads) {
    if (count(State::in_shuffle, begin, begin + warp_threads) != warp_threads) continue;
    const std::span<Thread> warp(threads_.data() + begin, warp_threads);
    for (Thread& thread : warp) {
      if (thread.operation != warp[0].operation)
        find("lanes 0 and " + std::to_string(&thread - warp.data()) + " of the warp from " +
             thread_of(interval_, begin) + " on are in different shuffles");
      thread.received = warp[thread.from].value;
      thread.state = State::ready;
    }
    any = true;
  }
  return any;
}

void Launcher::release_barrier() {
  const std::uint32_t all = launch_.block;
  const std::string block = "block " + std::to_string(blocks_.back().second);
  const std::uint32_t there = count(State::at_barrier, 0, all);
  if (there != all)
    return find("of " + std::to_string(all) + " threads of " + block + ", " + std::to_string(there) +
                " wait at a barrier, " + std::to_string(count(State::in_shuffle, 0, all)) +
                " in a shuffle, and " + std::to_string(count(State::ended, 0, all)) + " have ended");
  for (const Thread& thread : threads_) {
    if (thread.barrier != threads_[0].barrier)
      return find("threads 0 and " + std::to_string(&thread - threads_.data()) + " of " + block +
                  " wait at different barriers");
  }
  interval_ = ++intervals;
  for (Thread& thread : threads_) thread.state = State::ready;
}

void Launcher::wait_at_barrier(const void* called_from) {
  threads_[current_].state = State::at_barrier;
  threads_[current_].barrier = called_from;
  fiber_wait();
}

std::uint32_t Launcher::shuffle(std::uint32_t mask, std::uint32_t value, std::uint32_t from,
                                std::uint32_t operation) {
  if (mask != 0xffffffffU) report(thread_of(interval_, current_) + " shuffles with a part of its warp");
  Thread& thread = threads_[current_];
  thread = {State::in_shuffle, nullptr, operation, value, from, 0};
  fiber_wait();
  return thread.received;
}

// --- accesses

// The array that holds the access, or begins of it, or null.
StrictMemory* Launcher::find(std::uintptr_t from, std::size_t bytes) {
  const auto holds = [&](const StrictMemory& m) { return from >= m.begin() && from + bytes <= m.end(); };
  if (last_ < arrays_.size() && holds(*arrays_[last_])) return arrays_[last_];
  auto next = std::upper_bound(arrays_.begin(), arrays_.end(), from,
                               [](std::uintptr_t a, const StrictMemory* m) { return a < m->begin(); });
  while (next != arrays_.begin()) {
    --next;
    if (!holds(**next)) continue;
    last_ = static_cast<std::size_t>(next - arrays_.begin());
    return *next;
  }
  return nullptr;
}

std::string Launcher::outside(std::uintptr_t from) const {
  const StrictMemory* nearest = nullptr;
  const auto distance = [from](const StrictMemory& m) {
    return from < m.begin() ? m.begin() - from : from >= m.end() ? from - m.end() : 0;
  };
  for (const StrictMemory* memory : arrays_)
    if (nearest == nullptr || distance(*memory) < distance(*nearest)) nearest = memory;
  if (nearest == nullptr) return "outside of every array";
  const auto offset = static_cast<std::ptrdiff_t>(from - nearest->begin());
  return "outside of every array, at byte " + std::to_string(offset) + " from the beginning of " +
         nearest->name() + " (" + in_bytes(nearest->end() - nearest->begin()) + ")";
}

void Launcher::access(const void* at, std::size_t bytes, bool writes, bool aligned) {
  const auto from = reinterpret_cast<std::uintptr_t>(at);
  const std::span<const std::byte> own = fiber_stack(current_);
  if (from - reinterpret_cast<std::uintptr_t>(own.data()) < own.size()) return;
  ++counts.accesses;
  StrictMemory* const memory = find(from, bytes);
  if (memory == nullptr) {
    Dl_info info;  // constants of the kernels' library are no array
    if (!writes && dladdr(at, &info) != 0 && info.dli_fbase == library_) return;
    return report_access(writes, bytes, outside(from));
  }
  const std::size_t offset = from - memory->begin();
  if (aligned && from % bytes != 0) report_access(writes, bytes, place(*memory, offset) + ", misaligned");
  if (memory->kind() == StrictMemory::Kind::read_only) {
    if (writes) report_access(writes, bytes, place(*memory, offset) + ", which is read only");
    return;
  }
  const std::size_t granule = memory->granule();
  for (std::size_t i = offset / granule; i <= (offset + bytes - 1) / granule; ++i)
    check(*memory, memory->cell(i), writes, offset, bytes);
}

void Launcher::check(StrictMemory& memory, StrictCell& cell, bool writes, std::size_t offset,
                     std::size_t bytes) {
  const bool shared = memory.kind() == StrictMemory::Kind::shared;
  const bool written = shared ? cell.write >= block_begin_ : cell.written || memory.initialised();
  if (!writes && !written)
    report_access(writes, bytes, place(memory, offset) + ", which nothing has written");
  if (bytes >= memory.granule()) {
    check_race(memory, cell, writes, offset, bytes);
    note(memory, cell, writes);
  }
  if (writes) cell.written = true;
}

void Launcher::check_race(const StrictMemory& memory, const StrictCell& cell, bool writes, std::size_t offset,
                          std::size_t bytes) {
  const std::uint32_t begin = memory.kind() == StrictMemory::Kind::shared ? block_begin_ : launch_begin_;
  const auto meets = [&](std::uint32_t interval, std::uint32_t thread) {
    return interval >= begin && (interval < block_begin_ || (interval == interval_ && thread != current_));
  };
  const auto race = [&](std::uint32_t interval, std::uint32_t thread, const char* did) {
    report_access(writes, bytes,
                  place(memory, offset) + ", which is " + did + thread_of(interval, thread) +
                      " with no barrier between");
  };
  if (meets(cell.write, cell.writer)) race(cell.write, cell.writer, "written by ");
  if (!writes) return;
  if (meets(cell.read, cell.reader)) race(cell.read, cell.reader, "read by ");
  if (meets(cell.read_by_earlier_block, many_readers))
    race(cell.read_by_earlier_block, many_readers, "read by ");
}

void Launcher::note(const StrictMemory& memory, StrictCell& cell, bool writes) const {
  const auto thread = static_cast<std::uint16_t>(current_);
  if (writes) {
    cell.write = interval_;
    cell.writer = thread;
    return;
  }
  const std::uint32_t begin = memory.kind() == StrictMemory::Kind::shared ? block_begin_ : launch_begin_;
  if (cell.read >= begin && cell.read < block_begin_) cell.read_by_earlier_block = cell.read;
  cell.reader = cell.read == interval_ && cell.reader != thread ? many_readers : thread;
  cell.read = interval_;
}

void access(const void* at, std::size_t bytes, bool writes, bool aligned) {
  running->access(at, bytes, writes, aligned);
}
void barrier(const void* called_from) { running->wait_at_barrier(called_from); }
std::uint32_t shuffle(std::uint32_t mask, std::uint32_t value, std::uint32_t from, std::uint32_t operation) {
  return running->shuffle(mask, value, from, operation);
}

}  // namespace

StrictDevice& strict_device() {
  static StrictDevice device{{}, {}, {}, {}, access, barrier, shuffle};
  return device;
}

StrictCounts strict_counts() { return counts; }

void run_strictly(const StrictLaunch& launch, const StrictOptions& options) {
  Launcher launcher(launch, options);
  running = &launcher;
  ++counts.launches;
  launcher.run();
}

}  // namespace tidu::test
