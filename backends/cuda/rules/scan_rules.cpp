// scan_rules.cpp - plans of cumulative operations: one thread goes along each line where there are many lines
// or lines lie across memory, else a block does, or several blocks one part of a line each.
#include <algorithm>

#include "cuda/kernels/kernels.hpp"

namespace tidu::cuda_detail {
namespace {

std::string text_of(std::int64_t value) { return std::to_string(value) + "ull"; }

// The operand is [outer, extent, inner].
struct Lines {
  std::int64_t outer = 1, extent = 1, inner = 1;
  bool reverse = false;
};
Lines lines_of(const PlanRequest& request) {
  const Type x = request.in[0];
  const auto axis = static_cast<std::size_t>(request.op.integer("axis"));
  Lines lines;
  lines.extent = x.dim(axis);
  for (std::size_t k = 0; k < axis; ++k) lines.outer *= x.dim(k);
  for (std::size_t k = axis + 1; k < x.rank(); ++k) lines.inner *= x.dim(k);
  lines.reverse = request.op.boolean("reverse");
  return lines;
}

std::string monoid_of(const PlanRequest& request) {
  const std::string element(value_name(request.in[0].dtype()));
  const std::string_view name = request.op.name();
  if (name == "cumsum") return "monoid::sum<" + element + ">";
  if (name == "cumprod") return "monoid::prod<" + element + ">";
  if (name == "cummax") return "monoid::running<" + element + ", 1>";
  if (name == "cummin") return "monoid::running<" + element + ", -1>";
  return "monoid::logaddexp<" + element + ">";
}

Launch launch_of(const PlanRequest& request, std::string text, std::uint32_t blocks, std::uint32_t parts,
                 std::vector<Argument> arguments) {
  Launch launch;
  launch.kernel = make_kernel(request.op.name(), std::move(text));
  launch.block = 256;
  launch.grid = {blocks, parts, 1};
  launch.arguments = std::move(arguments);
  return launch;
}

// What all kernels begin with: `place(line, k)` is where element k of a line lies.
std::string begin_of(const PlanRequest& request, const Lines& lines) {
  const std::string k = lines.reverse ? "(" + text_of(lines.extent - 1) + " - k)" : "k";
  std::string text = "typedef " + std::string(memory_name(request.in[0].dtype())) + " element_t;\n";
  text += "typedef " + std::string(value_name(request.in[0].dtype())) + " value_t;\n";
  text += "typedef " + monoid_of(request) + " monoid_t;\n";
  text += "FN u64 place(u64 line, u64 k) { return (line / " + text_of(lines.inner) + " * " +
          text_of(lines.extent) + " + " + k + ") * " + text_of(lines.inner) + " + line % " +
          text_of(lines.inner) + "; }\n";
  return text;
}

Plan by_threads(const PlanRequest& request, const Lines& lines) {
  const std::int64_t count = lines.outer * lines.inner;
  std::string text = begin_of(request, lines);
  text +=
      "extern \"C\" __global__ void __launch_bounds__(256) ENTRY(const element_t* __restrict__ x, element_t* "
      "__restrict__ y) {\n  for (u64 line = (u64)block_x() * 256u + thread_index(); line < " +
      text_of(count) + "; line += (u64)grid_x() * 256u) {\n    value_t sum = value(x[place(line, 0)]);\n" +
      "    store(y[place(line, 0)], sum);\n#pragma unroll 4\n    for (u64 k = 1; k < " +
      text_of(lines.extent) +
      "; ++k) {\n      sum = monoid_t()(sum, value(x[place(line, k)]));\n      store(y[place(line, k)], "
      "sum);\n"
      "    }\n  }\n}\n";
  Plan plan;
  plan.supported = true;
  plan.steps.emplace_back(launch_of(request, std::move(text), blocks_for(count, 256, request.multiprocessors),
                                    1, {argument(operand(0)), argument(result())}));
  return plan;
}

// Block (line, part): first the fold of every part, then each part from the fold of those before it on.
Plan by_blocks(const PlanRequest& request, const Lines& lines) {
  constexpr std::int64_t fewest = 8192, max_parts = 256;
  const std::int64_t count = lines.outer * lines.inner;
  std::int64_t parts = 1, part = lines.extent;
  if (count < 2 * request.multiprocessors && lines.extent >= 2 * fewest) {
    parts = std::min(
        {lines.extent / fewest, (std::int64_t{4} * request.multiprocessors + count - 1) / count, max_parts});
    part = (lines.extent + parts - 1) / parts;
    parts = (lines.extent + part - 1) / part;
  }
  const std::string begin = begin_of(request, lines),
                    loop = "  for (u64 line = block_x(); line < " + text_of(count) +
                           "; line += grid_x()) {\n  const u64 first = block_y() * " + text_of(part) +
                           ", last = first + " + text_of(part) + " < " + text_of(lines.extent) +
                           " ? first + " + text_of(part) + " : " + text_of(lines.extent) + ";\n";
  const auto blocks =
      static_cast<std::uint32_t>(std::min<std::int64_t>(count, std::int64_t{64} * request.multiprocessors));
  Plan plan;
  plan.supported = true;
  std::vector<Argument> arguments{argument(operand(0)), argument(result())};
  std::string before = "  value_t carry = monoid_t::none();\n";
  if (parts > 1) {
    const std::size_t size = std::max<std::size_t>(size_of(request.in[0].dtype()), 4);
    plan.scratch_bytes = aligned(static_cast<std::size_t>(count * parts) * size);
    std::string text = begin;
    text +=
        "extern \"C\" __global__ void __launch_bounds__(256) ENTRY(const element_t* __restrict__ x, value_t* "
        "__restrict__ sums) {\n" +
        loop + "  value_t sum = monoid_t::none();\n";
    // A thread's elements lie beside each other, so that equals and NaNs keep their order.
    text +=
        "  for (u64 at = first; at < last; at += 256u) {\n    value_t all;\n"
        "    const u64 k = at + thread_index();\n"
        "    together::block_scan(k < last ? value(x[place(line, k)]) : monoid_t::none(), monoid_t(), "
        "monoid_t::none(), all);\n    sum = monoid_t()(sum, all);\n  }\n"
        "  if (thread_index() == 0) sums[line * " +
        text_of(parts) + " + block_y()] = sum;\n  }\n}\n";
    plan.steps.emplace_back(launch_of(request, std::move(text), blocks, static_cast<std::uint32_t>(parts),
                                      {argument(operand(0)), argument(scratch(0))}));
    before +=
        "  {\n    value_t all;\n    const u64 k = thread_index();\n    together::block_scan(k < block_y() ? "
        "sums[line * " +
        text_of(parts) + " + k] : monoid_t::none(), monoid_t(), monoid_t::none(), carry);\n  }\n";
    arguments.push_back(argument(scratch(0)));
  }
  std::string text = begin;
  text +=
      "extern \"C\" __global__ void __launch_bounds__(256) ENTRY(const element_t* __restrict__ x, element_t* "
      "__restrict__ y" +
      std::string(parts > 1 ? ", const value_t* __restrict__ sums" : "") + ") {\n" + loop + before +
      "  for (u64 at = first; at < last; at += 256u) {\n    const u64 k = at + thread_index();\n    value_t "
      "all;\n"
      "    const value_t sum = together::block_scan(k < last ? value(x[place(line, k)]) : monoid_t::none(), "
      "monoid_t(), monoid_t::none(), all);\n    if (k < last) store(y[place(line, k)], monoid_t()(carry, "
      "sum));\n"
      "    carry = monoid_t()(carry, all);\n  }\n  }\n}\n";
  plan.steps.emplace_back(
      launch_of(request, std::move(text), blocks, static_cast<std::uint32_t>(parts), std::move(arguments)));
  return plan;
}

Plan cumulative(const PlanRequest& request) {
  const Lines lines = lines_of(request);
  const std::int64_t count = lines.outer * lines.inner;
  const bool many = count >= std::int64_t{64} * request.multiprocessors;
  const bool coalesced = lines.inner >= 32;
  return lines.extent <= 32 || (many && coalesced) ? by_threads(request, lines) : by_blocks(request, lines);
}

constexpr DTypes numbers = dtypes::integers | dtypes::floats | dtypes::complexes;
constexpr DTypes real = dtypes::integers | dtypes::floats;

constexpr RuleEntry entries[] = {
    {"cumsum", cumulative, numbers},
    {"cumprod", cumulative, numbers},
    {"cummax", cumulative, real},
    {"cummin", cumulative, real},
    {"cumlogsumexp", cumulative, dtypes::floats},
};

}  // namespace

RuleTable scan_rules() { return entries; }

}  // namespace tidu::cuda_detail
