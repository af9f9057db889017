// layout.cpp - memory by first fit over the lives of values; dependencies by the node that last touched each
// piece of memory; streams by the nodes that each node can follow.
#include "cuda/layout.hpp"

#include <algorithm>
#include <map>

#include "tidu/graph/error.hpp"

namespace tidu::cuda_detail {
namespace {

constexpr std::size_t unit = 256;
std::size_t whole_units(std::size_t bytes) { return (bytes + unit - 1) / unit * unit; }

// Free pieces of a workspace that grows at its end.
class Workspace {
 public:
  explicit Workspace(bool shared) : shared_(shared) {}
  std::size_t take(std::size_t bytes) {
    for (auto at = free_.begin(); shared_ && at != free_.end(); ++at) {
      const auto [offset, size] = *at;
      if (size < bytes) continue;
      free_.erase(at);
      if (size > bytes) free_.emplace(offset + bytes, size - bytes);
      return offset;
    }
    // A free piece at the end grows.
    if (shared_ && !free_.empty()) {
      const auto last = std::prev(free_.end());
      if (last->first + last->second == bytes_) {
        const std::size_t offset = last->first;
        bytes_ = offset + bytes;
        free_.erase(last);
        return offset;
      }
    }
    const std::size_t offset = bytes_;
    bytes_ += bytes;
    return offset;
  }
  void give(std::size_t offset, std::size_t bytes) {
    if (bytes == 0) return;
    auto at = free_.emplace(offset, bytes).first;
    const auto next = std::next(at);
    if (next != free_.end() && at->first + at->second == next->first) {
      at->second += next->second;
      free_.erase(next);
    }
    if (at == free_.begin()) return;
    const auto before = std::prev(at);
    if (before->first + before->second == at->first) {
      before->second += at->second;
      free_.erase(at);
    }
  }
  std::size_t bytes() const { return bytes_; }

