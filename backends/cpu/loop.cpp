// loop.cpp - planning and running of blocked loops.
//
// Note [Chunks]: if a loop accumulates sums, its blocks are divided into chunks, whose number depends on the
// sizes alone. Each chunk has its own sums, to which its blocks add in order, and the sums of chunks are
// added in order. So the bits are the same for any number of threads. The first chunk accumulates in the
// results themselves. A single thread adds the sums of each further chunk when it is done with the chunk, so
// one buffer serves all of them. Several threads keep all sums until all chunks are done, and then share the
// elements. Sums begin as zeros. Without sums every block is a chunk.
//
// Note [Prepared operands]: operands that matmuls in the blocks read whole are packed once, before the blocks
// run, for all blocks and threads. Body programs have them as additional inputs, after the others.
//
// Note [Parts]: a block's part of an array is contiguous if the tiled axis is the first of those longer than
// 1. Otherwise the part has memory of its own: an operand is copied there before the block runs, and a result
// from there after it.
#include "cpu/loop.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <exception>
#include <mutex>
#include <unordered_map>

#include "cpu/cpu_target.hpp"
#include "cpu/layout.hpp"
#include "cpu/parallel.hpp"
#include "cpu/schedule/chunks.hpp"
#include "tidu/graph/error.hpp"
#include "tidu/primitives/elementwise.hpp"

namespace tidu::cpu_detail {
namespace {

constexpr int max_loop_threads = 64;
// Bytes between the memories of two threads: what one core reads ahead of its own is not another's.
constexpr std::size_t thread_padding = CpuTarget::page;

// An operand or result of the loop as a block sees it.
struct Part {
  enum class Kind : std::uint8_t { whole, cut, packed, sum };
  Kind kind = Kind::whole;
  std::uint32_t index = 0;  // among the loop's operands or results
  std::size_t row = 0;      // bytes of one point: of `packed` within one of `outer`
  std::size_t outer = 1;    // of `packed`: how many stretches
  std::size_t stride = 0;   // of `packed`: bytes from stretch to stretch
  std::size_t offset = 0;   // of `packed`: into a thread's memory; of `sum`: into a chunk's
  std::size_t bytes = 0;    // of `sum`
};
// See Note [Prepared operands].
struct Prepared {
  Preparation what;
  std::size_t offset = 0;  // into the prepared memory
};
// Plans that add a piece of the sums, and the rest at the end.
struct Adding {
  Plan plan, rest;
  std::uint32_t result = 0;
  std::size_t offset = 0;       // into a chunk's sums
  std::size_t piece_bytes = 0;  // that the plan adds
  std::int64_t pieces = 1;
};

struct LoopState {
  std::unique_ptr<const Compiled> body, rest;
  std::int64_t extent = 0, block = 0, blocks = 0, chunks = 0;
  int threads = 1;
  std::vector<Part> in, out;        // of the body
  std::vector<std::uint32_t> sums;  // positions in `out`
  std::vector<Adding> adding;
  std::vector<Prepared> prepared;
  std::vector<std::uint32_t> of_body, of_rest;  // which of them they read
  std::size_t prepared_bytes = 0;
  std::size_t sum_bytes = 0;     // of a chunk
  bool keeps_sums = false;       // of every chunk, until all are done
  std::size_t packed_bytes = 0;  // of a thread
  std::size_t memory = 0;        // of a thread, all in all
  std::size_t add_scratch = 0;
  // For sums of chunks but the first.
  std::size_t num_sums() const {
    return sum_bytes == 0 ? 0 : keeps_sums ? static_cast<std::size_t>(chunks) - 1 : 1;
  }
};

class LoopRun {
 public:
  LoopRun(const LoopState& s, const Call& call) : s_(s), call_(call) {
    prepared_ = call.scratch;
    sums_ = prepared_ + s.prepared_bytes;
    memory_ = sums_ + s.num_sums() * s.sum_bytes;
  }
  void run() {
    const std::int64_t workers = std::min<std::int64_t>(s_.threads, s_.chunks);
    for (const Prepared& prepared : s_.prepared) {
      const Preparation& what = prepared.what;
      std::byte* const to = prepared_ + prepared.offset;
      what.run(what.state.get(), Call{&call_.in[s_.in[what.input].index], &to, nullptr});
    }
    run_pieces(
        s_.threads, workers, [](void* self, std::int64_t) { static_cast<LoopRun*>(self)->work(); }, this);
    if (failure_ != nullptr) std::rethrow_exception(failure_);
    if (s_.keeps_sums) add_chunks();
  }

