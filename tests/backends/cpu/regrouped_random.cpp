// Random graphs of integers in many shapes: values that are sliced, padded, rolled, repeated, counted or
// transposed in one shape meet, in one fusion, values of another shape whose rows are longer, shorter or
// begin elsewhere; rows are reduced and repeated in several lengths; columns are gathered from a matrix and
// its transpose, some of them twice. Run in every way, and with donated inputs, they have the bits of the
// reference. TIDU_TEST_SCALE=20 makes them 20 times as many.
#include <algorithm>

#include "cpu/compare.hpp"
#include "support/support.hpp"

using namespace tidu;
using namespace tidu::test;

namespace {

// A value of integers, and their maximum: all computations on them are exact.
struct Whole {
  Value value;
  double most;
};

class RegroupedGraph {
 public:
  explicit RegroupedGraph(std::uint64_t seed) : random_(seed) {
    constexpr DType dtypes[] = {f32, f32, f64, f64, i32, i64};
    dtype_ = dtypes[below(std::size(dtypes))];
    constexpr std::int64_t factors[] = {2, 2, 2, 2, 3, 3, 4, 5, 5, 7, 8, 10, 11, 13, 16, 32};
    const std::int64_t most = one_in(2) ? 2000 : 50000;
    while (size_ < most / 3) {
      const std::int64_t factor = factors[below(std::size(factors))];
      if (size_ * factor <= most) size_ *= factor;
    }
    main_ = one_in(4) ? Shape{size_} : shape();
    for (std::size_t k = 2 + below(4); k-- > 0;) add(moved(one_in(3) ? main_ : shape()));
    if (one_in(3)) columns();
    for (std::size_t k = 2 + below(8); k-- > 0;) compute();
  }

  Graph build() {
    std::vector<Value> outputs;
    for (std::size_t k = 1 + below(3); k-- > 0;) {
      const Whole x = pick();
      if (one_in(2)) outputs.push_back(one_in(3) ? ops::reshape(x.value, shape()) : x.value);
      outputs.push_back(reduced(x, one_in(2) ? all_axes() : some_axes()).value);
      if (one_in(8)) outputs.push_back(outputs[0]);
    }
    outputs.insert(outputs.end(), outputs_.begin(), outputs_.end());
    return builder_.build(outputs);
  }
  std::mt19937_64& random() { return random_; }

 private:
  std::uint64_t below(std::uint64_t count) { return random_() % count; }
  std::int64_t between(std::int64_t low, std::int64_t high) {
    return low + static_cast<std::int64_t>(below(static_cast<std::uint64_t>(high - low + 1)));
  }
  bool one_in(std::uint64_t count) { return below(count) == 0; }
  Whole pick() { return values_[values_.size() - 1 - below(std::min<std::size_t>(values_.size(), 5))]; }
  Value number(double value) { return ops::full(builder_, Type(dtype_, {}), value); }
  Whole within(const Whole& x, double most) {
    return x.most <= most ? x : Whole{ops::clamp(number(-3), x.value, number(3)), 3};
  }
  void add(const Whole& x) {
    const bool fits = x.value.shape() == main_;
    values_.push_back(within({fits ? x.value : ops::reshape(x.value, main_), x.most}, 400));
  }

  // The number of elements as one to three extents.
  Shape shape() {
    Shape dims(one_in(2) ? 2 : 1 + below(3), 1);
    std::vector<std::int64_t> primes;
    std::int64_t left = size_;
    for (std::int64_t p = 2; left > 1; ++p) {
      for (; left % p == 0; left /= p) primes.push_back(p);
    }
    for (const std::int64_t p : primes) dims[below(dims.size())] *= p;
    if (dims.size() == 2 && dims[1] < 64 && dims[0] >= 64) std::swap(dims[0], dims[1]);  // long lines
    return dims;
  }
  Ints all_axes() const {
    Ints axes;
    for (std::size_t k = 0; k < main_.size(); ++k) axes.push_back(static_cast<std::int64_t>(k));
    return axes;
  }
  Ints some_axes() {
    Ints axes;
    for (std::size_t k = 0; k < main_.size(); ++k) {
      if (one_in(2)) axes.push_back(static_cast<std::int64_t>(k));
    }
    if (axes.empty()) axes.push_back(static_cast<std::int64_t>(main_.size()) - 1);
    return axes;
  }