 private:
  bool shared_;
  std::map<std::size_t, std::size_t> free_;  // bytes by offset
  std::size_t bytes_ = 0;
};

}  // namespace

Layout lay_out(const Graph& graph, const std::vector<ValueId>& roots, const std::vector<Node>& constants,
               const std::vector<Node>& nodes, std::size_t max_unshared_bytes) {
  Layout layout;
  layout.spots.resize(graph.num_values());
  layout.scratch.resize(nodes.size());
  const auto bytes_of = [&](ValueId value) { return graph.type(value).bytes(); };
  for (std::uint32_t i = 0; i < graph.inputs().size(); ++i) {
    const ValueId input = graph.inputs()[i];
    layout.spots[input] = {Home::input, i, 0, bytes_of(input)};
  }
  for (const Node& node : constants) {
    for (const ValueId result : node.results) {
      layout.spots[result] = {Home::constant, 0, layout.constant_bytes, bytes_of(result)};
      layout.constant_bytes += whole_units(bytes_of(result));
    }
  }
  for (std::uint32_t i = 0; i < graph.outputs().size(); ++i) {
    Spot& spot = layout.spots[roots[graph.outputs()[i]]];
    if (spot.home == Home::none) {
      spot = {Home::output, i, 0, bytes_of(graph.outputs()[i])};
    } else {
      layout.copies.push_back({i, spot});
    }
  }

  // How long values live, and how much they take.
  std::vector<std::uint32_t> last_reader(graph.num_values(), 0);
  std::size_t all = 0;
  for (std::uint32_t n = 0; n < nodes.size(); ++n) {
    for (const ValueId operand : nodes[n].operands) last_reader[operand] = n;
    for (const ValueId result : nodes[n].results) {
      last_reader[result] = n;
      if (layout.spots[result].home == Home::none) all += whole_units(bytes_of(result));
    }
    all += whole_units(nodes[n].plan.scratch_bytes);
  }
  std::vector<std::vector<ValueId>> ends(nodes.size());
  Workspace workspace(all > max_unshared_bytes);
  for (std::uint32_t n = 0; n < nodes.size(); ++n) {
    for (const ValueId result : nodes[n].results) {
      Spot& spot = layout.spots[result];
      if (spot.home != Home::none) continue;
      spot = {Home::workspace, 0, 0, bytes_of(result)};
      spot.offset = workspace.take(whole_units(spot.bytes));
      ends[last_reader[result]].push_back(result);
    }
    const std::size_t scratch = whole_units(nodes[n].plan.scratch_bytes);
    if (scratch != 0) {
      layout.scratch[n] = workspace.take(scratch);
      workspace.give(layout.scratch[n], scratch);
    }
    for (const ValueId gone : ends[n])
      workspace.give(layout.spots[gone].offset, whole_units(layout.spots[gone].bytes));
  }
  layout.workspace_bytes = workspace.bytes();
  for (const Node& node : nodes) {
    for (const ValueId operand : node.operands) {
      if (layout.spots[operand].home == Home::none) {
        throw Error(ErrorKind::internal,
                    detail::str("[cuda] expected a node that makes value ", operand,
                                " before one that reads it, got none in ", detail::in_quotes(graph.name())));
      }
    }
  }
  return layout;
}

std::vector<std::vector<std::uint32_t>> find_dependencies(const std::vector<Node>& nodes,
                                                          const Layout& layout) {
  // The stretches of the workspace by offset: the node that wrote each, and its readers since.
  struct Stretch {
    std::size_t end;
    std::uint32_t writer;
    std::vector<std::uint32_t> readers;
  };
  std::map<std::size_t, Stretch> pieces;
  std::vector<std::uint32_t> producer_of_output(layout.spots.size(), no_index);  // by value
  std::vector<std::vector<std::uint32_t>> before(nodes.size());

  const auto write = [&](std::uint32_t node, std::size_t offset, std::size_t bytes) {
    if (bytes == 0) return;
    auto at = pieces.lower_bound(offset);
    if (at != pieces.begin() && std::prev(at)->second.end > offset) --at;
    while (at != pieces.end() && at->first < offset + bytes) {
      const Stretch piece = at->second;
      const std::size_t begin = at->first;
      if (piece.writer != node) before[node].push_back(piece.writer);
      before[node].insert(before[node].end(), piece.readers.begin(), piece.readers.end());
      at = pieces.erase(at);
      // The rest of the stretch still orders later nodes.
      if (begin < offset) pieces.emplace(begin, Stretch{offset, piece.writer, piece.readers});
      if (piece.end > offset + bytes) at = pieces.emplace(offset + bytes, piece).first;
    }
    pieces.emplace(offset, Stretch{offset + bytes, node, {}});
  };
  std::uint32_t exchanged = no_index;  // the last collective: all ranks run them in one order
  for (std::uint32_t n = 0; n < nodes.size(); ++n) {
    const std::vector<Step>& steps = nodes[n].plan.steps;
    if (std::any_of(steps.begin(), steps.end(),
                    [](const Step& step) { return std::holds_alternative<CollectiveStep>(step); })) {
      if (exchanged != no_index) before[n].push_back(exchanged);
      exchanged = n;
    }
    for (const ValueId operand : nodes[n].operands) {
      const Spot& spot = layout.spots[operand];
      if (spot.home == Home::output && producer_of_output[operand] != no_index) {
        before[n].push_back(producer_of_output[operand]);
      } else if (spot.home == Home::workspace && spot.bytes != 0) {
        const auto found = pieces.find(spot.offset);
        if (found == pieces.end())
          throw Error(ErrorKind::internal, "[cuda] expected an operand that lies where it was made");
        Stretch& piece = found->second;
        before[n].push_back(piece.writer);
        piece.readers.push_back(n);
      }
    }
    for (const ValueId result : nodes[n].results) {
      const Spot& spot = layout.spots[result];
      if (spot.home == Home::output) producer_of_output[result] = n;
      if (spot.home == Home::workspace) write(n, spot.offset, spot.bytes);
    }
    write(n, layout.scratch[n], nodes[n].plan.scratch_bytes);
    std::sort(before[n].begin(), before[n].end());
    before[n].erase(std::unique(before[n].begin(), before[n].end()), before[n].end());
    std::erase(before[n], n);
  }
  return before;
}

StreamPlan spread(const std::vector<std::vector<std::uint32_t>>& dependencies, std::uint32_t most) {
  const std::size_t count = dependencies.size();
  StreamPlan streams;
  streams.stream_of.resize(count, 0);
  streams.waits.resize(count);
  streams.tells.resize(count, false);
  most = std::max<std::uint32_t>(most, 1);
  std::vector<std::uint32_t> last(most, no_index);  // by stream: its last node
  // By stream: the last node of each stream that precedes its further work.
  std::vector<std::vector<std::uint32_t>> knows(most, std::vector<std::uint32_t>(most, no_index));
  std::vector<std::vector<std::uint32_t>> knew(count);  // by node that tells: what its stream knew
  const auto later = [](std::uint32_t a, std::uint32_t b) {
    return a != no_index && (b == no_index || a > b);
  };
  std::uint32_t used = 0;
  for (std::uint32_t n = 0; n < count; ++n) {
    std::uint32_t stream = no_index;
    for (auto at = dependencies[n].rbegin(); at != dependencies[n].rend() && stream == no_index; ++at)
      if (last[streams.stream_of[*at]] == *at) stream = streams.stream_of[*at];
    if (stream == no_index && used < most) stream = used++;
    if (stream == no_index) {  // the one that was idle longest
      stream = 0;
      for (std::uint32_t other = 1; other < most; ++other)
        if (last[other] < last[stream]) stream = other;
    }
    for (auto at = dependencies[n].rbegin(); at != dependencies[n].rend(); ++at) {
      const std::uint32_t of = streams.stream_of[*at];
      if (of == stream || (knows[stream][of] != no_index && knows[stream][of] >= *at)) continue;
      streams.waits[n].push_back(*at);
      streams.tells[*at] = true;
      for (std::uint32_t other = 0; other < most; ++other)
        if (later(knew[*at][other], knows[stream][other])) knows[stream][other] = knew[*at][other];
    }
    streams.stream_of[n] = stream;
    last[stream] = n;
    knows[stream][stream] = n;
    knew[n] = knows[stream];
  }
  streams.used = std::max<std::uint32_t>(used, 1);
  return streams;
}

}  // namespace tidu::cuda_detail
