// rows_kernel.cpp - kernels that come back to a row with what they folded of it, as softmax and normalisation
// do. A row is read once, where registers can hold it, else anew each time.
#include <algorithm>

#include "cuda/kernels/folds.hpp"
#include "cuda/kernels/kernels.hpp"
#include "cuda/kernels/packs.hpp"
#include "tidu/graph/error.hpp"

namespace tidu::cuda_detail {
namespace {

bool is_fold_piece(const Body& body, const Piece& piece) {
  return piece.op && !piece.in.empty() && is_fold(*piece.op, body.pieces[piece.in[0]].type);
}

struct Rows {
  std::int64_t lanes = 32, threads = 256;
};
Rows rows_of(std::int64_t results, std::int64_t elements, int multiprocessors) {
  if (elements > 16384) return {1024, 1024};
  if (elements > 4096) return {512, 512};
  if (elements > 1024) return {256, 256};
  if (elements >= 256 && results < std::int64_t{8} * multiprocessors) return {128, 128};
  std::int64_t lanes = 1;
  while (lanes < 32 && lanes * 4 < elements) lanes *= 2;
  return {lanes, 256};
}

// One time along a row: what is computed of the row before it, then of each element.
struct Pass {
  std::string before, text;
  Packs packs;
};

// The passes of one thread. What they read stays in registers if there are enough, and if code for each of
// these is not too much.
std::string text_of_passes(std::vector<Pass> all, std::int64_t elements, const Rows& rows,
                           const std::string& place) {
  constexpr std::int64_t max_held = 32, max_lines = 1024;
  // Of the 256 bytes of registers that each of 1024 threads has, 96 are for this; of more, no more than 256.
  const std::int64_t max_bytes = std::min<std::int64_t>(256, 96 * 1024 / rows.threads);
  Packs whole = all.front().packs;
  std::int64_t lines = 0;
  for (const Pass& pass : all) {
    whole.merge(pass.packs);
    lines += std::count(pass.text.begin(), pass.text.end(), '\n');
  }
  whole.widen({elements});
  const std::int64_t step = rows.lanes * whole.width, count = (elements + step - 1) / step;
  const bool held = count * whole.width <= max_held && count * whole.bytes_read() <= max_bytes &&
                    lines * count * whole.width <= max_lines;
  const std::string width = std::to_string(whole.width) + "u", end = std::to_string(elements) + "u",
                    apart = std::to_string(step) + "u",
                    each = "#pragma unroll\n  for (index_t j = 0; j < " + std::to_string(count) +
                           "u; ++j) {\n  const index_t c = lane * " + width + " + j * " + apart + ";\n",
                    inside = elements % step == 0 ? "" : "if (c < " + end + ") ";
  std::string text = whole.alignment();
  if (held && !whole.reads.empty())
    text += whole.packs(count) + each + "  " + inside + "{ " + whole.loads(place) + "}\n  }\n";
  for (Pass& pass : all) {
    pass.packs.width = whole.width;
    text += pass.before;
    if (pass.text.empty()) continue;
    text += "  {\n" + pass.packs.function("r", pass.text);
    if (held) {
      text += each + "  " + inside + "{\n" + pass.packs.computes("c", place, "live") + "  }\n  }\n";
    } else {
      pass.packs.look_ahead(4, pass.text);
      text += pass.packs.loop("lane * " + width, end, apart, place, "live");
    }
    text += "  }\n";
  }
  return text;
}

}  // namespace

Plan plan_rows(const Body& body, const std::vector<bool>& of_rows, int multiprocessors) {
  // In which pass along the row a value can be known.
  std::vector<std::uint32_t> pass(body.pieces.size(), 0);
  std::optional<FoldShape> shape;
  for (std::size_t i = 0; i < body.pieces.size(); ++i) {
    const Piece& piece = body.pieces[i];
    for (const std::uint32_t in : piece.in) pass[i] = std::max(pass[i], pass[in]);
    if (!is_fold_piece(body, piece)) continue;
    ++pass[i];
    if (!shape) shape.emplace(body.pieces[piece.in[0]].type.shape(), folded_axes(*piece.op));
  }
  if (!shape) throw Error(ErrorKind::internal, "plan_rows: expected a fold");
  std::uint32_t passes = 0;
  for (std::size_t i = 0; i < body.pieces.size(); ++i) {
    if (is_fold_piece(body, body.pieces[i])) passes = std::max(passes, pass[i]);
  }
  for (const std::uint32_t id : body.results) {
    if (!of_rows[id]) passes = std::max(passes, pass[id] + 1);
  }
  const Rows rows = rows_of(shape->kept, shape->reduced, multiprocessors);
  const std::int64_t at_once = rows.threads / rows.lanes;
  const std::string lanes = std::to_string(rows.lanes) + "u", results = std::to_string(shape->kept) + "ull",
                    together = std::to_string(at_once) + "u", threads = std::to_string(rows.threads);

  Writer writer(body);
  const std::string in_order = shape->place("o", "c");
  if (in_order.empty()) throw Error(ErrorKind::internal, "plan_rows: expected rows in the order of memory");
  std::vector<Pass> written;
  const auto write_rows = [&](std::uint32_t when) {
    for (std::uint32_t i = 0; i < body.pieces.size(); ++i) {
      if (!of_rows[i] || pass[i] != when || is_fold_piece(body, body.pieces[i])) continue;
      writer.fix(i, writer.value(i, writer.by_place(body.pieces[i].type.shape(), "o")));
    }
  };
  write_rows(0);
  for (std::uint32_t p = 0; p < passes; ++p) {
    std::vector<std::uint32_t> folds;
    for (std::uint32_t i = 0; i < body.pieces.size(); ++i) {
      if (is_fold_piece(body, body.pieces[i]) && pass[i] == p + 1) folds.push_back(i);
    }
    const auto fold_at = [&](std::uint32_t i) {
      const Piece& piece = body.pieces[i];
      return fold_of(*piece.op, body.pieces[piece.in[0]].type, piece.type);
    };
    for (const std::uint32_t i : folds) {
      const Fold fold = fold_at(i);
      writer.line(fold.accumulator + " a" + std::to_string(i) + " = " + fold.none() + ";");
    }
    std::string before = writer.take_text();
    writer.open_scope();
    const Writer::Index index = shape->index(writer, "o", "r");
    writer.pack_at(index);
    for (const std::uint32_t i : folds) {
      const Fold fold = fold_at(i);
      const std::string a = "a" + std::to_string(i), value = writer.value(body.pieces[i].in[0], index);
      writer.line(a + " = " + fold.join(a, fold.one(value, "r")) + ";");
    }
    std::vector<std::uint32_t> left;
    for (std::uint32_t k = 0; k < body.results.size(); ++k) {
      const std::uint32_t id = body.results[k];
      if (of_rows[id] || pass[id] != p) continue;
      const std::string value = writer.value(id, index);
      writer.line("store(y" + std::to_string(k) + ", " + value + ");");
      left.push_back(k);
    }
    writer.close_scope();
    written.push_back({std::move(before), writer.take_text(), Packs(body, writer.take_packed(), left)});
    for (const std::uint32_t i : folds) {
      const Fold fold = fold_at(i);
      const std::string a = "a" + std::to_string(i);
      std::string folded = a;
      if (rows.lanes > 32) {
        folded = "together::block_fold(" + a + ", " + fold.function + "(), " + fold.none() + ")";
      } else if (rows.lanes > 1) {
        folded = "together::lanes_fold(" + a + ", " + fold.function + "(), " + lanes + ")";
      }
      const std::string all = writer.define(fold.accumulator, folded);
      std::string value = fold.get(all);
      if (fold.dtype == f16 || fold.dtype == bf16)
        value = "rounded<" + std::string(memory_name(fold.dtype)) + ">::of(" + value + ")";
      writer.fix(i, writer.define(value_name(fold.dtype), value));
    }
    write_rows(p + 1);
  }
  for (std::size_t k = 0; k < body.results.size(); ++k) {
    const std::uint32_t id = body.results[k];
    if (!of_rows[id]) continue;
    const std::string value = writer.value(id, writer.by_place(body.pieces[id].type.shape(), "o"));
    writer.line("if (live && lane == 0) store(q" + std::to_string(k) + "[o], " + value + ");");
  }

  const std::string after = writer.take_text(),
                    loops = text_of_passes(std::move(written), shape->reduced, rows, in_order);

  std::string parameters = operand_parameters(body);
  Launch launch;
  for (std::size_t i = 0; i < body.operands.size(); ++i) launch.arguments.push_back(argument(operand(i)));
  for (std::size_t k = 0; k < body.results.size(); ++k) {
    parameters += (parameters.empty() ? "" : ", ") +
                  std::string(memory_name(body.pieces[body.results[k]].type.dtype())) + "* __restrict__ q" +
                  std::to_string(k);
    launch.arguments.push_back(argument(result(k)));
  }
  parameters += writer.parameter_list();
  for (const std::int64_t value : writer.parameters()) launch.arguments.push_back(argument(value));
  std::string text = "typedef " + std::string(is_wide(body) ? "u64" : "u32") + " index_t;\n";
  text += "extern \"C\" __global__ void __launch_bounds__(" + threads + ", " +
          std::to_string(std::max<std::int64_t>(1, 512 / rows.threads)) + ") ENTRY(" + parameters + ") {\n";
  text += "  const u32 lane = thread_index() % " + lanes + ", among = thread_index() / " + lanes + ";\n";
  text += "  for (u64 base = (u64)block_x() * " + together + "; base < " + results +
          "; base += (u64)grid_x() * " + together + ") {\n";
  text += "  const bool live = base + among < " + results + ";\n";
  text += "  const index_t o = (index_t)(live ? base + among : " + results + " - 1);\n";
  text += loops + after + "  }\n}\n";
  launch.kernel = make_kernel("rows_" + name_of(body), std::move(text));
  launch.block = static_cast<std::uint32_t>(rows.threads);
  launch.grid[0] = blocks_for(shape->kept, at_once, 2 * multiprocessors);
  Plan plan;
  plan.supported = true;
  plan.steps.emplace_back(std::move(launch));
  return plan;
}

}  // namespace tidu::cuda_detail
