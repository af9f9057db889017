// executor_kit_random.cpp - seeded random graphs of the standard primitives that an executor has: some inputs
// of ranks 0 to 2 and one extent (which may be 0), shared and repeated values, several outputs. Exact ones
// compute on small integers alone.
#include <array>

#include "check/executor_kit.hpp"
#include "tidu/graph/builder.hpp"
#include "tidu/primitives/elementwise.hpp"
#include "tidu/primitives/structural.hpp"

namespace tidu::check {
namespace {

using Usable = std::function<bool(const Primitive&, DType)>;

class Generator {
 public:
  Generator(std::uint64_t seed, DType dtype, bool exact, const Usable& usable)
      : random_(seed),
        dtype_(dtype),
        exact_(exact),
        usable_(usable),
        builder_("random", standard_primitives(), unplaced) {
    extent_ = random_.below(8) == 0 ? 0 : 1 + static_cast<std::int64_t>(random_.below(4));
  }

  Graph make() {
    num_inputs_ = 2 + random_.below(3);
    for (std::size_t i = 0; i < num_inputs_; ++i)
      values_.push_back(builder_.input(detail::str('x', i), type_of(random_.below(3))));
    which_ = builder_.input("which", bool_);
    const std::size_t operations = 2 + random_.below(9);
    for (std::size_t i = 0; i < operations; ++i) add_operation();
    std::vector<Value> outputs;
    const std::size_t num_outputs = 1 + random_.below(3);
    for (std::size_t i = 0; i < num_outputs; ++i)
      outputs.push_back(random_.below(4) != 0 ? values_[values_.size() - 1 - random_.below(2)] : any());
    if (random_.below(5) == 0) outputs.push_back(outputs[0]);
    return builder_.build(outputs);
  }

 private:
  Type type_of(std::size_t rank) const { return {dtype_, Shape(rank, extent_)}; }
  bool has(const Primitive& primitive) const { return usable_(primitive, dtype_); }
  Value any() { return values_[random_.below(values_.size())]; }

  // Any value of that rank, brought to it where the primitives are there, or else nothing.
  std::optional<Value> of_rank(std::size_t rank) {
    Value x = any();
    for (std::size_t tries = 0; tries < 8 && x.rank() != rank; ++tries) x = any();
    if (x.rank() > rank ? !has(prim::reduce_sum) : x.rank() < rank && !has(prim::broadcast_in_dim))
      return std::nullopt;
    while (x.rank() > rank) x = ops::reduce_sum(x, {static_cast<std::int64_t>(random_.below(x.rank()))});
    if (x.rank() == rank) return x;
    Ints axes(x.rank());
    for (std::size_t axis = 0; axis < axes.size(); ++axis)
      axes[axis] = static_cast<std::int64_t>(axis + (rank - x.rank()) * random_.below(2));
    return ops::broadcast_in_dim(x, Shape(rank, extent_), axes.size() < 2 ? axes : Ints{0, 1});
  }

  // Makes a value, of the one given where that is of any rank; nothing when it cannot.
  struct Kind {
    std::vector<const Primitive*> needs;
    std::optional<Value> (*make)(Generator&, Value);
  };
  // Those that are exact on integers, and smooth ones, as a derivative that jumps would turn rounding into a
  // disagreement.
  static const std::vector<Kind>& exact_kinds();
  static const std::vector<Kind>& smooth_kinds();

  void add_operation() {
    const std::vector<Kind>&exact = exact_kinds(), &smooth = smooth_kinds();
    const std::size_t chosen = random_.below(exact.size() + (exact_ ? 0 : smooth.size()));
    const bool is_smooth = chosen >= exact.size();
    const Kind& kind = is_smooth ? smooth[chosen - exact.size()] : exact[chosen];
    for (const Primitive* primitive : kind.needs)
      if (!has(*primitive)) return;
    // Beyond the inputs' range, complex functions grow too fast to be compared.
    const bool tame = is_complex(dtype_) && is_smooth;
    const Value operand = tame ? values_[random_.below(num_inputs_)] : any();
    try {
      if (const std::optional<Value> value = kind.make(*this, operand)) values_.push_back(*value);
    } catch (const Error&) {
      // The primitive takes no such dtype.
    }
  }
  std::optional<Value> with(Value x, Value (*op)(Value, Value, Where)) {
    const std::optional<Value> y = random_.below(5) == 0 ? x : of_rank(x.rank());
    return y ? std::optional<Value>(op(x, *y, {})) : std::nullopt;
  }

