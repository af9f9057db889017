// fake_collectives.cpp - ranks meet, show one another what they have, and go on when all have seen it.
#include "cuda/fake_collectives.hpp"

#include <condition_variable>
#include <cstring>
#include <map>
#include <mutex>
#include <stdexcept>

namespace tidu::test {

using namespace cuda_detail;

namespace {

struct Group {
  std::mutex mutex;
  std::condition_variable changed;
  int ranks = 0, arrived = 0, users = 0;
  std::uint64_t meetings = 0;
  std::map<int, std::vector<std::byte>> shown;  // by rank

  // Returns when all ranks are here.
  void meet() {
    std::unique_lock lock(mutex);
    const std::uint64_t before = meetings;
    if (++arrived == ranks) {
      arrived = 0;
      ++meetings;
      changed.notify_all();
    } else {
      changed.wait(lock, [&] { return meetings != before; });
    }
  }
};

std::mutex groups_mutex;
std::map<std::uint64_t, std::shared_ptr<Group>>& groups() {
  static std::map<std::uint64_t, std::shared_ptr<Group>> all;
  return all;
}

template <class T>
void add(std::byte* to, const std::byte* from, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) reinterpret_cast<T*>(to)[i] += reinterpret_cast<const T*>(from)[i];
}
void add(DType dtype, std::byte* to, const std::byte* from, std::size_t count) {
  switch (dtype) {
    case f32: return add<float>(to, from, count);
    case f64: return add<double>(to, from, count);
    case i32: return add<std::int32_t>(to, from, count);
    case i64: return add<std::int64_t>(to, from, count);
    default: throw std::runtime_error("a fake collective: expected f32, f64, i32 or i64");
  }
}

}  // namespace

CommunicatorKey new_communicator() {
  const std::lock_guard lock(groups_mutex);
  static std::uint64_t next = 1;
  CommunicatorKey key{};
  std::memcpy(key.data(), &next, sizeof next);
  groups()[next++] = std::make_shared<Group>();
  return key;
}

void* join_group(const CommunicatorKey& id, int ranks) {
  std::uint64_t number = 0;
  std::memcpy(&number, id.data(), sizeof number);
  Group* group = nullptr;
  {
    const std::lock_guard lock(groups_mutex);
    group = groups().at(number).get();
    group->ranks = ranks;
    ++group->users;
  }
  group->meet();
  return group;
}

void leave_group(void* communicator) noexcept {
  const std::lock_guard lock(groups_mutex);
  auto* const group = static_cast<Group*>(communicator);
  if (--group->users == 0)
    std::erase_if(groups(), [&](const auto& one) { return one.second.get() == group; });
}

void run_collective(const CollectiveStep& step, const Emulator::Locate& locate) {
  Group& group = *static_cast<Group*>(step.communicator);
  const auto count = static_cast<std::size_t>(step.count);
  const auto ranks = static_cast<std::size_t>(step.ranks);
  const std::size_t bytes = count * size_of(step.dtype);
  const bool scatters = step.kind == CollectiveStep::Kind::scatter_sum;
  std::byte* const out = locate(step.out);
  {
    const std::byte* const in = locate(step.in);
    const std::lock_guard lock(group.mutex);
    group.shown[step.rank].assign(in, in + (scatters ? ranks * bytes : bytes));
  }
  group.meet();
  const std::size_t part = scatters ? static_cast<std::size_t>(step.rank) * bytes : 0;
  switch (step.kind) {
    case CollectiveStep::Kind::sum:
    case CollectiveStep::Kind::scatter_sum:
      std::memset(out, 0, bytes);
      for (const auto& [rank, data] : group.shown) add(step.dtype, out, data.data() + part, count);
      break;
    case CollectiveStep::Kind::gather:
      for (const auto& [rank, data] : group.shown)
        std::memcpy(out + static_cast<std::size_t>(rank) * bytes, data.data(), bytes);
      break;
    case CollectiveStep::Kind::permute:
      std::memset(out, 0, bytes);
      for (const auto& [source, destination] : step.pairs)
        if (destination == step.rank) std::memcpy(out, group.shown[source].data(), bytes);
      break;
  }
  group.meet();
}

}  // namespace tidu::test
