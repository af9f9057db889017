// generator.cpp - see generator.hpp.
#include "fuzz/generator.hpp"

#include <algorithm>
#include <array>
#include <numeric>

#include "tidu/primitives/elementwise.hpp"
#include "tidu/primitives/structural.hpp"

namespace tidu::test {
namespace {

// Source locations in these files would say nothing about the graph.
constexpr GraphBuilder::Options unplaced{.deduplicate = true, .record_where = false};

using KindList = std::vector<const Generator::Kind*>;

// The kinds for graphs that are exact or not, complex or not, and inner or not.
const KindList& kinds_for(const Generator::Mode& mode) {
  static const std::vector<KindList> lists = [] {
    std::vector<KindList> all(8);
    for (const auto kinds : {array_kinds(), order_kinds(), smooth_kinds(), linalg_kinds(), graph_kinds()}) {
      for (const Generator::Kind& kind : kinds) {
        for (std::size_t i = 0; i < all.size(); ++i) {
          const unsigned number = (i & 1U) != 0 ? Generator::exact : Generator::smooth;
          const unsigned field = (i & 2U) != 0 ? Generator::complex : Generator::real;
          const bool inside = (i & 4U) != 0 && (kind.use & Generator::outermost) != 0;
          if ((kind.use & number) != 0 && (kind.use & field) != 0 && !inside) all[i].push_back(&kind);
        }
      }
    }
    return all;
  }();
  return lists[(mode.exact ? 1U : 0U) + (mode.dtype == c128 ? 2U : 0U) + (mode.depth > 0 ? 4U : 0U)];
}

}  // namespace

check::Tensors random_numbers(check::Random& random, std::span<const Type> types, bool exact) {
  check::Tensors tensors;
  const auto draw = [&] {
    return exact ? static_cast<double>(random.below(5)) - 2.0 : random.uniform(-1.0, 1.0);
  };
  for (const Type& type : types) {
    check::Numbers numbers(static_cast<std::size_t>(type.size()));
    for (auto& number : numbers) number = {draw(), type.dtype() == c128 ? draw() : 0.0};
    tensors.push_back(check::tensor_of(type, numbers));
  }
  return tensors;
}

RandomCase random_case(Choices& choices) {
  RandomCase result;
  Generator::Mode mode{};
  mode.exact = choices.below(2) == 0;
  mode.dtype = choices.one_in(5) ? c128 : f64;
  constexpr std::array<std::int64_t, 8> extents{2, 2, 2, 2, 2, 3, 3, 1};
  mode.extent = extents[choices.below(extents.size())];
  GraphBuilder builder("random", standard_primitives(), unplaced);
  Generator generator(choices, builder, mode);
  std::vector<Type> types;
  const std::size_t num_inputs = 2 + choices.below(3);
  for (std::size_t i = 0; i < num_inputs; ++i) {
    const std::string name = detail::str('x', i);
    types.push_back(generator.type_of_rank(choices.below(3)));
    generator.add_value(builder.input(name, types.back()));
    if (i != 0 && choices.one_in(4)) continue;
    result.wrt.push_back(name);
    result.positions.push_back(i);
  }
  generator.set_which(builder.input("which", bool_));
  const std::size_t operations = 3 + choices.below(7);
  for (std::size_t i = 0; i < operations && !(i > 2 && choices.exhausted()); ++i) generator.add_operation();
  result.graph = builder.build(generator.outputs());
  result.inputs = random_numbers(choices.numbers(), types, mode.exact);
  result.inputs.push_back(Tensor::scalar(choices.numbers().below(2) == 0));
  result.exact = mode.exact;
  return result;
}

Generator::Generator(Choices& choices, GraphBuilder& builder, Mode mode)
    : choices_(choices), builder_(builder), mode_(mode) {}

void Generator::add_operation() {
  const KindList& kinds = kinds_for(mode_);
  for (const Value value : kinds[choices_.below(kinds.size())]->make(*this)) values_.push_back(fit(value));
}

std::vector<Value> Generator::outputs() {
  std::vector<Value> chosen;
  const std::size_t count = 1 + choices_.below(3);
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t last = std::min<std::size_t>(3, values_.size());
    chosen.push_back(choices_.below(3) != 2 ? values_[values_.size() - 1 - choices_.below(last)]
                                            : any_value());
  }
  if (choices_.one_in(5)) chosen.push_back(chosen[0]);
  return chosen;
}

