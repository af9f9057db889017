// scatter_rules.cpp - plans of scatter_add and scatter_add_along_axis, which add the updates of one place in
// the order of the indices. Where there are many lines across the axis, a thread adds all updates of one.
// Else the indices of a line are sorted, and whoever finds the first of a run of equal ones adds that run; a
// long run is added by the lanes of a warp, each of which takes every 32nd of it.

#include "cuda/kernels/kernels.hpp"
#include "cuda/rules/compose.hpp"

namespace tidu::cuda_detail {
namespace {

std::string text_of(std::int64_t value) { return std::to_string(value) + "ull"; }

// x is [outer, extent, inner], the updates [outer, count, inner]; the indices are [count], or, along the
// axis, have the updates' shape.
struct ScatterShape {
  std::int64_t outer = 1, extent = 1, inner = 1, count = 1;
  bool along = false, clip = true;
  DType element = DType::f32, index = DType::i32;
};
ScatterShape places_of(const PlanRequest& request) {
  ScatterShape places;
  const Type x = request.in[0];
  const auto axis = static_cast<std::size_t>(request.op.integer("axis"));
  places.extent = x.dim(axis);
  for (std::size_t k = 0; k < axis; ++k) places.outer *= x.dim(k);
  for (std::size_t k = axis + 1; k < x.rank(); ++k) places.inner *= x.dim(k);
  places.along = request.op.name() == "scatter_add_along_axis";
  places.clip = request.op.string("mode") == "clip";
  places.count = places.along ? request.in[1].dim(axis) : request.in[1].size();
  places.element = x.dtype();
  places.index = request.in[1].dtype();
  return places;
}

std::string begin_of(const ScatterShape& p) {
  const std::string extent = std::to_string(p.extent) + "ll";
  std::string text = "typedef " + std::string(memory_name(p.element)) + " element_t;\n";
  text += "typedef " + std::string(value_name(p.element)) + " value_t;\n";
  text += "typedef " + std::string(memory_name(p.index)) + " place_t;\n";
  // The place that index m of a line means; `extent` where it means none.
  text +=
      "FN u64 chosen(const place_t* __restrict__ indices, u64 line, u64 m) {\n  const i64 i = (i64)indices[" +
      std::string(p.along ? "(line / " + text_of(p.inner) + " * " + text_of(p.count) + " + m) * " +
                                text_of(p.inner) + " + line % " + text_of(p.inner)
                          : std::string("m")) +
      "];\n";
  text += p.clip ? "  return (u64)op::clamp((i64)0, i, (i64)" + extent + " - 1);\n}\n"
                 : "  return (u64)(i < 0 || i >= " + extent + " ? " + extent + " : i);\n}\n";
  const auto place = [&](const std::string& name, std::int64_t extent_of) {
    text += "FN u64 " + name + "(u64 line, u64 k) { return (line / " + text_of(p.inner) + " * " +
            text_of(extent_of) + " + k) * " + text_of(p.inner) + " + line % " + text_of(p.inner) + "; }\n";
  };
  place("of_x", p.extent);
  place("of_update", p.count);
  return text;
}

Launch launch_of(std::string_view name, std::string text, std::int64_t work, std::vector<Argument> arguments,
                 int multiprocessors) {
  Launch launch;
  launch.kernel = make_kernel(name, std::move(text));
  launch.block = 256;
  launch.grid[0] = blocks_for(work, 256, multiprocessors);
  launch.arguments = std::move(arguments);
  return launch;
}

constexpr std::string_view first = "(u64)block_x() * 256u + thread_index()";
std::string loop(const std::string& name, std::int64_t count) {
  return "  for (u64 " + name + " = " + std::string(first) + "; " + name + " < " + text_of(count) + "; " +
         name + " += (u64)grid_x() * 256u) {\n";
}

void add_by_lines(Plan& plan, const PlanRequest& request, const ScatterShape& p) {
  std::string text = begin_of(p);
  text +=
      "extern \"C\" __global__ void __launch_bounds__(256) ENTRY(const place_t* __restrict__ indices, const "
      "element_t* __restrict__ updates, element_t* y) {\n" +
      loop("line", p.outer * p.inner) + "    for (u64 m = 0; m < " + text_of(p.count) +
      "; ++m) {\n      const u64 at = chosen(indices, line, m);\n      if (at >= " + text_of(p.extent) +
      ") continue;\n      element_t& to = y[of_x(line, at)];\n"
      "      store(to, op::add(value(to), value(updates[of_update(line, m)])));\n    }\n  }\n}\n";
  plan.steps.emplace_back(launch_of("scatter_add", std::move(text), p.outer * p.inner,
                                    {argument(operand(1)), argument(operand(2)), argument(result())},
                                    request.multiprocessors));
}

// The sums of the lines' sorted indices. Threads beside each other are of lines beside each other, whose
// updates lie so where there is an axis behind.
void add_runs(Plan& plan, const PlanRequest& request, const ScatterShape& p, const SortStep& sorted) {
  constexpr std::int64_t long_run = 64;
  const std::int64_t lines = p.outer * p.inner;
  const std::string key = sorted.key_bytes == 8 ? "u64" : "u32", count = text_of(p.count),
                    extent = text_of(p.extent), length = std::to_string(long_run) + "u";
  const std::string begin = begin_of(p) + "extern \"C\" __global__ void __launch_bounds__(256) ENTRY(const " +
                            key +
                            "* __restrict__ keys, const u32* __restrict__ order, const element_t* "
                            "__restrict__ updates, element_t* y) {\n";
  const std::string line = "    const u64 line = at % " + text_of(lines) + ", rest = at / " + text_of(lines) +
                           ", base = " + (p.along ? "line * " + count : std::string("0ull")) + ";\n";
  const std::vector<Argument> arguments{argument(sorted.keys_out), argument(sorted.values_out),
                                        argument(operand(2)), argument(result())};
  std::string text = begin + loop("at", p.count * lines) + line + "    const u64 m = rest;\n    const " +
                     key + " place = keys[base + m];\n    if (place >= " + extent +
                     " || (m > 0 && keys[base + m - 1] == place)) continue;\n    if (m + " + length +
                     " <= " + count + " && keys[base + m + " + length + " - 1] == place) continue;\n" + R"(
    element_t& to = y[of_x(line, place)];
    value_t sum = value(to);
    for (u64 k = m; k < )" +
                     count + R"( && keys[base + k] == place; ++k)
      sum = op::add(sum, value(updates[of_update(line, order[base + k])]));
    store(to, sum);
  }
}
)";
  plan.steps.emplace_back(
      launch_of("scatter_runs", std::move(text), p.count * lines, arguments, request.multiprocessors));
  if (p.count < long_run) return;

  // A warp looks at every 64th index, and adds the run that this is of where that is long and has no earlier
  // 64th index.
  const std::int64_t warps = (p.count + long_run - 1) / long_run * lines;
  text = begin + "  const u32 lane = thread_index() % 32u;\n  for (u64 many = (u64)block_x() * 8u; many < " +
         text_of(warps) +
         "; many += (u64)grid_x() * 8u) {\n    const u64 at = many + thread_index() / 32u;\n" + line +
         "    const u64 m = rest * " + length + ";\n    const " + key + " place = at < " + text_of(warps) +
         " ? keys[base + m] : (" + key + ")" + extent + ";\n    u64 from = 0, end = 0;\n" +
         "    if (place < " + extent + ") {\n" + R"(
      u64 middle, last = m;
      while (from < last) {
        middle = from + (last - from) / 2;
        if (keys[base + middle] < place) from = middle + 1; else last = middle;
      }
      end = m + 1;
      last = )" +
         count + R"(;
      while (end < last) {
        middle = end + (last - end) / 2;
        if (keys[base + middle] <= place) end = middle + 1; else last = middle;
      }
      if (m - from >= )" +
         length + " || end - from < " + length + R"() end = from;
    }
    value_t sum = monoid::sum<value_t>::none();
