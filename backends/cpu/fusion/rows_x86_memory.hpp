// rows_x86_memory.hpp - loads and stores of row fusions: x86::RowMemory, and x86::HeldColumns, vectors that
// stay in registers for all rows.
//
// Registers: see rows_x86_tile.hpp. An instruction is a number, for which the tile tells vector and row; a
// partial vector is loaded and stored with a mask.
#pragma once

#include <map>
#include <optional>
#include <utility>

#include "cpu/fusion/rows_x86_pointers.hpp"
#include "cpu/fusion/vector_x86_partial.hpp"

namespace tidu::cpu_detail::x86 {

class RowMemory {
 public:
  RowMemory(Assembler& assembler, const RowTile& tile, const RowScratch& scratch, RowPointers& pointers,
            PartialVector& tail)
      : x_(assembler), tile_(tile), scratch_(scratch), pointers_(pointers), tail_(tail) {}

  /// Are the instructions on values of the rows, each row in its own lane?
  void set_of_rows(bool of_rows) { of_rows_ = of_rows; }

  /// Loads the value of an instruction.
  void load(std::size_t id, const VectorInst& step, const Ymm& to) {
    switch (step.op) {
      case VectorOp::immediate: return x_.vmovups(to, x_.constant(step.bits));
      case VectorOp::slot:
      case VectorOp::slot_mask: return load_row(to, scratch_.slot(step.index, tile_.row(id)));
      case VectorOp::kept:
      case VectorOp::kept_mask: return x_.vmovups(to, kept(id, step.index));
      case VectorOp::load: return load_elements(to, id, step.index, false);
      case VectorOp::load_column: return load_elements(to, id, step.index, true);
      case VectorOp::load_gathered: return load_elements(to, id, pointers_.gathered(step.index), true);
      case VectorOp::load_mask: return load_mask(to, id, pointers_.array(step.index));
      case VectorOp::splat_row: return load_row(to, of_row(id, pointers_.array(step.index)));
      case VectorOp::splat: return x_.vbroadcasts(to, ptr[pointers_.array(step.index)]);
      default: return arithmetic_.broadcast_mask(to, byte[pointers_.array(step.index)]);
    }
  }
  /// An instruction that stores x, except a reduction.
  void store(std::size_t id, const VectorInst& step, const Ymm& x) {
    switch (step.op) {
      case VectorOp::store: return store_elements(id, step.index, x, false);
      case VectorOp::stream: return x_.vmovntps(elements(id, pointers_.array(step.index), false), x);
      case VectorOp::store_mask: return store_mask(id, pointers_.array(step.index), x);
      case VectorOp::keep: return x_.vmovups(kept(id, step.index), x);
      case VectorOp::set_slot: return store_row(scratch_.slot(step.index, tile_.row(id)), x);
      default: return store_row(of_row(id, pointers_.array(step.index)), x);
    }
  }

  /// Elements of array `index`, a matrix, or, if `columns`, its row that all rows share.
  void load_elements(const Ymm& to, std::size_t id, std::uint32_t index, bool columns) {
    load_elements(to, id, pointers_.array(index), columns);
  }
  void store_elements(std::size_t id, std::uint32_t index, const Ymm& x, bool columns) {
    const Reg64 to = pointers_.array(index);
    if (!tile_.is_partial(id)) return x_.vmovups(elements(id, to, columns), x);
    tail_.store(elements(id, safe(to), columns), x);
  }

 private:
  void load_elements(const Ymm& to, std::size_t id, const Reg64& from, bool columns) {
    if (!tile_.is_partial(id)) return x_.vmovups(to, elements(id, from, columns));
    tail_.load(to, elements(id, safe(from), columns));
  }
  std::size_t bytes(std::size_t elements) const {
    return elements * static_cast<std::size_t>(x_.element_bytes());
  }
  Address elements(std::size_t id, const Reg64& from, bool columns) const {
    if (columns) return ptr[from + r13 * x_.element_bytes() + bytes(tile_.in_row(id))];
    return ptr[from + r14 * x_.element_bytes() + bytes(tile_.in_matrix(id))];
  }
  Address kept(std::size_t id, std::uint32_t index) const {
    return scratch_.kept(index, tile_.row(id), bytes(tile_.in_row(id)));
  }
  Address of_row(std::size_t id, const Reg64& from) const {
    return ptr[from + rbx * x_.element_bytes() + bytes(static_cast<std::size_t>(tile_.row(id)))];
  }
  // A register that setting the mask register does not overwrite, as it does rax.
  Reg64 safe(const Reg64& pointer) {
    if (!x_.is_512() || tail_.is_exact() || pointer.getIdx() != rax.getIdx()) return pointer;
    x_.mov(rdx, rax);
    return rdx;
  }

