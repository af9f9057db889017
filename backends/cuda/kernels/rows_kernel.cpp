// rows_kernel.cpp - kernels that read the results of reductions of a row along the same row, as softmax and
// normalisation do. A row is read once if registers can hold it, else again each time.
#include <algorithm>

#include "cuda/kernels/kernels.hpp"
#include "cuda/kernels/packs.hpp"
#include "cuda/kernels/reductions.hpp"
#include "tidu/graph/error.hpp"

namespace tidu::cuda_detail {
namespace {

bool is_reduction_piece(const Body& body, const Piece& piece) {
  return piece.op && !piece.in.empty() && is_reduction(*piece.op, body.pieces[piece.in[0]].type);
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
                    stride = std::to_string(step) + "u",
                    each = "#pragma unroll\n  for (index_t j = 0; j < " + std::to_string(count) +
                           "u; ++j) {\n  const index_t c = lane * " + width + " + j * " + stride + ";\n",
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
      text += pass.packs.loop("lane * " + width, end, stride, place, "live");
    }
    text += "  }\n";
  }
  return text;
}

// The kernel of a fusion of rows: passes along a row, and what is computed of the row after each.
class RowsKernel {
 public:
  RowsKernel(const Body& body, const std::vector<bool>& of_rows, int multiprocessors)
      : body_(body),
        of_rows_(of_rows),
        multiprocessors_(multiprocessors),
        shape_(shape_of(body)),
        rows_(rows_of(shape_.kept, shape_.reduced, multiprocessors)),
        writer_(body) {
    find_passes();
  }
  Plan plan();

 private:
  using Index = std::uint32_t;
  static ReductionShape shape_of(const Body& body);
  void find_passes();
  Reduction reduction_at(Index i) const {
    const Piece& piece = body_.pieces[i];
    return reduction_of(*piece.op, body_.pieces[piece.in[0]].type, piece.type);
  }
  /// The reductions that end with a pass.
  std::vector<Index> reductions_of(std::uint32_t pass) const;
  void write_values_of_rows(std::uint32_t pass);
  Pass write_pass(std::uint32_t pass, const std::vector<Index>& reductions);
  void write_reduced(Index i);
  void write_results_of_rows();
  Launch launch(const std::string& text) const;
  std::string around(const std::string& parameters, const std::string& text) const;

  const Body& body_;
  const std::vector<bool>& of_rows_;
  int multiprocessors_;
  ReductionShape shape_;
  Rows rows_;
  Writer writer_;
  std::vector<std::uint32_t> pass_;  ///< by piece: in which pass along the row its value can be known
  std::uint32_t num_passes_ = 0;
};

ReductionShape RowsKernel::shape_of(const Body& body) {
  for (const Piece& piece : body.pieces) {
    if (is_reduction_piece(body, piece))
      return ReductionShape(body.pieces[piece.in[0]].type.shape(), reduced_axes(*piece.op));
  }
  throw Error(ErrorKind::internal, "plan_rows: expected a reduction");
}

void RowsKernel::find_passes() {
  pass_.resize(body_.pieces.size());
  for (std::size_t i = 0; i < body_.pieces.size(); ++i) {
    const Piece& piece = body_.pieces[i];
    for (const Index in : piece.in) pass_[i] = std::max(pass_[i], pass_[in]);
    if (!is_reduction_piece(body_, piece)) continue;
    ++pass_[i];
    num_passes_ = std::max(num_passes_, pass_[i]);
  }
  for (const Index id : body_.results) {
    if (!of_rows_[id]) num_passes_ = std::max(num_passes_, pass_[id] + 1);
  }
}

std::vector<RowsKernel::Index> RowsKernel::reductions_of(std::uint32_t pass) const {
  std::vector<Index> reductions;
  for (Index i = 0; i < body_.pieces.size(); ++i) {
    if (is_reduction_piece(body_, body_.pieces[i]) && pass_[i] == pass + 1) reductions.push_back(i);
  }
  return reductions;
}

void RowsKernel::write_values_of_rows(std::uint32_t pass) {
  for (Index i = 0; i < body_.pieces.size(); ++i) {
    if (!of_rows_[i] || pass_[i] != pass || is_reduction_piece(body_, body_.pieces[i])) continue;
    writer_.fix(i, writer_.value(i, writer_.by_place(body_.pieces[i].type.shape(), "o")));
  }
}

Pass RowsKernel::write_pass(std::uint32_t pass, const std::vector<Index>& reductions) {
  for (const Index i : reductions) {
    const Reduction reduction = reduction_at(i);
    writer_.line(reduction.accumulator + " a" + std::to_string(i) + " = " + reduction.none() + ";");
  }
  std::string before = writer_.take_text();
  writer_.open_scope();
  const Writer::Index index = shape_.index(writer_, "o", "r");
  writer_.pack_at(index);
  for (const Index i : reductions) {
    const Reduction reduction = reduction_at(i);
    const std::string a = "a" + std::to_string(i), value = writer_.value(body_.pieces[i].in[0], index);
    writer_.line(a + " = " + reduction.join(a, reduction.one(value, "r")) + ";");
  }
  std::vector<std::uint32_t> stored;
  for (std::uint32_t k = 0; k < body_.results.size(); ++k) {
    const Index id = body_.results[k];
    if (of_rows_[id] || pass_[id] != pass) continue;
    const std::string value = writer_.value(id, index);
    writer_.line("store(y" + std::to_string(k) + ", " + value + ");");
    stored.push_back(k);
  }
  writer_.close_scope();
  std::string text = writer_.take_text();
  return {std::move(before), std::move(text), Packs(body_, writer_.take_packed(), stored)};
}

