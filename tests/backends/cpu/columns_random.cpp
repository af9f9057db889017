// Random graphs about columns: gathered along either axis by clipped or dropped indices from arrays, from
// views and from gathered values, sliced, computed with, reversed, combined to rows and separated again.
// Fused in every way they have the bits of their operations one by one. TIDU_TEST_SCALE=20 makes them 20
// times as many.
#include <algorithm>

#include "cpu/compare.hpp"
#include "support/support.hpp"

using namespace tidu;
using namespace tidu::test;

namespace {

class ColumnsGraph {
 public:
  explicit ColumnsGraph(std::uint64_t seed) : random_(seed) {
    constexpr std::int64_t sizes[] = {1,   2,   3,   5,   31,  33,  63,   64,   65,   67,
                                      127, 128, 129, 131, 255, 257, 1001, 2049, 4099, 9001};
    rows_ = sizes[below(std::size(sizes))];
    dtype_ = one_in(2) ? f32 : f64;
    make_inputs();
    for (std::size_t k = 1 + below(4); k-- > 0;) take_rows();
    // Columns that were taken and those that were there stand in no order.
    std::shuffle(columns_.begin(), columns_.end(), random_);
    taken_ = columns_.size();
    for (std::size_t k = one_in(3) ? below(500) : 5 + below(100); k-- > 0;) compute();
  }

  Graph build() {
    for (std::size_t k = below(3); k-- > 0;) {
      const Value rows = side_by_side(1 + below(one_in(5) ? 100 : 20));
      outputs_.push_back(one_in(5) ? ops::rev(rows, {0}) : rows);
    }
    for (std::size_t k = one_in(6) ? below(60) : 1 + below(3); k-- > 0;) outputs_.push_back(pick());
    if (one_in(4)) outputs_.push_back(rows_taken_.back());
    return builder_.build(outputs_);
  }

  std::mt19937_64& random() { return random_; }

 private:
  std::uint64_t below(std::uint64_t count) { return random_() % count; }
  bool one_in(std::uint64_t count) { return below(count) == 0; }
  std::int64_t extent(std::uint64_t most) { return static_cast<std::int64_t>(1 + below(most)); }
  Value of_dtype(Value x) { return x.type().dtype() == dtype_ ? x : ops::convert_element_type(x, dtype_); }

  void make_inputs() {
    const auto input = [&](std::string_view name, Type type) {
      return builder_.input(detail::str(name, number_++), type);
    };
    for (std::size_t k = 1 + below(3); k-- > 0;)
      matrices_.push_back(input("m", {dtype_, {extent(12), extent(14)}}));
    matrices_.push_back(input("rows", {dtype_, {rows_, extent(9)}}));
    matrices_.push_back(input("lines", {dtype_, {extent(9), rows_}}));
    if (one_in(4)) matrices_.push_back(input("other", {dtype_ == f32 ? f64 : f32, {extent(6), extent(5)}}));
    if (one_in(4)) matrices_.push_back(input("whole", {one_in(2) ? i32 : i64, {extent(6), extent(5)}}));
    if (one_in(2)) {  // the same memory in other shapes
      const Value m = matrices_[0];
      const std::int64_t height = m.type().dim(0), width = m.type().dim(1);
      if (height % 2 == 0) matrices_.push_back(ops::reshape(m, {height / 2, width * 2}));
      if (width % 2 == 0) matrices_.push_back(ops::reshape(m, {height * 2, width / 2}));
      matrices_.push_back(ops::transpose(m, {1, 0}));
    }
    for (Value& index : indices_) index = input("i", {one_in(2) ? i32 : i64, {rows_}});
    scalar_ = input("s", {dtype_, {}});
    columns_.push_back(input("x", {dtype_, {rows_}}));
    columns_.push_back(ops::rev(input("y", {dtype_, {rows_}}), {0}));
  }

  // Rows or lines of a matrix, maybe of rows that were taken, and some of its columns.
  void take_rows() {
    Value m = matrices_[below(matrices_.size())];
    const auto take = [&](int axis, std::string_view mode) {
      m = ops::take(m, indices_[below(2)], axis, mode);
    };
    for (std::size_t k = below(3); k-- > 0;) {
      const auto axis = static_cast<int>(below(2));
      if (one_in(2)) {
        m = ops::transpose(m, {1, 0});
      } else if (m.type().dim(static_cast<std::size_t>(1 - axis)) * rows_ < 300000) {
        take(axis, one_in(6) ? "drop" : "clip");
      }
    }
    if (m.type().dim(0) != rows_ && m.type().dim(1) != rows_) take(static_cast<int>(below(2)), "clip");
    rows_taken_.push_back(m);
    const bool along = m.type().dim(0) != rows_;
    const std::int64_t width = m.type().dim(along ? 0 : 1);
    const std::int64_t count = std::min(width, extent(12));
    const auto first = static_cast<std::int64_t>(below(static_cast<std::uint64_t>(width - count + 1)));
    for (std::int64_t k = first; k < first + count; ++k) {
      const Value column =
          along ? ops::slice(m, {k, 0}, {k + 1, rows_}) : ops::slice(m, {0, k}, {rows_, k + 1});
      columns_.push_back(of_dtype(ops::reshape(column, {rows_})));
      if (one_in(12)) outputs_.push_back(column);
    }
  }