  void load_mask(const Ymm& to, std::size_t id, const Reg64& from) {
    const auto at = [&](int i) {
      return ptr[from + r14 + (tile_.in_matrix(id) + static_cast<std::size_t>(i))];
    };
    tile_.is_partial(id) ? tail_.load_bytes(to, at) : x_.vpmovzxb(to, at(0));
    arithmetic_.to_mask(to);
  }
  void store_mask(std::size_t id, const Reg64& to, const Ymm& x) {
    const auto at = [&](int i) {
      return ptr[to + r14 + (tile_.in_matrix(id) + static_cast<std::size_t>(i))];
    };
    const Xmm bytes = arithmetic_.to_bytes(x);
    tile_.is_partial(id) ? tail_.store_bytes(at, bytes) : arithmetic_.store_bytes(at(0), bytes);
  }

  // Loads a value of the row into every lane; in instructions on values of the rows, each row's value into
  // its own lane.
  void load_row(const Ymm& to, const Address& from) {
    if (!of_rows_ || tile_.rows() == 1) return x_.vbroadcasts(to, from);
    // Lanes beyond the rows repeat values, since functions are slow for zeros that belong to no row.
    const int bytes = bytes_of_rows();
    if (bytes == (x_.is_halved() ? x_.vector_bytes() / 2 : x_.vector_bytes())) return x_.vmovups(to, from);
    if (bytes == 32) return x_.vbroadcastf64x4(Zmm(to.getIdx()), from);
    x_.is_512() ? x_.vbroadcastf32x4(to, from) : x_.vbroadcastf128(to, from);
  }
  void store_row(const Address& to, const Ymm& x) {
    if (tile_.rows() == 1) return x_.store_element(to, x);
    x_.vmovups(to, bytes_of_rows() == 32 ? Ymm(x.getIdx()) : Xmm(x.getIdx()));
  }
  int bytes_of_rows() const { return static_cast<int>(tile_.rows()) * x_.element_bytes(); }

  Assembler& x_;
  const RowTile& tile_;
  const RowScratch& scratch_;
  RowPointers& pointers_;
  PartialVector& tail_;
  ArithmeticEmitter arithmetic_{x_};
  bool of_rows_ = false;
};

/// Vectors of matrices that have one row for all, in registers that no value may take: the last ones before
/// the allocator's limit, which this lowers.
class HeldColumns {
 public:
  HeldColumns(Assembler& assembler, RegisterAllocator& registers, RowTile& tile, RowMemory& memory)
      : x_(assembler), registers_(registers), tile_(tile), memory_(memory) {}

  /// A matrix's pointer, and a vector.
  using Key = std::pair<std::uint32_t, int>;
  /// The register that `hold` takes next.
  int next() const {
    return registers_.limit() - 1 == spare_register ? registers_.limit() - 2 : registers_.limit() - 1;
  }
  /// Loads a vector into a register that holds it from then on.
  void hold(const Key& key) {
    registers_.set_limit(next());
    const Ymm to = x_.vector(registers_.limit());
    tile_.select_column(key.second);
    memory_.load_elements(to, 0, key.first, true);
    held_.emplace(key, to);
  }
  std::optional<Ymm> find(const Key& key) const {
    const auto it = held_.find(key);
    return it != held_.end() ? std::optional<Ymm>(it->second) : std::nullopt;
  }
  /// Stores what the registers hold.
  void store() {
    for (const auto& [key, held] : held_) {
      tile_.select_column(key.second);
      memory_.store_elements(0, key.first, held, true);
    }
  }
  void clear() { held_.clear(); }

 private:
  Assembler& x_;
  RegisterAllocator& registers_;
  RowTile& tile_;
  RowMemory& memory_;
  std::map<Key, Ymm> held_;
};

}  // namespace tidu::cpu_detail::x86
