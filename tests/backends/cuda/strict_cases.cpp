// Kernels of each kind under the strict emulator, on small arrays, with few blocks, so that each block does
// its loop over the grid several times, and with as many as planned. scripts/cuda_strict.sh runs all other
// tests so.
#include <cmath>
#include <limits>

#include "cpu/compare.hpp"
#include "cuda/emulator.hpp"
#include "cuda/fuse.hpp"
#include "tidu/linearize/transforms.hpp"
#include "tidu/optimizer/optimize.hpp"

namespace tidu::test::strict_cases {
namespace {

// What is run, of all that a test case adds: for devices of 1, 2 and 3 multiprocessors, for which plans have
// few blocks, and for a large one; and with grids of one or two blocks whatever the plan is.
class Cases {
 public:
  void add(const Graph& graph, const std::vector<Domain>& domains = {{}}) {
    std::vector<Tensor> inputs;
    for (const ValueId id : graph.inputs())
      inputs.push_back(random_tensor(graph.type(id), domains[inputs.size() % domains.size()], random_));
    add(graph, std::move(inputs));
  }
  void add(const Graph& graph, std::vector<Tensor> inputs) { cases_.push_back({graph, std::move(inputs)}); }
  void add(const Op& op, const std::vector<Type>& types, const std::vector<Domain>& domains = {{}}) {
    add(graph_of(op, types), domains);
  }
  void check() const {
    constexpr Way ways[] = {
        {1, 1, 1, true}, {2, 2, 2, false}, {3, 3, 0, true}, {4, 132, 0, false}, {5, 132, 1, true}};
    for (const Way& way : ways) check(way);
  }

 private:
  struct Way {
    std::uint64_t seed;
    int multiprocessors;
    std::uint32_t max_blocks;
    bool fuse;
  };
  struct Case {
    Graph graph;
    std::vector<Tensor> inputs;
  };
  void check(const Way& way) const {
    const StrictScope strictly({way.seed, way.max_blocks});
    cuda_detail::NodeOptions options;
    options.fuse = way.fuse;
    options.multiprocessors = way.multiprocessors;
    Emulator& emulator = Emulator::shared();
    std::vector<std::vector<cuda_detail::Node>> plans;
    for (const Case& one : cases_) {
      plans.push_back(cuda_detail::plan_nodes(one.graph, options));
      for (const cuda_detail::Node& node : plans.back()) emulator.add(node.plan);
    }
    if (!Emulator::is_enabled()) return;
    emulator.compile();
    for (std::size_t i = 0; i < cases_.size(); ++i) {
      const Case& one = cases_[i];
      INFO("multiprocessors ", way.multiprocessors, ", most blocks ", way.max_blocks, "\n",
           to_text(one.graph));
      const std::vector<Tensor> got = emulator.run(one.graph, plans[i], one.inputs);
      const std::vector<Tensor> expected = reference().run(one.graph, one.inputs);
      for (std::size_t k = 0; k < got.size(); ++k) CHECK(difference(got[k], expected[k]) == "");
    }
  }

