// vector_x86_sections.hpp - x86::Sections: sections of code in which free registers hold constants.
//
// Note [Held constants]: a function uses a dozen constants, and Zen 4 loads a vector of 64 bytes in the time
// of a multiplication. Code is therefore generated twice. The first pass finds the registers that no value
// needs. In the second pass these hold the most-used constants, and the vectors that rows side by side share,
// in sections that are loops or that repeat for one vector after another.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "cpu/fusion/vector_x86_registers.hpp"

namespace tidu::cpu_detail::x86 {

/// Registers from 16 on are the second bank: see Note [Pairs] in vector_x86.cpp.
inline constexpr int bank_size = 16;

/// The statistics of a section from the first pass.
struct Section {
  int registers = 0;                  // number of registers for values, the first ones of a bank
  int num_free = 0;                   // number of registers after those
  std::int64_t times = 0;             // see Sections::begin
  std::map<std::uint64_t, int> uses;  // of constants, by bits
  std::map<std::pair<std::uint32_t, int>, int> column_uses;  // of vectors of all rows, by pointer and place

  /// The items that are worth holding, the most-used first, each after the negative number of its uses.
  template <class Item>
  static std::vector<std::pair<int, Item>> often_used(const std::map<Item, int>& uses, std::int64_t times) {
    constexpr int min_uses = 2;  // to be worth a register, if there are more
    std::vector<std::pair<int, Item>> wanted;
    for (const auto& [item, count] : uses) {
      if (count * times > min_uses) wanted.emplace_back(-count, item);
    }
    std::sort(wanted.begin(), wanted.end());
    return wanted;
  }
  bool gains_from_holding() const {
    return num_free > 0 && times > 0 &&
           !(often_used(uses, times).empty() && often_used(column_uses, 1).empty());
  }
};

/// Sections in the order in which they are generated. A generator of the second pass, for the same
/// instructions, is given those of the first one.
class Sections {
 public:
  Sections(Assembler& assembler, RegisterAllocator& registers) : x_(assembler), registers_(registers) {}

  std::vector<Section> take() { return std::move(sections_); }
  void hold_by(std::vector<Section> sections) { learnt_ = std::move(sections); }

  /// Begins a section that runs `times` times for each entry; values are in `banks` banks. 0: hold nothing,
  /// since a call would overwrite it.
  void begin(std::int64_t times, int banks = 1) {
    times_ = times;
    limit_before_ = registers_.limit();
    registers_.reset_taken();
    column_uses_.clear();
    if (learnt() != nullptr) hold_constants(banks);
    x_.take_constant_uses();
  }
  void end() {
    registers_.set_limit(limit_before_);
    x_.release_constants();
    sections_.push_back({.registers = registers_.taken(),
                         .num_free = limit_before_ - registers_.taken(),
                         .times = times_,
                         .uses = x_.take_constant_uses(),
                         .column_uses = std::exchange(column_uses_, {})});
  }
  /// Statistics of the present section from the first pass, or null.
  const Section* learnt() const {
    return sections_.size() < learnt_.size() ? &learnt_[sections_.size()] : nullptr;
  }
  /// Counts a use of a vector that all rows share.
  void count_column(const std::pair<std::uint32_t, int>& key) { ++column_uses_[key]; }

 private:
  void hold_constants(int banks) {
    const auto wanted = Section::often_used(learnt()->uses, times_);
    auto next = wanted.begin();
    for (int r = limit_before_ - 1; r >= learnt()->registers && next != wanted.end(); --r) {
      if (r == spare_register) continue;
      for (int bank = 0; bank < banks && next != wanted.end(); ++bank, ++next)
        x_.hold(next->second, r + bank * bank_size);
      registers_.set_limit(r);
    }
  }

  Assembler& x_;
  RegisterAllocator& registers_;
  int limit_before_ = 0;  // of the registers, before the present section
  std::int64_t times_ = 0;
  std::map<std::pair<std::uint32_t, int>, int> column_uses_;
  std::vector<Section> sections_, learnt_;  // of this pass, and of the first one
};

}  // namespace tidu::cpu_detail::x86