// The value of a reduction, of what each thread of the row has.
void RowsKernel::write_reduced(Index i) {
  const Reduction reduction = reduction_at(i);
  const std::string a = "a" + std::to_string(i);
  std::string reduced = a;
  if (rows_.lanes > 32) {
    reduced = "together::block_reduce(" + a + ", " + reduction.function + "(), " + reduction.none() + ")";
  } else if (rows_.lanes > 1) {
    reduced = "together::warp_reduce(" + a + ", " + reduction.function + "(), " +
              std::to_string(rows_.lanes) + "u)";
  }
  const std::string all = writer_.define(reduction.accumulator, reduced);
  std::string value = reduction.get(all);
  if (reduction.dtype == f16 || reduction.dtype == bf16)
    value = "rounded<" + std::string(memory_name(reduction.dtype)) + ">::of(" + value + ")";
  writer_.fix(i, writer_.define(value_name(reduction.dtype), value));
}

void RowsKernel::write_results_of_rows() {
  for (std::size_t k = 0; k < body_.results.size(); ++k) {
    const Index id = body_.results[k];
    if (!of_rows_[id]) continue;
    const std::string value = writer_.value(id, writer_.by_place(body_.pieces[id].type.shape(), "o"));
    writer_.line("if (live && lane == 0) store(q" + std::to_string(k) + "[o], " + value + ");");
  }
}

// The kernel's text around what is done for the row o.
std::string RowsKernel::around(const std::string& parameters, const std::string& text) const {
  const std::string lanes = std::to_string(rows_.lanes) + "u", results = std::to_string(shape_.kept) + "ull",
                    at_once = std::to_string(rows_.threads / rows_.lanes) + "u";
  return "typedef " + std::string(is_wide(body_) ? "u64" : "u32") + " index_t;\n" +
         "extern \"C\" __global__ void __launch_bounds__(" + std::to_string(rows_.threads) + ", " +
         std::to_string(std::max<std::int64_t>(1, 512 / rows_.threads)) + ") ENTRY(" + parameters + ") {\n" +
         "  const u32 lane = thread_index() % " + lanes + ", among = thread_index() / " + lanes + ";\n" +
         "  for (u64 base = (u64)block_x() * " + at_once + "; base < " + results +
         "; base += (u64)grid_x() * " + at_once + ") {\n" + "  const bool live = base + among < " + results +
         ";\n" + "  const index_t o = (index_t)(live ? base + among : " + results + " - 1);\n" + text +
         "  }\n}\n";
}

Launch RowsKernel::launch(const std::string& text) const {
  std::string parameters = operand_parameters(body_);
  Launch launch;
  for (std::size_t i = 0; i < body_.operands.size(); ++i) launch.arguments.push_back(argument(operand(i)));
  for (std::size_t k = 0; k < body_.results.size(); ++k) {
    parameters += (parameters.empty() ? "" : ", ") +
                  std::string(memory_name(body_.pieces[body_.results[k]].type.dtype())) + "* __restrict__ q" +
                  std::to_string(k);
    launch.arguments.push_back(argument(result(k)));
  }
  parameters += writer_.parameter_list();
  for (const std::int64_t value : writer_.parameters()) launch.arguments.push_back(argument(value));
  launch.kernel = make_kernel("rows_" + name_of(body_), around(parameters, text));
  launch.block = static_cast<std::uint32_t>(rows_.threads);
  launch.grid[0] = blocks_for(shape_.kept, rows_.threads / rows_.lanes, 2 * multiprocessors_);
  return launch;
}

Plan RowsKernel::plan() {
  const std::string in_order = shape_.place("o", "c");
  if (in_order.empty()) throw Error(ErrorKind::internal, "plan_rows: expected rows in the order of memory");
  std::vector<Pass> passes;
  write_values_of_rows(0);
  for (std::uint32_t p = 0; p < num_passes_; ++p) {
    const std::vector<Index> reductions = reductions_of(p);
    passes.push_back(write_pass(p, reductions));
    for (const Index i : reductions) write_reduced(i);
    write_values_of_rows(p + 1);
  }
  write_results_of_rows();
  const std::string after = writer_.take_text(),
                    loops = text_of_passes(std::move(passes), shape_.reduced, rows_, in_order);
  Plan plan;
  plan.supported = true;
  plan.steps.emplace_back(launch(loops + after));
  return plan;
}

}  // namespace

Plan plan_rows(const Body& body, const std::vector<bool>& of_rows, int multiprocessors) {
  return RowsKernel(body, of_rows, multiprocessors).plan();
}

}  // namespace tidu::cuda_detail
