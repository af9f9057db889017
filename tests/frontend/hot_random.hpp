// hot_random.hpp - random loops that train a small model, and now and then deviate in a step, at any position
// of it. All numbers that such a loop reads are in a list; with hot paths the list is the same as without.
#pragma once

#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>
#include <random>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include "tidu/tidu.hpp"

namespace tidu::test {

/// A loop, as its seed says.
class RandomLoop {
 public:
  using Share = std::function<void(const Array&)>;
  /// `scope_each_step`: with a HotPaths scope for each step. `share` is given values for others to read.
  /// `extent`: how many elements each value has.
  explicit RandomLoop(unsigned seed, bool scope_each_step = false, Share share = {}, std::size_t extent = 4);
  /// Runs it, and returns the numbers that were read.
  const std::vector<double>& run();
  /// Those that were done, in order: (step, which).
  const std::vector<std::pair<int, int>>& oddities() const { return oddities_; }

 private:
  static constexpr std::size_t num_leaves = 3, num_constants = 3;
  // The deviation of a step.
  enum Odd : int {
    none,
    // before it
    toggle_leaf,
    fresh_leaf,
    swap_leaves,
    one_leaf_twice,
    write_to_constant,
    copy_constant,
    one_constant_twice,
    borrowed_constant,
    f32_constant,
    shorter_constant,
    held_parameter,
    named_leaf,
    // in the middle of it
    read,
    no_grad,
    type_error,
    other_operation,
    more_operations,
    operation_left_out,
    hook,
    keep,
    hot_paths_off,
    detach,
    exception,
    write_in_between,
    read_on_thread,
    drop_on_thread,
    leaf_in_between,
    name,
    lazy_in_between,
    write_over_value,
    backward_in_between,
    backward_in_between_keeping,
    toggle_in_between,
    // at its end
    no_zero_grad,
    set_gradient,
    keep_graph,
    backward_of_old,
    backward_twice,
    gradients_of,
    backward_with_seed,
    workers,
    create_graph,
    no_backward,
    root_lost,
    read_gradients,
    keep_gradient,
    other_rate,
    skip_update,
    assign_parameter,
    read_parameters,
    number_of
  };
  struct Operation {
    unsigned which;
    std::size_t a, b;
  };
  using Program = std::vector<Operation>;

  std::size_t pick(std::size_t n) { return static_cast<std::size_t>(engine_() % n); }
  Array drawn();
  Program program();
  Array apply(const Operation& operation, const std::vector<Array>& values) const;
  // All elements of small ones, and some of large ones.
  void see(const Array& array) {
    for (std::int64_t i = 0; i < array.size(); i += std::max<std::int64_t>(1, array.size() / 11))
      seen_.push_back(array.tensor().at(i).real());
  }
  void step();
  void before();
  void in_between(std::vector<Array>& values, const Operation& next);
  Array forward();
  void differentiate(Array& loss);
  void update();
  void keep_value(const Array& array);

