// layout.hpp - where the values of a planned program lie, which of its nodes must come before which, and on
// which of several streams each runs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "cuda/fuse.hpp"
#include "tidu/graph/graph.hpp"

namespace tidu::cuda_detail {

/// Whose memory a value lies in.
enum class Home : std::uint8_t { none, input, constant, output, workspace };

/// The memory of a value.
struct Spot {
  Home home = Home::none;
  std::uint32_t index = 0;  ///< of the input or output
  std::size_t offset = 0;   ///< bytes into constants or workspace, a multiple of 256
  std::size_t bytes = 0;
};

/// The memory plan.
struct Layout {
  /// An output that is an input, a constant, or another output's value.
  struct Copy {
    std::uint32_t output = 0;
    Spot from;
  };
  std::vector<Spot> spots;           ///< by value; none for one without memory of its own
  std::vector<std::size_t> scratch;  ///< by node: offset of its scratch memory in the workspace
  std::vector<Copy> copies;          ///< at the end
  std::size_t workspace_bytes = 0;
  std::size_t constant_bytes = 0;
};

/// Assigns memory to every value that a node reads or makes. `roots`: see passes::alias_roots. The results of
/// `constants`, nodes without operands, have memory of their own, which keeps them from run to run. Values of
/// the workspace share memory if they take more than `max_unshared_bytes` together.
Layout lay_out(const Graph& graph, const std::vector<ValueId>& roots, const std::vector<Node>& constants,
               const std::vector<Node>& nodes, std::size_t max_unshared_bytes = std::size_t{16} << 20);

/// By node: those before it whose work must be done before its own, because it reads what they make, or
/// writes where they read or wrote.
std::vector<std::vector<std::uint32_t>> find_dependencies(const std::vector<Node>& nodes,
                                                          const Layout& layout);

/// Nodes on streams.
struct StreamPlan {
  std::vector<std::uint32_t> stream_of;  ///< by node
  std::vector<std::vector<std::uint32_t>>
      waits;                ///< by node: nodes of other streams whose events its stream waits for before it
  std::vector<bool> tells;  ///< by node: its event is waited for
  std::uint32_t used = 1;   ///< streams
};

/// Spreads independent nodes over at most `most` streams. A node stays on the stream of a node that it
/// depends on, if that node is the last one there.
StreamPlan spread(const std::vector<std::vector<std::uint32_t>>& dependencies, std::uint32_t most);

}  // namespace tidu::cuda_detail
