// layout_rules.cpp - plans of operations by themselves that move elements in an order other than the
// operand's: transposition by tiles in shared memory, concatenation of many parts one by one.
#include <algorithm>
#include <numeric>

#include "cuda/kernels/kernels.hpp"

namespace tidu::cuda_detail {
namespace {

std::string text_of(std::int64_t value) { return std::to_string(value) + "ull"; }

// A transposition with axes merged that stay together, and without those of one point.
struct Moves {
  Shape shape;       // of the operand
  Ints permutation;  // axis k of the result is that of the operand
};
Moves merged(const Shape& shape, const Ints& permutation) {
  Ints order;
  for (const std::int64_t axis : permutation) {
    if (shape[static_cast<std::size_t>(axis)] != 1) order.push_back(axis);
  }
  // Runs of the result's axes that follow each other in the operand too, but for axes of one point.
  std::vector<std::vector<std::int64_t>> runs;
  const auto follows = [&shape](std::int64_t a, std::int64_t b) {
    for (++a; a < b; ++a) {
      if (shape[static_cast<std::size_t>(a)] != 1) return false;
    }
    return a == b;
  };
  for (const std::int64_t axis : order) {
    if (!runs.empty() && follows(runs.back().back(), axis)) {
      runs.back().push_back(axis);
    } else {
      runs.push_back({axis});
    }
  }
  std::vector<std::size_t> by_place(runs.size());
  std::iota(by_place.begin(), by_place.end(), std::size_t{0});
  std::sort(by_place.begin(), by_place.end(),
            [&](std::size_t a, std::size_t b) { return runs[a][0] < runs[b][0]; });
  Moves moves;
  moves.permutation.resize(runs.size());
  for (std::size_t k = 0; k < by_place.size(); ++k) {
    std::int64_t extent = 1;
    for (const std::int64_t axis : runs[by_place[k]]) extent *= shape[static_cast<std::size_t>(axis)];
    moves.shape.push_back(extent);
    moves.permutation[by_place[k]] = static_cast<std::int64_t>(k);
  }
  return moves;
}

// Where the last axis moves: tiles of 32 by 32 of the operand's last axis and of the one that is last in the
// result, read and written along rows.
Plan by_tiles(const PlanRequest& request, const Moves& moves) {
  const std::size_t rank = moves.shape.size();
  Ints stride_in(rank, 1), stride_out(rank, 1);  // by axis of the operand
  for (std::size_t k = rank - 1; k-- > 0;) stride_in[k] = stride_in[k + 1] * moves.shape[k + 1];
  std::int64_t step = 1;
  for (std::size_t k = rank; k-- > 0;) {
    const auto axis = static_cast<std::size_t>(moves.permutation[k]);
    stride_out[axis] = step;
    step *= moves.shape[axis];
  }
  const auto column = rank - 1, row = static_cast<std::size_t>(moves.permutation[rank - 1]);
  const std::int64_t columns = moves.shape[column], rows = moves.shape[row];
  const std::int64_t tiles_x = (columns + 31) / 32, tiles_y = (rows + 31) / 32;
  std::int64_t tiles = tiles_x * tiles_y;
  std::string in = "0ull", out = "0ull", split;
  for (std::size_t k = rank; k-- > 0;) {
    if (k == column || k == row) continue;
    const std::string c = "c" + std::to_string(k);
    split += "    const u64 " + c + " = rest % " + text_of(moves.shape[k]) +
             "; rest /= " + text_of(moves.shape[k]) + ";\n";
    in += " + " + c + " * " + text_of(stride_in[k]);
    out += " + " + c + " * " + text_of(stride_out[k]);
    tiles *= moves.shape[k];
  }
  const std::string type(memory_name(request.in[0].dtype()));
  std::string text = "extern \"C\" __global__ void __launch_bounds__(256) ENTRY(const " + type +
                     "* __restrict__ x, " + type + "* __restrict__ y) {\n  SHARED " + type +
                     " tile[32][33];\n  const u32 lane = thread_index() % 32, line = thread_index() / 32;\n"
                     "  for (u64 at = block_x(); at < " +
                     text_of(tiles) +
                     "; at += grid_x()) {\n    u64 rest = at;\n"
                     "    const u64 first_column = rest % " +
                     text_of(tiles_x) + " * 32; rest /= " + text_of(tiles_x) +
                     ";\n    const u64 first_row = rest % " + text_of(tiles_y) +
                     " * 32; rest /= " + text_of(tiles_y) + ";\n" + split + "    const u64 from = " + in +
                     ", to = " + out + ";\n    together::barrier();\n";
  text +=
      "#pragma unroll\n    for (u32 k = 0; k < 32; k += 8) {\n"
      "      const u64 r = first_row + line + k, c = first_column + lane;\n"
      "      if (r < " +
      text_of(rows) + " && c < " + text_of(columns) + ") tile[line + k][lane] = x[from + r * " +
      text_of(stride_in[row]) + " + c];\n    }\n    together::barrier();\n";
  text +=
      "#pragma unroll\n    for (u32 k = 0; k < 32; k += 8) {\n"
      "      const u64 r = first_row + lane, c = first_column + line + k;\n"
      "      if (r < " +
      text_of(rows) + " && c < " + text_of(columns) + ") y[to + c * " + text_of(stride_out[column]) +
      " + r] = tile[lane][line + k];\n    }\n  }\n}\n";
  Launch launch;
  launch.kernel = make_kernel("transpose", std::move(text));
  launch.block = 256;
  launch.grid[0] = blocks_for(tiles, 1, request.multiprocessors);
  launch.arguments = {argument(operand(0)), argument(result())};
  Plan plan;
  plan.supported = true;
  plan.steps.emplace_back(std::move(launch));
  return plan;
}

Plan transpose(const PlanRequest& request) {
  const Moves moves = merged(request.in[0].shape(), request.op.ints("permutation"));
  if (moves.shape.size() < 2) {
    Plan plan;
    plan.supported = true;
    plan.steps.emplace_back(CopyStep{operand(0), result(), request.in[0].bytes()});
    return plan;
  }
  const auto row = static_cast<std::size_t>(moves.permutation.back());
  const bool last_moves = row + 1 != moves.shape.size();
  if (last_moves && moves.shape.back() >= 8 && moves.shape[row] >= 8) return by_tiles(request, moves);
  return plan_loop(body_of(request), request.multiprocessors);
}

// One element after another chooses its part; where parts are many, each is copied by itself.
Plan concatenate(const PlanRequest& request) {
  constexpr std::size_t most = 16;
  const auto axis = static_cast<std::size_t>(request.op.integer("dimension"));
  std::int64_t outer = 1;
  for (std::size_t k = 0; k < axis; ++k) outer *= request.out[0].dim(k);
  if (outer != 1 && request.in.size() <= most) return plan_loop(body_of(request), request.multiprocessors);
  Plan plan;
  plan.supported = true;
  std::size_t begin = 0;
  const std::size_t row = request.out[0].bytes() / static_cast<std::size_t>(outer);
  for (std::size_t i = 0; i < request.in.size(); ++i) {
    const std::size_t bytes = request.in[i].bytes() / static_cast<std::size_t>(outer);
    if (bytes == 0) continue;
    if (outer == 1) {
      plan.steps.emplace_back(CopyStep{operand(i), result(0, begin), bytes});
    } else {
      const std::string type(memory_name(request.in[i].dtype()));
      const std::int64_t size = static_cast<std::int64_t>(size_of(request.in[i].dtype()));
      const std::string part = text_of(static_cast<std::int64_t>(bytes) / size),
                        whole = text_of(static_cast<std::int64_t>(row) / size);
      std::string text = "extern \"C\" __global__ void __launch_bounds__(256) ENTRY(const " + type +
                         "* __restrict__ x, " + type +
                         "* __restrict__ y) {\n  for (u64 at = (u64)block_x() * 256u + "
                         "thread_index(); at < " +
                         text_of(request.in[i].size()) + "; at += (u64)grid_x() * 256u) y[at / " + part +
                         " * " + whole + " + at % " + part + "] = x[at];\n}\n";
      Launch launch;
      launch.kernel = make_kernel("concatenate", std::move(text));
      launch.block = 256;
      launch.grid[0] = blocks_for(request.in[i].size(), 256, request.multiprocessors);
      launch.arguments = {argument(operand(i)), argument(result(0, begin))};
      plan.steps.emplace_back(std::move(launch));
    }
    begin += bytes;
  }
  return plan;
}

constexpr RuleEntry entries[] = {
    {"transpose", transpose, dtypes::all},
    {"concatenate", concatenate, dtypes::all},
};

}  // namespace

RuleTable layout_rules() { return entries; }

}  // namespace tidu::cuda_detail
