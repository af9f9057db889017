// Random graphs and their derivatives, simplified and with constants folded, or without dead code in inner
// graphs: the same bits on the reference executor and on the CPU without fusions.
#include "fuzz/generator.hpp"
#include "optimizer/simplify_support.hpp"
#include "support/support.hpp"
#include "tidu/graph/region_bindings.hpp"
#include "tidu/optimizer/passes.hpp"

namespace tidu::test {
namespace {

// The difference between a graph and its reduced form; counts operations.
std::string compare(const Graph& graph, const std::vector<Tensor>& inputs, std::size_t& before,
                    std::size_t& after) {
  const Graph written_out = prune(passes::inline_graphs(graph, 1 << 20));
  const Graph simplified = passes::simplify(written_out, false);
  verify(simplified);
  before += written_out.num_operations();
  after += simplified.num_operations();
  std::string text;
  for (const Executor* executor : std::initializer_list<const Executor*>{&reference(), &plain_cpu()}) {
    if (executor == &plain_cpu() && has_products(written_out)) continue;
    const Graph folded = passes::fold_constants(simplified, evaluator(*executor), ProgramOptions());
    text += differences(*executor, written_out, folded, inputs);
  }
  return text;
}

}  // namespace

TEST_CASE("random graphs and their derivatives are the same to the last bit when they are simplified") {
  const std::size_t count = scaled(2000);
  std::size_t before = 0, after = 0, wrong = 0;
  for (std::size_t seed = 0; seed < count && wrong < 5; ++seed) {
    SeededChoices choices(seed + 77000);
    const RandomCase c = random_case(choices);
    std::string text = compare(c.graph, c.inputs, before, after);
    if (!c.wrt.empty()) {
      const Graph backward = vjp(c.graph, c.wrt);
      check::Random random(seed);
      std::vector<Type> types;
      for (const ValueId id : backward.inputs()) types.push_back(backward.type(id));
      std::vector<Tensor> inputs = c.inputs;
      const std::span<const Type> seeds = std::span(types).subspan(inputs.size());
      const check::Tensors cotangents = random_numbers(random, seeds, c.exact);
      inputs.insert(inputs.end(), cotangents.begin(), cotangents.end());
      text += compare(backward, inputs, before, after);
    }
    if (text.empty()) continue;
    ++wrong;
    FAIL_CHECK(detail::str("seed ", seed, ":\n", text));
  }
  MESSAGE("operations: ", before, ", simplified ", after);
  CHECK(after < before);
}

// Some of the graph's values as outputs instead of its own.
TEST_CASE("random graphs of which only some results are read: the same bits without dead code") {
  const std::size_t count = scaled(4000);
  std::size_t cut_graphs = 0, wrong = 0;
  for (std::size_t seed = 0; seed < count && wrong < 5; ++seed) {
    SeededChoices choices(seed + 154000);
    const RandomCase c = random_case(choices);
    std::vector<ValueId> read;
    for (std::size_t i = choices.below(3) + 1; i > 0; --i)
      read.push_back(static_cast<ValueId>(choices.below(c.graph.num_values())));
    const Graph graph = GraphBuilder::extending(c.graph)->build_ids(read), cut = eliminate_dead_code(graph);
    verify(cut);
    cut_graphs += cut.share() == graph.share() ? 0 : 1;
    std::string text = differences(reference(), graph, cut, c.inputs);
    if (cut.share() != graph.share() && !c.wrt.empty()) {
      const Graph forward = jvp(graph, c.wrt);
      std::vector<Tensor> inputs = c.inputs;
      check::Random random(seed);
      std::vector<Type> types;
      for (const ValueId id : forward.inputs()) types.push_back(forward.type(id));
      const check::Tensors tangents =
          random_numbers(random, std::span(types).subspan(inputs.size()), c.exact);
      inputs.insert(inputs.end(), tangents.begin(), tangents.end());
      text += differences(reference(), forward, jvp(cut, c.wrt), inputs);
    }
    if (text.empty()) continue;
    ++wrong;
    FAIL_CHECK(detail::str("seed ", seed, ":\n", text));
  }
  MESSAGE(cut_graphs, " of ", count, " are cut");
  CHECK(cut_graphs > count / 20);
}

}  // namespace tidu::test
