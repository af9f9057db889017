// Plans that call libraries, run on the host against the reference executor: convolutions of every kind of
// attribute, linear algebra up to the freedom that its results have, and what is folded into products.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <random>

#include "cpu/compare.hpp"
#include "cuda/emulator.hpp"
#include "cuda/fuse.hpp"
#include "cuda/nvrtc.hpp"
#include "cuda/rules.hpp"
#include "cuda/this_machine.hpp"
#include "support/support.hpp"
#include "tidu/primitives/convolution.hpp"
#include "tidu/primitives/linalg.hpp"

namespace tidu::test::library_plans_cases {
namespace {

using cuda_detail::GemmStep;
using cuda_detail::Plan;
using cuda_detail::SolverStep;

const std::vector<DType> inexact{f16, bf16, f32, f64, c64, c128};

Plan plan_of(const Op& op, const std::vector<Type>& in) {
  const std::vector<Type> out = infer_types(op, in);
  return cuda_detail::plan_operation({op, in, out});
}
template <class Step>
std::vector<Step> steps_of(const Plan& plan) {
  std::vector<Step> found;
  for (const cuda_detail::Step& step : plan.steps) {
    if (const auto* one = std::get_if<Step>(&step)) found.push_back(*one);
  }
  return found;
}

// What the operation's plan gives, its kernels compiled one by one, or what this machine's device gives.
std::vector<Tensor> run_plan(const Op& op, const std::vector<Tensor>& operands) {
  std::vector<Type> in;
  for (const Tensor& tensor : operands) in.push_back(tensor.type());
  if (const CudaExecutor* const device = chosen_device())
    return run_there(*device, graph_of(op, in), operands);
  const Plan plan = plan_of(op, in);
  REQUIRE(plan.supported);
  std::vector<Tensor> results;
  for (const Type type : infer_types(op, in)) results.emplace_back(type);
  Emulator::shared().run(plan, operands, results);
  return results;
}

Op dot(const Ints& lhs, const Ints& rhs, const Ints& lhs_batch = {}, const Ints& rhs_batch = {}) {
  return Op::make(prim::dot_general, {{"dimension_numbers", IntLists{lhs, rhs, lhs_batch, rhs_batch}}});
}

TEST_CASE("axes of dot_general fold into one product, its operands read where they lie") {
  struct Case {
    Op op;
    Shape lhs, rhs;
    std::int64_t batch, m, n, k;
    bool a_transposed, b_transposed;
  };
  const Case cases[] = {
      {dot({1}, {0}), {4, 5}, {5, 6}, 1, 4, 6, 5, false, false},
      {dot({0}, {0}), {5, 4}, {5, 6}, 1, 4, 6, 5, true, false},
      {dot({1}, {1}), {4, 5}, {6, 5}, 1, 4, 6, 5, false, true},
      {dot({2}, {0}), {2, 3, 5}, {5, 6}, 1, 6, 6, 5, false, false},
      {dot({1, 2}, {0, 1}), {4, 3, 5}, {3, 5, 6}, 1, 4, 6, 15, false, false},
      {dot({2, 1}, {1, 0}), {4, 3, 5}, {3, 5, 6}, 1, 4, 6, 15, false, false},
      {dot({2}, {2}, {0}, {0}), {7, 4, 5}, {7, 6, 5}, 7, 4, 6, 5, false, true},
      {dot({3}, {2}, {0, 1}, {0, 1}), {2, 3, 4, 5}, {2, 3, 5, 6}, 6, 4, 6, 5, false, false},
      {dot({3}, {3}, {0, 2}, {0, 2}), {2, 4, 1, 5}, {2, 6, 1, 5}, 2, 4, 6, 5, false, true},
  };
  for (const Case& c : cases) {
    const Plan plan = plan_of(c.op, {Type(f32, c.lhs), Type(f32, c.rhs)});
    const std::vector<GemmStep> products = steps_of<GemmStep>(plan);
    REQUIRE(products.size() == 1);
    CHECK(plan.steps.size() == 1);
    const GemmStep& p = products[0];
    CHECK(p.batch == c.batch);
    CHECK(p.m == c.m);
    CHECK(p.n == c.n);
    CHECK(p.k == c.k);
    CHECK(p.a_transposed == c.a_transposed);
    CHECK(p.b_transposed == c.b_transposed);
    CHECK(p.accumulate == f32);
  }
  // A batch axis between free ones, so that heads of attention are one matrix each: nothing is copied.
  const Plan heads =
      plan_of(dot({3}, {3}, {0, 2}, {0, 2}), {Type(f16, {2, 4, 3, 5}), Type(f16, {2, 6, 3, 5})});
  CHECK(steps_of<GemmStep>(heads).size() == 1);
  CHECK(steps_of<GemmStep>(heads)[0].accumulate == f32);
}

TEST_CASE("products on a device, of random axes") {
  std::mt19937_64 random(5);
  for (std::size_t round = 0; round < scaled(60); ++round) {
    const auto draw = [&](std::int64_t least, std::int64_t most) {
      return std::uniform_int_distribution<std::int64_t>(least, most)(random);
    };
    // Axes by what they are: batch, free, contracted; each operand has them in an order of its own.
    std::vector<std::int64_t> extents[3];
    for (auto& list : extents) {
      for (std::int64_t i = draw(0, 2); i > 0; --i) list.push_back(draw(1, 3));
    }
    IntLists numbers(4);
    Shape shapes[2];
    for (std::size_t side = 0; side < 2; ++side) {
      std::vector<std::pair<std::size_t, std::size_t>> axes;  // kind, place in its list
      for (std::size_t i = 0; i < extents[0].size(); ++i) axes.emplace_back(0, i);
      for (std::size_t i = 0; i < extents[2].size(); ++i) axes.emplace_back(2, i);
      for (std::int64_t i = draw(0, 2); i > 0; --i) axes.emplace_back(1, 0);
      std::shuffle(axes.begin(), axes.end(), random);
      numbers[2 + side].resize(extents[0].size());
      numbers[side].resize(extents[2].size());
      for (std::size_t k = 0; k < axes.size(); ++k) {
        const auto [kind, place] = axes[k];
        shapes[side].push_back(kind == 1 ? draw(1, 4) : extents[kind][place]);
        if (kind == 0) numbers[2 + side][place] = static_cast<std::int64_t>(k);
        if (kind == 2) numbers[side][place] = static_cast<std::int64_t>(k);
      }
    }
    constexpr DType all[] = {i32, i64, f16, bf16, f32, f64, c64, c128};
    const DType dtype = all[round % std::size(all)];
    GraphBuilder builder("dot", standard_primitives());
    const Value x = builder.input("x", Type(dtype, shapes[0])),
                y = builder.input("y", Type(dtype, shapes[1]));
    const Graph graph = builder.build({emit1(dot(numbers[0], numbers[1], numbers[2], numbers[3]), {x, y})});
    differences(graph,
                {random_tensor(Type(dtype, shapes[0]), {}, random),
                 random_tensor(Type(dtype, shapes[1]), {}, random)},
                cpu());
  }
  finish_checks();
}

TEST_CASE("convolutions on a device") {
  std::mt19937_64 random(7);
  const auto draw = [&](std::int64_t least, std::int64_t most) {
    return std::uniform_int_distribution<std::int64_t>(least, most)(random);
  };
  for (std::size_t round = 0; round < scaled(80); ++round) {
    const auto spatial = static_cast<std::size_t>(draw(0, 2));
    const std::int64_t groups = draw(0, 2) == 0 ? draw(2, 3) : 1, terms = draw(1, 3);
    const std::int64_t results = draw(0, 2) == 0 ? 8 : draw(1, 3);
    // Extents by meaning, then put in the order of a layout.
    Shape lhs{draw(1, 3), groups * terms}, rhs{groups * results, terms};
    Ints strides, spread, dilation;
    IntLists padding;
    const bool plain = draw(0, 3) == 0;  // 1 x 1
    for (std::size_t k = 0; k < spatial; ++k) {
      lhs.push_back(draw(2, 5));
      rhs.push_back(plain ? 1 : draw(1, 2));
      strides.push_back(plain ? 1 : draw(1, 2));
      spread.push_back(plain ? 1 : draw(1, 2));
      dilation.push_back(plain ? 1 : draw(1, 2));
      padding.push_back(plain ? Ints{0, 0} : Ints{draw(-1, 2), draw(-1, 2)});
    }
    const auto layout = [&](std::int64_t kind) {  // features second, last, or anywhere
      Ints spec(spatial + 2);
      const auto rank = static_cast<std::int64_t>(spec.size());
      if (kind == 0) {
        std::iota(spec.begin(), spec.end(), 0);
      } else if (kind == 1) {
        spec[0] = 0;
        spec[1] = rank - 1;
        std::iota(spec.begin() + 2, spec.end(), 1);
      } else {
        std::iota(spec.begin(), spec.end(), 0);
        std::shuffle(spec.begin(), spec.end(), random);
      }
      return spec;
    };
    const std::int64_t kind = draw(0, 2);
    const IntLists specs{layout(kind), layout(kind == 2 ? 2 : 0), layout(kind)};
    const auto ordered = [](const Shape& shape, const Ints& spec) {
      Shape result(shape.size());
      for (std::size_t i = 0; i < spec.size(); ++i) result[static_cast<std::size_t>(spec[i])] = shape[i];
      return result;
    };
    constexpr DType all[] = {f32, f64, i32, f16, f32, f64, bf16, i64, c64, c128};
    const DType dtype = all[round % std::size(all)];
    const Type x(dtype, ordered(lhs, specs[0])), kernel(dtype, ordered(rhs, specs[1]));
    const Op op = Op::make(prim::conv_general_dilated, {{"window_strides", strides},
                                                        {"padding", padding},
                                                        {"lhs_dilation", spread},
                                                        {"rhs_dilation", dilation},
                                                        {"dimension_numbers", specs},
                                                        {"feature_group_count", groups}});
    GraphBuilder builder("convolution", standard_primitives());
    const Value a = builder.input("x", x), b = builder.input("kernel", kernel);
    const Graph graph = builder.build({emit1(op, {a, b})});
    differences(graph, {random_tensor(x, {}, random), random_tensor(kernel, {}, random)}, cpu());
  }
  finish_checks();
}

// Through the reference executor: a graph over tensors.
template <class Body>
Tensor evaluate(const std::vector<Tensor>& inputs, const Body& body) {
  GraphBuilder builder("evaluate", standard_primitives());
  std::vector<Value> values;
  for (std::size_t i = 0; i < inputs.size(); ++i)
    values.push_back(builder.input(detail::str("x", i), inputs[i].type()));
  return reference().run(builder.build({body(values)}), inputs)[0];
}
Value product(Value x, Value y) {
  const auto rank = static_cast<std::int64_t>(x.rank());
  const Ints batch = rank == 3 ? Ints{0} : Ints{};
  return ops::dot_general(x, y, {{rank - 1}, {rank - 2}, batch, batch});
}
Value scaled_columns(Value x, Value s) {
  const Value weights = ops::convert_element_type(s, x.dtype());
  const Ints at = x.rank() == 3 ? Ints{0, 2} : Ints{1};
  return x * ops::broadcast_in_dim(weights, x.shape(), at);
}
Value adjoint_of(Value x) {
  const Value y = x.rank() == 3 ? ops::transpose(x, {0, 2, 1}) : ops::transpose(x, {1, 0});
  return is_complex(y.dtype()) ? ops::conj(y) : y;
}
Tensor wide(const Tensor& x) {  // decompositions are compared in f32 at least
  if (size_of(x.dtype()) != 2) return x;
  return evaluate({x}, [](const auto& v) { return ops::convert_element_type(v[0], f32); });
}
std::string apart(const Tensor& got, const Tensor& wanted, DType dtype) {
  const std::vector<Tensor> both{wide(got), wide(wanted)};
  const Tensor distance = evaluate(both, [](const auto& v) {
    const Value d = ops::abs(v[0] - v[1]);
    Ints axes(d.rank());
    std::iota(axes.begin(), axes.end(), 0);
    return ops::convert_element_type(ops::reduce_max(d, axes), f64);
  });
  const double found = distance.data<double>()[0];
  return found <= 60 * tolerance(dtype) ? "" : detail::str(found, " apart");
}

// Kernels of linear algebra know no shapes: all of them are compiled at once.
void prepare_linear_algebra() {
  Emulator& emulator = Emulator::shared();
  for (const DType dtype : inexact) {
    const Type square(dtype, {2, 2}), wider(dtype, {2, 3});
    for (const Primitive* primitive : {&prim::lu, &prim::qr, &prim::svd, &prim::eigh, &prim::cholesky})
      emulator.add(plan_of(Op::make(*primitive, {}), {square}));
    emulator.add(plan_of(Op::make(prim::svd, {}), {wider}));
    for (const bool conjugated : {false, true}) {
      const Op solve = Op::make(prim::triangular_solve, {{"left_side", true},
                                                         {"lower", true},
                                                         {"transpose_a", true},
                                                         {"conjugate_a", conjugated},
                                                         {"unit_diagonal", true}});
      emulator.add(plan_of(solve, {square, wider}));
    }
  }
  emulator.compile();
}

TEST_CASE("linear algebra on a device") {
  prepare_linear_algebra();
  std::mt19937_64 random(11);
  for (const DType dtype : inexact) {
    for (const Shape& shape : {Shape{3, 3}, Shape{2, 4, 4}, Shape{5, 3}, Shape{2, 2, 4}, Shape{1, 1}}) {
      INFO(to_string(Type(dtype, shape)));
      const Tensor x = random_tensor(Type(dtype, shape), {}, random);
      const Op lu = Op::make(prim::lu, {}), qr = Op::make(prim::qr, {}), svd = Op::make(prim::svd, {});
      const std::vector<Tensor> factors = run_plan(lu, {x});
      const auto by_reference = [&](const Op& op, const std::vector<Tensor>& operands, std::size_t slot) {
        return evaluate(operands, [&](const auto& v) { return v[0].emitter()->emit(op, v)[slot]; });
      };
      CHECK(apart(factors[0], by_reference(lu, {x}, 0), dtype) == "");
      for (const std::size_t slot : {std::size_t{1}, std::size_t{2}}) {
        const Tensor wanted = by_reference(lu, {x}, slot);
        CHECK(std::memcmp(factors[slot].bytes(), wanted.bytes(), wanted.num_bytes()) == 0);
      }
      const std::vector<Tensor> q = run_plan(qr, {x});
      CHECK(apart(q[0], by_reference(qr, {x}, 0), dtype) == "");
      CHECK(apart(q[1], by_reference(qr, {x}, 1), dtype) == "");
      const std::vector<Tensor> usv = run_plan(svd, {x});
      CHECK(apart(usv[1], by_reference(svd, {x}, 1), dtype) == "");
      const Tensor again =
          evaluate(usv, [](const auto& v) { return product(scaled_columns(v[0], v[1]), v[2]); });
      CHECK(apart(again, x, dtype) == "");
    }
    for (const Shape& shape : {Shape{3, 3}, Shape{2, 4, 4}}) {
      INFO(to_string(Type(dtype, shape)));
      const Tensor x = random_tensor(Type(dtype, shape), {}, random);
      const std::vector<Tensor> vw = run_plan(Op::make(prim::eigh, {}), {x});
      const Tensor again =
          evaluate(vw, [](const auto& v) { return product(scaled_columns(v[0], v[1]), adjoint_of(v[0])); });
      const Tensor wanted =
          evaluate({x}, [](const auto& v) { return (v[0] + adjoint_of(v[0])) * ops::full_like(v[0], 0.5); });
      CHECK(apart(again, wanted, dtype) == "");
      const Tensor definite = evaluate({x}, [](const auto& v) {
        const Type numbers(i32, v[0].shape());
        const auto last = static_cast<std::int64_t>(v[0].rank()) - 1;
        Emitter& emitter = *v[0].emitter();
        const Value row = ops::iota(emitter, numbers, last - 1), column = ops::iota(emitter, numbers, last);
        const Value one = ops::convert_element_type(ops::eq(row, column), v[0].dtype());
        return product(v[0], adjoint_of(v[0])) + one * ops::full_like(v[0], 2.0);
      });
      const Op cholesky = Op::make(prim::cholesky, {});
      const Tensor factor = run_plan(cholesky, {definite})[0];
      CHECK(apart(factor, evaluate({definite}, [](const auto& v) { return ops::cholesky(v[0]); }), dtype) ==
            "");
      // Every way to read a triangle.
      for (int how = 0; how < 32; ++how) {
        const auto bit = [how](int k) { return (how >> k & 1) != 0; };
        const bool left = bit(0);
        Shape right = shape;
        right[right.size() - (left ? 1 : 2)] = 2;
        const Op solve = Op::make(prim::triangular_solve, {{"left_side", left},
                                                           {"lower", bit(1)},
                                                           {"transpose_a", bit(2)},
                                                           {"conjugate_a", bit(3)},
                                                           {"unit_diagonal", bit(4)}});
        const Tensor b = random_tensor(Type(dtype, right), {}, random);
        const Tensor got = run_plan(solve, {definite, b})[0];
        const Tensor want =
            evaluate({definite, b}, [&](const auto& v) { return v[0].emitter()->emit(solve, v)[0]; });
        const double size = bit(4) ? 100 : 1;  // the diagonal is what keeps solutions small
        if (size == 1) CHECK_MESSAGE(apart(got, want, dtype) == "", "how ", how);
        if (size != 1 && size_of(dtype) == 8 && dtype == f64)
          CHECK_MESSAGE(apart(got, want, f32) == "", "how ", how);
      }
    }
  }
}

TEST_CASE("many small matrices are one call") {
  const auto batched = [](const Op& op, const std::vector<Type>& in) {
    const std::vector<SolverStep> steps = steps_of<SolverStep>(plan_of(op, in));
    REQUIRE(steps.size() == 1);
    return steps[0].batched;
  };
  const Op cholesky = Op::make(prim::cholesky, {}), lu = Op::make(prim::lu, {}),
           eigh = Op::make(prim::eigh, {});
  const Op solve = Op::make(prim::triangular_solve, {{"left_side", true},
                                                     {"lower", true},
                                                     {"transpose_a", false},
                                                     {"conjugate_a", false},
                                                     {"unit_diagonal", false}});
  const Type one(f32, {8, 8}), many(f32, {5, 8, 8}), large(f32, {2, 600, 600}), wide(f32, {5, 4, 8});
  for (const Op& op : {cholesky, lu, eigh}) {
    CHECK(batched(op, {many}));
    CHECK_FALSE(batched(op, {one}));
    CHECK_FALSE(batched(op, {large}));
  }
  CHECK_FALSE(batched(lu, {wide}));
  CHECK_FALSE(batched(eigh, {Type(f32, {5, 40, 40})}));
  CHECK(batched(solve, {many, Type(f32, {5, 8, 3})}));
  CHECK_FALSE(batched(solve, {one, Type(f32, {8, 3})}));
}

TEST_CASE("sorts of more elements than 32 bits count are several calls, each of whole lines") {
  const auto calls = [](const Plan& plan) {
    std::vector<cuda_detail::SortStep> found;
    for (const cuda_detail::Step& step : plan.steps) {
      if (const auto* const sort = std::get_if<cuda_detail::SortStep>(&step)) found.push_back(*sort);
    }
    return found;
  };
  const std::int64_t lines = 20'000, length = 250'000;  // more elements than 2^32
  const Op sort = Op::make(prim::sort, {{"dimension", 1}, {"num_keys", 1}});
  const Op add = Op::make(prim::scatter_add_along_axis, {{"axis", 1}, {"mode", "drop"}});
  const Type values(f32, {lines, length}), places(i32, {lines, length});
  for (const Plan& plan : {plan_of(sort, {values}), plan_of(add, {values, places, values})}) {
    REQUIRE(plan.supported);
    const std::vector<cuda_detail::SortStep> parts = calls(plan);
    CHECK(parts.size() == 3);
    std::int64_t next = 0;
    for (const cuda_detail::SortStep& part : parts) {
      CHECK(part.length == length);
      CHECK(part.segments * part.length <= 0x7fffffff);
      CHECK(part.keys.offset - parts[0].keys.offset == static_cast<std::size_t>(next * length) * 4);
      CHECK(part.keys_out.offset - parts[0].keys_out.offset == static_cast<std::size_t>(next * length) * 4);
      CHECK(part.values.offset - parts[0].values.offset == static_cast<std::size_t>(next * length) * 4);
      CHECK(part.values_out.offset - parts[0].values_out.offset ==
            static_cast<std::size_t>(next * length) * 4);
      CHECK(part.workspace.offset == parts[0].workspace.offset);
      next += part.segments;
    }
    CHECK(next == lines);
  }
}

TEST_CASE("eigenvectors of more small matrices than a library counts are several calls") {
  const std::int64_t count = 2'100'000, n = 3;
  const Plan plan = plan_of(Op::make(prim::eigh, {}), {Type(c64, {count, n, n})});
  std::int64_t next = 0;
  const std::vector<SolverStep> parts = steps_of<SolverStep>(plan);
  for (const SolverStep& part : parts) {
    const auto before = static_cast<std::size_t>(next);
    CHECK(part.batched);
    CHECK(part.batch <= 1'000'000);
    CHECK(part.a.offset - parts[0].a.offset == before * n * n * 8);
    CHECK(part.values.offset - parts[0].values.offset == before * n * 4);
    CHECK(part.info.offset - parts[0].info.offset == before * 4);
    next += part.batch;
  }
  CHECK(next == count);
}

TEST_CASE("what linear algebra makes of numbers that are not finite, or not definite") {
  const auto nan_count = [](const Tensor& x) {
    std::int64_t found = 0;
    for (std::int64_t i = 0; i < x.size(); ++i) found += std::isnan(x.data<double>()[i]) ? 1 : 0;
    return found;
  };
  Tensor x(Type(f64, {2, 2, 2}));
  const double numbers[] = {2, 1, 1, 2, 1, 2, 2, 1};  // the second one is not definite
  std::copy_n(numbers, 8, x.mutable_data<double>());
  const Tensor factor = run_plan(Op::make(prim::cholesky, {}), {x})[0];
  CHECK(nan_count(factor) == 3);
  CHECK(factor.data<double>()[5] == 0);
  x.mutable_data<double>()[5] = INFINITY;
  const std::vector<Tensor> vw = run_plan(Op::make(prim::eigh, {}), {x});
  CHECK(nan_count(vw[0]) == 4);
  CHECK(nan_count(vw[1]) == 2);
  const std::vector<Tensor> usv = run_plan(Op::make(prim::svd, {}), {x});
  CHECK(nan_count(usv[0]) == 4);
  CHECK(nan_count(usv[1]) == 2);
  CHECK(nan_count(usv[2]) == 4);
  const Op lu = Op::make(prim::lu, {});
  for (const double bad : {static_cast<double>(NAN), static_cast<double>(INFINITY)}) {
    x.mutable_data<double>()[5] = bad;
    const std::vector<Tensor> factors = run_plan(lu, {x});
    CHECK(nan_count(factors[0]) == 4);
    CHECK(factors[0].data<double>()[3] == 1.5);
    for (int i = 0; i < 4; ++i) CHECK(factors[2].data<std::int32_t>()[i] == i % 2);
  }
  Tensor wide(Type(f64, {1, 2, 3}));
  std::fill_n(wide.mutable_data<double>(), 6, 1.0);
  CHECK(nan_count(run_plan(lu, {wide})[0]) == 0);  // singular alone
  wide.mutable_data<double>()[5] = NAN;
  CHECK(nan_count(run_plan(lu, {wide})[0]) == 6);
}

TEST_CASE("pivots are rows, whatever a solver finds where elements became infinite") {
  const Op lu = Op::make(prim::lu, {});
  const double m = 1e308, numbers[] = {1, m, 0, -1, m, 0, 1, -m, 1};
  for (const std::int64_t count : {1, 2}) {
    Tensor x(Type(f64, {count, 3, 3}));
    for (std::int64_t b = 0; b < count; ++b) std::copy_n(numbers, 9, x.mutable_data<double>() + b * 9);
    const std::vector<Tensor> found = run_plan(lu, {x});
    for (std::int64_t b = 0; b < count; ++b) {
      std::vector<std::int32_t> rows(3);
      std::copy_n(found[2].data<std::int32_t>() + b * 3, 3, rows.begin());
      std::sort(rows.begin(), rows.end());
      CHECK(rows == std::vector<std::int32_t>{0, 1, 2});
      for (std::int32_t j = 0; j < 3; ++j) {
        const std::int32_t pivot = found[1].data<std::int32_t>()[b * 3 + j];
        CHECK(pivot >= j);
        CHECK(pivot < 3);
      }
    }
  }
}

TEST_CASE("kernels around libraries compile for sm_90") {
  if (!has_nvrtc()) {
    MESSAGE("no NVRTC here");
    return;
  }
  std::vector<Plan> plans;
  const Op svd = Op::make(prim::svd, {}), cholesky = Op::make(prim::cholesky, {});
  for (const DType dtype : {bf16, c64}) {
    plans.push_back(plan_of(svd, {Type(dtype, {4, 3})}));
    plans.push_back(plan_of(cholesky, {Type(dtype, {2, 4, 4})}));
  }
  plans.push_back(plan_of(Op::make(prim::lu, {}), {Type(f64, {3, 4})}));
  std::vector<Type> choice(71, Type(c64, {7}));
  choice[0] = Type(i32, {7});
  plans.push_back(plan_of(Op::make(prim::select_n, {}), choice));
  plans.push_back(plan_of(dot({1}, {0}), {Type(i64, {4, 5}), Type(i64, {5, 6})}));
  const Op sort = Op::make(prim::sort, {{"dimension", 0}, {"num_keys", 2}});
  plans.push_back(plan_of(sort, {Type(c128, {4, 5}), Type(f16, {4, 5}), Type(bool_, {4, 5})}));
  plans.push_back(plan_of(Op::make(prim::top_k, {{"k", 2}}), {Type(f64, {4, 5})}));
  for (const DType dtype : {i32, f16}) {
    const Op op = Op::make(prim::conv_general_dilated,
                           {{"window_strides", Ints{2, 1}},
                            {"padding", IntLists{{1, 1}, {0, 2}}},
                            {"lhs_dilation", Ints{1, 2}},
                            {"rhs_dilation", Ints{1, 1}},
                            {"dimension_numbers", IntLists{{0, 1, 2, 3}, {0, 1, 2, 3}, {0, 1, 2, 3}}},
                            {"feature_group_count", std::int64_t{1}}});
    plans.push_back(plan_of(op, {Type(dtype, {2, 3, 6, 7}), Type(dtype, {4, 3, 3, 2})}));
  }
  for (const Plan& plan : plans) {
    for (const cuda_detail::Launch& launch : steps_of<cuda_detail::Launch>(plan)) {
      const Compiled compiled = compile_for_device(*launch.kernel);
      CHECK_MESSAGE(compiled.ok, launch.kernel->entry, "\n", compiled.log);
    }
  }
}

}  // namespace
}  // namespace tidu::test::library_plans_cases
