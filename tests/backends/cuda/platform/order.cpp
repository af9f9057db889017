// order.cpp - clocks and accesses.
#include "cuda/platform/order.hpp"

#include <algorithm>

namespace tidu::test::platform {

void join(Clock& into, const Clock& other) {
  if (into.size() < other.size()) into.resize(other.size());
  for (std::size_t i = 0; i < other.size(); ++i) into[i] = std::max(into[i], other[i]);
}

void tick(Clock& clock, std::size_t process) {
  if (clock.size() <= process) clock.resize(process + 1);
  ++clock[process];
}

bool is_before(const Clock& other, const Clock& clock) {
  for (std::size_t i = 0; i < other.size(); ++i)
    if (other[i] > (i < clock.size() ? clock[i] : 0)) return false;
  return true;
}

namespace {

bool is_before(const Access& access, const Clock& clock) {
  return access.process < clock.size() && clock[access.process] >= access.tick;
}

std::string verb(bool writes) { return writes ? " writes" : " reads"; }

}  // namespace

std::size_t Allocations::bytes_in(const Map& map) {
  std::size_t all = 0;
  for (const auto& [at, one] : map) all += one.bytes;
  return all;
}

std::size_t Allocations::bytes_of(int device) const {
  std::size_t all = 0;
  for (const auto& [at, one] : all_) all += one.device == device ? one.bytes : 0;
  return all;
}

std::size_t Allocations::remove(std::byte* at) {
  const auto found = all_.find(at);
  if (found == all_.end()) return 0;
  const std::size_t bytes = found->second.bytes;
  all_.erase(found);
  return bytes;
}

Allocation* Allocations::find(const void* at, std::size_t bytes) {
  const auto* const first = static_cast<const std::byte*>(at);
  const auto next = all_.upper_bound(first);
  if (next == all_.begin()) return nullptr;
  const auto found = std::prev(next);
  const auto offset = static_cast<std::size_t>(first - found->first);
  return offset <= found->second.bytes && bytes <= found->second.bytes - offset ? &found->second : nullptr;
}

std::string Allocations::touch(const Touch& touch, const std::string& name, int device, std::size_t process,
                               const Clock& clock, const Clock& host) {
  if (touch.bytes == 0) return {};
  Allocation* const allocation = find(touch.at, touch.bytes);
  if (allocation == nullptr) return name + verb(touch.writes) + " memory that no device has";
  if (allocation->device != device)
    return name + verb(touch.writes) + " memory of device " + std::to_string(allocation->device) +
           " on device " + std::to_string(device);
  const auto base = std::prev(all_.upper_bound(static_cast<const std::byte*>(touch.at)))->first;
  const auto begin = static_cast<std::size_t>(static_cast<const std::byte*>(touch.at) - base);
  const std::size_t end = begin + touch.bytes;
  std::string broken;
  for (const Access& other : allocation->accesses) {
    if (other.end <= begin || other.begin >= end || (!touch.writes && !other.writes)) continue;
    if (!is_before(other, clock))
      broken = name + verb(touch.writes) + " what " + other.name + verb(other.writes) +
               ", and no event orders them";
  }
  std::erase_if(allocation->accesses, [&](const Access& other) {
    const bool covered = other.begin >= begin && other.end <= end;
    return is_before(other, host) ||
           (covered && (touch.writes || (other.process == process && !other.writes)));
  });
  allocation->accesses.push_back({begin, end, process, clock[process], touch.writes, name});
  return broken;
}

}  // namespace tidu::test::platform
