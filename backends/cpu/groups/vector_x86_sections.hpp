// vector_x86_sections.hpp - SectionAssembler: sections of code in which free registers hold constants.
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

#include "cpu/groups/vector_x86_circular.hpp"

namespace tidu::cpu_detail {

class SectionAssembler : protected CircularAssembler {
 protected:
  SectionAssembler(DType dtype, bool is_512) : CircularAssembler(dtype, is_512), limit_(is_512 ? 32 : 16) {}
  ~SectionAssembler() override = default;

 public:
  /// The statistics of a section from the first pass.
  struct Section {
    int registers = 0;                  // number of registers for values, the first ones of a bank
    int room = 0;                       // number of registers after those
    std::int64_t times = 0;             // see begin_section
    std::map<std::uint64_t, int> uses;  // of constants, by bits
    std::map<std::pair<std::uint32_t, int>, int> column_uses;  // of vectors of all rows, by pointer and place
  };
  /// Sections in the order in which they were generated, for a second pass over the same instructions.
  std::vector<Section> take_sections() { return std::move(sections_); }
  void hold_by(std::vector<Section> sections) { learnt_ = std::move(sections); }
  /// Does a section gain from a second pass?
  static bool is_worth_holding(const std::vector<Section>& sections) {
    return std::any_of(sections.begin(), sections.end(), [](const Section& section) {
      const bool wants =
          !often_used(section.uses, section.times).empty() || !often_used(section.column_uses, 1).empty();
      return wants && section.room > 0 && section.times > 0;
    });
  }

 protected:
  // Begins a section that runs `times` times for each entry; values are in `banks` banks. 0: hold nothing,
  // since a call would overwrite it.
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
  // Statistics of the present section, or null.
  const Section* learnt() const {
    return sections_.size() < learnt_.size() ? &learnt_[sections_.size()] : nullptr;
  }
  // The items that are worth holding, with their gain.
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
  static constexpr int min_uses = 2;    // to be worth a register, if there are more

  int limit_;  // registers from it on hold no values
  // See Note [Held constants].
  int limit_before_ = 0, taken_ = 0;
  std::int64_t times_ = 0;
  std::map<std::pair<std::uint32_t, int>, int> column_uses_;
  std::vector<Section> sections_, learnt_;
};

}  // namespace tidu::cpu_detail
