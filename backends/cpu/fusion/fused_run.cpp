// fused_run.cpp - running of fusions.
#include "cpu/fusion/fused_run.hpp"

#include <algorithm>
#include <cstring>

#include "cpu/kernels/columns.hpp"
#include "cpu/kernels/interleave.hpp"
#include "cpu/kernels/short_rows.hpp"
#include "cpu/parallel.hpp"

namespace tidu::cpu_detail {
namespace {

class BlockRun {
 public:
  BlockRun(const FusionState& s, const Call& call, std::byte* memory)
      : s_(s),
        call_(call),
        memory_(memory),
        brought_(s.line > 0 ? s.mapped_loads.size() : 0),
        apart_(s.line > 0 && !s.in_place && are_apart()) {
    for (const Filling& filling : s_.fillings) {
      std::byte* to = memory_ + filling.to;
      const std::byte* from = filling.element != nullptr ? filling.element : call_.in[filling.from.index];
      const std::size_t bytes = static_cast<std::size_t>(s_.block) * filling.size;
      std::memcpy(to, from, filling.size);
      for (std::size_t done = filling.size; done < bytes; done *= 2)
        std::memcpy(to + done, to, std::min(done, bytes - done));
    }
  }
  void run(std::int64_t begin, std::int64_t end) {
    for (std::int64_t at = begin; at < end; at += s_.block) block(at, std::min(s_.block, end - at));
    if (!s_.interleaving || s_.interleaving->ahead == 0) return;
    copy_waiting(waiting_);
    finish_past_caches();
  }

