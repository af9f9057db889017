// random_graphs.cpp - seeded random graphs: several outputs, repeated ones, inputs as outputs, inactive
// inputs, shared sub-expressions, scalars and small arrays. Half of them compute on small integers alone,
// where every way to a derivative must give the same number to the last bit; the others are smooth, and
// differences are asked too.
#include "check/derived.hpp"
#include "check/helpers.hpp"
#include "support/support.hpp"

namespace {

using namespace tidu;
using namespace tidu::test;

struct Case {
  Graph graph;
  Names wrt;
  std::vector<std::size_t> positions;  // of wrt
  Tensors inputs;
  bool exact;
};

Type type_of_rank(std::size_t rank) { return {f64, Shape(rank, 2)}; }

class Generator {
 public:
  explicit Generator(std::uint64_t seed) : random_(seed), exact_(random_.below(2) == 0), builder_("random") {}

  Case make() {
    const std::size_t num_inputs = 2 + random_.below(3);
    for (std::size_t i = 0; i < num_inputs; ++i)
      add_input(i, random_.below(3), i == 0 || random_.below(4) != 0);
    which_ = builder_.input("which", bool_);
    case_.inputs.push_back(Tensor::scalar(random_.below(2) == 0));
    const std::size_t operations = 3 + random_.below(9);
    for (std::size_t i = 0; i < operations; ++i) add_operation();
    std::vector<Value> outputs;
    const std::size_t num_outputs = 1 + random_.below(3);
    for (std::size_t i = 0; i < num_outputs; ++i) {
      // The last values are likely, an input or a repeated output possible.
      outputs.push_back(random_.below(3) != 0 ? values_[values_.size() - 1 - random_.below(3)] : any());
    }
    if (random_.below(5) == 0) outputs.push_back(outputs[0]);
    case_.graph = builder_.build(outputs);
    case_.exact = exact_;
    return std::move(case_);
  }

 private:
  void add_input(std::size_t i, std::size_t rank, bool active) {
    const std::string name = detail::str('x', i);
    const Type type = type_of_rank(rank);
    values_.push_back(builder_.input(name, type));
    case_.inputs.push_back(element_wise(type));
    if (!active) return;
    case_.wrt.push_back(name);
    case_.positions.push_back(i);
  }
  Tensor element_wise(Type type) {
    Numbers numbers(static_cast<std::size_t>(type.size()));
    for (Complex& number : numbers)
      number = exact_ ? static_cast<double>(random_.below(5)) - 2.0 : random_.uniform(-1.0, 1.0);
    return check::tensor_of(type, numbers);
  }

  Value any() { return values_[random_.below(values_.size())]; }
  // Any value, brought to that rank.
  Value any_of(std::size_t rank) {
    Value x = any();
    while (x.rank() > rank) x = ops::reduce_sum(x, {static_cast<std::int64_t>(random_.below(x.rank()))});
    while (x.rank() < rank) {
      const Shape shape(x.rank() + 1, 2);
      x = ops::broadcast_in_dim(x, shape,
                                x.rank() == 0 ? Ints{} : Ints{static_cast<std::int64_t>(random_.below(2))});
    }
    return x;
  }

  void add_operation() {
    const Value x = any();
    const auto same = [&] { return any_of(x.rank()); };
    const std::size_t kind = random_.below(exact_ ? 9 : 16);
    values_.push_back([&]() -> Value {
      switch (kind) {
        case 0: return x + same();
        case 1: return x * same();
        case 2: return -x;
        case 3: return x - same();
        case 4: return ops::select_n(which_, x, same());
        case 5: return any_of(random_.below(3));
        case 6: return ops::dot_general(any_of(2), any_of(2), {{1}, {0}, {}, {}});
        case 7: return ops::dot_general(any_of(2), any_of(2), {{1}, {1}, {0}, {0}});
        case 8: return ops::transpose(any_of(2), {1, 0});
        case 9: return ops::sin(x);
        case 10: return ops::tanh(x);
        case 11: return ops::exp(ops::sin(x));
        case 12: return x / (ops::full_like(x, 2.5) + ops::sin(same()));
        case 13: return ops::logistic(x);
        case 14: return ops::sqrt(ops::full_like(x, 2.0) + ops::cos(x));
        default: return ops::logsumexp(any_of(2), {1});
      }
    }());
  }

