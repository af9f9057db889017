// Random graphs of patterns that simplify rules match (signs, units, shape changes and their inverses,
// transposes around matmuls): simplified ones give the same bits on both executors, with every NaN, infinity
// and zero.
#include <numeric>
#include <random>

#include "simplify_support.hpp"
#include "support/support.hpp"

namespace tidu::test {
namespace {

class Generator {
 public:
  Generator(std::uint64_t seed, DType dtype) : random_(seed), dtype_(dtype), builder_("f") {
    for (int i = 0; i < 3; ++i)
      values_.push_back(builder_.input("x" + std::to_string(i), Type(dtype, shape())));
  }
  Graph make() {
    const std::size_t count = 4 + below(24);
    for (std::size_t i = 0; i < count; ++i) {
      Value next = operation();
      if (next.dtype() != dtype_) next = ops::convert_element_type(next, dtype_);
      if (next.type().size() <= 2000 && next.rank() <= 5) values_.push_back(next);
    }
    std::vector<Value> outputs;
    for (int i = 0; i < 4; ++i)
      outputs.push_back(values_[values_.size() - 1 - below(std::min<std::size_t>(6, values_.size()))]);
    return builder_.build(outputs);
  }
  std::vector<Tensor> inputs(const Graph& graph) {
    std::vector<Tensor> tensors;
    for (const ValueId id : graph.inputs()) {
      tensors.push_back(special_tensor(graph.type(id), [&](std::size_t) {
        constexpr std::size_t ordinary[] = {1, 5, 6, 7, 8, 9, 10, 11, 0};
        return below(8) == 0 ? below(20) : ordinary[below(9)];
      }));
    }
    return tensors;
  }

 private:
  std::size_t below(std::size_t count) { return random_() % count; }
  bool coin() { return below(2) == 0; }
  Shape shape() {
    Shape shape(below(4));
    for (std::int64_t& extent : shape) extent = extents_[below(4)];
    return shape;
  }
  Value any() {
    return values_[below(3) == 0 ? below(values_.size())
                                 : values_.size() - 1 - below(std::min<std::size_t>(4, values_.size()))];
  }
  Value splat(Value x) {
    constexpr double numbers[] = {1, -1, 0, -0.0, 2, 0.5, 3, -4};
    return ops::full_like(x, numbers[below(8)]);
  }
  // A value of x's type: another one, a broadcast, or equal elements.
  Value like(Value x) {
    std::vector<Value> fitting;
    for (const Value value : values_) {
      if (value.type() == x.type()) fitting.push_back(value);
      if (value.rank() == 1 && x.rank() > 1) {
        for (std::size_t axis = 0; axis < x.rank(); ++axis) {
          if (x.shape()[axis] == value.shape()[0])
            fitting.push_back(ops::broadcast_in_dim(value, x.shape(), {static_cast<std::int64_t>(axis)}));
        }
      }
      if (value.rank() == 0 && x.rank() > 0) fitting.push_back(ops::broadcast_scalar(value, x.shape()));
    }
    return below(3) == 0 || fitting.empty() ? splat(x) : fitting[below(fitting.size())];
  }
  Ints some_axes(Value x) {
    Ints axes;
    for (std::size_t axis = 0; axis < x.rank(); ++axis) {
      if (coin()) axes.push_back(static_cast<std::int64_t>(axis));
    }
    return axes;
  }
  Ints permutation(Value x) {
    Ints order(x.rank());
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin(), order.end(), random_);
    return order;
  }

