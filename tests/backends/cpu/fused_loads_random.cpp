// Slices, pads, broadcasts, iotas and rolls as fused loads: random graphs of these, element-wise operations
// and reductions. Fused in every way they have the bits of their operations one by one. TIDU_TEST_SCALE=20
// makes them 20 times as many.
#include <algorithm>

#include "cpu/compare.hpp"
#include "cpu/vector_units.hpp"
#include "support/support.hpp"
#include "tidu/primitives/control_flow.hpp"

using namespace tidu;
using namespace tidu::test;

namespace {

// Values of one shape, of which each comes from a value of a random shape around or within it.
class LinesGraph {
 public:
  explicit LinesGraph(std::uint64_t seed) : random_(seed) {
    constexpr DType dtypes[] = {f32, f64, i32, i64, c64};
    dtype_ = one_in(2) ? f32 : dtypes[below(std::size(dtypes))];
    Ints dims;
    std::int64_t left = one_in(3) ? 300 : one_in(4) ? 200000 : 20000;
    for (std::size_t k = 1 + below(4); k-- > 0 && left > 1;) {
      dims.push_back(1 + static_cast<std::int64_t>(
                             below(static_cast<std::uint64_t>(std::min<std::int64_t>(left, 900)))));
      left /= dims.back();
    }
    std::shuffle(dims.begin(), dims.end(), random_);
    shape_ = Shape(dims);
    for (std::size_t k = 1 + below(3); k-- > 0;) values_.push_back(input());
    for (std::size_t k = 2 + below(5); k-- > 0;) {
      if (one_in(3)) {
        repeat();
      } else if (one_in(3)) {
        roll();
      } else if (one_in(4)) {
        roll_back();
      } else {
        layout();
      }
      for (std::size_t j = below(5); j-- > 0;) compute();
    }
  }

  Graph build() {
    for (std::size_t k = 1 + below(3); k-- > 0;) outputs_.push_back(pick());
    if (one_in(3) && dtype_ != c64) {
      Ints axes;
      for (std::size_t k = 0; k < shape_.size(); ++k) axes.push_back(static_cast<std::int64_t>(k));
      outputs_.push_back(ops::reduce_sum(pick(), axes));
    }
    return builder_.build(outputs_);
  }
  std::mt19937_64& random() { return random_; }

 private:
  std::uint64_t below(std::uint64_t count) { return random_() % count; }
  bool one_in(std::uint64_t count) { return below(count) == 0; }
  std::int64_t some() { return one_in(2) ? 0 : static_cast<std::int64_t>(1 + below(3)); }
  Value input() { return input(shape_); }
  Value input(const Shape& shape) { return builder_.input(detail::str("x", number_++), {dtype_, shape}); }
  Value pick() { return values_[values_.size() - 1 - below(std::min<std::size_t>(values_.size(), 5))]; }
  Value number(double value) { return ops::full(builder_, Type(dtype_, {}), value); }

  // Elements repeated along some axes, or their positions.
  void repeat() {
    Ints dims, to;
    for (std::size_t k = 0; k < shape_.size(); ++k) {
      if (one_in(2)) continue;
      dims.push_back(one_in(5) ? 1 : shape_[k]);
      to.push_back(static_cast<std::int64_t>(k));
    }
    const auto along = static_cast<std::int64_t>(below(shape_.size()));
    if (dtype_ != c64 && one_in(2)) {
      values_.push_back(ops::iota(builder_, Type(dtype_, shape_), along));
    } else {
      values_.push_back(ops::broadcast_in_dim(input(Shape(dims)), shape_, to));
    }
  }

