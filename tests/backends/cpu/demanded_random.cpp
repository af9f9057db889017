// Random graphs of integers in which matmuls are gathered, scattered and sliced by constant indices, by
// several readers each, so that some of their elements have no reader: run in every way they have the
// elements of the reference. TIDU_TEST_SCALE=20 makes them 20 times as many.
#include <algorithm>
#include <string>

#include "cpu/compare.hpp"
#include "support/support.hpp"

using namespace tidu;
using namespace tidu::test;

namespace {

class GraphWithDeadCode {
 public:
  explicit GraphWithDeadCode(std::uint64_t seed) : random_(seed), dtype_(seed % 3 == 0 ? f32 : f64) {
    for (std::size_t k = 1 + below(2); k-- > 0;) values_.push_back(product());
    for (std::size_t k = 2 + below(6); k-- > 0;) step();
  }

  Graph build() {
    std::vector<Value> outputs{values_.back()};
    for (std::size_t k = below(3); k-- > 0;) outputs.push_back(pick());
    return builder_.build(outputs);
  }
  std::mt19937_64& random() { return random_; }

 private:
  std::uint64_t below(std::uint64_t count) { return random_() % count; }
  std::int64_t between(std::int64_t low, std::int64_t high) {
    return low + static_cast<std::int64_t>(below(static_cast<std::uint64_t>(high - low + 1)));
  }
  bool one_in(std::uint64_t count) { return below(count) == 0; }
  Value pick() { return values_[below(values_.size())]; }
  std::size_t axis_of(Value x) { return below(x.rank()); }

  // Small integers, whose sums are exact.
  Value input(const Shape& shape) {
    const std::string name = "x" + std::to_string(count_++);
    return ops::convert_element_type(builder_.input(name, Type(i32, shape)), dtype_);
  }
  Value product() {
    const std::int64_t m = between(3, 40), n = between(3, 40), k = between(1, 40);
    if (one_in(2)) return ops::dot_general(input({m, k}), input({n, k}), {{1}, {1}, {}, {}});
    const std::int64_t batch = between(1, 4);
    return ops::dot_general(input({batch, k, m}), input({batch, k, n}), {{1}, {1}, {0}, {0}});
  }

  // A permutation of the positions of an extent; some may be repeated or out of range.
  Value indices(std::int64_t count, std::int64_t extent) {
    std::vector<std::int64_t> which;
    for (std::int64_t i = 0; i < count; ++i) which.push_back(i % extent);
    std::shuffle(which.begin(), which.end(), random_);
    if (one_in(3)) {
      const std::int64_t sink = between(-1, extent);
      for (std::int64_t& index : which) {
        if (one_in(3)) index = sink;
      }
    }
    Shape shape{count};
    if (count % 2 == 0 && one_in(3)) shape = {count / 2, 2};
    if (one_in(2)) return ops::constant(builder_, Literal::of<std::int64_t>(Type(i64, shape), which));
    const std::vector<std::int32_t> narrow(which.begin(), which.end());
    return ops::constant(builder_, Literal::of<std::int32_t>(Type(i32, shape), narrow));
  }
  const char* mode() { return one_in(2) ? "clip" : "drop"; }

  void step() {
    const Value x = pick();
    if (x.type().size() > 20000 || x.rank() == 0) return;
    const std::size_t axis = axis_of(x);
    const auto along = static_cast<std::int64_t>(axis);
    const std::int64_t extent = x.shape()[axis];
    switch (below(6)) {
      case 0: values_.push_back(one_in(2) ? ops::neg(x) : x + x); return;
      case 1: values_.push_back(ops::reshape(x, {x.type().size()})); return;
      case 2: {
        const std::int64_t count = one_in(2) ? extent : between(1, extent);
        values_.push_back(ops::take(x, indices(count, extent), along, mode()));
        return;
      }
      case 3: values_.push_back(sliced(x)); return;
      case 4: {  // perhaps one more position, for elements that are not wanted
        Shape shape = x.shape();
        shape[axis] += between(0, 1);
        const Value into = ops::full(builder_, x.type().with_shape(shape), one_in(4) ? 3.0 : 0.0);
        const Value which = ops::reshape(indices(extent, shape[axis]), {extent});
        const Value sums = ops::scatter_add(into, which, x, along, mode());
        values_.push_back(shape[axis] != extent && one_in(2) ? sliced(sums) : sums);
        return;
      }
      default: values_.push_back(ops::reduce_sum(x, {along})); return;
    }
  }
  Value sliced(Value x) {
    const std::size_t axis = axis_of(x);
    Ints begin(x.rank(), 0), end = x.shape(), strides(x.rank(), 1);
    begin[axis] = between(0, end[axis] - 1);
    end[axis] = between(begin[axis] + 1, end[axis]);
    if (one_in(4)) strides[axis] = between(1, 3);
    return ops::slice(x, begin, end, strides);
  }

  std::mt19937_64 random_;
  DType dtype_;
  GraphBuilder builder_{"unread"};
  std::vector<Value> values_;
  int count_ = 0;
};

bool same_numbers(const Tensor& a, const Tensor& b) {
  bool same = a.type() == b.type();
  for (std::int64_t i = 0; same && i < a.size(); ++i) same = a.at(i) == b.at(i);
  return same;
}

}  // namespace

TEST_CASE("[matmuls] random graphs of matmuls of which some elements are not read") {
  const std::size_t count = scaled(2000);
  std::size_t wrong = 0;
  for (std::size_t seed = 0; seed < count && wrong < 3; ++seed) {
    GraphWithDeadCode made(seed);
    const Graph graph = made.build();
    std::vector<Tensor> inputs;
    for (const ValueId id : graph.inputs())
      inputs.push_back(random_tensor(graph.type(id), {-3, 3}, made.random()));
    const auto expected = reference().run(graph, std::span<const Tensor>(inputs));
    for (int way = 0; way < 4; ++way) {
      CpuOptions options;
      options.threads = 1 + way % 2;
      if (way == 2) options.program.simplify = false;
      if (way == 3) options.program.loop_bytes = 0;
      const auto got = cpu().with_options(options).run(graph, inputs);
      bool same = true;
      for (std::size_t i = 0; i < got.size(); ++i) same = same && same_numbers(got[i], expected[i]);
      if (same) continue;
      ++wrong;
      FAIL_CHECK("seed ", seed, ", way ", way, ":\n", to_text(graph));
    }
  }
}
