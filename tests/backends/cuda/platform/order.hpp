// order.hpp - what comes before what on the platform, by vector clocks: one entry for the host, one for each
// stream, one for each lane of each replayed graph. Work that reads what other work has written, or writes
// where other work has read or written, has to come after it by the order of its stream, by an event, or
// because the host has waited. (Mattern, Virtual time and global states of distributed systems, 1989.)
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "cuda/platform/platform.hpp"

namespace tidu::test::platform {

using Clock = std::vector<std::uint64_t>;  // by process; 0 is the host

void join(Clock& into, const Clock& other);
void tick(Clock& clock, std::size_t process);
/// Has all of `other` been passed at `clock`?
bool is_before(const Clock& other, const Clock& clock);

/// An access to bytes [begin, end) of an allocation.
struct Access {
  std::size_t begin = 0, end = 0, process = 0;
  std::uint64_t tick = 0;
  bool writes = false;
  std::string name;
};

/// An allocation of a device, or of pinned memory, and who accesses it.
struct Allocation {
  std::size_t bytes = 0;
  int device = 0;
  std::vector<Access> accesses;
};

/// Allocations by address.
class Allocations {
 public:
  void add(std::byte* at, std::size_t bytes, int device) { all_[at] = {bytes, device, {}}; }
  /// Bytes of the allocation that begins there, which is forgotten; 0 where none does.
  std::size_t remove(std::byte* at);
  /// The allocation that holds all of it, or null.
  Allocation* find(const void* at, std::size_t bytes);
  std::size_t bytes() const { return bytes_in(all_); }
  std::size_t bytes_of(int device) const;
  /// Notes an access of a process at that clock. Gives what is wrong with it, or nothing. What the host has
  /// passed is forgotten.
  std::string touch(const Touch& touch, const std::string& name, int device, std::size_t process,
                    const Clock& clock, const Clock& host);

 private:
  using Map = std::map<const std::byte*, Allocation>;
  static std::size_t bytes_in(const Map& map);
  Map all_;
};

}  // namespace tidu::test::platform