  // Rolls along an axis, or patterns close to a roll.
  void roll() {
    const std::size_t axis = below(shape_.size());
    const std::int64_t extent = shape_[axis];
    if (extent < 2) return;
    const Value from = pick();
    const std::int64_t cut =
        one_in(2) ? 1 + static_cast<std::int64_t>(below(static_cast<std::uint64_t>(extent - 1)))
                  : (one_in(2) ? 1 : extent - 1);
    const auto part = [&](const Value& of, std::int64_t start, std::int64_t limit) {
      Ints starts(shape_.size(), 0), limits(shape_.begin(), shape_.end());
      starts[axis] = start;
      limits[axis] = limit;
      return ops::slice(of, starts, limits);
    };
    const Value last = part(from, cut, extent), first = part(one_in(8) ? pick() : from, 0, cut);
    const std::vector<Value> parts = one_in(8) ? std::vector{first, last} : std::vector{last, first};
    values_.push_back(ops::concatenate(parts, static_cast<std::int64_t>(axis)));
    if (one_in(8)) outputs_.push_back(one_in(2) ? first : values_.back());
  }

  // The two parts of a roll, each with 0 around it, added to a value: a gradient.
  void roll_back() {
    const std::size_t axis = below(shape_.size());
    const std::int64_t extent = shape_[axis];
    if (extent < 2) return;
    const Value from = one_in(3) ? times_number(pick()) : pick();
    const std::int64_t cut = 1 + static_cast<std::int64_t>(below(static_cast<std::uint64_t>(extent - 1)));
    const auto part = [&](std::int64_t start, std::int64_t limit, std::int64_t to) {
      Ints starts(shape_.size(), 0), limits(shape_.begin(), shape_.end());
      starts[axis] = start;
      limits[axis] = limit;
      IntLists config(shape_.size(), Ints{0, 0, 0});
      config[axis] = {to, extent - to - (limit - start), 0};
      return ops::pad(ops::slice(from, starts, limits), number(0), config);
    };
    const Value last = part(cut, extent, 0), first = part(0, cut, extent - cut), sum = pick();
    values_.push_back(one_in(2) ? ops::add(ops::add(sum, last), first)
                                : ops::add(ops::add(first, sum), last));
  }
  Value times_number(Value x) {
    return ops::mul(x, ops::broadcast_scalar(number(one_in(2) ? -3 : 2), x.shape()));
  }

  // Another value of the shape: a slice of a larger one, or a padded smaller one, or both.
  void layout() {
    const std::size_t rank = shape_.size();
    Ints low(rank), high(rank), step(rank, 1), dims(rank);
    if (one_in(2)) {
      for (std::size_t k = 0; k < rank; ++k) {
        if (k + 1 < rank && one_in(8)) step[k] = 2;
        low[k] = some();
        dims[k] = low[k] + (shape_[k] - 1) * step[k] + 1 + some();
        high[k] = low[k] + (shape_[k] - 1) * step[k] + 1;
      }
      Value from = one_in(2) ? input(Shape(dims)) : around(pick(), low, dims);
      if (one_in(3)) from = ops::neg(from);
      values_.push_back(ops::slice(from, low, high, step));
      if (one_in(6)) outputs_.push_back(from);
    } else {
      IntLists config;
      for (std::size_t k = 0; k < rank; ++k) {
        low[k] = std::min(some(), shape_[k] - 1);
        high[k] = shape_[k] - std::min(some(), shape_[k] - 1 - low[k]);
        config.push_back({low[k], shape_[k] - high[k], 0});
      }
      Value from = one_in(3) ? stencil(low, high) : ops::slice(pick(), low, high);
      if (one_in(2)) from = one_in(2) ? ops::neg(from) : times_number(from);
      const Value with = one_in(6) ? scalar() : number(one_in(2) ? 0 : 3);
      values_.push_back(ops::pad(from, with, config));
      if (one_in(3)) {  // and elsewhere
        for (Ints& axis : config) std::swap(axis[0], axis[1]);
        values_.push_back(ops::add(values_.back(), ops::pad(from, with, config)));
      }
    }
    if (one_in(8)) outputs_.push_back(values_.back());
  }
  // A stencil on elements around those in [low, high), as many as there are.
  Value stencil(const Ints& low, const Ints& high) {
    const auto near = [&] {
      Ints starts = low, limits = high;
      for (std::size_t k = 0; k < shape_.size(); ++k) {
        const std::int64_t by = one_in(2) ? 0
                                          : (one_in(2) ? std::min<std::int64_t>(1, shape_[k] - high[k])
                                                       : -std::min<std::int64_t>(1, low[k]));
        starts[k] += by;
        limits[k] += by;
      }
      const Value of = one_in(3) ? times_number(pick()) : pick();
      return ops::slice(of, starts, limits);
    };
    Value sum = near();
    for (std::size_t k = 1 + below(4); k-- > 0;) {
      const Value other = near();
      switch (below(dtype_ == c64 ? 3 : 5)) {
        case 0: sum = ops::sub(sum, other); break;
        case 1: sum = ops::mul(sum, other); break;
        case 2: sum = ops::add(sum, times_number(other)); break;
        case 3: sum = ops::select_n(ops::lt(sum, other), sum, other); break;
        default: sum = is_floating(dtype_) ? ops::div(sum, other) : ops::max(sum, other);
      }
    }
    return sum;
  }
  Value scalar() { return input(Shape(Ints{})); }
  // The value where a slice from `low` on finds it, in an array with these extents.
  Value around(Value x, const Ints& low, const Ints& dims) {
    IntLists config;
    for (std::size_t k = 0; k < dims.size(); ++k)
      config.push_back({low[k], std::max<std::int64_t>(0, dims[k] - low[k] - shape_[k]), 0});
    return ops::pad(x, number(7), config);
  }
  void compute() {
    const Value a = pick(), b = pick();
    switch (below(6)) {
      case 0: values_.push_back(ops::sub(a, b)); break;
      case 1: values_.push_back(ops::add(a, b)); break;
      case 2: values_.push_back(ops::neg(a)); break;
      case 3: values_.push_back(dtype_ == c64 ? ops::add(a, a) : ops::select_n(ops::lt(a, b), a, b)); break;
      case 4: values_.push_back(ops::mul(a, ops::broadcast_scalar(number(2), shape_))); break;
      default: values_.push_back(dtype_ == c64 ? ops::sub(b, a) : ops::max(a, b));
    }
  }