  Value pick() {
    if (one_in(3)) return columns_[below(taken_)];
    const std::size_t recent = one_in(2) ? std::min<std::size_t>(columns_.size(), 8) : columns_.size();
    return columns_[columns_.size() - 1 - below(recent)];
  }

  Value side_by_side(std::size_t count) {
    std::vector<Value> parts;
    for (std::size_t k = 0; k < count; ++k) parts.push_back(ops::reshape(pick(), {rows_, 1}));
    return ops::concatenate(parts, 1);
  }

  void compute() {
    const Value a = pick(), b = pick();
    switch (below(12)) {
      case 0: columns_.push_back(ops::sub(a, b)); break;
      case 1: columns_.push_back(ops::select_n(ops::lt(a, b), a, b)); break;
      case 2: {
        const Value other = ops::convert_element_type(a, one_in(2) ? i32 : dtype_ == f32 ? f64 : f32);
        columns_.push_back(ops::convert_element_type(other, dtype_));
        break;
      }
      case 3: columns_.push_back(ops::mul(a, ops::full_like(a, 0.5))); break;
      case 4: columns_.push_back(ops::mul(a, ops::broadcast_scalar(scalar_, {rows_}))); break;
      case 5: columns_.push_back(ops::max(a, b)); break;
      case 6:
        if (one_in(12)) columns_.push_back(ops::rev(a, {0}));
        break;
      case 7:
        if (one_in(12)) {
          const std::int64_t count = 1 + extent(12);
          const Value rows = side_by_side(static_cast<std::size_t>(count));
          const auto at = static_cast<std::int64_t>(below(static_cast<std::uint64_t>(count)));
          columns_.push_back(ops::reshape(ops::slice(rows, {0, at}, {rows_, at + 1}), {rows_}));
          if (one_in(2)) outputs_.push_back(rows);
        }
        break;
      default: columns_.push_back(ops::mul(ops::add(a, b), ops::full_like(a, 0.25)));
    }
  }

  std::mt19937_64 random_;
  GraphBuilder builder_{"columns"};
  std::int64_t rows_ = 0, number_ = 0;
  DType dtype_ = f64;
  std::size_t taken_ = 0;  // of columns_, which were not computed
  std::vector<Value> matrices_, rows_taken_, columns_, outputs_;
  Value indices_[2], scalar_;
};

CpuOptions options_of(std::size_t kind, VectorUnits units, std::uint64_t some) {
  CpuOptions options{.threads = 1 + static_cast<int>(some % 2)};
  options.vector_units = units;
  ProgramOptions& program = options.program;
  switch (kind) {
    case 0: program.fuse = program.block = false; break;
    case 1: break;
    case 2: program.block = false; break;
    case 3: program.loop_bytes = 0, program.block_bytes = std::size_t{1} << (10 + some % 9); break;
    default: program.loop_bytes = 0, program.in_place = some % 3 == 0; break;
  }
  return options;
}

}  // namespace

TEST_CASE(
    "[columns] random graphs that take, compute and bring columns to rows give the bits of their "
    "operations") {
  constexpr VectorUnits every_kind[] = {VectorUnits::automatic, VectorUnits::avx2, VectorUnits::none};
  std::size_t wrong = 0;
  for (std::uint64_t seed = 0; seed < scaled(120) && wrong < 3; ++seed) {
    ColumnsGraph columns(seed);
    const Graph graph = columns.build();
    std::mt19937_64& random = columns.random();
    std::vector<Tensor> inputs;
    for (const ValueId id : graph.inputs())
      inputs.push_back(random_tensor(
          graph.type(id), is_integer(graph.type(id).dtype()) ? Domain{-3, 15} : Domain{-1, 1}, random));
    const VectorUnits units = every_kind[seed % 3];
    CAPTURE(seed);
    const std::vector<Tensor> expected =
        CpuExecutor(options_of(0, units, 0)).run(graph, std::span<const Tensor>(inputs));
    for (std::size_t kind = 1; kind < 5; ++kind) {
      CAPTURE(kind);
      const Executable executable = CpuExecutor(options_of(kind, units, random())).compile(graph);
      for (int repeat = 0; repeat < 2; ++repeat) {
        const std::vector<Tensor> got = executable.run(inputs);
        for (std::size_t k = 0; k < got.size(); ++k) {
          const bool same = std::memcmp(got[k].bytes(), expected[k].bytes(), got[k].num_bytes()) == 0;
          CHECK_MESSAGE(same, "output ", k, " of ", got.size());
          wrong += !same;
        }
      }
    }
  }
}