  // An input of the shape, or an existing value of it.
  Whole source(const Shape& dims) {
    const bool fits = num_elements(dims) == size_;
    if (fits && !values_.empty() && one_in(2)) return {ops::reshape(pick().value, dims), 400};
    if (last_.value.emitter() != nullptr && last_.value.shape() == dims && one_in(2)) return last_;
    if (!dims.empty() && one_in(4)) return moved(dims);
    return last_ = {builder_.input(detail::str("x", number_++), {dtype_, dims}), 3};
  }
  // A value of the shape whose elements come from elsewhere, or are no memory's.
  Whole moved(const Shape& dims) {
    const std::size_t axis = one_in(3) ? below(dims.size()) : dims.size() - 1;
    const auto along = static_cast<std::int64_t>(axis);
    const std::int64_t extent = dims[axis];
    Shape from = dims;
    switch (below(10)) {
      case 0: {  // of a longer one
        const std::int64_t low = between(0, 3), step = one_in(6) ? 2 : 1;
        Ints starts(dims.size(), 0), limits(dims.begin(), dims.end()), steps(dims.size(), 1);
        starts[axis] = low, steps[axis] = step, limits[axis] = low + (extent - 1) * step + 1;
        from[axis] = limits[axis] + between(0, 2);
        const Whole x = source(from);
        return {ops::slice(x.value, starts, limits, steps), x.most};
      }
      case 1: {  // of a shorter one
        IntLists config(dims.size(), Ints{0, 0, 0});
        const std::int64_t low = std::min(extent - 1, between(0, 3));
        const std::int64_t high = std::min(extent - 1 - low, between(0, 2));
        config[axis] = {low, high, 0};
        from[axis] -= low + high;
        const Whole x = source(from);
        return {ops::pad(x.value, number(one_in(2) ? 0 : 2), config), x.most};
      }
      case 2:
      case 3: {  // repeated
        Shape rest;
        Ints placed;
        for (std::size_t k = 0; k < dims.size(); ++k) {
          if (one_in(2)) continue;
          rest.push_back(one_in(5) ? 1 : dims[k]);
          placed.push_back(static_cast<std::int64_t>(k));
        }
        const Whole x = source(rest);
        return {ops::broadcast_in_dim(x.value, dims, placed), x.most};
      }
      case 4: {  // rolled
        const Whole x = source(dims);
        if (extent < 2) return x;
        Ints begin(dims.size(), 0), end(dims.begin(), dims.end()), cut = begin, limit = end;
        cut[axis] = limit[axis] = one_in(2) ? 1 : between(1, extent - 1);
        const std::vector<Value> parts{ops::slice(x.value, cut, end), ops::slice(x.value, begin, limit)};
        return {ops::concatenate(parts, along), x.most};
      }
      case 5: {  // transposed
        Ints order;
        for (std::size_t k = 0; k < dims.size(); ++k) order.push_back(static_cast<std::int64_t>(k));
        std::shuffle(order.begin(), order.end(), random_);
        for (std::size_t k = 0; k < dims.size(); ++k) from[static_cast<std::size_t>(order[k])] = dims[k];
        const Whole x = source(from);
        return {ops::transpose(x.value, order), x.most};
      }
      case 6: return source(dims);
      default: return {ops::iota(builder_, {dtype_, dims}, along), static_cast<double>(extent)};
    }
  }

  Whole reduced(const Whole& x, const Ints& axes) {
    std::int64_t count = 1;
    for (const std::int64_t axis : axes) count *= main_[static_cast<std::size_t>(axis)];
    if (one_in(3)) return {ops::reduce_max(x.value, axes), x.most};
    const Whole some = within(x, 1e7 / static_cast<double>(count));
    return {ops::reduce_sum(some.value, axes), some.most * static_cast<double>(count)};
  }
  void compute() {
    const Whole a = pick(), b = values_[below(values_.size())];
    const Value x = a.value, y = b.value;
    switch (below(9)) {
      case 0: return add({ops::sub(x, y), a.most + b.most});
      case 1: return add({ops::mul(x, y), a.most * b.most});
      case 2: return add({ops::max(x, ops::neg(y)), std::max(a.most, b.most)});
      case 3: return add({ops::select_n(ops::lt(x, y), x, y), std::max(a.most, b.most)});
      case 4: return add({ops::mul(x, ops::full_like(x, 2)), 2 * a.most});
      case 5: return add(moved(shape()));
      case 6: {  // reductions of rows or columns, repeated
        const Ints axes = some_axes();
        const Whole reduction = within(reduced(a, axes), 400);
        Ints placed;
        for (std::size_t k = 0; k < main_.size(); ++k) {
          const auto axis = static_cast<std::int64_t>(k);
          if (std::find(axes.begin(), axes.end(), axis) == axes.end()) placed.push_back(axis);
        }
        if (one_in(3)) outputs_.push_back(reduction.value);
        return add({ops::broadcast_in_dim(reduction.value, main_, placed), reduction.most});
      }
      default: return add({ops::add(x, y), a.most + b.most});
    }
  }