  std::mt19937_64 random_;
  GraphBuilder builder_{"lines"};
  std::int64_t number_ = 0;
  DType dtype_ = f32;
  Shape shape_;
  std::vector<Value> values_, outputs_;
};

CpuOptions lines_options(std::size_t kind, VectorUnits units, std::uint64_t some) {
  CpuOptions options{.threads = 1 + static_cast<int>(some % 2)};
  options.vector_units = units;
  ProgramOptions& program = options.program;
  if (kind == 0) program.fuse = program.block = program.simplify = false;
  if (kind == 2) program.block = false;
  if (kind == 3) program.loop_bytes = 0, program.block_bytes = std::size_t{1} << (10 + some % 9);
  if (kind == 4) program.in_place = some % 3 == 0;
  return options;
}

Graph converted(Type type, DType dtype) {
  GraphBuilder builder("converted");
  return builder.build({ops::convert_element_type(builder.input("x", type), dtype)});
}

std::int64_t peak_of(const Graph& graph) {
  return static_cast<std::int64_t>(CpuExecutor({.threads = 1}).compile(graph).peak_bytes());
}

}  // namespace

TEST_CASE(
    "[fused loads] random graphs of slices, pads, broadcasts, iotas and rolls give the bits of their "
    "operations") {
  constexpr VectorUnits every_kind[] = {VectorUnits::automatic, VectorUnits::avx2, VectorUnits::none};
  std::size_t wrong = 0;
  for (std::uint64_t seed = 0; seed < scaled(300) && wrong < 3; ++seed) {
    LinesGraph lines(seed);
    const Graph graph = lines.build();
    std::mt19937_64& random = lines.random();
    std::vector<Tensor> inputs;
    for (const ValueId id : graph.inputs())
      inputs.push_back(random_tensor(graph.type(id), Domain{-9, 9}, random));
    const VectorUnits units = every_kind[seed % 3];
    CAPTURE(seed);
    const std::vector<Tensor> expected =
        CpuExecutor(lines_options(0, units, 0)).run(graph, std::span<const Tensor>(inputs));
    for (std::size_t kind = 1; kind < 5; ++kind) {
      CAPTURE(kind);
      const Executable executable = CpuExecutor(lines_options(kind, units, random())).compile(graph);
      for (int repeat = 0; repeat < 2; ++repeat) {
        const std::vector<Tensor> got = executable.run(inputs);
        for (std::size_t k = 0; k < got.size(); ++k) {
          // Sums are added in another order block by block.
          const bool same = got[k].size() == 1 ? difference(got[k], expected[k], 100).empty()
                                               : same_bits_or_nan(got[k], expected[k]);
          CHECK_MESSAGE(same, "output ", k, " of ", got.size());
          wrong += !same;
        }
      }
    }
  }
}

