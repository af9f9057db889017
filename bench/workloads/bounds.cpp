// bounds.cpp - bounds: matmuls alone, and memory traffic.
#include "bounds.hpp"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <map>
#include <memory>
#include <tidu/tensor/tensor.hpp>
#include <utility>

#include "cpu/parallel.hpp"

namespace workloads {

using tidu::cpu_detail::GemmCall;
using tidu::cpu_detail::GemmPlan;
using tidu::cpu_detail::GemmType;

namespace {

using tidu::Tensor;

GemmCall call_of(GemmType type, const Matmul& p) {
  return {.type = type,
          .trans_a = p.trans_a,
          .trans_b = p.trans_b,
          .m = p.m,
          .n = p.n,
          .k = p.k,
          .lda = p.trans_a ? p.m : p.k,
          .ldb = p.trans_b ? p.k : p.n,
          .ldc = p.n,
          .batch = p.batch,
          .stride_a = p.batch == 1 ? 0 : p.m * p.k,
          .stride_b = p.batch == 1 ? 0 : p.k * p.n,
          .stride_c = p.batch == 1 ? 0 : p.m * p.n};
}

// Elements of up to 8 bytes that are ordinary numbers in f32 and in f64, in memory as tensors have it.
using Memory = std::shared_ptr<Tensor>;
Memory memory(std::int64_t elements) {
  auto tensor = std::make_shared<Tensor>(tidu::Type{tidu::f64, {elements}});
  std::ranges::fill(tensor->mutable_elements<double>(), 0.00781250185);
  return tensor;
}
const double* read(const Memory& of, std::int64_t at = 0) { return of->data<double>() + at; }
double* write(const Memory& of) { return of->mutable_data<double>(); }

// Arrays by name.
class Named {
 public:
  Named(GemmType type, const std::vector<Matmul>& matmuls) : type_(type) {
    const auto needed = [this](const std::string& name, std::int64_t elements) {
      if (!name.empty()) elements_[name] = std::max(elements_[name], elements);
    };
    for (const Matmul& p : matmuls) {
      needed(p.a, p.batch * p.m * p.k);
      needed(p.b, p.batch * p.k * p.n);
      needed(p.c, p.batch * p.m * p.n);
    }
  }
  Memory get(const std::string& name, std::int64_t elements) {
    if (name.empty()) return make(elements);
    Memory& found = all_[name];
    if (found == nullptr) found = make(elements_.at(name));
    return found;
  }

 private:
  Memory make(std::int64_t elements) const {
    return memory((elements * tidu::cpu_detail::gemm_element_size(type_) + 7) / 8);
  }
  GemmType type_;
  std::map<std::string, std::int64_t> elements_;
  std::map<std::string, Memory> all_;
};

struct Step {
  GemmPlan plan;
  Memory a, b, c, updated;
};

std::function<void()> run_of(std::vector<Step> all, bool is_f64, int threads) {
  const auto steps = std::make_shared<std::vector<Step>>(std::move(all));
  return [steps, is_f64, threads] {
    // So small that parameters stay unchanged.
    static constexpr float rate_f32 = 0x1p-60F;
    static constexpr double rate_f64 = 0x1p-60;
    for (const Step& step : *steps) {
      if (step.updated == nullptr) {
        step.plan.run(read(step.a), read(step.b), write(step.c));
        continue;
      }
      tidu::cpu_detail::GemmUpdate how;
      how.x = read(step.updated);
      how.scale = is_f64 ? static_cast<const void*>(&rate_f64) : &rate_f32;
      how.subtract = true;
      step.plan.update(threads, read(step.a), read(step.b), how, write(step.updated));
    }
  };
}

}  // namespace

Layer dense_layer(std::int64_t rows, std::int64_t in, std::int64_t out, bool with_input, int layer) {
  const std::string before = std::to_string(layer), behind = std::to_string(layer + 1);
  Layer matmuls;
  matmuls.forward.push_back(
      {.m = rows, .n = out, .k = in, .a = "x" + before, .b = "w" + before, .c = "x" + behind});
  if (with_input) {
    matmuls.backward.push_back({.m = rows,
                                .n = in,
                                .k = out,
                                .trans_b = true,
                                .a = "dx" + behind,
                                .b = "w" + before,
                                .c = "dx" + before});
  }
  matmuls.backward.push_back({.m = in,
                              .n = out,
                              .k = rows,
                              .trans_a = true,
                              .a = "x" + before,
                              .b = "dx" + behind,
                              .c = "dw" + before,
                              .updates = "w" + before});
  return matmuls;
}

std::vector<Matmul> in_order(const std::vector<Layer>& layers) {
  std::vector<Matmul> all;
  for (const Layer& layer : layers) all.insert(all.end(), layer.forward.begin(), layer.forward.end());
  for (auto layer = layers.rbegin(); layer != layers.rend(); ++layer)
    all.insert(all.end(), layer->backward.begin(), layer->backward.end());
  return all;
}

Bounds matmuls_alone(GemmType type, const std::vector<Matmul>& matmuls, int threads) {
  Bounds bounds;
  for (const bool own : {false, true}) {
    for (const bool updating : {false, true}) {
      Named arrays(type, matmuls);
      std::vector<Step> steps;
      bool any = false;
      for (const Matmul& p : matmuls) {
        const GemmCall call = call_of(type, p);
        Step step{own ? GemmPlan(call, threads, tidu::cpu_detail::GemmIsa::avx512) : GemmPlan(call, threads),
                  arrays.get(p.a, p.batch * p.m * p.k), arrays.get(p.b, p.batch * p.k * p.n), nullptr,
                  nullptr};
        const bool updates = updating && !p.updates.empty() && step.plan.can_update();
        (updates ? step.updated : step.c) = arrays.get(updates ? p.updates : p.c, p.batch * p.m * p.n);
        any = any || updates;
        steps.push_back(std::move(step));
      }
      if (any || !updating) bounds.push_back(run_of(std::move(steps), type == GemmType::f64, threads));
    }
  }
  return bounds;
}

namespace {

// Matmuls in blocks of that many points, the last block being the rest.
struct Blocks {
  struct Pair {
    GemmPlan forward, backward;
  };
  // A thread's own.
  struct Scratch {
    Memory y, dq;
  };
  std::int64_t points, d, at_once;
  Pair block, rest;
  Memory x, q;
  std::vector<Scratch> by_thread;