Value Generator::of_rank(std::size_t rank) {
  Value x = any_value();
  while (x.rank() > rank) x = ops::reduce_sum(x, {axis_of(x)});
  while (x.rank() < rank) {
    const Shape shape(x.rank() + 1, extent());
    x = ops::broadcast_in_dim(x, shape, x.rank() == 0 ? Ints{} : Ints{choices_.between(0, 1)});
  }
  return x;
}

Value Generator::whole(DType dtype, const Shape& shape, std::int64_t low, std::int64_t high) {
  const Type type(dtype, shape);
  check::Numbers numbers(static_cast<std::size_t>(type.size()));
  for (auto& number : numbers) number = static_cast<double>(choices_.between(low, high));
  return ops::constant(builder_, check::tensor_of(type, numbers).to_literal());
}

Value Generator::ops_full(const Shape& shape, double value) {
  return ops::full(builder_, Type(mode_.dtype, shape), value);
}

Value Generator::as_value(Value x) {
  return x.dtype() == mode_.dtype ? x : ops::convert_element_type(x, mode_.dtype);
}

Value Generator::bounded(Value x) {
  if (!tidu::is_complex(x.dtype())) return ops::sin(x);
  return ops::complex(ops::sin(ops::real(x)), ops::sin(ops::imag(x)));
}

Value Generator::around(double centre, double amplitude, Value x) {
  const Value b = bounded(x) * ops::full_like(x, amplitude);
  return centre == 0.0 ? b : b + ops::full_like(x, centre);
}

Value Generator::separate(Value x, int phase) {
  if (is_exact()) return x;
  check::Numbers places(static_cast<std::size_t>(x.type().size()));
  for (std::size_t i = 0; i < places.size(); ++i)
    places[i] = 2.0 * (static_cast<double>(i) - static_cast<double>(places.size() / 2)) + 0.5 + phase;
  for (std::size_t i = places.size(); i > 1; --i) std::swap(places[i - 1], places[choices_.below(i)]);
  return around(0.0, 0.4, x) + ops::constant(builder_, check::tensor_of(x.type(), places).to_literal());
}

Value Generator::fit(Value x) {
  x = as_value(x);
  while (x.rank() > 2) x = ops::reduce_sum(x, {axis_of(x)});
  if (x.shape() == Shape(x.rank(), extent())) return x;
  IntLists padding;
  for (const std::int64_t has : x.shape()) padding.push_back({0, extent() - has, 0});
  return ops::pad(x, number(0.0), padding);
}

Graph Generator::inner(std::span<const Value> operands) {
  GraphBuilder builder("inner", standard_primitives(), unplaced);
  Mode mode = mode_;
  ++mode.depth;
  Generator generator(choices_, builder, mode);
  for (std::size_t i = 0; i < operands.size(); ++i)
    generator.add_value(builder.input(detail::str('a', i), operands[i].type()));
  generator.set_which(generator.whole(bool_, {}, 0, 1));
  const std::size_t operations = 1 + choices_.below(3);
  for (std::size_t i = 0; i < operations; ++i) generator.add_operation();
  return builder.build(generator.outputs());
}

std::set<std::string_view> primitives_in(const Graph& graph) {
  std::set<std::string_view> names;
  std::vector<Graph> left{graph};
  while (!left.empty()) {
    const Graph one = left.back();
    left.pop_back();
    for (std::size_t i = 0; i < one.num_operations(); ++i) {
      const Operation operation = one.operation(i);
      names.insert(operation.name());
      for (const auto& [name, attribute] : operation.record().op->attributes) {
        if (name != "graph" && name != "body" && name != "cond" && name != "branches") continue;
        for (const auto& inner : attribute.graphs()) left.emplace_back(inner);
      }
    }
  }
  return names;
}

}  // namespace tidu::test