  Value operation() {
    const Value x = any();
    switch (below(12)) {
      case 0:
      case 1: return unary(x);
      case 2:
      case 3:
      case 4: return binary(x);
      case 5:
      case 6: return view(x);
      case 7: return ops::transpose(x, permutation(x));
      case 8: return move(x);
      case 9: return reduction(x);
      case 10: return product(x);
      default: return choice(x);
    }
  }
  Value unary(Value x) {
    switch (below(9)) {
      case 0: return ops::abs(x);
      case 1: return ops::square(x);
      case 2: return ops::stop_gradient(x);
      case 3: return ops::integer_pow(x, static_cast<std::int64_t>(below(3)));
      case 4: return ops::sign(x);
      case 5: return is_floating(dtype_) ? ops::sqrt(x) : ops::neg(x);
      case 6: return is_floating(dtype_) ? ops::tanh(x) : ops::neg(x);
      default: return ops::neg(x);
    }
  }
  Value binary(Value x) {
    const Value y = coin() ? like(x) : ops::neg(like(x));
    switch (below(6)) {
      case 0: return ops::add(x, y);
      case 1: return ops::sub(x, y);
      case 2: return ops::mul(x, y);
      case 3: return ops::div(x, y);
      case 4: return ops::max(x, y);
      default: return ops::mul(y, x);
    }
  }
  Value view(Value x) {
    switch (below(4)) {
      case 0: return ops::reshape(x, {x.type().size()});
      case 1: {
        Ints axes;
        for (std::size_t axis = 0; axis <= x.rank(); ++axis) {
          if (below(3) == 0) axes.push_back(static_cast<std::int64_t>(axis));
        }
        Ints fitting;
        for (const std::int64_t axis : axes) {
          if (axis < static_cast<std::int64_t>(x.rank() + axes.size())) fitting.push_back(axis);
        }
        return ops::expand_dims(x, fitting);
      }
      case 2: {
        Ints ones;
        for (std::size_t axis = 0; axis < x.rank(); ++axis) {
          if (x.shape()[axis] == 1) ones.push_back(static_cast<std::int64_t>(axis));
        }
        return ops::squeeze(x, ones);
      }
      default: {
        Shape shape = x.shape();
        for (std::size_t axis = 0; axis < shape.size(); ++axis) {
          if (shape[axis] != 4 && shape[axis] != 6) continue;
          shape[axis] /= 2;
          shape.insert(shape.begin() + static_cast<std::ptrdiff_t>(axis), 2);
          break;
        }
        return ops::reshape(x, shape);
      }
    }
  }
  Value move(Value x) {
    const std::size_t rank = x.rank();
    switch (below(5)) {
      case 0: {
        Shape shape = x.shape();
        Ints placed(rank);
        const std::size_t at = below(rank + 1);
        shape.insert(shape.begin() + static_cast<std::ptrdiff_t>(at), extents_[below(4)]);
        for (std::size_t i = 0; i < rank; ++i) placed[i] = static_cast<std::int64_t>(i < at ? i : i + 1);
        return ops::broadcast_in_dim(x, shape, placed);
      }
      case 1: return ops::rev(x, some_axes(x));
      case 2: {
        Ints start(rank), limit = x.shape(), strides(rank);
        for (std::size_t i = 0; i < rank; ++i) {
          start[i] = static_cast<std::int64_t>(below(static_cast<std::size_t>(limit[i])));
          strides[i] = 1 + static_cast<std::int64_t>(below(2));
          if (coin()) start[i] = 0, strides[i] = 1;
        }
        return ops::slice(x, start, limit, strides);
      }
      case 3: {
        IntLists config(rank);
        for (Ints& entry : config) entry = coin() ? Ints{0, 0, 0} : Ints{1, 0, 0};
        return ops::pad(x, splat(ops::full(builder_, Type(dtype_), 0)), config);
      }
      default: {
        if (rank == 0) return x;
        return ops::concatenate(std::vector{x, like(x)}, static_cast<std::int64_t>(below(rank)));
      }
    }
  }
  Value reduction(Value x) {
    const Ints axes = some_axes(x);
    switch (below(3)) {
      case 0: return ops::reduce_max(x, axes);
      case 1: return ops::reduce_min(x, axes);
      default: return ops::reduce_sum(x, axes);
    }
  }
  // Over one axis, or two; with one axis as batch, where extents agree.
  Value product(Value x) {
    Value y = any();
    if (coin()) x = ops::transpose(x, permutation(x));
    if (coin()) y = ops::transpose(y, permutation(y));
    ops::DotDimensionNumbers d;
    std::vector<bool> taken(y.rank(), false);
    for (std::size_t i = 0; i < x.rank(); ++i) {
      for (std::size_t j = 0; j < y.rank(); ++j) {
        if (taken[j] || x.shape()[i] != y.shape()[j] || below(3) == 0) continue;
        taken[j] = true;
        const bool batch = coin();
        (batch ? d.lhs_batch : d.lhs_contracting).push_back(static_cast<std::int64_t>(i));
        (batch ? d.rhs_batch : d.rhs_contracting).push_back(static_cast<std::int64_t>(j));
        break;
      }
    }
    const Value z = ops::dot_general(x, y, d);
    return coin() ? z : ops::transpose(z, permutation(z));
  }
  Value choice(Value x) {
    const Value y = like(x);
    Value p = coin() ? ops::lt(x, y) : ops::eq(y, x);
    if (coin()) p = ops::logical_not(p);
    if (below(4) == 0)
      return ops::convert_element_type(ops::convert_element_type(p, coin() ? i32 : f32), dtype_);
    const Value inner = coin() ? y : ops::select_n(p, y, ops::neg(x));
    return ops::select_n(p, x, inner);
  }

  std::mt19937_64 random_;
  DType dtype_;
  GraphBuilder builder_;
  std::vector<Value> values_;
  static constexpr std::int64_t extents_[] = {1, 2, 3, 4};
};

}  // namespace

TEST_CASE("simplify: random graphs give the same bits") {
  const std::size_t count = scaled(6000);
  std::size_t changed = 0, before = 0, after = 0, wrong = 0;
  for (std::size_t seed = 0; seed < count && wrong < 5; ++seed) {
    constexpr DType dtypes[] = {f64, f32, i32, i64};
    Generator generator(seed, dtypes[seed % 4]);
    const Graph graph = prune(generator.make());
    const Graph simplified = passes::simplify(graph, false);
    before += graph.num_operations();
    after += simplified.num_operations();
    if (!structurally_equal(graph, simplified)) ++changed;
    const std::vector<Tensor> inputs = generator.inputs(graph);
    std::string text;
    for (const Executor* executor : std::initializer_list<const Executor*>{&reference(), &plain_cpu()}) {
      if (executor == &plain_cpu() && has_products(graph)) continue;
      const Graph folded = passes::fold_constants(simplified, evaluator(*executor), ProgramOptions());
      verify(folded);
      text += differences(*executor, graph, simplified, inputs);
      text += differences(*executor, graph, folded, inputs);
    }
    if (text.empty()) continue;
    ++wrong;
    FAIL_CHECK(detail::str("seed ", seed, ":\n", text));
  }
  MESSAGE("operations: ", before, ", simplified ", after, "; graphs changed: ", changed, " of ", count);
  CHECK(changed * 2 > count);
}

}  // namespace tidu::test
