// throwing.hpp - a program that passes through every point of the eager layer that may throw, and the
// properties that must hold after an exception.
#pragma once

#include <array>

#include "counted.hpp"
#include "tidu/graph/infer.hpp"
#include "tidu/graph/rules.hpp"

namespace tidu::test::counted {

/// How the program is run.
struct Way {
  std::string name;
  BackwardOptions options{};
  bool capture = false;  ///< request a cotangent of an intermediate beside the leaves
};

inline std::vector<Way> ways() {
  std::vector<Way> all(7);
  all[0].name = "plain";
  all[1].name = "accumulate";
  all[1].options.accumulate = true;
  all[2].name = "keep, in order of readiness";
  all[2].options.keep_graph = true;
  all[2].options.order = eager::Order::fifo;
  all[3].name = "recorded";
  all[3].options.create_graph = true;
  all[4].name = "recorded, accumulate";
  all[4].options.create_graph = true;
  all[4].options.accumulate = true;
  all[5].name = "captured";
  all[5].capture = true;
  all[6].name = "after the first error, what can run runs";
  all[6].options.exit_at_once = false;
  all[6].options.order = eager::Order::random;
  return all;
}

namespace throwing_rules {
/// y = x; both rules may throw. Their context has no key, so they are called in every backward.
inline const Primitive pass{.name = "test.throwing",
                            .linearity = linearity::linear,
                            .infer = [](InferContext& c) { c.result(c.operand(0)); },
                            .jvp = [](JvpContext& c) -> Derivatives {
                              Faults::pass(Place::rule);
                              return emit(c.op(), Values(*c.tangent(0)))[0];
                            },
                            .transpose = [](TransposeContext& c) -> Derivatives {
                              Faults::pass(Place::rule);
                              return c.cotangent();
                            }};
struct Context : ADContext {};
}  // namespace throwing_rules

/// On three streams: a diamond, a composite node of which nothing was retained, one with two outputs, hooks
/// of every kind, final callbacks, two leaves with slots and one without.
class Program {
 public:
  explicit Program(const Way& way) : way_(way), w_(tape.recorder.keys(), "w"), v_(tape.recorder.keys(), "v") {
    w_.set_gradient(Counted(100.0));
    hooks_.push_back(w_.on_value([](auto&) { Faults::pass(Place::hook); }));
    hooks_.push_back(w_.on_accumulate([](eager::HookContext<Counted>& context) {
      Faults::pass(Place::hook);
      context.incoming().replace(Counted(context.incoming()->value));
    }));
  }

  /// The results of the program: gradients of x, w, v.
  std::array<double, 3> run() {
    const Var x = tape.leaf(0.3), w = CountedTape::of(w_, 0.2), v = CountedTape::of(v_, 0.7);
    const PlacementGuard guard{tape.executor};
    const Var s = tape.apply<prim::sin>(x);
    tape.executor.placement.stream = 2;
    const Var d = tape.apply<prim::mul>(s, s);
    const std::vector<Var> y = tape.apply(layer(), {&d, &w}, false);
    const Var t = tape.apply<prim::mul>(y[0], tape.apply<prim::exp>(v));
    tape.executor.placement.stream = 1;
    const Var u = tape.apply<prim::add>(t, tape.apply<prim::mul>(y[1], w));
    const auto pass = tape.apply(Op::make(throwing_rules::pass), {&u}, set());
    tape.executor.placement.stream = 0;
    std::vector<eager::HookHandle> here;
    const auto see = [](eager::HookContext<Counted>& context) {
      Faults::pass(Place::hook);
      if (context.num_incoming() != 0 && context.incoming())
        context.incoming().replace(Counted(context.incoming()->value), context.incoming().recorded());
      context.at_end([] { Faults::pass(Place::callback); });
    };
    here.push_back(eager::on_value<Counted>(d.who.trace, d.who.key, see));
    here.push_back(eager::before_node<Counted>(y[0].who.trace, see));
    here.push_back(eager::after_node<Counted>(t.who.trace, see));
    throwing_rules::Context context;
    BackwardOptions options = way_.options;
    options.context = &context;
    const std::vector<eager::Requested> requested{x.who, w.who, v.who, d.who};
    const auto gradients = tape.backward(
        pass, options, way_.capture ? std::span(requested) : std::span<const eager::Requested>());
    const auto of = [&](const Var& leaf, std::size_t position) {
      if (way_.capture) return gradients.requested()[position].value->value;
      const Counted* found = gradients.find(leaf.who.key);
      return found != nullptr ? found->value : 0.0;
    };
    return {of(x, 0), of(w, 1), of(v, 2)};
  }
  /// The contents of the slots; 0 for an empty one.
  std::pair<double, double> slots() const {
    const auto held = w_.gradient(), other = v_.gradient();
    return {held ? held->value : 0.0, other ? other->value : 0.0};
  }
  void reset() {
    w_.set_gradient(Counted(100.0));
    v_.clear_gradient();
  }

  CountedTape tape;
  std::string name = "layer";  ///< of the composite graph: another name is another structure

 private:
  struct PlacementGuard {
    CountedExecutor& executor;
    ~PlacementGuard() { executor.placement = {}; }
  };
  static const PrimitiveSet& set() {
    static const PrimitiveSet with = standard_primitives().with({&throwing_rules::pass});
    return with;
  }
  RecordedGraph layer() const {
    return graph_of(
        2,
        [](std::vector<Value> v) {
          const Value e = ops::exp(v[0] * v[1]);
          return std::vector{e * e, v[0] + e};
        },
        name);
  }
  Way way_;
  eager::Leaf<Counted> w_, v_;
  std::vector<eager::HookHandle> hooks_;
};

/// By hand: x = 0.3, w = 0.2, v = 0.7.
inline std::array<double, 3> expected_gradients() {
  const double s = std::sin(0.3), d = s * s, w = 0.2, e = std::exp(d * w), g = std::exp(0.7);
  // u = e^2 g + (d + e) w
  const double de = 2 * e * g + w;
  const double dd = de * e * w + w;
  return {dd * 2 * s * std::cos(0.3), de * e * d + (d + e), e * e * g};
}

inline bool right(const std::array<double, 3>& got, bool accumulated) {
  const std::array<double, 3> expected = expected_gradients();
  if (std::abs(got[0] - expected[0]) > 1e-12) return false;
  for (std::size_t i = 1; i < 3; ++i)
    if (std::abs(got[i] - (accumulated ? 0.0 : expected[i])) > 1e-12) return false;
  return true;
}

}  // namespace tidu::test::counted
