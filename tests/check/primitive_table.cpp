// primitive_table.cpp - the rows; see primitive_table.hpp.
#include "primitive_table.hpp"

#include "tidu/graph/builder.hpp"
#include "tidu/graph/error.hpp"
#include "tidu/primitives/elementwise.hpp"
#include "tidu/primitives/structural.hpp"

namespace tidu::test {
namespace {

using DTypeList = std::vector<DType>;
const DTypeList real{f64, f32}, inexact{f64, f32, c128, c64}, complex_only{c128, c64}, integers{i32, i64},
    bits{bool_, i32};
const Shape s23{2, 3};

std::function<Attributes(DType, const PrimitiveSet&)> with(Attributes attributes) {
  return [attributes](DType, const PrimitiveSet&) { return attributes; };
}
Row unary(std::string_view name, const DTypeList& dtypes, Domain domain) {
  return {name, dtypes, {{s23, domain}}};
}
Row binary(std::string_view name, const DTypeList& dtypes, Domain x, Domain y) {
  return {name, dtypes, {{s23, x}, {s23, y}}};
}

void add_constants(std::vector<Row>& t) {
  t.push_back({"constant", inexact, {}, [](DType d, const PrimitiveSet&) {
                 return Attributes{{"value", check::tensor_of({d, {2}}, {1.0, 2.0}).to_literal()}};
               }});
  t.push_back({"iota", {f64, f32, i32, i64}, {}, [](DType d, const PrimitiveSet&) {
                 return Attributes{{"dtype", d}, {"shape", s23}, {"dimension", 1}};
               }});
  t.push_back({"full", inexact, {}, [](DType d, const PrimitiveSet&) {
                 return Attributes{{"value", 1.5}, {"dtype", d}, {"shape", s23}};
               }});
}

void add_unary(std::vector<Row>& t) {
  const Domain wide = between(-2, 2), positive = between(0.4, 3), inside = between(-0.8, 0.8);
  for (const char* name :
       {"neg", "exp", "exp2", "expm1", "sin", "cos", "sinh", "cosh", "tanh", "asinh", "logistic", "square"})
    t.push_back(unary(name, inexact, wide));
  for (const char* name : {"log", "log1p", "sqrt", "rsqrt", "reciprocal"})
    t.push_back(unary(name, inexact, positive));
  for (const char* name : {"asin", "acos", "atan", "atanh"}) t.push_back(unary(name, inexact, inside));
  t.push_back(unary("tan", inexact, between(-1, 1)));
  t.push_back(unary("acosh", inexact, between(1.3, 3)));
  t.push_back(unary("cbrt", real, positive));
  t.push_back(unary("erf", real, wide));
  t.push_back(unary("erfc", real, wide));
  t.push_back(unary("erf_inv", real, inside));
  t.push_back(unary("lgamma", real, between(0.6, 4)));
  t.push_back(unary("digamma", real, between(0.6, 4)));
  for (const int m : {1, 2}) {
    t.push_back({"polygamma", real, {{s23, between(0.8, 4)}}, with({{"m", m}})});
  }
  for (const int y : {-2, 0, 1, 2, 3, 5}) {
    t.push_back({"integer_pow", inexact, {{s23, between(0.5, 1.7)}}, with({{"y", y}})});
  }
  t.push_back(unary("abs", inexact, between(0.3, 2)));
  t.push_back(noted(unary("abs", real, whole(-1, 1)), "at zero"));
  t.push_back(unary("sign", inexact, between(0.3, 2)));
  t.push_back(noted(unary("sign", real, whole(-1, 1)), "at zero"));
  for (const char* name : {"neg", "abs", "sign", "square"})
    t.push_back(noted(unary(name, integers, whole(-5, 5)), "integer"));
  for (const char* name : {"floor", "ceil", "is_finite"}) t.push_back(unary(name, real, wide));
  for (const char* method : {"to_nearest_even", "away_from_zero"})
    t.push_back({"round", real, {{s23, wide}}, with({{"rounding_method", method}})});
  t.push_back(unary("not", bits, whole(0, 1)));
}

void add_complex(std::vector<Row>& t) {
  for (const char* name : {"real", "imag", "conj"}) t.push_back(unary(name, complex_only, between(-2, 2)));
  t.push_back(binary("complex", real, between(-2, 2), between(-2, 2)));
}

void add_binary(std::vector<Row>& t) {
  const Domain wide = between(-2, 2);
  for (const char* name : {"add", "sub", "mul"}) {
    t.push_back(binary(name, inexact, wide, wide));
    t.push_back(noted(binary(name, integers, whole(-5, 5), whole(-5, 5)), "integer"));
  }
  t.push_back(binary("div", inexact, wide, between(0.5, 2)));
  t.push_back(noted(binary("div", integers, whole(-5, 5), whole(0, 3)), "integer"));
  t.push_back(binary("multiply_no_nan", inexact, wide, wide));
  t.push_back(noted(binary("multiply_no_nan", inexact, whole(-1, 1), whole(-1, 1)), "at zero"));
  for (const Domain& each : {wide, whole(-1, 1)})
    t.push_back(
        noted({"multiply_no_nan", inexact, {{s23, each}, {s23, each}}, with({{"both", true}})}, "both"));
  t.push_back(binary("divide_no_nan", inexact, wide, between(0.5, 2)));
  t.push_back(noted(binary("divide_no_nan", inexact, whole(-1, 1), between(0.5, 2)), "at zero"));
  t.push_back(binary("pow", inexact, between(0.5, 2), between(-1.5, 2)));
  for (const char* name : {"max", "min"}) {
    t.push_back(binary(name, real, wide, wide));
    t.push_back(noted(binary(name, {f64, f32, i32}, whole(0, 1), whole(0, 1)), "ties"));
  }
  t.push_back(binary("atan2", real, between(0.3, 2), wide));
  t.push_back(binary("rem", real, between(-4, 4), between(0.8, 1.3)));
  t.push_back(noted(binary("rem", integers, whole(-5, 5), whole(0, 3)), "integer"));
  t.push_back(binary("nextafter", real, wide, wide));
  for (const char* name : {"and", "or", "xor"}) t.push_back(binary(name, bits, whole(0, 1), whole(0, 1)));
  for (const char* name : {"eq", "ne"})
    t.push_back(binary(name, {f64, f32, c128, c64, i32, bool_}, whole(0, 1), whole(0, 1)));
  for (const char* name : {"lt", "le", "gt", "ge"})
    t.push_back(binary(name, {f64, f32, i32, i64}, whole(0, 2), whole(0, 2)));
}

void add_ternary(std::vector<Row>& t) {
  const Domain wide = between(-2, 2);
  t.push_back(noted({"select_n", inexact, {{s23, whole(0, 1), bool_}, {s23, wide}, {s23, wide}}}, "bool"));
  t.push_back(noted({"select_n", inexact, {{{}, whole(1, 1), bool_}, {s23, wide}, {s23, wide}}}, "scalar"));
  t.push_back(
      noted({"select_n", real, {{s23, whole(0, 2), i32}, {s23, wide}, {s23, wide}, {s23, wide}}}, "i32"));
  t.push_back({"clamp", real, {{s23, between(-1, -0.5)}, {s23, wide}, {s23, between(0.5, 1)}}});
  t.push_back(noted({"clamp", {f64, f32, i32}, {{{}, whole(-1, -1)}, {s23, whole(-2, 2)}, {{}, whole(1, 1)}}},
                    "at the bounds"));
}

void add_shape(std::vector<Row>& t) {
  t.push_back({"reshape", inexact, {{s23}}, with({{"new_sizes", Ints{3, 2}}})});
  t.push_back({"transpose", inexact, {{{2, 3, 4}}}, with({{"permutation", Ints{2, 0, 1}}})});
  t.push_back({"broadcast_in_dim",
               inexact,
               {{{3, 1}}},
               with({{"shape", Ints{2, 3, 4}}, {"broadcast_dimensions", Ints{1, 2}}})});
  t.push_back({"squeeze", inexact, {{{1, 3, 1}}}, with({{"dimensions", Ints{0, 2}}})});
  t.push_back({"expand_dims", inexact, {{s23}}, with({{"dimensions", Ints{0, 2}}})});
  t.push_back({"rev", inexact, {{s23}}, with({{"dimensions", Ints{1}}})});
  t.push_back(
      {"slice",
       inexact,
       {{{5, 4}}},
       with({{"start_indices", Ints{1, 0}}, {"limit_indices", Ints{5, 3}}, {"strides", Ints{2, 1}}})});
  t.push_back({"pad", inexact, {{s23}, {{}}}, with({{"padding_config", IntLists{{1, 2, 1}, {0, 1, 0}}}})});
  t.push_back(
      noted({"pad", inexact, {{{4, 3}}, {{}}}, with({{"padding_config", IntLists{{-1, 2, 2}, {2, -1, 0}}}})},
            "cuts"));
  t.push_back({"concatenate", inexact, {{{2, 1}}, {{2, 3}}, {{2, 2}}}, with({{"dimension", 1}})});
  t.push_back({"convert_element_type", {f64, f32}, {{s23}}, with({{"new_dtype", f32}})});
  t.push_back(
      noted({"convert_element_type", {f64, f32, c128}, {{s23}}, with({{"new_dtype", c128}})}, "to complex"));
  t.push_back(
      noted({"convert_element_type", {f64, i32, bool_}, {{s23, whole(0, 3)}}, with({{"new_dtype", i32}})},
            "to i32"));
  t.push_back(noted({"convert_element_type", {i32, bool_}, {{s23, whole(0, 3)}}, with({{"new_dtype", f64}})},
                    "from exact"));
  t.push_back({"stop_gradient", inexact, {{s23}}});
  t.push_back({"device_put", inexact, {{s23}}, with({{"device", "cuda:0"}, {"src", "cpu"}})});
  t.push_back({"optimization_barrier", inexact, {{s23}, {{2}}}, with({{"instance", 7}})});
}

void add_indexing(std::vector<Row>& t) {
  const Domain index = whole(-1, 4);
  const Operand start{{}, index, i32}, wide{{}, index, i64};
  t.push_back({"dynamic_slice", inexact, {{{4, 3}}, start, start}, with({{"slice_sizes", Ints{2, 2}}})});
  t.push_back({"dynamic_update_slice", inexact, {{{3, 4}}, {{2, 4}}, wide, wide}});
  for (const char* mode : {"clip", "drop"}) {
    for (const int axis : {0, 1}) {
      const Shape taken = axis == 0 ? Shape{2, 2, 3} : Shape{4, 2, 2};
      t.push_back(noted(
          {"take", inexact, {{{4, 3}}, {{2, 2}, index, i32}}, with({{"axis", axis}, {"mode", mode}})}, mode));
      t.push_back(noted({"scatter_add",
                         inexact,
                         {{{4, 3}}, {{2, 2}, index, i32}, {taken}},
                         with({{"axis", axis}, {"mode", mode}})},
                        mode));
      const Shape along = axis == 0 ? Shape{5, 3} : Shape{4, 2};
      t.push_back(noted({"take_along_axis",
                         inexact,
                         {{{4, 3}}, {along, index, i32}},
                         with({{"axis", axis}, {"mode", mode}})},
                        mode));
      t.push_back(noted({"scatter_add_along_axis",
                         inexact,
                         {{{4, 3}}, {along, index, i32}, {along}},
                         with({{"axis", axis}, {"mode", mode}})},
                        mode));
    }
  }
}

void add_reductions(std::vector<Row>& t) {
  const Domain wide = between(-2, 2);
  const Shape s234{2, 3, 4};
  for (const Ints& axes : {Ints{1}, Ints{0, 2}}) {
    t.push_back({"reduce_sum", inexact, {{s234, wide}}, with({{"axes", axes}})});
    t.push_back({"reduce_prod", inexact, {{s234, between(0.5, 1.5)}}, with({{"axes", axes}})});
    t.push_back({"logsumexp", real, {{s234, wide}}, with({{"axes", axes}})});
    for (const char* name : {"reduce_max", "reduce_min"}) {
      t.push_back({name, real, {{s234, wide}}, with({{"axes", axes}})});
      t.push_back(noted({name, {f64, i32}, {{s234, whole(0, 2)}}, with({{"axes", axes}})}, "ties"));
    }
    for (const char* name : {"reduce_and", "reduce_or"})
      t.push_back({name, {bool_}, {{s234, whole(0, 1)}}, with({{"axes", axes}})});
  }
  t.push_back(noted({"reduce_prod", inexact, {{{3, 4}, whole(-1, 2)}}, with({{"axes", Ints{1}}})}, "zeros"));
  t.push_back(noted({"reduce_sum", integers, {{s234, whole(-5, 5)}}, with({{"axes", Ints{1}}})}, "integer"));
  for (const char* name : {"argmax", "argmin"}) {
    t.push_back({name, {f64, f32, i32}, {{s23, whole(0, 3)}}, with({{"axis", 1}, {"index_dtype", i32}})});
  }
  for (const bool reverse : {false, true}) {
    const auto along = [&](int axis) { return with({{"axis", axis}, {"reverse", reverse}}); };
    const std::string_view note = reverse ? "reverse" : "";
    t.push_back(noted({"cumsum", inexact, {{s234, wide}}, along(1)}, note));
    t.push_back(noted({"cumprod", inexact, {{{2, 5}, between(0.5, 1.5)}}, along(1)}, note));
    t.push_back(noted({"cumprod", inexact, {{{7, 2}, whole(-1, 2)}}, along(0)}, "zeros"));
    t.push_back(noted({"cumlogsumexp", real, {{{6, 2}, wide}}, along(0)}, note));
    for (const char* name : {"cummax", "cummin"}) {
      t.push_back(noted({name, real, {{{2, 5}, wide}}, along(1)}, note));
      t.push_back(noted({name, {f64, i32}, {{{6, 2}, whole(0, 2)}}, along(0)}, "ties"));
    }
  }
}

void add_sorting(std::vector<Row>& t) {
  const auto sorted = [](int dimension, int keys) {
    return with({{"dimension", dimension}, {"num_keys", keys}});
  };
  t.push_back({"sort", inexact, {{{2, 5}}}, sorted(1, 1)});
  t.push_back(
      noted({"sort", {f64, c64, bool_}, {{{4, 2}, whole(0, 1), i32}, {{4, 2}}, {{4, 2}}}, sorted(0, 2)},
            "two keys"));
  t.push_back({"top_k", real, {{{2, 5}}}, with({{"k", 3}})});
  t.push_back(noted({"top_k", {i32, bool_}, {{{2, 5}, whole(0, 1)}}, with({{"k", 5}})}, "ties"));
}

void add_products(std::vector<Row>& t) {
  const auto dot = [&](std::string_view note, const Shape& lhs, const Shape& rhs, const IntLists& numbers) {
    t.push_back(
        noted({"dot_general", inexact, {{lhs}, {rhs}}, with({{"dimension_numbers", numbers}})}, note));
  };
  dot("matrices", {2, 3}, {3, 4}, {{1}, {0}, {}, {}});
  dot("batches", {2, 3, 4}, {4, 5, 2}, {{2}, {0}, {0}, {2}});
  dot("two contracted", {3, 2, 4}, {4, 3}, {{2, 0}, {0, 1}, {}, {}});
  dot("outer", {2}, {3}, {{}, {}, {}, {}});
  dot("vectors", {3}, {3}, {{0}, {0}, {}, {}});
  dot("two batch axes", {2, 3, 4}, {3, 5, 2}, {{}, {}, {0, 1}, {2, 0}});
}

void add_convolutions(std::vector<Row>& t) {
  struct Moves {
    Ints strides;
    IntLists padding;
    Ints lhs_dilation, rhs_dilation;
  };
  const auto add = [&](std::string_view note, const DTypeList& dtypes, const Shape& lhs, const Shape& rhs,
                       const Moves& moves, IntLists numbers, std::int64_t groups) {
    t.push_back(noted({"conv_general_dilated",
                       dtypes,
                       {{lhs}, {rhs}},
                       with({{"window_strides", moves.strides},
                             {"padding", moves.padding},
                             {"lhs_dilation", moves.lhs_dilation},
                             {"rhs_dilation", moves.rhs_dilation},
                             {"dimension_numbers", std::move(numbers)},
                             {"feature_group_count", groups}})},
                      note));
  };
  const IntLists plain{{0, 1, 2, 3}, {0, 1, 2, 3}, {0, 1, 2, 3}},
      last{{0, 3, 1, 2}, {3, 2, 0, 1}, {0, 3, 1, 2}};
  add("padded", inexact, {2, 2, 3, 3}, {2, 2, 2, 2}, {{1, 2}, {{1, 0}, {0, 1}}, {1, 1}, {1, 1}}, plain, 1);
  add("dilated", {f64}, {1, 2, 3, 4}, {2, 2, 2, 3}, {{2, 1}, {{2, 1}, {1, 2}}, {3, 1}, {1, 2}}, plain, 1);
  add("cut", {f64}, {2, 5, 5, 1}, {2, 2, 1, 2}, {{2, 1}, {{-1, 1}, {2, -2}}, {1, 1}, {1, 1}}, last, 1);
  add("in groups", {f64, c128}, {2, 4, 3, 2}, {4, 2, 2, 1}, {{1, 1}, {{1, 0}, {0, 0}}, {1, 2}, {1, 1}}, plain,
      2);
  add("1 axis, odd specs", {f64}, {4, 2, 3}, {2, 3, 3}, {{1}, {{1, 1}}, {1}, {1}},
      {{2, 1, 0}, {2, 0, 1}, {1, 2, 0}}, 1);
  add("3 axes", {f64}, {1, 1, 2, 3, 2}, {2, 1, 2, 2, 1},
      {{1, 1, 1}, {{0, 0}, {1, 0}, {0, 0}}, {1, 1, 1}, {1, 1, 1}},
      {{0, 1, 2, 3, 4}, {0, 1, 2, 3, 4}, {0, 1, 2, 3, 4}}, 1);
}

void add_windows(std::vector<Row>& t) {
  struct Window {
    std::string_view note;
    Shape shape;
    Ints extents, strides;
    IntLists padding;
  };
  for (const Window& w : {Window{"pool", {2, 4, 4}, {1, 2, 2}, {1, 2, 2}, {{0, 0}, {0, 0}, {0, 0}}},
                          Window{"overlapping", {3, 5}, {2, 3}, {1, 2}, {{1, 0}, {1, 2}}},
                          Window{"cut", {5, 4}, {2, 2}, {2, 1}, {{-1, 0}, {2, -1}}},
                          Window{"long", {21}, {11}, {2}, {{3, 2}}}}) {
    const auto attributes =
        with({{"window_dimensions", w.extents}, {"window_strides", w.strides}, {"padding", w.padding}});
    t.push_back(noted({"reduce_window_sum", inexact, {{w.shape}}, attributes}, w.note));
    t.push_back(noted({"reduce_window_max", real, {{w.shape}}, attributes}, w.note));
    t.push_back(noted({"reduce_window_max", {f64, i32}, {{w.shape, whole(0, 2)}}, attributes}, "ties"));
    t.push_back(noted({"reduce_window_sum", integers, {{w.shape, whole(-5, 5)}}, attributes}, "integer"));
  }
}

void add_random(std::vector<Row>& t) {
  t.push_back({"random_bits", integers, {{{2}, whole(-9, 9), i32}}, [](DType d, const PrimitiveSet&) {
                 return Attributes{{"shape", s23}, {"dtype", d}};
               }});
}

std::vector<Row> make_table() {
  std::vector<Row> t;
  add_constants(t);
  add_unary(t);
  add_complex(t);
  add_binary(t);
  add_ternary(t);
  add_shape(t);
  add_indexing(t);
  add_reductions(t);
  add_sorting(t);
  add_products(t);
  add_graph_holders(t);
  add_convolutions(t);
  add_windows(t);
  add_random(t);
  add_linalg(t);
  add_collectives(t);
  return t;
}

Tensor draw(check::Random& random, Type type, Domain domain) {
  check::Numbers numbers(static_cast<std::size_t>(type.size()));
  for (std::complex<double>& number : numbers) {
    if (domain.kind == Domain::Kind::whole) {
      number = domain.low +
               static_cast<double>(random.below(static_cast<std::size_t>(domain.high - domain.low) + 1));
    } else {
      const double re = random.uniform(domain.low, domain.high);
      number = {re, is_complex(type.dtype()) ? random.uniform(-0.7, 0.7) : 0.0};
    }
  }
  return check::tensor_of(type, numbers);
}

}  // namespace

Row noted(Row row, std::string_view note) {
  row.note = note;
  return row;
}

const std::vector<Row>& primitive_table() {
  static const std::vector<Row> table = make_table();
  return table;
}

std::string describe(const Row& row, DType dtype) {
  return detail::str(row.primitive, row.note.empty() ? "" : " (", row.note, row.note.empty() ? " " : ") ",
                     dtype);
}

check::Subject subject_of(const Row& row, DType dtype, std::uint64_t seed, const PrimitiveSet& set) {
  const Primitive* primitive = set.find(row.primitive);
  if (primitive == nullptr) {
    throw Error(ErrorKind::unknown_primitive,
                detail::str("table of primitives: expected a primitive of the set, got ", row.primitive));
  }
  check::Random random(seed);
  GraphBuilder builder(std::string(row.primitive), set);
  check::Subject subject;
  std::vector<Value> operands;
  for (const Operand& operand : row.operands) {
    const Type type(operand.dtype.value_or(dtype), operand.shape);
    operands.push_back(builder.input(detail::str("operand.", operands.size()), type));
    subject.inputs.push_back(draw(random, type, operand.domain));
  }
  const Op op = Op::make(*primitive, row.attributes(dtype, set));
  subject.graph = builder.build(row.use ? row.use(op, operands) : builder.emit(op, operands));
  return subject;
}

}  // namespace tidu::test