TEST_CASE("[fused loads] an addition in place of a scan or a loop is added once") {
  for (const DType dtype : {f32, f64}) {
    for (const std::int64_t extent : {8192, 10001, 16389, 40007}) {
      if (shortened() && extent > 10001) continue;
      CAPTURE(extent);
      GraphBuilder body("body");
      const Value s = body.input("s", {dtype, {extent}}), part = body.input("x", {dtype, {extent - 5}});
      const Value zero = ops::full(body, Type(dtype, {}), 0.0);
      const Graph step = body.build({ops::add(s, ops::pad(part, zero, {{3, 2, 0}}))});
      GraphBuilder scans("scan");
      const std::vector<Value> operands{scans.input("s", {dtype, {extent}}),
                                        scans.input("xs", {dtype, {3, extent - 5}})};
      const Graph scan = scans.build({ops::scan(step, operands, {3, false, 0, 1})[0]});

      GraphBuilder loops("loop");
      const Value x = loops.input("x", {dtype, {100, extent - 5}});
      const Value none = ops::full(loops, Type(dtype, {}), 0.0);
      const Value padded = ops::pad(ops::cumsum(x, 1), none, {{0, 0, 0}, {3, 2, 0}});
      const Graph loop = loops.build({ops::reduce_sum(padded, {0})});

      std::mt19937_64 random(1);
      for (const Graph& graph : {scan, loop}) {
        std::vector<Tensor> inputs;  // small integers, of which any sum is exact
        for (const ValueId id : graph.inputs()) {
          const Tensor drawn = random_tensor(Type(i32, graph.type(id).shape()), Domain{-3, 3}, random);
          inputs.push_back(reference().run(converted(drawn.type(), dtype), {drawn})[0]);
        }
        const Tensor expected = reference().run(graph, std::span<const Tensor>(inputs))[0];
        for (const VectorUnits units : {VectorUnits::automatic, VectorUnits::avx2, VectorUnits::none}) {
          const CpuExecutor executor(lines_options(1, units, 1));
          CHECK(same_bits_or_nan(executor.run(graph, std::span<const Tensor>(inputs))[0], expected));
        }
      }
    }
  }
}