  void run(const Pair& plans, std::int64_t begin, const Scratch& scratch, bool gradient) const {
    plans.forward.run(read(x, begin * d), read(q), write(scratch.y));
    if (gradient) plans.backward.run(read(scratch.y), read(x, begin * d), write(scratch.dq));
  }
};

std::function<void()> in_blocks(std::int64_t points, std::int64_t d, std::int64_t rows, std::int64_t at_once,
                                bool gradient, bool together, int threads) {
  const auto plans = [&](std::int64_t n) {
    const GemmCall forward = call_of(GemmType::f64, {.m = n, .n = rows, .k = d, .trans_b = true});
    const GemmCall backward = call_of(GemmType::f64, {.m = rows, .n = d, .k = n, .trans_a = true});
    const int of_matmul = together ? threads : 1;
    return Blocks::Pair{GemmPlan(forward, of_matmul), GemmPlan(backward, of_matmul)};
  };
  const std::int64_t rest = points % at_once;
  const auto state = std::make_shared<Blocks>(Blocks{points,
                                                     d,
                                                     at_once,
                                                     plans(at_once),
                                                     plans(std::max<std::int64_t>(rest, 1)),
                                                     memory(points * d),
                                                     memory(rows * d),
                                                     {}});
  for (int i = 0; i < (together ? 1 : threads); ++i)
    state->by_thread.push_back({memory(at_once * rows), memory(rows * d)});
  return [state, gradient, together, threads] {
    const Blocks& s = *state;
    const std::int64_t whole = s.points / s.at_once, blocks = (s.points + s.at_once - 1) / s.at_once;
    std::atomic<std::int64_t> next{0};
    const auto work = [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t thread = begin; thread < end; ++thread) {
        for (std::int64_t i = next.fetch_add(1); i < blocks; i = next.fetch_add(1))
          s.run(i < whole ? s.block : s.rest, i * s.at_once, s.by_thread[static_cast<std::size_t>(thread)],
                gradient);
      }
    };
    if (together) return work(0, 1);
    tidu::cpu_detail::parallel_for(threads, threads, 1, work);
  };
}

}  // namespace

Bounds matmuls_in_blocks(std::int64_t points, std::int64_t d, std::int64_t rows, bool gradient, int threads) {
  Bounds bounds;
  const auto add = [&](std::int64_t at_once, bool together) {
    bounds.push_back(in_blocks(points, d, rows, at_once, gradient, together, threads));
  };
  const std::int64_t share = (points + threads - 1) / threads;
  for (const std::int64_t bytes : {1 << 17, 1 << 18, 1 << 19, 1 << 20, 1 << 21, 1 << 22}) {
    const std::int64_t at_once = std::clamp<std::int64_t>(bytes / 8 / rows, 1, share);
    add(at_once, false);
    if (at_once == share) break;
  }
  add(points, true);
  return bounds;
}

std::function<void()> memory_moved(std::size_t bytes_read, std::size_t bytes_written, int threads) {
  struct State {
    Memory from, to;
    double sum = 0;
  };
  const auto elements = [](std::size_t bytes) {
    return memory(static_cast<std::int64_t>(bytes / sizeof(double)));
  };
  const auto state = std::make_shared<State>(State{elements(bytes_read), elements(bytes_written)});
  return [state, threads] {
    // Copies as many bytes as both have, then reads or writes the rest.
    const std::int64_t reads = state->from->size(), writes = state->to->size();
    const std::int64_t both = std::min(reads, writes), most = std::max(reads, writes);
    const double* const from = read(state->from);
    double* const to = write(state->to);
    constexpr std::int64_t grain = 1 << 16;
    const auto part = [&](std::int64_t begin, std::int64_t end) {
      const std::int64_t copied = std::min(end, both);
      if (begin < copied) std::copy(from + begin, from + copied, to + begin);
      for (std::int64_t i = std::max(begin, both); i < std::min(end, writes); ++i) to[i] = 0.5;
      double sums[8] = {};
      for (std::int64_t i = std::max(begin, both); i + 8 <= std::min(end, reads); i += 8) {
        for (int k = 0; k < 8; ++k) sums[k] += from[i + k];
      }
      if (sums[0] + sums[1] + sums[2] + sums[3] + sums[4] + sums[5] + sums[6] + sums[7] < 0) state->sum += 1;
    };
    tidu::cpu_detail::parallel_for(threads, most, grain, part);
  };
}

}  // namespace workloads