  Random random_;
  DType dtype_;
  bool exact_;
  const Usable& usable_;
  GraphBuilder builder_;
  std::vector<Value> values_;
  std::size_t num_inputs_ = 0;
  Value which_;
  std::int64_t extent_;
};

const std::vector<Generator::Kind>& Generator::exact_kinds() {
  using G = Generator;
  using V = std::optional<Value>;
  static const std::vector<Kind> table = {
      {{&prim::add}, [](G& g, Value x) { return g.with(x, ops::add); }},
      {{&prim::mul}, [](G& g, Value x) { return g.with(x, ops::mul); }},
      {{&prim::sub}, [](G& g, Value x) { return g.with(x, ops::sub); }},
      {{&prim::neg}, [](G&, Value x) -> V { return ops::neg(x); }},
      {{&prim::select_n},
       [](G& g, Value x) -> V {
         const V y = g.of_rank(x.rank());
         return y ? V(ops::select_n(g.which_, x, *y)) : V();
       }},
      {{&prim::transpose},
       [](G& g, Value) -> V {
         const V x = g.of_rank(2);
         return x ? V(ops::transpose(*x, {1, 0})) : V();
       }},
      {{&prim::reduce_sum}, [](G& g, Value) { return g.of_rank(g.random_.below(2)); }},
      {{&prim::broadcast_in_dim}, [](G& g, Value) { return g.of_rank(1 + g.random_.below(2)); }},
      {{&prim::dot_general},
       [](G& g, Value) -> V {
         const V x = g.of_rank(2), y = g.of_rank(2);
         return x && y ? V(ops::dot_general(*x, *y, {{1}, {0}, {}, {}})) : V();
       }},
      {{&prim::reshape},
       [](G& g, Value) -> V {
         const V x = g.of_rank(1);
         return x ? V(ops::reshape(ops::reshape(*x, {1, g.extent_}), {g.extent_})) : V();
       }},
      {{&prim::rev},
       [](G& g, Value) -> V {
         const V x = g.of_rank(1);
         return x ? V(ops::rev(*x, {0})) : V();
       }},
      {{&prim::cumsum},
       [](G& g, Value) -> V {
         const V x = g.of_rank(2);
         return x ? V(ops::cumsum(*x, 1)) : V();
       }},
      {{&prim::concatenate, &prim::slice, &prim::pad},
       [](G& g, Value) -> V {
         const V x = g.of_rank(1), y = g.of_rank(1);
         if (!x || !y) return V();
         return ops::slice(ops::concatenate(std::array{*x, *y}, 0), {g.extent_ / 2},
                           {g.extent_ + g.extent_ / 2});
       }},
      {{&prim::take, &prim::scatter_add},
       [](G& g, Value) -> V {
         const V x = g.of_rank(1);
         if (!x || g.extent_ == 0) return V();
         Numbers numbers(static_cast<std::size_t>(g.extent_));
         for (auto& number : numbers) number = static_cast<double>(g.random_.below(numbers.size()));
         const Tensor indices = tensor_of({i32, {g.extent_}}, numbers);
         return ops::take(*x, ops::constant(g.builder_, indices.to_literal(), {}), 0);
       }},
      {{&prim::call, &prim::mul, &prim::sub}, [](G& g, Value x) -> V {
         const V y = g.of_rank(x.rank());
         if (!y) return V();
         GraphBuilder inner("inner", standard_primitives(), unplaced);
         const Value a = inner.input("a", x.type()), b = inner.input("b", x.type());
         const Values results =
             ops::call(inner.build({ops::mul(a, b, {}), ops::sub(b, a, {})}), std::array{x, *y}, {});
         g.values_.push_back(results[0]);
         return results[1];
       }}};
  return table;
}

const std::vector<Generator::Kind>& Generator::smooth_kinds() {
  using V = std::optional<Value>;
  static const std::vector<Kind> table = {
      {{&prim::sin}, [](Generator&, Value x) -> V { return ops::sin(x); }},
      {{&prim::tanh}, [](Generator&, Value x) -> V { return ops::tanh(x); }},
      {{&prim::exp, &prim::sin}, [](Generator&, Value x) -> V { return ops::exp(ops::sin(x)); }},
      {{&prim::logistic}, [](Generator&, Value x) -> V { return ops::logistic(x); }},
      {{&prim::logsumexp},
       [](Generator& g, Value) -> V {
         const V x = g.of_rank(2);
         return x && g.extent_ != 0 ? V(ops::logsumexp(*x, {1})) : V();
       }},
      {{&prim::div, &prim::add, &prim::full, &prim::sin}, [](Generator&, Value x) -> V {
         const Value wave = ops::sin(x);
         return x / (ops::full_like(x, 2.5) + wave);
       }}};
  return table;
}

}  // namespace

Graph random_graph(std::uint64_t seed, DType dtype, bool exact, const Usable& usable) {
  return Generator(seed, dtype, exact, usable).make();
}

}  // namespace tidu::check