TEST_CASE("[fused loads] chains of layout operations that no fusion lacks give the bits of each of them") {
  if (units().empty()) return;
  constexpr std::int64_t rows = 250, columns = 190;
  const Shape shape{rows, columns};
  std::size_t unmade = 0;
  for (std::uint64_t seed = 0; seed < scaled(200); ++seed) {
    CAPTURE(seed);
    std::mt19937_64 random(seed);
    const auto below = [&](std::int64_t count) {
      return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(count));
    };
    GraphBuilder builder("chains");
    const Value x = builder.input("x", {f64, shape});
    const bool same = below(4) != 0;
    const auto number = [&] { return ops::full(builder, Type(f64, {}), same || below(2) == 0 ? 0.0 : 3.0); };
    const auto cut = [&](const Value& value, std::int64_t down, std::int64_t across) {
      return ops::slice(value, {down, across}, {down + rows, across + columns});
    };
    Value sum = ops::sin(x);
    for (int chain = 0; chain < 2; ++chain) {
      Value value = x;
      const std::int64_t rolls = below(4);  // of 3
      for (std::int64_t k = 2 + below(3); k-- > 0;) {
        if (below(3) < rolls - (rolls == 1 ? 1 : 0)) {
          const std::int64_t axis = below(2), by = 1 + below(shape[static_cast<std::size_t>(axis)] - 1);
          const std::int64_t extent = shape[static_cast<std::size_t>(axis)];
          const auto part = [&](std::int64_t start, std::int64_t limit) {
            return axis == 0 ? ops::slice(value, {start, 0}, {limit, columns})
                             : ops::slice(value, {0, start}, {rows, limit});
          };
          const Value last = part(extent - by, extent), first = part(0, extent - by);
          value = ops::concatenate(std::vector{last, first}, axis);
        } else {
          Ints around;
          for (int side = 0; side < 4; ++side) around.push_back(below(4));
          value = ops::pad(value, number(), {{around[0], around[1], 0}, {around[2], around[3], 0}});
          value = cut(value, below(around[0] + around[1] + 1), below(around[2] + around[3] + 1));
        }
      }
      sum = ops::add(sum, value);
    }
    const Graph graph = builder.build({sum});
    const std::vector<Tensor> inputs{random_tensor({f64, shape}, Domain{-9, 9}, random)};
    for (const bool simplify : {false, true}) {
      CpuOptions options{.threads = 1};
      options.program.simplify = simplify;
      const Executable executable = CpuExecutor(options).compile(graph);
      unmade += executable.peak_bytes() < 2 * 8 * rows * columns;
      const std::vector<Tensor> expected = CpuExecutor(lines_options(0, VectorUnits::automatic, 0))
                                               .run(graph, std::span<const Tensor>(inputs));
      CHECK(same_bits_or_nan(executable.run(inputs)[0], expected[0]));
    }
  }
  CHECK(unmade > scaled(60));
}

TEST_CASE(
    "[fused loads] differences of neighbours take no memory but their result's, and neither do their "
    "gradients") {
  if (units().empty()) return;
  constexpr std::int64_t rows = 512, columns = 700;
  GraphBuilder builder("differences");
  const Value x = builder.input("x", {f64, {rows, columns}});
  const Value down =
      ops::sub(ops::slice(x, {1, 0}, {rows, columns}), ops::slice(x, {0, 0}, {rows - 1, columns}));
  const Value across =
      ops::sub(ops::slice(x, {0, 1}, {rows, columns}), ops::slice(x, {0, 0}, {rows, columns - 1}));
  const std::int64_t bytes = 8 * ((rows - 1) * columns + rows * (columns - 1));
  CHECK(peak_of(builder.build({down, across})) < bytes + 300000);  // a block for each slice of columns

  GraphBuilder periodic("periodic");
  const Value u = periodic.input("u", {f64, {rows, columns}});
  const auto rolled = [&](std::int64_t axis, std::int64_t by) {
    const auto part = [&](std::int64_t start, std::int64_t limit) {
      return axis == 0 ? ops::slice(u, {start, 0}, {limit, columns})
                       : ops::slice(u, {0, start}, {rows, limit});
    };
    const std::int64_t extent = axis == 0 ? rows : columns;
    return ops::concatenate(std::vector{part(extent - by, extent), part(0, extent - by)}, axis);
  };
  const Value up = rolled(0, rows - 1), right_of = rolled(1, columns - 1);
  const Value under = rolled(0, 1), left_of = rolled(1, 1);
  const Value around = ops::add(ops::add(up, under), ops::add(left_of, right_of));
  constexpr std::int64_t masks = 2 * rows * columns;  // of values rolled along rows
  CHECK(peak_of(periodic.build({ops::sub(u, around)})) < 8 * rows * columns + masks + 300000);

  GraphBuilder backward("backward");
  const Value a = backward.input("a", {f64, {rows - 1, columns}}),
              b = backward.input("b", {f64, {rows, columns - 1}});
  const Value zero = ops::full(backward, Type(f64, {}), 0.0);
  const Value above = ops::pad(a, zero, {{1, 0, 0}, {0, 0, 0}}),
              below = ops::pad(a, zero, {{0, 1, 0}, {0, 0, 0}});
  const Value left = ops::pad(b, zero, {{0, 0, 0}, {1, 0, 0}}),
              right = ops::pad(b, zero, {{0, 0, 0}, {0, 1, 0}});
  const Value sum = ops::sub(ops::add(above, left), ops::add(below, right));
  CHECK(peak_of(backward.build({sum})) < 8 * rows * columns + 300000);
}