#pragma unroll 4
    for (u64 k = from + lane; k < end; k += 32u)
      sum = op::add(sum, value(updates[of_update(line, order[base + k])]));
    sum = together::warp_reduce(sum, monoid::sum<value_t>(), 32u);
    if (lane == 0 && from < end) {
      element_t& to = y[of_x(line, place)];
      store(to, op::add(value(to), sum));
    }
  }
}
)";
  plan.steps.emplace_back(
      launch_of("scatter_long_runs", std::move(text), 32 * warps, arguments, request.multiprocessors));
}

void add_sorted(Plan& plan, const PlanRequest& request, const ScatterShape& p) {
  const std::int64_t segments = p.along ? p.outer * p.inner : 1;
  const bool wide = p.extent >= 0xffffffffLL;
  const std::string key = wide ? "u64" : "u32";
  const auto total = static_cast<std::size_t>(segments * p.count);
  const auto take = [&plan](std::size_t bytes) { return take_scratch(plan, bytes); };
  SortStep step;
  step.key_bytes = wide ? 8 : 4;
  step.segments = segments;
  step.length = p.count;
  step.keys = take(total * step.key_bytes);
  step.values = take(total * 4);
  step.keys_out = take(total * step.key_bytes);
  step.values_out = take(total * 4);
  step.workspace_bytes = aligned(total * (step.key_bytes + 4U) + total / 4 + (std::size_t{4} << 20U));
  step.workspace = take(step.workspace_bytes);

  std::string text = begin_of(p);
  text += "extern \"C\" __global__ void __launch_bounds__(256) ENTRY(const place_t* __restrict__ indices, " +
          key + "* __restrict__ keys, u32* __restrict__ order) {\n" + loop("at", segments * p.count) +
          "    const u64 line = at / " + text_of(p.count) + ", m = at % " + text_of(p.count) +
          ";\n    keys[at] = (" + key + ")chosen(indices, line, m);\n    order[at] = (u32)m;\n  }\n}\n";
  plan.steps.emplace_back(launch_of("scatter_keys", std::move(text), segments * p.count,
                                    {argument(operand(1)), argument(step.keys), argument(step.values)},
                                    request.multiprocessors));
  append_sort(plan, step);
  add_runs(plan, request, p, step);
}

Plan scatter_add(const PlanRequest& request) {
  const ScatterShape p = places_of(request);
  Plan plan;
  plan.supported = true;
  plan.steps.emplace_back(CopyStep{operand(0), result(), request.in[0].bytes()});
  if (request.in[2].size() == 0) return plan;
  const std::int64_t lines = p.outer * p.inner;
  const bool many = lines >= std::int64_t{256} * request.multiprocessors;
  if (p.count <= 64 || many || p.count > 0x7fffffff) {
    add_by_lines(plan, request, p);
  } else {
    add_sorted(plan, request, p);
  }
  return plan;
}

constexpr DTypes numbers = dtypes::integers | dtypes::floats | dtypes::complexes;
constexpr RuleEntry entries[] = {
    {"scatter_add", scatter_add, numbers},
    {"scatter_add_along_axis", scatter_add, numbers},
};

}  // namespace

RuleTable scatter_rules() { return entries; }

}  // namespace tidu::cuda_detail
