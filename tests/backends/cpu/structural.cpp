// The kernels that move, reduce, gather and multiply, against the reference interpreter.
#include <array>

#include "cpu/compare.hpp"

using namespace tidu;
using namespace tidu::test;

namespace structural_cases {
namespace {

// A graph of one input made by `emit`, run on every dtype.
template <class Emit>
void check_all(const Shape& shape, std::mt19937_64& random, const Emit& emit,
               std::span<const DType> dtypes = every_dtype, const Domain& domain = {-5, 5}) {
  for (const DType dtype : dtypes) {
    GraphBuilder builder("one");
    const Value x = builder.input("x", Type(dtype, shape));
    const Value y = emit(x);
    const Graph graph = builder.build({y});
    INFO(to_text(graph));
    for (const std::string& text :
         differences(graph, {random_tensor(Type(dtype, shape), domain, random)}, cpu())) {
      CHECK_MESSAGE(text.empty(), text);
    }
  }
}

constexpr DType number_dtypes[] = {i32, i64, f16, bf16, f32, f64, c64, c128};
constexpr DType real_dtypes[] = {i32, i64, f16, bf16, f32, f64};
constexpr DType ordered_dtypes[] = {bool_, i32, i64, f16, bf16, f32, f64};
constexpr DType bit_dtypes[] = {bool_};
constexpr DType floating_dtypes[] = {f16, bf16, f32, f64};

}  // namespace

TEST_CASE("shapes: transpose, broadcast, reverse, slice, pad, concatenate, views") {
  std::mt19937_64 random(11);
  check_all({2, 3, 4}, random, [](Value x) { return ops::transpose(x, {2, 0, 1}); });
  check_all({67, 45}, random, [](Value x) { return ops::transpose(x, {1, 0}); });
  check_all({3, 40, 5, 35}, random, [](Value x) { return ops::transpose(x, {3, 1, 0, 2}); });
  check_all({2, 0, 4}, random, [](Value x) { return ops::transpose(x, {2, 0, 1}); });
  // Short lines, many of which are not contiguous.
  for (const std::int64_t lines : {800, 264, 131, 130}) {
    for (const std::int64_t line : {2, 3, 4, 9})
      check_all({lines, 5, line}, random, [](Value x) { return ops::transpose(x, {1, 0, 2}); });
  }
  check_all({2, 200, 5, 3}, random, [](Value x) { return ops::transpose(x, {0, 2, 1, 3}); });
  // Lines of three that become adjacent, from between others and from the end of the buffer.
  for (const std::int64_t lines : {1, 7, 8, 9, 16, 17, 41}) {
    check_all({lines, 13, 3}, random, [](Value x) { return ops::transpose(x, {1, 0, 2}); });
    check_all({lines, 3}, random, [](Value x) { return ops::rev(x, {0}); });
    for (const std::int64_t first : {0, 1, 2})
      check_all({lines, 5}, random, [&](Value x) { return ops::slice(x, {0, first}, {lines, first + 3}); });
  }
  check_all({}, random, [](Value x) { return ops::broadcast_in_dim(x, {3, 2}, {}); });
  check_all({3}, random, [](Value x) { return ops::broadcast_in_dim(x, {2, 3, 4}, {1}); });
  check_all({3, 1}, random, [](Value x) { return ops::broadcast_in_dim(x, {3, 5}, {0, 1}); });
  check_all({200}, random, [](Value x) { return ops::broadcast_in_dim(x, {300, 200}, {1}); });
  check_all({3}, random, [](Value x) { return ops::broadcast_in_dim(x, {0, 3}, {1}); });
  check_all({2, 3, 4}, random, [](Value x) { return ops::rev(x, {0, 2}); });
  check_all({2, 0}, random, [](Value x) { return ops::rev(x, {0, 1}); });
  check_all({6, 7}, random, [](Value x) { return ops::slice(x, {1, 0}, {6, 7}, {2, 3}); });
  check_all({6, 7}, random, [](Value x) { return ops::slice(x, {2, 3}, {2, 5}); });
  check_all({6}, random, [](Value x) { return ops::slice(x, {5}, {6}, {9}); });
  check_all({2, 3}, random, [](Value x) { return ops::reshape(x, {3, 2}); });
  check_all({2, 1, 3}, random, [](Value x) { return ops::squeeze(x, {1}); });
  check_all({2, 3}, random, [](Value x) { return ops::expand_dims(x, {0, 3}); });
  check_all({2, 3}, random, [](Value x) { return ops::stop_gradient(x); });
  check_all({2, 3}, random, [](Value x) { return ops::device_put(x, "cuda:0", "cpu"); });
  check_all({2, 3}, random, [](Value x) { return ops::optimization_barrier(std::vector{x}, 4)[0]; });
  for (const IntLists& config :
       {IntLists{{1, 2, 0}, {0, 0, 0}}, IntLists{{0, 1, 2}, {3, 0, 1}}, IntLists{{-1, -1, 0}, {-2, 4, 1}},
        IntLists{{-3, 5, 0}, {1, 1, 0}}, IntLists{{-1, 0, 2}, {-1, -1, 3}}}) {
    check_all({3, 4}, random, [&](Value x) {
      const Value one = ops::full(*x.emitter(), Type(x.dtype()), 1.0);
      return ops::pad(x, one, config);
    });
  }
  check_all({2, 3}, random, [](Value x) {
    return ops::concatenate(std::vector{x, ops::slice(x, {0, 1}, {2, 3}), x}, 1);
  });
  check_all({2, 3}, random, [](Value x) {
    return ops::concatenate(std::vector{x, ops::slice(x, {1, 0}, {1, 3}), x}, 0);
  });
  // More indices than are resolved at once, most of them out of range.
  for (const char* mode : {"clip", "drop"}) {
    check_all({3, 290}, random, [mode](Value x) {
      return ops::take(x, ops::iota(*x.emitter(), Type(i32, {600}), 0), 1, mode);
    });
    for (const std::int64_t inner : {2, 3, 4, 5}) {
      check_all({2, 290, inner}, random, [mode](Value x) {
        return ops::take(x, ops::iota(*x.emitter(), Type(i64, {300}), 0), 1, mode);
      });
    }
  }
  check_all({150, 9}, random, [](Value x) {
    std::vector<Value> columns;
    for (std::int64_t j = 9; j-- > 0;) columns.push_back(ops::slice(x, {0, j}, {150, j + 1}));
    return ops::concatenate(columns, 1);
  });
  // Short parts of more rows than are copied at once, and long ones beside short ones.
  check_all({150, 3}, random, [](Value x) {
    const Value one = ops::slice(x, {0, 1}, {150, 2});
    return ops::concatenate(std::vector{one, x, ops::slice(x, {0, 2}, {150, 2}), one}, 1);
  });
  check_all({70, 40}, random, [](Value x) {
    return ops::concatenate(std::vector{ops::slice(x, {0, 1}, {70, 2}), x}, 1);
  });
  finish_checks();
}

TEST_CASE("reductions over every set of axes") {
  std::mt19937_64 random(12);
  for (const Shape& shape : {Shape{}, Shape{5}, Shape{0}, Shape{2, 3}, Shape{3, 0}, Shape{2, 3, 4},
                             Shape{3, 1, 4, 2}, Shape{600, 3}, Shape{3, 2500}, Shape{2, 300, 5}}) {
    for (unsigned mask = 0; mask < (1U << shape.size()); ++mask) {
      Ints axes;
      for (std::size_t k = 0; k < shape.size(); ++k) {
        if (((mask >> k) & 1U) != 0) axes.push_back(static_cast<std::int64_t>(k));
      }
      const bool large = num_elements(shape) > 100;
      check_all(
          shape, random, [&](Value x) { return ops::reduce_sum(x, axes); }, number_dtypes,
          large ? Domain{0, 0.01} : Domain{-2, 2});
      check_all(
          shape, random, [&](Value x) { return ops::reduce_prod(x, axes); },
          (large ? std::span<const DType>(real_dtypes) : number_dtypes),
          large ? Domain{1, 1} : Domain{-1, 1});
      check_all(shape, random, [&](Value x) { return ops::reduce_max(x, axes); }, ordered_dtypes,
                {-5, 5, mask % 2 == 1});
      check_all(shape, random, [&](Value x) { return ops::reduce_min(x, axes); }, ordered_dtypes,
                {-5, 5, mask % 2 == 1});
      check_all(
          shape, random, [&](Value x) { return ops::reduce_and(x, axes); }, bit_dtypes);
      check_all(
          shape, random, [&](Value x) { return ops::reduce_or(x, axes); }, bit_dtypes);
      check_all(
          shape, random, [&](Value x) { return ops::logsumexp(x, axes); }, floating_dtypes);
    }
  }
  finish_checks();
}

TEST_CASE("logsumexp of short and long lines, with infinities and NaN") {
  std::mt19937_64 random(14);
  for (const Shape& shape : {Shape{70, 25}, Shape{300, 8}, Shape{5, 1500}, Shape{4, 1024}}) {
    for (const bool special : {false, true}) {
      check_all(shape, random, [](Value x) { return ops::logsumexp(x, {1}); }, floating_dtypes,
                {-30, 30, special});
    }
  }
  Tensor x(Type(f64, {3, 20}));
  for (std::int64_t i = 0; i < 60; ++i) x.mutable_data<double>()[i] = i < 40 ? -INFINITY : 1000.0;
  x.mutable_data<double>()[25] = INFINITY;
  GraphBuilder builder("f");
  const auto y = cpu().run(builder.build({ops::logsumexp(builder.input("x", x.type()), {1})}), {x})[0];
  CHECK(y.at(0).real() == -INFINITY);
  CHECK(y.at(1).real() == INFINITY);
  CHECK(y.at(2).real() == doctest::Approx(1000 + std::log(20.0)));
  finish_checks();
}

TEST_CASE("a long sum is cut into pieces and stays accurate") {
  std::mt19937_64 random(13);
  const Type type(f32, {1000003});
  GraphBuilder builder("sum");
  const Graph graph = builder.build({ops::reduce_sum(builder.input("x", type), {0})});
  const Tensor x = random_tensor(type, {0, 1}, random);
  double expected = 0;
  for (const float v : x.elements<float>()) expected += static_cast<double>(v);
  CHECK(std::fabs(static_cast<double>(cpu().run(graph, {x})[0].item<float>()) - expected) < 1e-6 * expected);
  finish_checks();
}

TEST_CASE("argmax, argmin and cumulative operations") {
  std::mt19937_64 random(14);
  for (const Shape& shape : {Shape{5}, Shape{2, 3}, Shape{3, 1, 4}, Shape{50, 7}, Shape{0, 3}}) {
    for (std::size_t k = 0; k < shape.size(); ++k) {
      const auto axis = static_cast<std::int64_t>(k);
      for (const DType index : {i32, i64}) {
        if (shape[k] == 0) continue;
        check_all(shape, random, [&](Value x) { return ops::argmax(x, axis, index); }, ordered_dtypes,
                  {0, 3});
        check_all(shape, random, [&](Value x) { return ops::argmin(x, axis, index); }, ordered_dtypes,
                  {-5, 5, true});
      }
      for (const bool reverse : {false, true}) {
        check_all(shape, random, [&](Value x) { return ops::cumsum(x, axis, reverse); }, number_dtypes,
                  {-1, 1});
        check_all(shape, random, [&](Value x) { return ops::cumprod(x, axis, reverse); }, number_dtypes,
                  {-1, 1});
        for (const bool special : {false, true}) {
          const Domain domain{-5, 5, special};
          check_all(
              shape, random, [&](Value x) { return ops::cummax(x, axis, reverse); }, real_dtypes, domain);
          check_all(
              shape, random, [&](Value x) { return ops::cummin(x, axis, reverse); }, real_dtypes, domain);
          check_all(
              shape, random, [&](Value x) { return ops::cumlogsumexp(x, axis, reverse); }, floating_dtypes,
              domain);
        }
      }
    }
  }
  for (const Shape& shape : {Shape{3, 40}, Shape{40, 3}, Shape{40, 100}, Shape{20, 1, 2000}}) {
    for (const std::int64_t axis : {std::int64_t{0}, static_cast<std::int64_t>(shape.size()) - 1}) {
      check_all(
          shape, random, [&](Value x) { return ops::argmax(x, axis); }, bit_dtypes);
      check_all(
          shape, random, [&](Value x) { return ops::argmin(x, axis); }, bit_dtypes);
    }
  }
  check_all(
      {1, 150}, random, [](Value x) { return ops::cumlogsumexp(x, 0); }, floating_dtypes);
  check_all(
      {3, 150}, random, [](Value x) { return ops::cumlogsumexp(x, 0); }, floating_dtypes);
  finish_checks();
}

TEST_CASE("values of hundreds of axes") {
  for (const std::size_t ones : {126U, 127U, 128U, 254U, 255U, 300U}) {
    Shape shape(ones, 1);
    shape.insert(shape.end(), {2, 3});
    const auto axis = static_cast<std::int64_t>(ones + 1);
    GraphBuilder builder("f");
    const Value x = builder.input("x", Type(f64, shape));
    const Value sum = ops::reduce_sum(ops::exp(x), {axis}), most = ops::reduce_max(x, {axis - 1});
    Ints kept;
    for (std::int64_t k = 0; k < axis; ++k) kept.push_back(k);
    const Graph graph = builder.build({ops::broadcast_in_dim(sum, shape, kept) * x, most});
    Tensor input(Type(f64, shape));
    for (std::size_t i = 0; i < 6; ++i) input.mutable_elements<double>()[i] = 0.25 * static_cast<double>(i);
    const std::vector<Tensor> got = cpu().run(graph, {input}), expected = reference().run(graph, {input});
    for (std::size_t k = 0; k < 2; ++k)
      for (std::int64_t i = 0; i < got[k].size(); ++i)
        CHECK(got[k].at(i).real() == doctest::Approx(expected[k].at(i).real()));
  }
}

TEST_CASE("an empty extent beside large ones") {
  std::mt19937_64 random(19);
  constexpr std::int64_t large = 1 << 20;
  const Type x(f32, {large, 0, large, large});
  check_operation(Op::make(prim::cumprod, {{"axis", 0}, {"reverse", true}}), {x}, {{}}, random);
  check_operation(Op::make(prim::cumlogsumexp, {{"axis", 1}, {"reverse", false}}), {x}, {{}}, random);
  check_operation(Op::make(prim::sort, {{"dimension", 1}, {"num_keys", 1}}), {x}, {{}}, random);
  check_operation(Op::make(prim::top_k, {{"k", 0}}), {x}, {{}}, random);
  check_operation(Op::make(prim::dynamic_slice, {{"slice_sizes", Ints{large, 0, 1, large}}}),
                  {x, Type(i64), Type(i64), Type(i64), Type(i64)}, {{}}, random);
  finish_checks();
}

TEST_CASE("top_k of long rows: few of them, nearly all, in order, all equal") {
  std::mt19937_64 random(18);
  for (const DType dtype : every_dtype) {
    if (is_complex(dtype)) continue;
    for (const std::int64_t n : {16, 17, 18, 19, 300}) {
      for (const std::int64_t k : {std::int64_t{1}, std::int64_t{2}, std::int64_t{10}, n / 2, n - 1, n}) {
        if (k > n) continue;
        const Op op = Op::make(prim::top_k, {{"k", k}});
        for (const bool special : {false, true})
          check_operation(op, {Type(dtype, {3, n})}, {{-100, 100, special}}, random);
        check_operation(op, {Type(dtype, {2, n})}, {{1, 1}}, random);
        GraphBuilder builder("in order");  // each one above all before
        const Value numbers = ops::iota(builder, Type(i32, {n}), 0);
        const Value rising = dtype == bool_
                                 ? ops::gt(numbers, ops::full_like(numbers, static_cast<double>(n / 3)))
                                 : ops::convert_element_type(numbers, dtype);
        const Values top = builder.emit(op, std::array{rising}),
                     last = builder.emit(op, std::array{ops::rev(rising, {0})});
        for (const std::string& text :
             differences(builder.build({top[0], top[1], last[0], last[1]}), {}, cpu()))
          CHECK_MESSAGE(false, text);
      }
    }
  }
  finish_checks();
}

TEST_CASE("sort and top_k, with ties and special values") {
  std::mt19937_64 random(17);
  for (const Shape& shape : {Shape{1}, Shape{0}, Shape{40}, Shape{3, 17}, Shape{2, 9, 3}, Shape{0, 3}}) {
    const auto last = static_cast<std::int64_t>(shape.size()) - 1;
    for (const DType key : every_dtype) {
      for (const bool special : {false, true}) {
        const Domain domain{-3, 3, special};
        for (std::int64_t axis = 0; axis <= last; ++axis) {
          for (const int keys : {1, 2, 3}) {
            const Op op = Op::make(prim::sort, {{"dimension", axis}, {"num_keys", keys}});
            check_operation(op, {Type(key, shape), Type(i32, shape), Type(f32, shape), Type(bf16, shape)},
                            {domain, {-1, 1}, {-3, 3, true}}, random);
          }
        }
        if (is_complex(key)) continue;
        for (const std::int64_t k : {std::int64_t{0}, std::int64_t{1}, std::int64_t{5}, shape.back()}) {
          if (k > shape.back()) continue;
          check_operation(Op::make(prim::top_k, {{"k", k}}), {Type(key, shape)}, {domain}, random);
        }
      }
    }
  }
  finish_checks();
}

TEST_CASE("dynamic slices, with starts out of range") {
  std::mt19937_64 random(18);
  struct Row {
    Shape array, window;
  };
  for (const Row& row : {Row{{7}, {3}}, Row{{4, 5}, {2, 5}}, Row{{4, 5}, {4, 2}}, Row{{3, 4, 6}, {2, 1, 3}},
                         Row{{3, 4}, {0, 2}}, Row{{0, 4}, {0, 2}}, Row{{}, {}}}) {
    for (const DType dtype : every_dtype) {
      for (const DType index : {i32, i64}) {
        for (const bool special : {false, true}) {
          std::vector<Type> types{Type(dtype, row.array)};
          types.insert(types.end(), row.array.size(), Type(index));
          std::vector<Domain> domains(types.size(), Domain{-2, 7, special});
          domains[0] = {};
          check_operation(Op::make(prim::dynamic_slice, {{"slice_sizes", row.window}}), types, domains,
                          random);
          types.insert(types.begin() + 1, Type(dtype, row.window));
          domains.insert(domains.begin(), Domain{});
          check_operation(Op::make(prim::dynamic_update_slice), types, domains, random);
        }
      }
    }
  }
  finish_checks();
}

TEST_CASE("indexing, with indices out of range") {
  std::mt19937_64 random(15);
  for (const DType dtype : every_dtype) {
    for (const DType index : {i32, i64}) {
      for (const char* mode : {"clip", "drop"}) {
        const Attributes attributes{{"axis", 1}, {"mode", mode}};
        const Type x(dtype, {2, 4, 3});
        for (const Shape& shape : {Shape{}, Shape{0}, Shape{5}, Shape{2, 3}}) {
          Shape result{2};
          result.insert(result.end(), shape.begin(), shape.end());
          result.push_back(3);
          check_operation(Op::make(prim::take, attributes), {x, Type(index, shape)}, {{}, {-2, 6}}, random);
          if (is_bool(dtype)) continue;
          check_operation(Op::make(prim::scatter_add, attributes),
                          {x, Type(index, shape), Type(dtype, result)}, {{}, {-2, 6}, {}}, random);
        }
        const Type along(index, {2, 6, 3});
        check_operation(Op::make(prim::take_along_axis, attributes), {x, along}, {{}, {-2, 6}}, random);
        if (is_bool(dtype)) continue;
        check_operation(Op::make(prim::scatter_add_along_axis, attributes),
                        {x, along, Type(dtype, {2, 6, 3})}, {{}, {-2, 6}, {}}, random);
      }
    }
  }
  finish_checks();
}

TEST_CASE("dot_general in every arrangement of axes") {
  std::mt19937_64 random(16);
  struct Row {
    Shape lhs, rhs;
    IntLists numbers;
  };
  const std::vector<Row> rows{{{3, 4}, {4, 5}, {{1}, {0}, {}, {}}},
                              {{4, 3}, {4, 5}, {{0}, {0}, {}, {}}},
                              {{3, 4}, {5, 4}, {{1}, {1}, {}, {}}},
                              {{4, 3}, {5, 4}, {{0}, {1}, {}, {}}},
                              {{4}, {4}, {{0}, {0}, {}, {}}},
                              {{3}, {4}, {{}, {}, {}, {}}},
                              {{}, {}, {{}, {}, {}, {}}},
                              {{3, 4}, {4}, {{1}, {0}, {}, {}}},
                              {{4}, {4, 5}, {{0}, {0}, {}, {}}},
                              {{2, 3, 4}, {2, 4, 5}, {{2}, {1}, {0}, {0}}},
                              {{3, 2, 4}, {5, 4, 2}, {{2}, {1}, {1}, {2}}},
                              {{2, 6, 3, 4}, {2, 6, 4, 5}, {{3}, {2}, {0, 1}, {0, 1}}},
                              {{2, 6, 3, 4}, {6, 2, 4, 5}, {{3}, {2}, {0, 1}, {1, 0}}},
                              {{3, 4, 5}, {5, 4, 2}, {{1, 2}, {1, 0}, {}, {}}},
                              {{3, 4, 5}, {4, 5, 2}, {{2, 1}, {1, 0}, {}, {}}},
                              {{4, 3, 5}, {2, 4, 5}, {{0, 2}, {1, 2}, {}, {}}},
                              {{7}, {7}, {{}, {}, {0}, {0}}},
                              {{3, 0}, {0, 5}, {{1}, {0}, {}, {}}},
                              {{0, 4}, {4, 5}, {{1}, {0}, {}, {}}},
                              {{1, 4}, {4, 1}, {{1}, {0}, {}, {}}},
                              {{40, 70}, {70, 33}, {{1}, {0}, {}, {}}},
                              {{24, 67}, {3, 24}, {{0}, {1}, {}, {}}},
                              {{24, 67}, {24, 2, 2}, {{0}, {0}, {}, {}}}};
  for (const Row& row : rows) {
    const Op op = Op::make(prim::dot_general, {{"dimension_numbers", row.numbers}});
    for (const DType dtype : number_dtypes) {
      const Domain domain = is_floating(dtype) && size_of(dtype) == 2 ? Domain{0.1, 0.5} : Domain{-1, 1};
      check_operation(op, {Type(dtype, row.lhs), Type(dtype, row.rhs)}, {domain}, random);
    }
  }
  finish_checks();
}

}  // namespace structural_cases