  std::mt19937_64 engine_;
  const bool scope_each_step_;
  const std::size_t extent_;
  Share share_;
  std::vector<Program> programs_;
  std::vector<std::size_t> order_;  // of the programs in a step
  std::vector<Array> leaves_, constants_;
  std::vector<Array> kept_;
  std::vector<Tensor> held_;
  std::vector<HookHandle> hooks_;
  std::vector<Array> shared_;
  std::vector<double> memory_;
  Array old_;
  int hook_calls_ = 0;
  int step_ = 0;
  unsigned style_ = 0;
  double rate_ = 0.01;
  // The deviation of the step:
  Odd odd_ = none;
  std::size_t place_ = 0, choice_ = 0;
  std::optional<NoGrad> no_grad_;
  std::optional<HotPaths> off_;
  bool skip_next_ = false;
  std::vector<double> seen_;
  std::vector<std::pair<int, int>> oddities_;
};

inline RandomLoop::RandomLoop(unsigned seed, bool scope_each_step, Share share, std::size_t extent)
    : engine_(seed), scope_each_step_(scope_each_step), extent_(extent), share_(std::move(share)) {
  for (std::size_t i = 0; i < extent; ++i) memory_.push_back(0.1 * static_cast<double>(i % 4));
  const std::size_t count = 1 + pick(2);
  for (std::size_t i = 0; i < count; ++i) programs_.push_back(program());
  for (std::size_t i = 0; i < count + pick(3); ++i) order_.push_back(i % count);
  for (std::size_t i = 0; i < num_leaves; ++i) leaves_.push_back(drawn().set_requires_grad());
  if (pick(2) != 0) leaves_[2] = leaves_[2].detach();
  for (std::size_t i = 0; i < num_constants; ++i) constants_.push_back(drawn());
  style_ = static_cast<unsigned>(pick(6));
}

inline Array RandomLoop::drawn() {
  std::normal_distribution<double> normal(0.0, 0.7);
  std::vector<double> numbers(extent_);
  for (double& number : numbers) number = normal(engine_);
  return array(numbers, {static_cast<std::int64_t>(extent_)});
}

inline RandomLoop::Program RandomLoop::program() {
  Program made;
  const std::size_t length = 3 + pick(10);
  for (std::size_t i = 0; i < length; ++i) {
    const std::size_t known = num_leaves + num_constants + i;
    const auto operand = [&] {  // one that came just now, or any
      return pick(2) != 0 ? known - 1 - pick(3) : pick(known);
    };
    const std::size_t a = operand(), b = operand();
    made.push_back({static_cast<unsigned>(pick(14)), a, b});
  }
  return made;
}

// All are of one shape, whatever the constants' are.
inline Array RandomLoop::apply(const Operation& operation, const std::vector<Array>& values) const {
  const Array a = values[operation.a], b = values[operation.b];
  switch (operation.which) {
    case 0: return a + b;
    case 1: return tanh(a * b);
    case 2: return a - b;
    case 3: return tanh(a);
    case 4: return sin(a);
    case 5: return a * 0.5;
    case 6: return exp(tanh(a) * -0.3) * 0.1;
    case 7: return cos(a) + 1.0;
    case 8: return tanh(a + b);
    case 9: return where(a > 0.1, a, b);
    case 10: return tanh(a * (0.1 * (step_ % 7)) + b);  // a number that changes, and at times is another's
    case 11: return tanh(sum(a) * b);
    case 12: return a / (2.0 + square(b));
    default: return reshape(reshape(a + b * 0.0, {-1, 1}), {-1});
  }
}

inline const std::vector<double>& RandomLoop::run() {
  const int steps = 50 + static_cast<int>(pick(50));
  const int first_odd = 20 + static_cast<int>(pick(20));
  const std::size_t rarity = 3 + pick(8);
  int left = 0;
  for (step_ = 0; step_ < steps; ++step_) {
    if (left > 0) --left;
    if (left == 0) {
      odd_ = none;
      if (step_ >= first_odd && pick(rarity) == 0) {
        odd_ = static_cast<Odd>(1 + pick(number_of - 1));
        left = 1 + static_cast<int>(pick(3));  // it may last
        place_ = pick(1000);
        choice_ = pick(1000);
      }
    }
    if (odd_ != none) oddities_.emplace_back(step_, odd_);
    try {
      const std::optional<HotPaths> scope =
          scope_each_step_ ? std::optional<HotPaths>(std::in_place) : std::nullopt;
      step();
    } catch (const Error& error) {
      seen_.push_back(1e6 + static_cast<double>(error.kind()));
    } catch (const std::runtime_error&) {
      seen_.push_back(2e6);
    }
    no_grad_.reset();
    off_.reset();
    seen_.push_back(hook_calls_);
  }
  for (const Array& leaf : leaves_) see(leaf);
  for (const Array& kept : kept_) see(kept);
  for (const Tensor& held : held_) see(Array(held));
  for (const Array& shared : shared_) see(shared);
  return seen_;
}

inline void RandomLoop::step() {
  const Array constant = constants_[place_ % num_constants];
  before();
  Array loss = forward();
  if (style_ == 1) seen_.push_back(loss.item());
  if (style_ == 4) keep_value(loss.detach());
  if (odd_ != no_zero_grad) {
    for (const Array& leaf : leaves_)
      if (leaf.requires_grad()) leaf.zero_grad();
  }
  if (odd_ == set_gradient && leaves_[0].requires_grad()) leaves_[0].set_grad(leaves_[0].detach() * 0.1);
  if (loss.requires_grad() && odd_ != no_backward) differentiate(loss);
  update();
  if (!loss.empty_handle() && (style_ != 2 || step_ % 4 == 0)) seen_.push_back(loss.item());
  if (odd_ == borrowed_constant || odd_ == f32_constant || odd_ == shorter_constant)
    constants_[place_ % num_constants] = constant;
}

inline void RandomLoop::before() {
  Array& leaf = leaves_[place_ % num_leaves];
  Array& constant = constants_[place_ % num_constants];
  switch (odd_) {
    case toggle_leaf: leaf.set_requires_grad(!leaf.requires_grad()); break;
    case fresh_leaf: leaf = leaf.detach().set_requires_grad(); break;
    case swap_leaves: std::swap(leaf, leaves_[choice_ % num_leaves]); break;
    case one_leaf_twice: leaf = leaves_[choice_ % num_leaves]; break;
    case write_to_constant: {
      Tensor tensor = constant.tensor();
      tensor.mutable_data<double>()[0] += 0.125;
      break;
    }
    case copy_constant: constant = constant.copy(); break;
    case one_constant_twice: constant = constants_[choice_ % num_constants]; break;
    case borrowed_constant:
      constant = Array(Tensor::borrow(constant.tensor().type(), memory_.data(), nullptr));
      break;
    case f32_constant: constant = constant.to(f32); break;
    case shorter_constant: constant = constant.slice({{.start = 0, .stop = 1}}); break;
    case held_parameter: held_.push_back(leaf.tensor()); break;
    case named_leaf:
      if (leaf.requires_grad()) leaf.set_name("leaf");
      break;
    default: break;
  }
}

inline Array RandomLoop::forward() {
  Array loss;
  const std::size_t here = choice_ % order_.size();
  for (std::size_t k = 0; k < order_.size(); ++k) {
    const Program& program =
        programs_[style_ == 5 ? (order_[k] + static_cast<std::size_t>(step_)) % programs_.size() : order_[k]];
    std::vector<Array> values = leaves_;
    values.insert(values.end(), constants_.begin(), constants_.end());
    for (std::size_t i = 0; i < program.size(); ++i) {
      if (k == here && i == place_ % program.size()) in_between(values, program[i]);
      values.push_back(std::exchange(skip_next_, false) ? values.back() : apply(program[i], values));
      if (i != place_ % program.size()) off_.reset();
    }
    no_grad_.reset();
    off_.reset();
    const Array part = sum(tanh(values.back())) + sum(tanh(values[values.size() - 2])) * 0.5;
    loss = k == 0 ? part : loss + part;
    if (style_ == 3) keep_value(values[values.size() - 2]);
  }
  return loss;
}

inline void RandomLoop::keep_value(const Array& array) {
  constexpr std::size_t most = 6;
  kept_.push_back(array);
  if (share_) {
    shared_.push_back(array.detach());
    share_(shared_.back());
  }
  if (kept_.size() <= most) return;
  see(kept_.front());
  kept_.erase(kept_.begin(), kept_.begin() + 3);
}

// Before operation `next`, whose results so far end with the last of `values`.
inline void RandomLoop::in_between(std::vector<Array>& values, const Operation& next) {
  Array& last = values.back();
  const auto as_leaf = [](const Array& array) { return array.detach().set_requires_grad(); };
  switch (odd_) {
    case read: see(last); break;
    case no_grad: no_grad_.emplace(); break;
    case type_error: seen_.push_back((last + array({1.0, 2.0, 3.0})).item()); break;
    case other_operation: last = exp(-last); break;
    case more_operations: seen_.push_back(sum(cos(last) * last).item()); break;
    case operation_left_out: skip_next_ = true; break;
    case hook:
      if (last.requires_grad()) hooks_.push_back(last.register_hook([this](const Array&) { ++hook_calls_; }));
      break;
    case keep: keep_value(last); break;
    case hot_paths_off: off_.emplace(false); break;
    case detach: last = last.detach(); break;
    case exception: throw std::runtime_error("in between");
    case write_in_between: {
      Tensor tensor = constants_[choice_ % num_constants].tensor();
      tensor.mutable_data<double>()[1] += 0.01;
      break;
    }
    case read_on_thread: {
      double got = 0.0;
      std::thread([&] { got = sum(last.detach()).item(); }).join();
      seen_.push_back(got);
      break;
    }
    case drop_on_thread: {
      Array unread = apply(next, values);
      std::thread([given = std::move(unread)]() mutable { given = Array(); }).join();
      break;
    }
    case leaf_in_between:
      last = as_leaf(last);
      keep_value(last);
      break;
    case name:
      if (last.requires_grad()) last.set_name("last");
      break;
    case lazy_in_between: {
      const Lazy lazy;
      seen_.push_back(sum(sin(last) + last).item());
      break;
    }
    case write_over_value:
      if (!last.requires_grad()) {
        Tensor tensor = last.copy().tensor();
        tensor.mutable_data<double>()[0] = 0.25;
        last = Array(tensor);
      }
      break;
    case backward_in_between:
    case backward_in_between_keeping:
      if (last.requires_grad()) sum(last).backward({.keep_graph = odd_ == backward_in_between_keeping});
      break;
    case toggle_in_between: {
      Array& leaf = leaves_[place_ % num_leaves];
      leaf.set_requires_grad(!leaf.requires_grad());
      break;
    }
    default: break;
  }
}

inline void RandomLoop::differentiate(Array& loss) {
  switch (odd_) {
    case keep_graph:
      loss.backward({.keep_graph = true});
      old_ = loss;
      if (choice_ % 2 != 0) loss.backward();
      break;
    case backward_of_old:
      if (!old_.empty_handle()) old_.backward({.keep_graph = true});
      loss.backward();
      break;
    case backward_twice:
      loss.backward();
      try {
        loss.backward();
        seen_.push_back(7.0);
      } catch (const Error& error) {
        seen_.push_back(static_cast<double>(error.kind()));
      }
      break;
    case gradients_of: {
      const Array& leaf = leaves_[place_ % num_leaves];
      if (leaf.requires_grad()) {
        const auto gradient = grad_of(loss, {leaf}, {.keep_graph = choice_ % 2 != 0})[0];
        if (gradient) see(*gradient);
      }
      if (choice_ % 2 != 0) loss.backward();
      break;
    }
    case backward_with_seed: loss.backward(Array(0.5)); break;
    case workers: loss.backward({.workers = 2}); break;
    case create_graph: loss.backward({.create_graph = true}); break;
    case root_lost:
      loss.backward();
      loss = Array();
      break;
    default: loss.backward(); break;
  }
  if (odd_ != hook && !hooks_.empty()) {
    for (HookHandle& handle : hooks_) handle.remove();
    hooks_.clear();
  }
}

inline void RandomLoop::update() {
  for (std::size_t i = 0; i < leaves_.size(); ++i) {
    Array& leaf = leaves_[i];
    if (!leaf.requires_grad()) continue;
    const std::optional<Array> gradient = leaf.grad();
    if (!gradient) {
      seen_.push_back(-1000.0);
      continue;
    }
    const bool chosen = i == place_ % num_leaves;
    if (odd_ == read_gradients && chosen) see(*gradient);
    if (odd_ == keep_gradient && chosen) keep_value(*gradient);
    if (odd_ == skip_update && chosen) continue;
    const NoGrad guard;
    if (odd_ == assign_parameter && chosen) {
      leaf.assign(leaf.detach() - rate_ * gradient->detach());
    } else {
      leaf -= (odd_ == other_rate ? 0.5 * rate_ : rate_) * gradient->detach();
    }
    if (odd_ == read_parameters && chosen) see(leaf);
  }
}

/// Are they the same, up to the rounding of fused programs? If not: the first that differs.
inline std::optional<std::size_t> first_difference(const std::vector<double>& a,
                                                   const std::vector<double>& b) {
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    const bool same = std::abs(a[i] - b[i]) <= 1e-7 * (1.0 + std::abs(a[i])) || a[i] == b[i] ||
                      (std::isnan(a[i]) && std::isnan(b[i]));
    if (!same) return i;
  }
  if (a.size() != b.size()) return std::min(a.size(), b.size());
  return std::nullopt;
}

}  // namespace tidu::test