 private:
  // The sums of a chunk, except the first.
  std::byte* sums_of(std::int64_t chunk) const {
    return sums_ + (s_.keeps_sums ? static_cast<std::size_t>(chunk - 1) * s_.sum_bytes : 0);
  }
  // Adds a piece of the sums at `sums` to those that are there.
  void add(const Adding& adding, std::int64_t piece, const std::byte* sums, std::byte* memory) const {
    const Plan& plan = piece + 1 == adding.pieces ? adding.rest : adding.plan;
    const std::size_t from = static_cast<std::size_t>(piece) * adding.piece_bytes;
    std::byte* const to = call_.out[adding.result] + from;
    const std::byte* in[] = {to, sums + adding.offset + from};
    plan.run(plan.state.get(), Call{in, &to, memory});
  }
  // See Note [Chunks].
  void add_chunks() const {
    const auto add_piece = [](void* self, std::int64_t piece) {
      const LoopRun& run = *static_cast<const LoopRun*>(self);
      for (const Adding& adding : run.s_.adding) {
        if (piece < adding.pieces) {
          for (std::int64_t chunk = 1; chunk < run.s_.chunks; ++chunk)
            run.add(adding, piece, run.sums_of(chunk), run.memory_);
          return;
        }
        piece -= adding.pieces;
      }
    };
    std::int64_t pieces = 0;
    for (const Adding& adding : s_.adding) pieces += adding.pieces;
    constexpr std::size_t shared_bytes = std::size_t{1} << 16;
    const bool shares = s_.add_scratch == 0 && s_.sum_bytes >= shared_bytes;
    run_pieces(shares ? s_.threads : 1, pieces, add_piece, const_cast<LoopRun*>(this));
  }
  // One worker: takes chunks until none is left.
  void work() noexcept {
    const auto worker = static_cast<std::size_t>(next_worker_.fetch_add(1));
    std::byte* const memory = memory_ + worker * s_.memory;
    const Compiled* prepared = nullptr;
    try {
      for (;;) {
        const std::int64_t chunk = next_chunk_.fetch_add(1);
        if (chunk >= s_.chunks) return;
        std::byte* const sums = chunk > 0 && !s_.adding.empty() ? sums_of(chunk) : nullptr;
        for (const std::uint32_t at : s_.sums) std::memset(sum(s_.out[at], sums), 0, s_.out[at].bytes);
        const std::int64_t first = chunk * s_.blocks / s_.chunks, last = (chunk + 1) * s_.blocks / s_.chunks;
        for (std::int64_t block = first; block < last; ++block) {
          const std::int64_t begin = block * s_.block, count = std::min(s_.block, s_.extent - begin);
          const bool is_whole = count == s_.block;
          const Compiled& program = is_whole ? *s_.body : *s_.rest;
          if (prepared != &program) program.prepare_inner(memory + s_.packed_bytes);
          prepared = &program;
          run_block(program, is_whole ? s_.of_body : s_.of_rest, memory, sums, begin, count);
        }
        if (sums == nullptr || s_.keeps_sums) continue;
        for (const Adding& adding : s_.adding) {
          for (std::int64_t piece = 0; piece < adding.pieces; ++piece) add(adding, piece, sums, memory);
        }
        if (s_.add_scratch != 0) prepared = nullptr;
      }
    } catch (...) {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (failure_ == nullptr) failure_ = std::current_exception();
      next_chunk_.store(s_.chunks);
    }
  }
  std::byte* sum(const Part& part, std::byte* sums) const {
    return sums == nullptr ? call_.out[part.index] : sums + part.offset;
  }
  void run_block(const Compiled& program, const std::vector<std::uint32_t>& prepared, std::byte* memory,
                 std::byte* sums, std::int64_t begin, std::int64_t count) const {
    constexpr std::size_t few = 64;
    const std::size_t num_in = s_.in.size() + prepared.size();
    const std::byte* in_few[few];
    std::byte* out_few[few];
    std::vector<const std::byte*> in_many(num_in > few ? num_in : 0);
    std::vector<std::byte*> out_many(s_.out.size() > few ? s_.out.size() : 0);
    const std::byte** const in = num_in > few ? in_many.data() : in_few;
    std::byte** const out = s_.out.size() > few ? out_many.data() : out_few;
    const auto at = static_cast<std::size_t>(begin);
    for (std::size_t i = 0; i < s_.in.size(); ++i) {
      const Part& part = s_.in[i];
      switch (part.kind) {
        case Part::Kind::whole: in[i] = call_.in[part.index]; break;
        case Part::Kind::cut: in[i] = call_.in[part.index] + at * part.row; break;
        case Part::Kind::sum: in[i] = sum(part, sums); break;
        case Part::Kind::packed: {
          const std::size_t bytes = static_cast<std::size_t>(count) * part.row;
          std::byte* to = memory + part.offset;
          in[i] = to;
          const std::byte* from = call_.in[part.index] + at * part.row;
          for (std::size_t k = 0; k < part.outer; ++k, to += bytes, from += part.stride)
            std::memcpy(to, from, bytes);
          break;
        }
      }
    }
    for (std::size_t i = 0; i < prepared.size(); ++i)
      in[s_.in.size() + i] = prepared_ + s_.prepared[prepared[i]].offset;
    for (std::size_t i = 0; i < s_.out.size(); ++i) {
      const Part& part = s_.out[i];
      out[i] = part.kind == Part::Kind::sum      ? sum(part, sums)
               : part.kind == Part::Kind::packed ? memory + part.offset
                                                 : call_.out[part.index] + at * part.row;
    }
    program.run_inner(memory + s_.packed_bytes, in, out);
    for (const Part& part : s_.out) {
      if (part.kind != Part::Kind::packed) continue;
      const std::size_t bytes = static_cast<std::size_t>(count) * part.row;
      const std::byte* from = memory + part.offset;
      std::byte* to = call_.out[part.index] + at * part.row;
      for (std::size_t k = 0; k < part.outer; ++k, from += bytes, to += part.stride)
        std::memcpy(to, from, bytes);
    }
  }

