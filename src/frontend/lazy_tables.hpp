// lazy_tables.hpp - small tables of a trace: graphs that it may record, and programs that it has seen.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "tidu/graph/graph.hpp"
#include "tidu/graph/key.hpp"

namespace tidu::frontend_detail {

/// Which graphs a trace may record, and how many bytes of literals they hold: a cache by address of the
/// graphs that occurred last. It keeps no graph alive, since graphs may hold much data.
class RecordableGraphs {
 public:
  struct Entry {
    const GraphData* address = nullptr;
    std::weak_ptr<const GraphData> graph;
    std::size_t literal_bytes = 0;
    /// May it be recorded? Only graphs of standard primitives without effects and collectives.
    bool takes = false;
  };
  const Entry& look_up(const Graph& graph);

 private:
  std::array<std::array<Entry, 4>, 256> entries_;
};

/// Recent greedy evaluations, by the address of their program. The table is set-associative: with a single
/// way, two programs of a loop could evict each other in some processes, and never be compiled.
class SeenPrograms {
 public:
  /// Was the program seen less than a few times lately? Counts the call.
  bool is_new(const Key128& address) {
    constexpr int enough = 2;
    std::array<Seen, ways>& set = sets_[address.low % sets_.size()];
    auto at = std::ranges::find(set, address, &Seen::address);
    if (at == set.end()) {
      at = std::ranges::min_element(set, {}, &Seen::last);
      *at = {address, 0, 0};
    }
    at->last = ++calls_;
    return at->times < enough && ++at->times <= enough;
  }

 private:
  struct Seen {
    Key128 address;
    int times = 0;
    std::uint64_t last = 0;  // the call that last looked it up
  };
  static constexpr std::size_t ways = 8;
  std::array<std::array<Seen, ways>, 64> sets_;
  std::uint64_t calls_ = 0;
};

}  // namespace tidu::frontend_detail
