// Carries of scans and whiles of which steps change some elements: random bodies that read and change them in
// any order, compared with the reference, and the cost of a step.
#include "cpu/compare.hpp"
#include "support/support.hpp"
#include "tidu/primitives/control_flow.hpp"

using namespace tidu;
using namespace tidu::test;

namespace {

constexpr std::int64_t carry_size = 70;

class UpdatedCarries {
 public:
  explicit UpdatedCarries(std::uint64_t seed) : random_(seed) {}

  // Inputs: carries, then the index. Outputs: carries, then stacked values.
  Graph body(std::size_t num_carries) {
    GraphBuilder builder("body");
    std::vector<Value> carries;
    for (std::size_t k = 0; k < num_carries; ++k)
      carries.push_back(builder.input(detail::str("c", k), Type(f64, {carry_size})));
    const Value index = builder.input("i", Type(i32, {}));
    scalars_ = {ops::full(builder, Type(f64, {1}), 0.5)};
    arrays_ = carries;
    std::vector<Value> now = carries;
    for (std::size_t k = 1 + below(6); k-- > 0;) {
      Value& carry = now[below(num_carries)];
      const Value other = one_in(4) ? pick(arrays_) : carry;
      switch (below(5)) {
        case 0: scalars_.push_back(ops::dynamic_slice(other, std::vector{place(index)}, {1})); break;
        case 1: scalars_.push_back(ops::reshape(ops::reduce_sum(other, {0}), {1})); break;
        case 2:
          carry = ops::scatter_add(carry, ops::reshape(place(index), {1}), pick(scalars_), 0);
          arrays_.push_back(carry);
          break;
        default:
          carry =
              ops::dynamic_update_slice(carry, pick(scalars_) * pick(scalars_), std::vector{place(index)});
          arrays_.push_back(carry);
      }
    }
    if (one_in(4)) std::swap(now[0], now[num_carries - 1]);
    if (one_in(6)) now[0] = pick(arrays_);
    now.push_back(one_in(3) ? pick(arrays_) : pick(scalars_));
    return builder.build(now);
  }
  std::size_t below(std::size_t count) { return random_() % count; }

 private:
  bool one_in(std::size_t count) { return below(count) == 0; }
  Value pick(const std::vector<Value>& from) { return from[below(from.size())]; }
  Value place(const Value& index) {
    return one_in(2) ? index : index + ops::full_like(index, static_cast<double>(below(3)));
  }

  std::mt19937_64 random_;
  std::vector<Value> scalars_, arrays_;
};

void check_like_reference(const Graph& graph, std::mt19937_64& random) {
  std::vector<Tensor> inputs;
  for (const ValueId id : graph.inputs()) inputs.push_back(random_tensor(graph.type(id), {-1, 1}, random));
  const std::vector<Tensor> expected = reference().run(graph, std::span<const Tensor>(inputs));
  const Executable executable = cpu().compile(graph);
  for (int repeat = 0; repeat < 2; ++repeat) {
    const std::vector<Tensor> got = executable.run(inputs);
    for (std::size_t k = 0; k < got.size(); ++k)
      CHECK_MESSAGE(difference(got[k], expected[k]) == "", "output ", k, " of\n", to_text(graph));
  }
}

}  // namespace

TEST_CASE("[carries] random bodies change elements of their carries") {
  for (std::uint64_t seed = 0; seed < scaled(400); ++seed) {
    CAPTURE(seed);
    UpdatedCarries bodies(seed);
    const std::size_t num_carries = 1 + bodies.below(3);
    const Graph body = bodies.body(num_carries);
    std::mt19937_64 random(seed);
    const std::int64_t steps = static_cast<std::int64_t>(bodies.below(5));

    GraphBuilder scans("scan");
    std::vector<Value> operands;
    for (std::size_t k = 0; k < num_carries; ++k)
      operands.push_back(scans.input(detail::str("c", k), Type(f64, {carry_size})));
    operands.push_back(ops::iota(scans, Type(i32, {steps}), 0));
    const Values results = ops::scan(body, operands, {steps, bodies.below(2) == 0, 0, num_carries});
    check_like_reference(scans.build(std::vector<Value>(results.begin(), results.end())), random);

    // The same steps in a while, which carries the index along.
    GraphBuilder step("step");
    std::vector<Value> inputs;
    for (std::size_t k = 0; k < num_carries; ++k)
      inputs.push_back(step.input(detail::str("c", k), Type(f64, {carry_size})));
    inputs.push_back(step.input("i", Type(i32, {})));
    const std::vector<Value> values = inline_graph(step, body, inputs);
    std::vector<Value> next;
    for (std::size_t k = 0; k < num_carries; ++k) next.push_back(values[body.outputs()[k]]);
    next.push_back(inputs.back() + ops::full_like(inputs.back(), 1.0));
    GraphBuilder goes_on("goes on");
    for (std::size_t k = 0; k < num_carries; ++k)
      (void)goes_on.input(detail::str("c", k), Type(f64, {carry_size}));
    const Value index = goes_on.input("i", Type(i32, {}));
    const Graph condition =
        goes_on.build({ops::lt(index, ops::full_like(index, static_cast<double>(steps)))});
    GraphBuilder whiles("while");
    operands.clear();
    for (std::size_t k = 0; k < num_carries; ++k)
      operands.push_back(whiles.input(detail::str("c", k), Type(f64, {carry_size})));
    operands.push_back(ops::full(whiles, Type(i32, {}), 0.0));
    const Values left = ops::while_loop(condition, step.build(next), operands, {});
    check_like_reference(whiles.build(std::vector<Value>(left.begin(), left.end())), random);
  }
}
