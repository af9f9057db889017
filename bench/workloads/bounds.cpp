// bounds.cpp - products alone and memory that is moved.
#include "bounds.hpp"

#include <algorithm>
#include <cstddef>
#include <memory>

#include "cpu/parallel.hpp"

namespace workloads {

using tidu::cpu_detail::GemmCall;
using tidu::cpu_detail::GemmPlan;
using tidu::cpu_detail::GemmType;

namespace {

GemmCall call_of(GemmType type, const Product& p) {
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

// Memory for elements of up to 8 bytes that are ordinary numbers in f32 and in f64.
using Memory = std::vector<double>;
Memory memory(std::int64_t elements) { return Memory(static_cast<std::size_t>(elements), 0.00781250185); }

}  // namespace

std::vector<Product> products_of_layer(std::int64_t rows, std::int64_t in, std::int64_t out,
                                       bool with_input) {
  std::vector<Product> products{{.m = rows, .n = out, .k = in},
                                {.m = in, .n = out, .k = rows, .trans_a = true}};
  if (with_input) products.push_back({.m = rows, .n = in, .k = out, .trans_b = true});
  return products;
}

std::function<void()> products_alone(GemmType type, const std::vector<Product>& products, int threads) {
  struct One {
    GemmPlan plan;
    Memory a, b, c;
  };
  const auto all = std::make_shared<std::vector<One>>();
  for (const Product& p : products) {
    all->push_back({GemmPlan(call_of(type, p), threads), memory(p.batch * p.m * p.k),
                    memory(p.batch * p.k * p.n), memory(p.batch * p.m * p.n)});
  }
  return [all] {
    for (One& one : *all) one.plan.run(one.a.data(), one.b.data(), one.c.data());
  };
}

std::function<void()> products_in_blocks(std::int64_t points, std::int64_t d, std::int64_t rows,
                                         std::int64_t at_once, bool gradient, int threads) {
  struct State {
    GemmPlan forward, backward;
    std::int64_t blocks, step;
    Memory x, q, y, dq;
  };
  const std::int64_t n = std::min(points, at_once);
  const auto state = std::make_shared<State>(
      State{GemmPlan(call_of(GemmType::f64, {.m = n, .n = rows, .k = d, .trans_b = true}), threads),
            GemmPlan(call_of(GemmType::f64, {.m = rows, .n = d, .k = n, .trans_a = true}), threads),
            points / n, n * d, memory(points * d), memory(rows * d), memory(n * rows), memory(rows * d)});
  return [state, gradient] {
    for (std::int64_t i = 0; i < state->blocks; ++i) {
      const double* x = state->x.data() + i * state->step;
      state->forward.run(x, state->q.data(), state->y.data());
      if (gradient) state->backward.run(state->y.data(), x, state->dq.data());
    }
  };
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
    // Copies as far as both go, then reads or writes what is left.
    const auto reads = static_cast<std::int64_t>(state->from.size());
    const auto writes = static_cast<std::int64_t>(state->to.size());
    const std::int64_t both = std::min(reads, writes), most = std::max(reads, writes);
    constexpr std::int64_t grain = 1 << 16;
    const auto part = [&](std::int64_t begin, std::int64_t end) {
      const double* from = state->from.data();
      double* to = state->to.data();
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