  const LoopState& s_;
  const Call& call_;
  std::byte* prepared_;
  std::byte* sums_;
  std::byte* memory_;
  std::atomic<std::int64_t> next_chunk_{0}, next_worker_{0};
  std::mutex mutex_;
  std::exception_ptr failure_;  // guarded by it
};

// Which of the loop's preparations those of a body are, and more of the loop's where they are none yet.
std::vector<std::uint32_t> gather(LoopState& state, const Compiled& body) {
  std::vector<std::uint32_t> indices;
  for (const Preparation& what : body.preparations()) {
    const auto found =
        std::find_if(state.prepared.begin(), state.prepared.end(), [&](const Prepared& prepared) {
          const Preparation& other = prepared.what;
          return other.input == what.input && other.op == what.op && other.type == what.type;
        });
    indices.push_back(static_cast<std::uint32_t>(found - state.prepared.begin()));
    if (found != state.prepared.end()) continue;
    state.prepared.push_back({what, state.prepared_bytes});
    state.prepared_bytes += aligned(what.bytes);
  }
  return indices;
}

void run_loop(const LoopState& s, const Call& call) { LoopRun(s, call).run(); }

Part make_part(Type type, const BlockedLoop::Value& value, std::uint32_t index) {
  Part part;
  part.index = index;
  if (value.axis == BlockedLoop::none) return part;
  const auto axis = static_cast<std::size_t>(value.axis);
  const AxisShape shape = AxisShape::of(type, axis);
  part.row = static_cast<std::size_t>(shape.inner) * size_of(type.dtype());
  part.outer = static_cast<std::size_t>(shape.outer);
  part.stride = part.row * static_cast<std::size_t>(shape.extent);
  part.kind = part.outer == 1 ? Part::Kind::cut : Part::Kind::packed;
  return part;
}

Adding plan_adding(const PrimitiveSet& primitives, Type type, const Part& part, const CompileOptions& options,
                   const KernelTable& kernels) {
  constexpr std::int64_t elements_of_piece = 2048;
  const Op add = Op::make(*primitives.add());
  const auto plan = [&](Type of_part) {
    const std::array<Type, 2> in{of_part, of_part};
    Plan made = kernels.plan({add,
                              in,
                              {&of_part, 1},
                              options.threads,
                              options.check_indices,
                              options.depth,
                              options.vector_jit,
                              true});
    if (!made) {
      throw Error(ErrorKind::execution,
                  detail::str("blocked loop: expected a CPU kernel for [", add.name(), "] of ", of_part));
    }
    return made;
  };
  Adding adding;
  adding.result = part.index;
  adding.offset = part.offset;
  // A custom add of another set may require the whole array.
  const bool cuts = primitives.add() == &prim::add && type.size() > elements_of_piece;
  if (cuts) {
    adding.pieces = (type.size() + elements_of_piece - 1) / elements_of_piece;
    adding.piece_bytes = static_cast<std::size_t>(elements_of_piece) * size_of(type.dtype());
    adding.plan = plan(type.with_shape({elements_of_piece}));
    type = type.with_shape({type.size() - (adding.pieces - 1) * elements_of_piece});
  }
  adding.rest = plan(type);
  return adding;
}

// Compiles the programs of a block and of the rest; returns the memory that they take beside their values.
MemoryStats compile_bodies(LoopState& state, const Program& program, const BlockedLoop& loop,
                           std::span<const ReadElements> reads, const CompileOptions& options,
                           const KernelTable& kernels, const std::shared_ptr<Arena>& arena) {
  const Graph& graph = program.graph();
  std::vector<ReadElements> result_reads;
  std::vector<std::uint32_t> sums;
  std::vector<std::uint8_t> fixed;
  std::vector<std::size_t> wholes;
  for (const BlockedLoop::Value& operand : loop.operands) fixed.push_back(operand.axis == BlockedLoop::none);
  fixed.resize(fixed.size() + loop.results.size(), 0);
  for (std::uint32_t i = 0; i < loop.results.size(); ++i) {
    const BlockedLoop::Value& result = loop.results[i];
    const bool is_sum = result.axis == BlockedLoop::none;
    result_reads.push_back(reads.empty() || !is_sum ? nullptr : reads[result.id]);
    if (is_sum) sums.push_back(i);
    const bool is_output = program.slot(program.slot_of(result.id)).storage == Storage::output;
    const bool is_cut = make_part(graph.type(result.id), result, 0).kind == Part::Kind::cut;
    wholes.push_back(is_output && is_cut ? graph.type(result.id).bytes() : 0);
  }
  MemoryStats inside;
  CompileOptions inner = options;
  inner.threads = 1;
  inner.memory_stats = &inside;
  inner.repeats *= (loop.extent + loop.block - 1) / loop.block;
  const CallSite call_site{sums, result_reads, fixed, wholes};
  state.body = std::make_unique<const Compiled>(*loop.body, inner, kernels, arena, call_site);
  state.of_body = gather(state, *state.body);
  if (loop.rest != nullptr) {
    state.rest = std::make_unique<const Compiled>(*loop.rest, inner, kernels, arena, call_site);
    state.of_rest = gather(state, *state.rest);
  }
  return inside;
}

}  // namespace

Plan plan_loop(const Program& program, const BlockedLoop& loop, const passes::NodeValues& values,
               std::span<const ReadElements> reads, const CompileOptions& options, const KernelTable& kernels,
               const std::shared_ptr<Arena>& arena) {
  const Graph& graph = program.graph();
  LoopState state;
  const MemoryStats inside = compile_bodies(state, program, loop, reads, options, kernels, arena);
  std::size_t inner_bytes = state.body->inner_bytes();
  if (state.rest != nullptr) inner_bytes = std::max(inner_bytes, state.rest->inner_bytes());
  state.extent = loop.extent;
  state.block = loop.block;
  state.blocks = (loop.extent + loop.block - 1) / loop.block;

  const auto positions = [](const std::vector<ValueId>& list) {
    std::unordered_map<ValueId, std::uint32_t> at;
    for (const ValueId id : list) at.emplace(id, static_cast<std::uint32_t>(at.size()));
    return at;
  };
  const auto operand_at = positions(values.operands), result_at = positions(values.results);
  const auto pack = [&](Part& part) {
    if (part.kind != Part::Kind::packed) return;
    part.offset = state.packed_bytes;
    state.packed_bytes += aligned(part.outer * part.row * static_cast<std::size_t>(loop.block));
  };
  for (const BlockedLoop::Value& operand : loop.operands) {
    state.in.push_back(
        make_part(graph.type(operand.id), operand, operand_at.at(program.roots()[operand.id])));
    pack(state.in.back());
  }
  for (const BlockedLoop::Value& result : loop.results) {
    const Type type = graph.type(result.id);
    Part part = make_part(type, result, result_at.at(result.id));
    pack(part);
    if (result.axis == BlockedLoop::none) {
      part.kind = Part::Kind::sum;
      part.offset = state.sum_bytes;
      part.bytes = type.bytes();
      state.sum_bytes += aligned(part.bytes);
      state.sums.push_back(static_cast<std::uint32_t>(state.out.size()));
      state.in.push_back(part);
      state.out.push_back(part);
      if (part.bytes == 0) continue;  // nothing is added, and the blocks need no chunks for it
      state.adding.push_back(plan_adding(graph.primitives(), type, part, options, kernels));
      const Adding& adding = state.adding.back();
      state.add_scratch = std::max({state.add_scratch, adding.plan.scratch, adding.rest.scratch});
    } else {
      state.out.push_back(part);
    }
  }
  state.chunks = state.blocks;
  if (state.sum_bytes > 0) state.chunks = passes::sum_chunks(state.blocks, state.sum_bytes);
  state.threads = std::min(options.threads, max_loop_threads);
  const auto workers = static_cast<std::size_t>(std::min<std::int64_t>(state.threads, state.chunks));
  state.memory = std::max(state.packed_bytes + inner_bytes, aligned(state.add_scratch)) + thread_padding;
  state.keeps_sums = state.sum_bytes > 0 && workers > 1;
  const std::size_t scratch =
      state.prepared_bytes + state.num_sums() * state.sum_bytes + workers * state.memory;
  Plan plan = make_plan<LoopState, run_loop>(std::move(state), scratch);
  plan.library = inside.library * workers;
  if (options.memory_stats != nullptr) options.memory_stats->constants += inside.constants;
  return plan;
}

}  // namespace tidu::cpu_detail