 private:
  // Does no result share memory with an operand? The sum that a loop or a scan carries does, by two slots.
  bool are_apart() const {
    for (const Segment& segment : s_.segments) {
      for (const ElementSource& out : segment.out) {
        if (out.kind != ElementSource::Kind::result) continue;
        const auto is_there = [&](const ElementSource& in) {
          return in.kind == ElementSource::Kind::operand && call_.in[in.index] == call_.out[out.index];
        };
        if (std::any_of(segment.in.begin(), segment.in.end(), is_there)) return false;
      }
    }
    return true;
  }
  std::byte* address(const ElementSource& source, std::int64_t at) const {
    const std::size_t offset = source.offset + static_cast<std::size_t>(at) * source.step;
    switch (source.kind) {
      case ElementSource::Kind::operand: return const_cast<std::byte*>(call_.in[source.index]) + offset;
      case ElementSource::Kind::result: return call_.out[source.index] + offset;
      default: return memory_ + source.index;
    }
  }
  // The elements of a line: at their source, or copied to the thread's memory. A copy is half a page away
  // from its source, modulo pages: the processor takes a load to depend on a recent store if the last 12 bits
  // of their addresses are close.
  const std::byte* line(std::uint32_t index, std::int64_t at, std::int64_t count) {
    const MappedLoad& load = s_.mapped_loads[index];
    const std::int64_t extent = load.map.axes.back().extent;
    const bool one = load.map.axes.size() == 1, same = extent == s_.line;
    const std::int64_t in_line = one ? at : same ? in_line_ : at % extent;
    const std::int64_t number = one ? 0 : same ? number_ : at / extent;
    if (!load.stays || count > extent - in_line) {
      brought_[index].at = nullptr;  // the new copy overwrites it
      return line(load, at, in_line, number, count);
    }
    const bool is_there = !load.is_padded || load.map.is_there(number);
    Brought& brought = brought_[index];
    if (brought.at == nullptr || brought.begin != in_line || brought.count < count ||
        brought.is_there != is_there)
      brought = {in_line, count, line(load, at, in_line, number, count), is_there};
    return brought.at;
  }
  const std::byte* line(const MappedLoad& load, std::int64_t at, std::int64_t in_line, std::int64_t number,
                        std::int64_t count) {
    std::byte* to = memory_ + load.to;
    const std::byte* from = nullptr;
    if (load.from != no_index) {
      from = call_.in[load.from];
      const AccessMap::Found found = load.map.find(in_line, number, count);
      const auto bytes = static_cast<std::size_t>(found.at) * load.map.size;
      if (found.contiguous) return from + bytes;
      const std::uintptr_t there = reinterpret_cast<std::uintptr_t>(from) + bytes;
      const std::uintptr_t away = reinterpret_cast<std::uintptr_t>(to) - there - line_padding / 2;
      to += (line_padding - away % line_padding) / 64 * 64;
    }
    load.map.copy(from, at, count, to);
    return to;
  }
  // Elements from `first` to the end of its line, or to a cut.
  std::int64_t until_cut(std::int64_t first) {
    number_ = first / s_.line;
    in_line_ = first % s_.line;
    const std::int64_t line = s_.line - in_line_;
    if (s_.cuts.empty()) return line;
    const auto cut = std::upper_bound(s_.cuts.begin(), s_.cuts.end(), first);
    return cut == s_.cuts.end() ? line : std::min(line, *cut - first);
  }
  // Runs the segment's elements [at, at + count), line by line. Kept values are where the block's are.
  void run_lines(const Segment& segment, std::int64_t at, std::int64_t count) {
    Pointers<const std::byte*> in(segment.in.size());
    Pointers<std::byte*> out(segment.out.size());
    for (std::int64_t done = 0; done < count;) {
      const std::int64_t first = at + done;
      const std::int64_t some = std::min(count - done, until_cut(first));
      for (std::size_t i = 0; i < segment.in.size(); ++i) {
        const ElementSource& source = segment.in[i];
        if (source.kind != ElementSource::Kind::mapped) {
          in[i] = address(source, first);
          continue;
        }
        in[i] = line(source.index, first, some);
      }
      for (std::size_t i = 0; i < segment.out.size(); ++i) {
        const ElementSource& source = segment.out[i];
        out[i] = address(source, first);
        if (source.kind == ElementSource::Kind::kept) out[i] += static_cast<std::size_t>(done) * source.step;
      }
      if (apart_) {
        segment.kernel->run_apart(in.data(), out.data(), some);
      } else {
        segment.kernel->run(in.data(), out.data(), some);
      }
      done += some;
    }
  }
  void block(std::int64_t at, std::int64_t count) {
    for (const MappedLoad& load : s_.mapped_loads) {
      if (s_.line > 0) break;
      load.map.copy(load.from == no_index ? nullptr : call_.in[load.from], at, count, memory_ + load.to);
    }
    for (const Gathering& gathering : s_.gatherings) {
      if (gathering.word == 8) {
        gather<std::uint64_t>(gathering, at, count);
      } else {
        gather<std::uint32_t>(gathering, at, count);
      }
    }
    for (const Segment& segment : s_.segments) {
      if (s_.line > 0) {
        run_lines(segment, at, count);
        continue;
      }
      Pointers<const std::byte*> in(segment.in.size());
      Pointers<std::byte*> out(segment.out.size());
      for (std::size_t i = 0; i < segment.in.size(); ++i) in[i] = address(segment.in[i], at);
      for (std::size_t i = 0; i < segment.out.size(); ++i) out[i] = address(segment.out[i], at);
      if (segment.kernel != nullptr) {
        segment.kernel->run(in.data(), out.data(), count);
      } else {
        const Plan& plan = count == s_.block ? segment.whole : segment.last;
        plan.run(plan.state.get(), Call{in.data(), out.data(), memory_ + s_.scratch});
      }
    }
    for (const ReductionStep& reduction : s_.reductions) {
      for (std::int64_t i = 0; i < count; i += reduction_block) {
        const std::size_t part = static_cast<std::size_t>((at + i) / reduction_block) * reduction.size;
        reduction.functions.block(address(reduction.from, at) + static_cast<std::size_t>(i) * reduction.size,
                                  std::min(reduction_block, count - i),
                                  call_.scratch + reduction.parts + part);
      }
    }
    for (const Copying& copying : s_.copyings) {
      std::memcpy(call_.out[copying.result] + static_cast<std::size_t>(at) * copying.step,
                  memory_ + copying.from, static_cast<std::size_t>(count) * copying.step);
    }
    if (!s_.interleaving) return;
    if (s_.interleaving->word == 8) {
      interleave<std::uint64_t>(at, count);
    } else {
      interleave<std::uint32_t>(at, count);
    }
  }
  template <class Word>
  void gather(const Gathering& gathering, std::int64_t at, std::int64_t count) {
    std::int64_t found[max_rows];
    const std::int64_t* offsets = found;
    std::int64_t first = 0;
    if (gathering.indices == no_index) {
      if (is_short_row(gathering.step)) return split<Word>(gathering, at, count);
      offsets = gathering.offsets.data();
      first = at * gathering.step;
    } else if (gathering.wide) {
      find_offsets(reinterpret_cast<const std::int64_t*>(call_.in[gathering.indices]) + at, count,
                   gathering.extent - 1, gathering.step, found);
    } else {
      find_offsets(reinterpret_cast<const std::int32_t*>(call_.in[gathering.indices]) + at, count,
                   gathering.extent - 1, gathering.step, found);
    }
    for (const Gathering::Run& run : gathering.runs) {
      const Word* const from = reinterpret_cast<const Word*>(call_.in[gathering.matrix]) + run.start + first;
      Word* const to = reinterpret_cast<Word*>(memory_ + run.to);
      const std::int64_t at_once = waiting_ != 0 ? gathered_at_once : count;
      for (std::int64_t i = 0; i < count; i += at_once) {
        gather_columns_kernel<Word>()(from, offsets + i, std::min(at_once, count - i), run.count, to + i,
                                      gathering.stride);
        if (waiting_ != 0) copy_waiting(s_.interleaving->ahead);
      }
    }
  }
  // Gathers columns of contiguous rows: all columns of some rows at a time.
  template <class Word>
  void split(const Gathering& gathering, std::int64_t at, std::int64_t count) {
    const std::int64_t row = gathering.step;
    const Word* const matrix = reinterpret_cast<const Word*>(call_.in[gathering.matrix]) + at * row;
    std::int64_t first = 0;  // row
    Word* columns[max_short_row] = {};
    const auto flush = [&] {
      for (std::int64_t i = 0; i < count; i += gathered_at_once) {
        const std::int64_t some = waiting_ != 0 ? std::min(gathered_at_once, count - i) : count - i;
        split_short_rows<Word>(matrix + (first + i) * row, row, some, columns);
        if (waiting_ == 0) break;
        for (Word*& column : columns) column += column != nullptr ? some : 0;
        copy_waiting(s_.interleaving->ahead);
      }
      std::fill(std::begin(columns), std::end(columns), nullptr);
    };
    for (const Gathering::Run& run : gathering.runs) {
      for (std::int64_t k = 0; k < run.count; ++k) {
        const std::int64_t number = run.start + k;
        Word*& to = columns[number % row];
        if (number / row != first || to != nullptr) flush();
        first = number / row;
        to = reinterpret_cast<Word*>(memory_ + run.to) + k * gathering.stride;
      }
    }
    flush();
  }
  template <class Word>
  void interleave(std::int64_t at, std::int64_t count) {
    const Interleaving& rows = *s_.interleaving;
    Pointers<const Word*> columns(rows.columns.size());
    for (std::size_t k = 0; k < columns.size(); ++k)
      columns[k] = reinterpret_cast<const Word*>(address(rows.columns[k], at));
    const std::size_t row = columns.size() * sizeof(Word);
    std::byte* const to = call_.out[rows.result] + static_cast<std::size_t>(at) * row;
    if (rows.ahead == 0) return interleave_rows<Word>(columns.span(), count, reinterpret_cast<Word*>(to));
    copy_waiting(waiting_);
    from_ = memory_ + rows.rows;
    to_ = to;
    waiting_ = static_cast<std::size_t>(count) * row;
    interleave_rows<Word>(columns.span(), count, reinterpret_cast<Word*>(memory_ + rows.rows));
  }
  // Copies up to that many bytes of the waiting rows; the first copy ends at the end of a cache line.
  void copy_waiting(std::size_t bytes) {
    if (waiting_ == 0) return;
    constexpr std::size_t line = 64;
    const std::size_t past = reinterpret_cast<std::uintptr_t>(to_) % line;
    const std::size_t count = bytes >= waiting_ ? waiting_ : bytes > past ? bytes - past : bytes;
    copy_past_caches(from_, to_, count);
    from_ += count;
    to_ += count;
    waiting_ -= count;
  }

