// hot.hpp - HotDetector: notices, in the stream of operations of a thread, that a sequence repeats, and then
// says of each operation whether it is the one that is expected. Constant cost per operation.
//
// Note [Repetitions]: each operation is a token (its graph: primitives, attributes, types). The hash of any
// stretch of the recent tokens comes from two prefix hashes. Where the last eight tokens stood before gives a
// candidate for the length of the sequence; it is one when its last three repetitions have equal hashes, and
// the last two are then compared token by token. Equal layers inside a longer sequence are followed first;
// the longer one is found where they end, and followed from then on. What comes as expected is entered when
// the sequence is left: until then nobody looks.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "tidu/eager/backward.hpp"
#include "tidu/eager/executor.hpp"
#include "tidu/frontend/array.hpp"
#include "tidu/frontend/hot_paths.hpp"
#include "tidu/graph/graph.hpp"
#include "tidu/tensor/tensor.hpp"

namespace tidu::frontend_detail {

class HotDetector {
 public:
  HotDetector();

  /// The next operation: is it the one that a hot sequence expects?
  bool advance(const void* token) {
    if (following_) {
      if (sequence_[position_] == token) [[likely]] {
        go_on(1);
        return true;
      }
      leave();
    }
    enter(token);
    if (count_ >= gram) look();
    return false;
  }
  /// Is that what a hot sequence expects next?
  bool is_next(const void* token) const { return following_ && sequence_[position_] == token; }
  bool is_followed() const { return following_; }
  /// How many operations a hot sequence expects until a repetition ends.
  std::size_t until_end() const { return following_ ? sequence_.size() - position_ : 0; }
  /// Are these operations expected next, a repetition at most?
  bool expects(std::span<const void* const> tokens) const {
    if (!following_ || sequence_.size() < tokens.size()) return false;
    const auto here = sequence_.begin() + static_cast<std::ptrdiff_t>(position_);
    const std::size_t until = std::min(tokens.size(), sequence_.size() - position_);
    return std::equal(tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(until), here) &&
           std::equal(tokens.begin() + static_cast<std::ptrdiff_t>(until), tokens.end(), sequence_.begin());
  }
  /// Did the last operation end a repetition?
  bool at_end() const { return following_ && position_ == 0; }
  /// Did the last operation end a sequence before its time? Asked once.
  bool deviated() { return std::exchange(deviated_, false); }
  /// The same of so many operations, a repetition at most, that are expected.
  void go_on(std::size_t count) {
    owed_ += count;
    statistics_.expected += count;
    position_ += count;
    if (position_ >= sequence_.size()) position_ -= sequence_.size();
  }
  void count_known() { ++statistics_.known; }
  void count_backward() { ++statistics_.backwards; }
  const HotStatistics& statistics() const { return statistics_; }
  /// What was followed is over.
  void leave();

 private:
  static constexpr std::size_t window = std::size_t{1} << 14;
  static constexpr std::size_t gram = 8;
  static constexpr std::size_t most = std::size_t{1} << 12;  // operations of a sequence
  static constexpr std::size_t least = 32;  // shorter ones are followed several times at once
  static constexpr std::uint64_t base = 0x9e3779b97f4a7c15ULL;

  void enter(const void* token) {
    const std::uint64_t before = prefix_[count_ & (window - 1)];
    ++count_;
    tokens_[count_ & (window - 1)] = token;
    const auto address = reinterpret_cast<std::uintptr_t>(token);
    prefix_[count_ & (window - 1)] = before * base + (address ^ address >> 7) * 0xd6e8feb86659fd93ULL;
  }
  // Of the `length` tokens that end with number `last`.
  std::uint64_t hash(std::uint64_t last, std::size_t length) const {
    return prefix_[last & (window - 1)] - prefix_[(last - length) & (window - 1)] * powers_[length];
  }
  void look();
  void follow(std::size_t length);
  void enter_owed();

  struct LastSeen {
    std::uint64_t hash = 0;
    std::uint64_t last = 0;
  };
  std::vector<const void*> tokens_;    // a ring; number n at n modulo window
  std::vector<std::uint64_t> prefix_;  // likewise: of all tokens up to number n
  std::vector<std::uint64_t> powers_;  // of base
  std::vector<LastSeen> places_;       // by hash of gram tokens
  std::uint64_t count_ = 0;            // tokens so far
  std::vector<const void*> sequence_;  // what is followed
  std::size_t position_ = 0;
  std::size_t owed_ = 0;  // operations before it that came as expected and are yet to be entered
  bool following_ = false;
  bool deviated_ = false;
  HotStatistics statistics_;
};

struct Call;
struct Context;
struct Input;
struct LazyRunner;
/// As record_lazily, while hot sequences are looked for.
bool record_hot(Context& c, const Graph& graph, const LazyRunner& runner,
                std::span<const Tensor* const> inputs, std::span<Tensor> out);

/// An operation in a hot sequence as one compares it with what is known of it (see lazy.hpp, Note [Calls]):
/// what an Array of its result is to hold; null, and nothing done, where it is not what is expected.
Body* follow_hot(Context& c, const Call& call, std::span<const Input> operands, const Where& where);
/// After an operation that came and was recorded otherwise: what it was.
void learn_hot(Context& c, const Call& call, std::span<const Input> operands,
               const eager::RecordedGraph& graph, const Body& made);

/// After an operation that came as expected: at the end of a repetition what it left is evaluated.
void end_repetition(Context& c);

/// Does a backward call with these options do what hot sequences have learned of one?
bool may_repeat_backward(const Context& c, const eager::BackwardOptions& options);
/// The backward call `run` from a root without a seed, as it is done while hot sequences are looked for: it
/// may not run (see lazy.hpp, Note [Backward again]), or get its seed.
void backward_hot(Context& c, eager::Root<Tensor>& root, const std::function<void()>& run);

}  // namespace tidu::frontend_detail
