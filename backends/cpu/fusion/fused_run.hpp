// fused_run.hpp - FusionState: a planned fusion, and run_fusion, which runs its segments, reductions and
// copies on one block of elements after another.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "cpu/access_map.hpp"
#include "cpu/cpu_target.hpp"
#include "cpu/fusion/reduce.hpp"
#include "cpu/fusion/vector_ir.hpp"
#include "cpu/kernel.hpp"

namespace tidu::cpu_detail {

// The location of a value while a block runs.
struct ElementSource {
  enum class Kind : std::uint8_t { operand, result, kept, mapped };
  Kind kind = Kind::operand;
  std::uint32_t index =
      0;  // kept: offset in a thread's memory in bytes; mapped: index in FusionState::mapped_loads
  std::uint32_t step = 0;  // bytes from one element to the next; 0: a single element
  std::size_t offset = 0;  // of an operand: bytes before the first element
};

struct Segment {
  std::shared_ptr<const VectorKernel> kernel;  // null: `whole` runs full blocks, and `last` the last one
  Plan whole, last;
  std::vector<ElementSource> in, out;
};
struct ReductionStep {
  ReductionFunctions functions;
  ElementSource from;
  std::uint32_t result = 0;
  std::size_t parts = 0;  // offset in the scratch memory in bytes
  std::size_t size = 0;   // of an element
};
// A splat: an element is repeated `count` times, for operations without splat operands.
struct Filling {
  std::uint32_t to = 0;
  const std::byte* element = nullptr;
  ElementSource from;  // if `element` is null
  std::size_t size = 0;
};
struct Copying {
  std::uint32_t from = 0;
  std::uint32_t result = 0;
  std::uint32_t step = 0;
};

// See Note [Fused loads]. If the fusion runs line by line, this many bytes follow the memory of each line.
inline constexpr std::size_t line_padding = CpuTarget::page;
struct MappedLoad {
  std::uint32_t from = no_index;  // an operand, or no_index
  std::uint32_t to = 0;           // offset in a thread's memory in bytes
  AccessMap map;
  bool stays = false;      // is a part of a line, once copied, valid for other lines too?
  bool is_padded = false;  // are there lines of padding alone?
};
// See Note [Columns].
struct Gathering {
  struct Run {  // columns that are adjacent in the matrix
    std::int64_t start = 0, count = 0;
    std::uint32_t to = 0;  // offset in a thread's memory in bytes
  };
  std::uint32_t matrix = 0, indices = no_index;  // operands
  bool wide = false;                             // indices of 8 bytes
  std::size_t word = 0;                          // bytes
  std::int64_t step = 0, extent = 0;
  std::int64_t stride = 0;            // words from one column of a run to the next, in a thread's memory
  std::vector<std::int64_t> offsets;  // without indices: offsets of a block's rows from its first one
  std::vector<Run> runs;
};
struct Interleaving {
  std::vector<ElementSource> columns;
  std::uint32_t result = 0;
  std::size_t word = 0;   // bytes
  std::size_t rows = 0;   // offset in a thread's memory: rows of a block that go past the caches
  std::size_t ahead = 0;  // number of them that are copied at a time; 0: rows are written directly
};
// Maximum number of elements in a block with gathers or interleaving, and number of them that are gathered at
// a time.
inline constexpr std::int64_t max_rows = 128, gathered_at_once = 32;

struct FusionState {
  std::int64_t count = 0;
  std::int64_t block = 0;
  std::int64_t grain = 0;
  std::int64_t line =
      0;  // elements that the single segment runs at a time, see Note [Fused loads]; 0: a block
  std::vector<std::int64_t> cuts;  // in order: further elements at which a block starts
  bool in_place = false;           // does a result have the memory of an operand?
  int threads = 1;
  std::vector<Segment> segments;
  std::vector<ReductionStep> reductions;
  std::vector<Filling> fillings;
  std::vector<Copying> copyings;
  std::vector<MappedLoad> mapped_loads;
  std::vector<Gathering> gatherings;
  std::optional<Interleaving> interleaving;
  std::size_t memory = 0;   // of each thread, in the scratch memory
  std::size_t parts = 0;    // of reductions, bytes before `memory`
  std::size_t scratch = 0;  // offset in `memory`: of kernels
};

void run_fusion(const FusionState& s, const Call& call);

}  // namespace tidu::cpu_detail
