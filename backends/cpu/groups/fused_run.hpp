// fused_run.hpp - a planned fused group, and what runs it: its segments, folds and copies, one block of
// elements after another.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "cpu/groups/fused_lines.hpp"
#include "cpu/groups/reduce.hpp"
#include "cpu/groups/vector_ir.hpp"
#include "cpu/kernel.hpp"

namespace tidu::cpu_detail {

// Where a value is while a block runs.
struct ElementSource {
  enum class Kind : std::uint8_t { operand, result, kept, lines };
  Kind kind = Kind::operand;
  std::uint32_t index = 0;  // of `kept`: bytes into a thread's memory; of `lines`: of GroupState::linings
  std::uint32_t step = 0;   // bytes from element to element; 0: one element
  std::size_t offset = 0;   // of an operand: bytes in front of the first element
};

struct Segment {
  std::shared_ptr<const VectorKernel> kernel;  // or, where null, plans for whole blocks and for the last one
  Plan whole, last;
  std::vector<ElementSource> in, out;
};
struct FoldStep {
  FoldFunctions functions;
  ElementSource from;
  std::uint32_t result = 0;
  std::size_t parts = 0;  // bytes into the scratch memory
  std::size_t size = 0;   // of an element
};
// A literal's element, `count` times, for operations that know no equal elements.
struct Filling {
  std::uint32_t to = 0;
  const std::byte* element = nullptr;
  ElementSource from;  // where `element` is null
  std::size_t size = 0;
};
struct Copying {
  std::uint32_t from = 0;
  std::uint32_t result = 0;
  std::uint32_t step = 0;
};

// See Note [Lines]. Where the group goes line by line, so many bytes lie behind each line's place.
inline constexpr std::size_t room_of_line = 4096;
struct Lining {
  std::uint32_t from = no_index;  // an operand, or none
  std::uint32_t to = 0;           // bytes into a thread's memory
  Lines lines;
  bool stays = false;      // once a part of a line is brought, is it that part of others too?
  bool is_padded = false;  // are some lines padding and nothing else?
};
// See Note [Columns].
struct Gathering {
  struct Run {  // of columns side by side in the matrix
    std::int64_t start = 0, count = 0;
    std::uint32_t to = 0;  // bytes into a thread's memory
  };
  std::uint32_t matrix = 0, indices = no_index;  // operands
  bool wide = false;                             // indices of 8 bytes
  std::size_t word = 0;                          // bytes
  std::int64_t step = 0, extent = 0;
  std::int64_t stride = 0;           // words from column to column of a run in a thread's memory
  std::vector<std::int64_t> places;  // without indices: of the rows of a block, from its first one
  std::vector<Run> runs;
};
struct Interleaving {
  std::vector<ElementSource> columns;
  std::uint32_t result = 0;
  std::size_t word = 0;   // bytes
  std::size_t rows = 0;   // bytes into a thread's memory: of a block's, where they go past the caches
  std::size_t ahead = 0;  // of them that are copied at a time; 0: rows are written where they belong
};
// Elements of a block with one of these, at most; and of those, as many as are gathered at a time.
inline constexpr std::int64_t max_rows = 128, gathered_at_once = 32;

struct GroupState {
  std::int64_t count = 0;
  std::int64_t block = 0;
  std::int64_t grain = 0;
  std::int64_t line = 0;  // elements that the only segment does at a time, see Note [Lines]; 0: a block
  std::vector<std::int64_t> cuts;  // in order: elements where it begins anew, too
  bool in_place = false;           // is a result where an operand is?
  int threads = 1;
  std::vector<Segment> segments;
  std::vector<FoldStep> folds;
  std::vector<Filling> fillings;
  std::vector<Copying> copyings;
  std::vector<Lining> linings;
  std::vector<Gathering> gatherings;
  std::optional<Interleaving> interleaving;
  std::size_t memory = 0;   // of each thread, in the scratch memory
  std::size_t parts = 0;    // of folds, bytes in front of it
  std::size_t scratch = 0;  // into `memory`: of kernels
};

void run_group(const GroupState& s, const Call& call);

}  // namespace tidu::cpu_detail