  // Columns of a matrix with so many rows as there are elements, computed with and perhaps brought to rows.
  void columns() {
    const std::int64_t width = between(1, 6);
    const bool lies = one_in(3);
    const Value matrix = builder_.input("matrix", {dtype_, lies ? Shape{width, size_} : Shape{size_, width}});
    const Value transposed = ops::transpose(matrix, {1, 0});
    std::vector<Value> made, rows;
    for (std::size_t k = 2 + below(6); k-- > 0;) {
      const std::int64_t at = between(0, width - 1);
      const Value of = one_in(2) ? matrix : transposed;
      const Value column = of.shape()[0] == size_ ? ops::slice(of, {0, at}, {size_, at + 1})
                                                  : ops::slice(of, {at, 0}, {at + 1, size_});
      made.push_back(ops::reshape(column, {size_}));
      if (made.size() == 1) continue;
      const Value last = made[made.size() - 2];
      made.back() = one_in(3) ? ops::max(made.back(), last) : ops::sub(made.back(), last);
      rows.push_back(ops::reshape(made.back(), {size_, 1}));
    }
    add({made.back(), 24});
    if (one_in(3)) outputs_.push_back(ops::concatenate(rows, 1));
  }

  std::mt19937_64 random_;
  GraphBuilder builder_{"regrouped"};
  std::int64_t size_ = 1, number_ = 0;
  DType dtype_ = f32;
  Shape main_;
  Whole last_{};  // input
  std::vector<Whole> values_;
  std::vector<Value> outputs_;
};

// Two to four arrays of that many elements, each in rows of its own length, a function of their elements, and
// its sum.
class SummedLines {
 public:
  explicit SummedLines(std::uint64_t seed) : random_(seed) {
    constexpr DType dtypes[] = {f32, f32, f64, i32, i64};
    dtype_ = dtypes[random_() % std::size(dtypes)];
    size_ = 60 * between(280, 1000);
    for (std::int64_t length = 33; length < 3000; ++length) {
      if (size_ % length == 0) lengths_.push_back(length);
    }
    Whole sum = flat(lines());
    for (std::int64_t k = between(1, 3); k > 0; --k) {
      const Whole other = flat(lines());
      const double product = sum.most * other.most;
      if (product * static_cast<double>(size_) < 1.6e7 && between(0, 2) != 0) {
        sum = {ops::mul(sum.value, other.value), product};
      } else {
        sum = {ops::sub(sum.value, other.value), sum.most + other.most};
      }
    }
    if (sum.most * static_cast<double>(size_) > 1.6e7) {
      const Value high = ops::full(builder_, dtype_, 200), low = ops::full(builder_, dtype_, -200);
      sum.value = ops::clamp(low, sum.value, high);
    }
    outputs_.push_back(ops::reduce_sum(sum.value, {0}));
    if (between(0, 2) == 0) outputs_.push_back(ops::reshape(sum.value, {size_ / 60, 60}));
  }
  Graph build() { return builder_.build(outputs_); }
  std::mt19937_64& random() { return random_; }

 private:
  std::int64_t between(std::int64_t low, std::int64_t high) {
    return low + static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(high - low + 1));
  }
  Value input(const Shape& shape) { return builder_.input(detail::str("x", number_++), {dtype_, shape}); }
  Whole flat(const Whole& x) { return {ops::reshape(x.value, {size_}), x.most}; }
  Whole lines() {
    const std::int64_t last = static_cast<std::int64_t>(lengths_.size()) - 1;
    const std::int64_t line = lengths_[static_cast<std::size_t>(between(0, last))], count = size_ / line;
    const std::int64_t before = between(0, 2), behind = between(1, 2);
    const Value two = ops::full(builder_, dtype_, 2);
    switch (between(0, 5)) {
      case 0:
      case 1: return {ops::iota(builder_, {dtype_, {count, line}}, 1), static_cast<double>(line)};
      case 2: return {ops::broadcast_in_dim(input({line}), {count, line}, {1}), 3};
      case 3: {  // some lines of which are padding
        const std::int64_t above = std::min(before, count - 1);
        const Value rest = ops::broadcast_in_dim(input({line - behind}), {count - above, line - behind}, {1});
        return {ops::pad(rest, two, {{above, 0, 0}, {0, behind, 0}}), 3};
      }
      case 4:
        return {ops::pad(input({count, line - before - behind}), two, {{0, 0, 0}, {before, behind, 0}}), 3};
      default: {
        const Value x = input({count, before + line + behind});
        return {ops::slice(x, {0, before}, {count, before + line}), 3};
      }
    }
  }