TEST_CASE("[fused loads] layout operations of layout operations take no memory") {
  if (units().empty()) return;
  constexpr std::int64_t rows = 512, columns = 700, bytes = 8 * rows * columns, blocks = 400000;
  const auto rolled = [](Value x, std::int64_t axis, std::int64_t by) {
    const std::int64_t extent = axis == 0 ? rows : columns;
    const auto part = [&](std::int64_t start, std::int64_t limit) {
      return axis == 0 ? ops::slice(x, {start, 0}, {limit, columns})
                       : ops::slice(x, {0, start}, {rows, limit});
    };
    const Value last = part(extent - by, extent), first = part(0, extent - by);
    return ops::concatenate(std::vector{last, first}, axis);
  };
  SUBCASE("rolls of rolls, around nine points") {
    GraphBuilder builder("nine");
    const Value x = builder.input("x", {f64, {rows, columns}});
    Value sum = x;
    for (const std::int64_t down : {rows - 1, std::int64_t{0}, std::int64_t{1}}) {
      const Value line = down == 0 ? x : rolled(x, 0, down);
      sum = ops::add(sum, ops::sin(line));
      sum = ops::add(sum, ops::add(rolled(line, 1, 1), rolled(line, 1, columns - 1)));
    }
    CHECK(peak_of(builder.build({sum})) < bytes + blocks);
  }
  SUBCASE("pads of slices, as the gradient of a roll has them") {
    GraphBuilder builder("backward");
    const Value ct = builder.input("ct", {f64, {rows, columns}});
    const Value zero = ops::full(builder, Type(f64, {}), 0.0);
    Value sum = ops::sin(ct);
    sum = ops::add(sum, ops::pad(ops::slice(ct, {0, 0}, {1, columns}), zero, {{rows - 1, 0, 0}, {0, 0, 0}}));
    sum = ops::add(sum, ops::pad(ops::slice(ct, {1, 0}, {rows, columns}), zero, {{0, 1, 0}, {0, 0, 0}}));
    sum = ops::add(sum, ops::pad(ops::slice(ct, {0, 0}, {rows, 1}), zero, {{0, 0, 0}, {columns - 1, 0, 0}}));
    sum = ops::add(sum, ops::pad(ops::slice(ct, {0, 1}, {rows, columns}), zero, {{0, 0, 0}, {0, 1, 0}}));
    CHECK(peak_of(builder.build({sum})) < bytes + blocks);
  }
  SUBCASE("slices of padded values") {
    GraphBuilder builder("padded");
    const Value x = builder.input("x", {f64, {rows, columns}});
    const Value wide = ops::pad(x, ops::full(builder, Type(f64, {}), 3.0), {{1, 1, 0}, {1, 1, 0}});
    const Value up = ops::slice(wide, {0, 1}, {rows, columns + 1}),
                right = ops::slice(wide, {1, 2}, {rows + 1, columns + 2});
    CHECK(peak_of(builder.build({ops::mul(ops::add(x, up), right)})) < bytes + blocks);
  }
  SUBCASE("one that two fusions read, which the first of them leaves") {
    GraphBuilder builder("twice");
    const Value x = builder.input("x", {f64, {rows, columns}});
    const Value moved = rolled(x, 1, 1);
    const Value first = ops::rev(ops::sin(ops::sub(x, moved)), {0});
    CHECK(peak_of(builder.build({ops::mul(ops::add(first, moved), x)})) < 4 * bytes + blocks);
  }
  SUBCASE("one that a fusion reads, and something else") {
    GraphBuilder builder("else");
    const Value x = builder.input("x", {f64, {rows, columns}});
    const Value moved = rolled(x, 1, 1);  // which is made of two slices that are
    const Value sum = ops::mul(ops::add(moved, rolled(moved, 0, 1)), x);
    CHECK(peak_of(builder.build({sum, ops::rev(moved, {0})})) < 4 * bytes + blocks);
  }
}
