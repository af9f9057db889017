// vector_x86_sections.hpp - sections of code in which registers that no value needs hold constants.
//
// Note [Held constants]: a function takes a dozen constants, and Zen 4 loads one vector of 64 bytes in the
// time of a multiplication. So code is written twice: what is written first tells which registers no value
// needs; then these hold the constants that are used most, and what rows that are computed together read of
// all rows, in sections of code that are loops, or the same for one vector after another.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "cpu/groups/vector_x86_circular.hpp"

namespace tidu::cpu_detail {

class SectionAssembler : protected CircularAssembler {
 protected:
  SectionAssembler(DType dtype, bool is_512) : CircularAssembler(dtype, is_512), limit_(is_512 ? 32 : 16) {}
  ~SectionAssembler() override = default;

 public:
  /// What is learnt of a section when it is written first.
  struct Section {
    int registers = 0;                                         // that values take, the first ones of a bank
    int room = 0;                                              // registers behind those
    std::int64_t times = 0;                                    // see begin_section
    std::map<std::uint64_t, int> uses;                         // of constants, by bits
    std::map<std::pair<std::uint32_t, int>, int> column_uses;  // of vectors of all rows, by pointer and place
  };
  /// Sections in the order in which they were written, for one who writes the same steps in that order.
  std::vector<Section> take_sections() { return std::move(sections_); }
  void hold_by(std::vector<Section> sections) { learnt_ = std::move(sections); }
  /// Does a section gain from what was learnt?
  static bool is_worth_holding(const std::vector<Section>& sections) {
    return std::any_of(sections.begin(), sections.end(), [](const Section& section) {
      const bool wants =
          !often_used(section.uses, section.times).empty() || !often_used(section.column_uses, 1).empty();
      return wants && section.room > 0 && section.times > 0;
    });
  }

 protected:
  // A section of code that runs `times` times where it is entered once; of `banks` in which values are. 0:
  // nothing may be held, as a call would lose it.
  void begin_section(std::int64_t times, int banks = 1) {
    times_ = times;
    limit_before_ = limit_;
    taken_ = 0;
    constant_uses_.clear();
    column_uses_.clear();
    if (learnt() == nullptr) return;
    const auto wanted = often_used(learnt()->uses, times);
    auto next = wanted.begin();
    for (int r = limit_ - 1; r >= learnt()->registers && next != wanted.end(); --r) {
      if (r == spare_register) continue;
      for (int bank = 0; bank < banks && next != wanted.end(); ++bank, ++next) {
        const int held = r + bank * bank_size;
        vmovups(register_of(held), constant(next->second));
        held_constants_[next->second] = held;
      }
      limit_ = r;
    }
    constant_uses_.clear();
  }
  void end_section() {
    limit_ = limit_before_;
    held_constants_.clear();
    sections_.push_back({.registers = taken_,
                         .room = limit_ - taken_,
                         .times = times_,
                         .uses = std::move(constant_uses_),
                         .column_uses = std::move(column_uses_)});
    constant_uses_.clear();
    column_uses_.clear();
  }
  // Of the section that is written, or null.
  const Section* learnt() const {
    return sections_.size() < learnt_.size() ? &learnt_[sections_.size()] : nullptr;
  }
  // What repays being held, by how much it does.
  template <class What>
  static std::vector<std::pair<int, What>> often_used(const std::map<What, int>& uses, std::int64_t times) {
    std::vector<std::pair<int, What>> wanted;
    for (const auto& [what, count] : uses) {
      if (count * times > min_uses) wanted.emplace_back(-count, what);
    }
    std::sort(wanted.begin(), wanted.end());
    return wanted;
  }

  static constexpr int bank_size = 16;  // see Note [Pairs] in vector_x86.cpp
  static constexpr int min_uses = 2;    // that repay holding a constant, if there are more

  int limit_;  // registers from it on are no values'
  // See Note [Held constants].
  int limit_before_ = 0, taken_ = 0;
  std::int64_t times_ = 0;
  std::map<std::pair<std::uint32_t, int>, int> column_uses_;
  std::vector<Section> sections_, learnt_;
};

}  // namespace tidu::cpu_detail