  std::mt19937_64 random_;
  GraphBuilder builder_{"summed"};
  DType dtype_ = f32;
  std::int64_t size_ = 0, number_ = 0;
  Ints lengths_;  // of lines
  std::vector<Value> outputs_;
};

CpuOptions regrouped_options(std::size_t kind, VectorUnits units, std::uint64_t some) {
  CpuOptions options{.threads = 1 + static_cast<int>(some % 3)};
  options.vector_units = units;
  ProgramOptions& program = options.program;
  if (kind == 1) program.block = false;
  if (kind == 2) program.simplify = false;
  if (kind == 3) program.loop_bytes = 0, program.block_bytes = std::size_t{1} << (9 + some % 8);
  if (kind == 4) program.fuse = program.offset_views = some % 2 == 0;
  return options;
}

Tensor drawn_whole(Type type, std::mt19937_64& random) {
  const Tensor drawn = random_tensor(Type(i32, type.shape()), Domain{-3, 3}, random);
  GraphBuilder builder("converted");
  const Graph graph =
      builder.build({ops::convert_element_type(builder.input("x", drawn.type()), type.dtype())});
  return CpuExecutor({.threads = 1}).run(graph, std::vector<Tensor>{drawn})[0];
}

// Every element is equal: a zero of either sign is one.
bool are_equal(const std::vector<Tensor>& got, const std::vector<Tensor>& expected) {
  for (std::size_t k = 0; k < expected.size(); ++k) {
    if (got[k].type() != expected[k].type()) return false;
    for (std::int64_t i = 0; i < got[k].size(); ++i) {
      if (got[k].at(i) != expected[k].at(i)) return false;
    }
  }
  return true;
}

}  // namespace

TEST_CASE("[fused loads] random graphs of integers in many shapes have the results of the reference") {
  constexpr VectorUnits every_kind[] = {VectorUnits::automatic, VectorUnits::avx2, VectorUnits::none};
  std::size_t wrong = 0;
  for (std::uint64_t seed = 0; seed < scaled(250) && wrong < 3; ++seed) {
    RegroupedGraph regrouped(seed);
    const Graph graph = regrouped.build();
    std::mt19937_64& random = regrouped.random();
    std::vector<Tensor> inputs;
    for (const ValueId id : graph.inputs()) inputs.push_back(drawn_whole(graph.type(id), random));
    CAPTURE(seed);
    const std::vector<Tensor> expected = reference().run(graph, inputs);
    for (std::size_t kind = 0; kind < 5; ++kind) {
      CAPTURE(kind);
      const Executable executable =
          CpuExecutor(regrouped_options(kind, every_kind[random() % 3], random())).compile(graph);
      const bool once = are_equal(executable.run(inputs), expected);
      CHECK(once);
      std::vector<Tensor> outputs(expected.size());
      std::vector<const Tensor*> given;
      for (const Tensor& input : inputs) given.push_back(&input);
      for (const ReusableInputs& reusable : executable.reusable_inputs()) {
        outputs[reusable.outputs[0]] = inputs[reusable.inputs[0]].clone();
        given[reusable.inputs[0]] = &outputs[reusable.outputs[0]];
      }
      executable.run_into(given, outputs);
      const bool again = are_equal(outputs, expected);
      CHECK(again);
      wrong += !once || !again;
    }
  }
}

TEST_CASE("[fused loads] random sums of arrays in lines of several lengths") {
  CpuOptions plain{.threads = 1};
  plain.program.fuse = plain.program.block = false;
  std::size_t wrong = 0;
  for (std::uint64_t seed = 0; seed < scaled(600) && wrong < 3; ++seed) {
    SummedLines summed(seed);
    const Graph graph = summed.build();
    std::mt19937_64& random = summed.random();
    std::vector<Tensor> inputs;
    for (const ValueId id : graph.inputs()) inputs.push_back(drawn_whole(graph.type(id), random));
    CAPTURE(seed);
    const std::vector<Tensor> expected = CpuExecutor(plain).run(graph, std::span<const Tensor>(inputs));
    CpuOptions options{.threads = 1 + static_cast<int>(seed % 2)};
    options.program.block = seed % 4 != 0;
    const bool same = are_equal(CpuExecutor(options).run(graph, std::span<const Tensor>(inputs)), expected);
    CHECK(same);
    wrong += !same;
  }
}