  std::mt19937_64 random_{61};
  std::vector<Case> cases_;
};

Op reduction(const Primitive& primitive, const Ints& axes) { return Op::make(primitive, {{"axes", axes}}); }

// x y + a row's exponential sums, and their gradients.
Graph softmax_of_matmul(const Type& type) {
  GraphBuilder g("softmax");
  const Value x = g.input("x", type), y = g.input("y", type), z = ops::mul(x, y);
  const Value total = ops::logsumexp(z, {1});
  return g.build({ops::exp(ops::sub(z, ops::broadcast_in_dim(total, type.shape(), {0})))});
}

}  // namespace

TEST_CASE("[strict reductions] reductions along rows and columns, in parts") {
  Cases cases;
  cases.add(reduction(prim::reduce_sum, {1}), {Type(f32, {5, 33})}, {{0, 1}});
  cases.add(reduction(prim::reduce_sum, {1}), {Type(f32, {3, 2100})}, {{0, 0.01}});
  cases.add(reduction(prim::reduce_sum, {0}), {Type(f64, {9001})}, {{0, 0.01}});
  cases.add(reduction(prim::reduce_max, {0}), {Type(i32, {300, 5})}, {{-50, 50}});
  cases.add(reduction(prim::reduce_sum, {0}), {Type(f16, {70, 40})}, {{0, 0.1}});
  cases.add(reduction(prim::logsumexp, {1}), {Type(f32, {3, 1100})}, {{-5, 5}});
  cases.add(Op::make(prim::argmin, {{"axis", 0}, {"index_dtype", i32}}), {Type(f32, {3000})}, {{-5, 5}});
  cases.check();
}

TEST_CASE("[strict scans] scans of long lines and of many") {
  Cases cases;
  for (const bool reverse : {false, true}) {
    cases.add(Op::make(prim::cumsum, {{"axis", 1}, {"reverse", reverse}}), {Type(f32, {3, 2600})},
              {{0, 0.01}});
    cases.add(Op::make(prim::cummax, {{"axis", 0}, {"reverse", reverse}}), {Type(f64, {30, 40})}, {{-5, 5}});
  }
  cases.add(Op::make(prim::cumlogsumexp, {{"axis", 0}, {"reverse", false}}), {Type(f32, {5000})}, {{-5, 5}});
  cases.add(Op::make(prim::cumsum, {{"axis", 1}, {"reverse", false}}), {Type(f32, {70, 300})}, {{0, 0.01}});
  cases.check();
}

TEST_CASE("[strict tiles] transpositions by tiles") {
  Cases cases;
  for (const DType dtype : {f32, c128, bool_})
    cases.add(Op::make(prim::transpose, {{"permutation", Ints{1, 0}}}), {Type(dtype, {200, 170})});
  cases.check();
}

TEST_CASE("[strict packs] elements one by one, by accesses of sixteen bytes, and unaligned") {
  Cases cases;
  for (const DType dtype : {f32, f16, c64}) cases.add(Op::make(prim::exp, {}), {Type(dtype, {9003})});
  cases.add(Op::make(prim::mul, {}), {Type(bf16, {64, 100}), Type(bf16, {64, 100})});
  cases.check();
  if (!Emulator::is_enabled()) return;
  std::mt19937_64 random(62);
  const StrictScope strictly({1});
  for (const Graph& function :
       {softmax_of_matmul(Type(f32, {4, 64})), vjp(softmax_of_matmul(Type(f16, {4, 64}))),
        graph_of(Op::make(prim::exp, {}), {Type(f32, {2000})})}) {
    const Graph graph = optimize(function);
    for (const cuda_detail::Node& node : cuda_detail::plan_nodes(graph)) {
      std::vector<Tensor> operands, aligned, moved;
      for (const ValueId id : node.operands) operands.push_back(random_tensor(graph.type(id), {}, random));
      for (const ValueId id : node.results) {
        aligned.emplace_back(graph.type(id));
        moved.emplace_back(graph.type(id));
      }
      Emulator::shared().run(node.plan, operands, aligned);
      Emulator::shared().run(node.plan, operands, moved, true);
      for (std::size_t k = 0; k < aligned.size(); ++k) CHECK(same_bits_or_nan(aligned[k], moved[k]));
    }
  }
}

TEST_CASE("[strict rows] rows with several reductions, and their gradients") {
  Cases cases;
  for (const Type& type : {Type(f32, {40, 20}), Type(f32, {5, 1000})})
    for (const Graph& graph : {softmax_of_matmul(type), vjp(softmax_of_matmul(type))})
      cases.add(optimize(graph));
  cases.check();
}

TEST_CASE("[strict scatters] updates that are sorted, and gathers") {
  Cases cases;
  cases.add(Op::make(prim::scatter_add, {{"axis", 0}, {"mode", "drop"}}),
            {Type(f32, {9, 3}), Type(i32, {570}), Type(f32, {570, 3})}, {{-1, 1}, {-1, 9.9}, {0, 0.01}});
  cases.add(Op::make(prim::take, {{"axis", 0}, {"mode", "clip"}}), {Type(f32, {9, 30}), Type(i32, {57})},
            {{-1, 1}, {-1, 9.9}});
  cases.add(Op::make(prim::sort, {{"dimension", 0}, {"num_keys", 1}}), {Type(f32, {300})});
  cases.check();
}

TEST_CASE("[strict device] infinities, 16-bit numbers and special functions of the device branch") {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  Cases cases;
  cases.add(graph_of(reduction(prim::reduce_max, {1}), {Type(f32, {2, 3})}),
            std::vector<Tensor>{
                Tensor::from<float>({2, 3}, {-infinity, -infinity, -infinity, -infinity, -2, -infinity})});
  for (const DType dtype : {f16, bf16}) {
    cases.add(Op::make(prim::convert_element_type, {{"new_dtype", dtype}}), {Type(f32, {1000})},
              {{-70000, 70000, true}});
    cases.add(Op::make(prim::mul, {}), {Type(dtype, {500}), Type(dtype, {500})}, {{-2, 2, true}});
  }
  cases.add(Op::make(prim::lgamma, {}), {Type(f32, {200})}, {{-9, 9, true}});
  cases.add(Op::make(prim::rsqrt, {}), {Type(f64, {200})}, {{0, 9}});
  cases.add(Op::make(prim::sin, {}), {Type(c64, {200})});
  cases.check();
}

}  // namespace tidu::test::strict_cases