  Random random_;
  bool exact_;
  GraphBuilder builder_;
  std::vector<Value> values_;
  Value which_;
  Case case_;
};

Tensors random_like(Random& random, const Graph& graph, std::span<const std::size_t> positions, bool exact) {
  Tensors tensors;
  for (const std::size_t i : positions) {
    const Type type = graph.type(graph.inputs()[i]);
    Numbers numbers(static_cast<std::size_t>(type.size()));
    for (Complex& number : numbers)
      number = exact ? static_cast<double>(random.below(5)) - 2.0 : random.uniform(-1.0, 1.0);
    tensors.push_back(check::tensor_of(type, numbers));
  }
  return tensors;
}

Tensors operator+(Tensors a, const Tensors& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

// A number that several ways must agree on.
class Agreement {
 public:
  Agreement(bool exact, std::string what) : exact_(exact), what_(std::move(what)) {}
  void add(const Tensors& a, const Tensors& b) {
    const check::InnerProduct product =
        check::inner_product(MaybeTensors(a.begin(), a.end()), MaybeTensors(b.begin(), b.end()));
    values_.push_back(product.value);
    magnitude_ = std::max(magnitude_, product.magnitude);
  }
  double value() const { return values_[0]; }
  double magnitude() const { return magnitude_; }
  /// Integers beyond 2^53 are no integers any more; sums of terms far larger than the result lose digits.
  std::string complaint() const {
    if (!std::isfinite(magnitude_) || magnitude_ > 0x1p45) return {};
    for (const double value : values_) {
      if (exact_ ? value == values_[0] : std::abs(value - values_[0]) <= 1e-8 * std::max(1.0, magnitude_))
        continue;
      return detail::str(what_, ": the ways give ", detail::list(values_), "; ");
    }
    return {};
  }

 private:
  bool exact_;
  std::string what_;
  std::vector<double> values_;
  double magnitude_ = 0.0;
};

// By central differences along `direction` of what `value` gives at inputs; checked against `expected`.
template <class F>
std::string against_differences(const Case& c, const Tensors& direction, const F& value, double expected,
                                double magnitude, std::string_view what) {
  const auto f = [&](double s) {
    Tensors inputs = c.inputs;
    for (std::size_t k = 0; k < direction.size(); ++k)
      inputs[c.positions[k]] = check::combine(1.0, inputs[c.positions[k]], s, direction[k]);
    return value(inputs);
  };
  const double h = 2e-3;
  const double coarse = (f(h) - f(-h)) / (2.0 * h), fine = (f(h / 2) - f(-h / 2)) / h;
  const double best = (4.0 * fine - coarse) / 3.0;
  const double doubt = std::abs(best - fine) + 1e-9 * std::max(1.0, magnitude);
  if (std::abs(best - expected) <= 1e-6 * std::max(1.0, magnitude) + doubt) return {};
  return detail::str(what, ": differences give ", best, ", got ", expected, "; ");
}

// What is wrong with the derivatives of a random graph; empty when nothing is.
std::string complaints(std::uint64_t seed) {
  const Case c = Generator(seed).make();
  Random random(seed ^ 0x5bd1e995ULL);
  const Tensors u = random_like(random, c.graph, c.positions, c.exact);
  const Tensors w = random_like(random, c.graph, c.positions, c.exact);
  const Tensors z = random_like(random, c.graph, c.positions, c.exact);
  Tensors v;
  for (const ValueId id : c.graph.outputs()) {
    Numbers numbers(static_cast<std::size_t>(c.graph.type(id).size()));
    for (Complex& number : numbers)
      number = c.exact ? static_cast<double>(random.below(5)) - 2.0 : random.uniform(-1.0, 1.0);
    v.push_back(check::tensor_of(c.graph.type(id), numbers));
  }
  std::string text;
  const Tensors& x = c.inputs;
  const Graph forward = tangents_of(c.graph, c.wrt);   // inputs x, u
  const Graph reverse = gradients_of(c.graph, c.wrt);  // inputs x, v

  Agreement first(c.exact, "order 1");
  first.add(run(forward, x + u), v);
  first.add(run(reverse, x + v), u);
  text += first.complaint();

  const check::Derived derived(c.graph, c.positions);
  const check::Point point(derived, x, reference());
  const MaybeTensors once = point.jvp(u), twice = point.twice_transposed(u);
  for (std::size_t k = 0; k < once.size(); ++k) {
    if (!once[k]) continue;
    const Tensor other = twice[k] ? *twice[k] : Tensor::zeros(once[k]->type());
    if (first.magnitude() < 0x1p45 && !near(*once[k], other, c.exact ? 0.0 : 1e-9))
      text += detail::str("transposed twice: output ", k, " differs; ");
  }

  const Graph fof = tangents_of(forward, c.wrt);           // x, u, w
  const Graph over_reverse = tangents_of(reverse, c.wrt);  // x, v, w
  const Graph rof = gradients_of(forward, c.wrt);          // x, u, v
  const Graph ror = gradients_of(reverse, c.wrt);          // x, v, u
  Agreement second(c.exact, "order 2");
  second.add(run(fof, x + u + w), v);
  second.add(run(over_reverse, x + v + w), u);
  second.add(run(rof, x + u + v), w);
  second.add(run(ror, x + v + u), w);
  text += second.complaint();

  Agreement third(c.exact, "order 3");
  third.add(run(tangents_of(fof, c.wrt), x + u + w + z), v);
  third.add(run(gradients_of(fof, c.wrt), x + u + w + v), z);
  third.add(run(tangents_of(ror, c.wrt), x + v + u + z), w);
  third.add(run(gradients_of(ror, c.wrt), x + v + u + w), z);
  third.add(run(gradients_of(over_reverse, c.wrt), x + v + w + u), z);
  text += third.complaint();

  if (!c.exact) {
    const auto dot = [](const Tensors& a, const Tensors& b) {
      return check::inner_product(MaybeTensors(a.begin(), a.end()), MaybeTensors(b.begin(), b.end())).value;
    };
    text += against_differences(
        c, u, [&](const Tensors& at) { return dot(run(c.graph, at), v); }, first.value(), first.magnitude(),
        "order 1");
    text += against_differences(
        c, w, [&](const Tensors& at) { return dot(run(forward, at + u), v); }, second.value(),
        second.magnitude(), "order 2");
    text += against_differences(
        c, z, [&](const Tensors& at) { return dot(run(rof, at + u + v), w); }, third.value(),
        third.magnitude(), "order 3");
  }
  if (!text.empty()) text = detail::str("seed ", seed, ": ", text, '\n', to_text(c.graph));
  return text;
}

}  // namespace

TEST_CASE("random graphs: every way to a derivative agrees, orders 1 to 3") {
  const std::size_t count = scaled(20000);
  std::size_t wrong = 0;
  std::string examples;
  for (std::size_t seed = 0; seed < count; ++seed) {
    const std::string text = complaints(seed);
    if (text.empty()) continue;
    if (++wrong <= 3) examples += text;
  }
  CHECK_MESSAGE(wrong == 0, wrong, " of ", count, " graphs are differentiated wrongly, for instance\n",
                examples);
}
