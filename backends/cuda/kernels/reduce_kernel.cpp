// reduce_kernel.cpp - kernels that reduce axes. If the elements of a result are adjacent, some lanes of a
// warp, or a block, reduce them; if results are adjacent, the threads of a column of a block do. If there are
// few results, several blocks reduce parts of one, and a second kernel reduces the results of the parts,
// always in the same order.
#include <algorithm>

#include "cuda/kernels/kernels.hpp"
#include "cuda/kernels/packs.hpp"
#include "cuda/kernels/reductions.hpp"
#include "tidu/graph/error.hpp"

namespace tidu::cuda_detail {
namespace {

// How threads share the work.
struct Geometry {
  std::int64_t results = 1, elements = 1;
  bool rows = true;         // do adjacent lanes reduce one result?
  std::int64_t lanes = 32;  // threads for one result
  std::int64_t parts = 1;   // blocks for one result
  std::int64_t part = 1;    // elements of a part
  std::int64_t threads() const { return 256; }
  std::int64_t at_once() const { return threads() / lanes; }  // results of a block
};

std::int64_t power_of_two(std::int64_t least) {
  std::int64_t power = 1;
  while (power < least) power *= 2;
  return power;
}

Geometry geometry_of(std::int64_t results, std::int64_t elements, bool rows, int multiprocessors) {
  Geometry g;
  g.results = results;
  g.elements = elements;
  g.rows = rows;
  if (rows) {
    g.lanes = elements > 1024 ? 256 : std::clamp<std::int64_t>(power_of_two((elements + 3) / 4), 1, 32);
  } else {
    g.lanes = 256 / std::min<std::int64_t>(32, power_of_two(results));
  }
  const std::int64_t blocks = (results + g.at_once() - 1) / g.at_once();
  // Columns of large arrays are for many small blocks: a few large ones end at different times, with too
  // little on its way from memory meanwhile.
  const bool fine = !rows && results * elements >= std::int64_t{1} << 22;
  const std::int64_t fewest = 8 * g.lanes, wanted = std::int64_t{fine ? 16 : 4} * multiprocessors;
  if (blocks < (fine ? 8 : 1) * std::int64_t{multiprocessors} && elements >= 2 * fewest) {
    if (rows && g.lanes < 256) g.lanes = 256;
    g.parts = std::min({(wanted + blocks - 1) / blocks, elements / fewest, std::int64_t{1024}});
    g.part = (elements + g.parts - 1) / g.parts;
    g.part = (g.part + 31) / 32 * 32;
    g.parts = (elements + g.part - 1) / g.part;
  } else {
    g.part = elements;
  }
  return g;
}

// The kernel's text around the loop over elements `at` from `begin` to `end`: it knows o, and reduces into
// a0, a1, …
std::string around(const Geometry& g, const std::vector<Reduction>& reductions, bool wide,
                   const std::string& parameters, const std::string& loop, const std::string& outer) {
  const std::string lanes = std::to_string(g.lanes), at_once = std::to_string(g.at_once());
  std::string text = "typedef " + std::string(wide ? "u64" : "u32") + " index_t;\n";
  text += "extern \"C\" __global__ void __launch_bounds__(256) ENTRY(" + parameters + ") {\n";
  text += g.rows ? "  const u32 lane = thread_index() % " + lanes + "u, among = thread_index() / " + lanes +
                       "u;\n"
                 : "  const u32 lane = thread_index() / " + at_once + "u, among = thread_index() % " +
                       at_once + "u;\n";
  const std::string results = std::to_string(g.results) + "ull", part = std::to_string(g.part) + "ull",
                    elements = std::to_string(g.elements) + "ull";
  text += "  const index_t begin = (index_t)(block_y() * " + part + "), end = (index_t)(block_y() * " + part +
          " + " + part + " < " + elements + " ? block_y() * " + part + " + " + part + " : " + elements +
          ");\n";
  text += "  for (u64 base = (u64)block_x() * " + at_once + "u; base < " + results +
          "; base += (u64)grid_x() * " + at_once + "u) {\n";
  text += "  const bool live = base + among < " + results + ";\n";
  text += "  const index_t o = (index_t)(live ? base + among : " + results + " - 1);\n";
  for (std::size_t k = 0; k < reductions.size(); ++k)
    text +=
        "  " + reductions[k].accumulator + " a" + std::to_string(k) + " = " + reductions[k].none() + ";\n";
  text += loop;
  for (std::size_t k = 0; k < reductions.size(); ++k) {
    const std::string a = "a" + std::to_string(k);
    if (g.lanes == 1) continue;
    if (!g.rows) {
      text += "  " + a + " = together::columns_reduce(" + a + ", " + reductions[k].function + "(), " +
              at_once + "u);\n";
    } else if (g.lanes <= 32) {
      text += "  " + a + " = together::warp_reduce(" + a + ", " + reductions[k].function + "(), " + lanes +
              "u);\n";
    } else {
      text += "  " + a + " = together::block_reduce(" + a + ", " + reductions[k].function + "(), " +
              reductions[k].none() + ");\n";
    }
  }
  text += "  if (live && lane == 0) {\n" + outer + "  }\n  }\n}\n";
  return text;
}

// The loop of one thread over elements r, one by one.
std::string one_by_one(const Geometry& g, const std::string& inner) {
  return "#pragma unroll 4\n  for (index_t r = begin + lane; r < end; r += " + std::to_string(g.lanes) +
         "u) {\n" + inner + "  }\n";
}

Launch launch_of(const Geometry& g, std::string_view name, std::string text, int multiprocessors) {
  Launch launch;
  launch.kernel = make_kernel(name, std::move(text));
  launch.block = static_cast<std::uint32_t>(g.threads());
  launch.grid[0] = blocks_for(g.results, g.at_once(), multiprocessors);
  launch.grid[1] = static_cast<std::uint32_t>(g.parts);
  return launch;
}

std::string joined(const std::vector<std::string>& parts) {
  std::string text;
  for (const std::string& part : parts) {
    if (part.empty()) continue;
    if (!text.empty()) text += ", ";
    text += part;
  }
  return text;
}

// A fusion whose results are reductions and, perhaps, elements that are reduced.
struct Reductions {
  explicit Reductions(const Body& body) {
    for (std::uint32_t k = 0; k < body.results.size(); ++k) {
      const Piece& piece = body.pieces[body.results[k]];
      if (piece.op && is_reduction(*piece.op, body.pieces[piece.in[0]].type)) {
        reductions.push_back(reduction_of(*piece.op, body.pieces[piece.in[0]].type, piece.type));
        reduced_results.push_back(k);
        if (first == nullptr) first = &piece;
      } else {
        whole_results.push_back(k);
      }
    }
    if (first == nullptr) throw Error(ErrorKind::internal, "plan_reduction: expected a reduction");
  }
  std::vector<Reduction> reductions;
  std::vector<std::uint32_t> reduced_results, whole_results;  // positions among the results
  const Piece* first = nullptr;
};

// The loop of one thread, which reduces into a0, a1, … and stores what is not reduced.
std::string loop_of(const Body& body, const Reductions& of, const ReductionShape& shape, const Geometry& g,
                    Writer& writer) {
  if (shape.reduced <= 0) return {};
  const Writer::Index index = shape.index(writer, "o", "r");
  const std::string in_order = shape.place("o", "c");
  if (!in_order.empty()) writer.pack_at(index);
  for (std::size_t k = 0; k < of.reductions.size(); ++k) {
    const Piece& piece = body.pieces[body.results[of.reduced_results[k]]];
    const std::string value = writer.value(piece.in[0], index), a = "a" + std::to_string(k);
    writer.line(a + " = " + of.reductions[k].join(a, of.reductions[k].one(value, "r")) + ";");
  }
  for (const std::uint32_t k : of.whole_results) {
    const std::string value = writer.value(body.results[k], index), n = std::to_string(k);
    writer.line(in_order.empty() ? "if (live) store(q" + n + "[" + writer.place(index) + "], " + value + ");"
                                 : "store(y" + n + ", " + value + ");");
  }
  if (in_order.empty()) return one_by_one(g, writer.text());
  Packs packs(body, writer.take_packed(), of.whole_results);
  if (g.rows) packs.widen({g.elements, g.part});
  packs.look_ahead(4, writer.text());
  const std::string width = std::to_string(packs.width) + "u";
  return packs.function("r", writer.text()) + packs.alignment() +
         packs.loop("begin + lane * " + width, "end", std::to_string(g.lanes * packs.width) + "u", in_order,
                    "live");
}

// A kernel's parameters and arguments, alike.
struct Interface {
  std::vector<std::string> parameters;
  std::vector<Argument> arguments;
  void add(std::string parameter, Argument argument) {
    parameters.push_back(std::move(parameter));
    arguments.push_back(argument);
  }
  void add(const Interface& more) {
    parameters.insert(parameters.end(), more.parameters.begin(), more.parameters.end());
    arguments.insert(arguments.end(), more.arguments.begin(), more.arguments.end());
  }
};

// What a kernel does with a0, a1, …: stores results, or parts of them in scratch memory, which a second
// kernel reads and joins.
struct Endings {
  Endings(const Reductions& of, const Geometry& g) {
    const std::string results = std::to_string(g.results) + "ull";
    for (std::size_t k = 0; k < of.reductions.size(); ++k) {
      const Reduction& reduction = of.reductions[k];
      const std::string n = std::to_string(of.reduced_results[k]), a = "a" + std::to_string(k);
      const Argument part = argument(scratch(scratch_bytes));
      final_results.add(std::string(memory_name(reduction.dtype)) + "* __restrict__ q" + n,
                        argument(result(of.reduced_results[k])));
      written_parts.add(reduction.accumulator + "* __restrict__ s" + n, part);
      read_parts.add("const " + reduction.accumulator + "* __restrict__ s" + n, part);
      scratch_bytes += aligned(static_cast<std::size_t>(g.results * g.parts) * reduction.bytes);
      store_results += "  store(q" + n + "[o], " + reduction.get(a) + ");\n";
      store_parts += "  s" + n + "[block_y() * " + results + " + o] = " + a + ";\n";
      join_parts += "  " + a + " = " + reduction.join(a, "s" + n + "[r * " + results + " + o]") + ";\n";
    }
  }
  Interface final_results, written_parts, read_parts;
  std::string store_results, store_parts, join_parts;
  std::size_t scratch_bytes = 0;
};

Interface operands_and_whole_results(const Body& body, const Reductions& of) {
  Interface interface {
    {operand_parameters(body)}, {}
  };
  for (std::size_t i = 0; i < body.operands.size(); ++i) interface.arguments.push_back(argument(operand(i)));
  for (const std::uint32_t k : of.whole_results)
    interface.add(std::string(memory_name(body.pieces[body.results[k]].type.dtype())) + "* __restrict__ q" +
                      std::to_string(k),
                  argument(result(k)));
  return interface;
}

}  // namespace

Plan plan_reduction(const Body& body, int multiprocessors) {
  const Reductions of(body);
  const ReductionShape shape(body.pieces[of.first->in[0]].type.shape(), reduced_axes(*of.first->op));
  const Geometry g = geometry_of(shape.kept, shape.reduced, shape.rows, multiprocessors);
  Writer writer(body);
  const std::string loop = loop_of(body, of, shape, g, writer);
  const bool split = g.parts > 1, wide = is_wide(body);
  Endings ends(of, g);
  Interface interface = operands_and_whole_results(body, of);
  interface.add(split ? ends.written_parts : ends.final_results);
  Plan plan;
  plan.supported = true;
  Launch launch =
      launch_of(g, name_of(body),
                around(g, of.reductions, wide, joined(interface.parameters) + writer.parameter_list(), loop,
                       split ? ends.store_parts : ends.store_results),
                multiprocessors);
  launch.arguments = std::move(interface.arguments);
  for (const std::int64_t value : writer.parameters()) launch.arguments.push_back(argument(value));
  plan.steps.emplace_back(std::move(launch));
  if (!split) return plan;

  plan.scratch_bytes = ends.scratch_bytes;
  Geometry second;
  second.results = g.results;
  second.elements = second.part = g.parts;
  second.rows = false;
  second.lanes = 256 / std::min<std::int64_t>(32, power_of_two(g.results));
  Interface& read = ends.read_parts;
  read.add(ends.final_results);
  Launch last = launch_of(second, name_of(body) + "_parts",
                          around(second, of.reductions, wide, joined(read.parameters),
                                 one_by_one(second, ends.join_parts), ends.store_results),
                          multiprocessors);
  last.arguments = std::move(read.arguments);
  plan.steps.emplace_back(std::move(last));
  return plan;
}

namespace {

Plan reduction(const PlanRequest& request) {
  if (!is_reduction(request.op, request.in[0])) return {};
  return plan_reduction(body_of(request), request.multiprocessors);
}

constexpr DTypes numbers = dtypes::integers | dtypes::floats | dtypes::complexes;
constexpr DTypes real = dtypes::integers | dtypes::floats;
constexpr DTypes ordered = dtypes::booleans | real;
constexpr DTypes of_bits = dtypes::booleans | dtypes::integers;

constexpr RuleEntry entries[] = {
    {"reduce_sum", reduction, numbers},       {"reduce_prod", reduction, numbers},
    {"reduce_max", reduction, ordered},       {"reduce_min", reduction, ordered},
    {"reduce_and", reduction, of_bits},       {"reduce_or", reduction, of_bits},
    {"logsumexp", reduction, dtypes::floats}, {"argmax", reduction, ordered},
    {"argmin", reduction, ordered},
};

}  // namespace

RuleTable reduction_rules() { return entries; }

}  // namespace tidu::cuda_detail