  // A part of a line that was copied, and its address.
  struct Brought {
    std::int64_t begin = 0, count = 0;
    const std::byte* at = nullptr;
    bool is_there = true;
  };

  const FusionState& s_;
  const Call& call_;
  std::byte* memory_;
  eager::detail::ShortArray<Brought, 8> brought_;
  const bool apart_;                       // may elements be computed twice?
  std::int64_t number_ = 0, in_line_ = 0;  // of the line that is read now, of the length s_.line
  // Rows that are not yet copied past the caches. This takes long, so it proceeds while the next rows are
  // computed.
  const std::byte* from_ = nullptr;
  std::byte* to_ = nullptr;
  std::size_t waiting_ = 0;
};

}  // namespace

void run_fusion(const FusionState& s, const Call& call) {
  ScratchSlots slots;  // as many bodies run at once as there are threads
  parallel_for(s.threads, s.count, s.grain, [&](std::int64_t begin, std::int64_t end) {
    const ScratchSlots::Lease lease(slots);
    BlockRun(s, call, call.scratch + s.parts + lease.slot() * s.memory).run(begin, end);
  });
  for (const ReductionStep& reduction : s.reductions) {
    reduction.functions.finish(call.scratch + reduction.parts, s.count, call.out[reduction.result]);
  }
}

}  // namespace tidu::cpu_detail
