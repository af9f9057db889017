// hot.hpp - HotDetector: detects a repeated sequence in a thread's stream of operations, and then decides for
// each operation whether it is the expected one. The cost of an operation is constant.
//
// Note [Repetitions]: each operation is a token (its graph: primitives, attributes, types). Prefix hashes
// give the hash of any range of recent tokens. The previous occurrence of the last eight tokens gives a
// candidate for the length of the sequence. It is accepted if its last three repetitions have equal hashes;
// the last two are then compared token by token. If a longer sequence contains equal layers, these are
// expected first, and the longer sequence is found where they end. Expected operations are added to the
// history only when the sequence is left, since nothing reads the history before that.
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

  /// Takes the next operation: is it the one that a hot sequence expects?
  bool advance(const void* token) {
    if (in_sequence_) {
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
  /// Is it the operation that a hot sequence expects next?
  bool is_next(const void* token) const { return in_sequence_ && sequence_[position_] == token; }
  bool in_sequence() const { return in_sequence_; }
  /// Number of operations that a hot sequence expects until the end of the repetition.
  std::size_t until_end() const { return in_sequence_ ? sequence_.size() - position_ : 0; }
  /// Are these operations expected next? At most one repetition.
  bool expects(std::span<const void* const> tokens) const {
    if (!in_sequence_ || sequence_.size() < tokens.size()) return false;
    const auto here = sequence_.begin() + static_cast<std::ptrdiff_t>(position_);
    const std::size_t until = std::min(tokens.size(), sequence_.size() - position_);
    return std::equal(tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(until), here) &&
           std::equal(tokens.begin() + static_cast<std::ptrdiff_t>(until), tokens.end(), sequence_.begin());
  }
  /// Did the last operation end a repetition?
  bool at_end() const { return in_sequence_ && position_ == 0; }
  /// Did the last operation end a sequence prematurely? Resets the answer.
  bool deviated() { return std::exchange(deviated_, false); }
  /// As advance for `count` expected operations, at most one repetition.
  void go_on(std::size_t count) {
    owed_ += count;
    statistics_.expected += count;
    position_ += count;
    if (position_ >= sequence_.size()) position_ -= sequence_.size();
  }
  void count_known() { ++statistics_.known; }
  void count_backward() { ++statistics_.backwards; }
  const HotStatistics& statistics() const { return statistics_; }
  /// Ends the expected sequence.
  void leave();

 private:
  static constexpr std::size_t window = std::size_t{1} << 14;
  static constexpr std::size_t gram = 8;
  static constexpr std::size_t most = std::size_t{1} << 12;  // maximum operations of a sequence
  static constexpr std::size_t least = 32;  // shorter sequences are expected as several repetitions
  static constexpr std::uint64_t base = 0x9e3779b97f4a7c15ULL;

  void enter(const void* token) {
    const std::uint64_t before = prefix_[count_ & (window - 1)];
    ++count_;
    tokens_[count_ & (window - 1)] = token;
    const auto address = reinterpret_cast<std::uintptr_t>(token);
    prefix_[count_ & (window - 1)] = before * base + (address ^ address >> 7) * 0xd6e8feb86659fd93ULL;
  }
  // The hash of the `length` tokens that end with number `last`.
  std::uint64_t hash(std::uint64_t last, std::size_t length) const {
    return prefix_[last & (window - 1)] - prefix_[(last - length) & (window - 1)] * powers_[length];
  }
  void look();
  void expect(std::size_t length);
  void enter_owed();

  struct LastSeen {
    std::uint64_t hash = 0;
    std::uint64_t last = 0;
  };
  std::vector<const void*> tokens_;    // a ring: number n is at n modulo window
  std::vector<std::uint64_t> prefix_;  // a ring: hash of all tokens up to number n
  std::vector<std::uint64_t> powers_;  // powers of base
  std::vector<LastSeen> last_seen_;    // by hash of gram tokens
  std::uint64_t count_ = 0;            // number of tokens so far
  std::vector<const void*> sequence_;  // the expected sequence
  std::size_t position_ = 0;
  std::size_t owed_ = 0;  // expected operations before it that are not in the history yet
  bool in_sequence_ = false;
  bool deviated_ = false;
  HotStatistics statistics_;
};

struct Call;
struct Context;
struct Input;
struct LazyRunner;
/// As record_lazily while hot sequences are detected.
bool record_hot(Context& c, const Graph& graph, const LazyRunner& runner,
                std::span<const Tensor* const> inputs, std::span<Tensor> out);

/// Compares a call in a hot sequence with the known call of that position (see lazy.hpp, Note [Calls]).
/// Returns the body of the result's Array; null, without effect, if the call is not the expected one.
Body* replay_hot(Context& c, const Call& call, std::span<const Input> operands, const Where& where);
/// After an operation that was recorded in another way: stores its call as the known one.
void learn_hot(Context& c, const Call& call, std::span<const Input> operands,
               const eager::RecordedGraph& graph, const Body& made);

/// After an expected operation: at the end of a repetition, evaluates its results.
void end_repetition(Context& c);

/// Do these options allow replaying a backward call in a hot sequence?
bool may_repeat_backward(const Context& c, const eager::BackwardOptions& options);
/// Performs the backward call `run` from a root without a seed while hot sequences are detected. It may
/// replay an earlier call instead (see lazy.hpp, Note [Backward replay]), or set the seed.
void backward_hot(Context& c, eager::Root<Tensor>& root, const std::function<void()>& run);

}  // namespace tidu::frontend_detail
