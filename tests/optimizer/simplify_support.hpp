// simplify_support.hpp - numbers on which inexact rules show, and simplified graphs compared with the
// originals.
#pragma once

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "tidu/cpu/executor.hpp"
#include "tidu/graph/builder.hpp"
#include "tidu/optimizer/passes.hpp"
#include "tidu/primitives/elementwise.hpp"
#include "tidu/primitives/structural.hpp"
#include "tidu/reference/executor.hpp"

namespace tidu::test {

/// Zeros of both signs, infinities, NaN, subnormal and extreme numbers, ordinary ones: 20 of them.
inline Literal special_number(DType dtype, std::size_t which) {
  constexpr double inf = std::numeric_limits<double>::infinity();
  double small = 0, large = 0, normal = 0;
  switch (dtype) {
    case DType::f64:
      small = 5e-324, large = std::numeric_limits<double>::max(), normal = 2.2250738585072014e-308;
      break;
    case DType::f16: small = 0x1p-24, large = 65504, normal = 0x1p-14; break;
    case DType::bf16: small = 0x1p-133, large = 0x1.fep127, normal = 0x1p-126; break;
    default: small = 0x1p-149, large = std::numeric_limits<float>::max(), normal = 0x1p-126; break;
  }
  const double floats[] = {0.0, -0.0, inf,   -inf,   NAN,   1,      -1,     2,       -2,        0.5,
                           3,   -0.1, small, -small, large, -large, normal, -normal, 3 * small, 1.0009765625};
  if (dtype == DType::boolean) return Literal::scalar(dtype, static_cast<std::int64_t>(which % 2));
  if (is_integer(dtype)) {
    const std::int64_t least = dtype == i32 ? INT32_MIN : INT64_MIN,
                       most = dtype == i32 ? INT32_MAX : INT64_MAX;
    const std::int64_t whole[] = {0,  -1, 1,  least, most, 2,    -2,    3,  -3,        7,
                                  -7, 10, 64, -64,   100,  1000, -1000, 12, least + 1, most - 1};
    return Literal::scalar(dtype, whole[which % 20]);
  }
  if (is_complex(dtype))
    return Literal::scalar(dtype, std::complex<double>(floats[which % 20], floats[(which * 7 + 3) % 20]));
  return Literal::scalar(dtype, floats[which % 20]);
}

/// Element i is special number pick(i).
template <class Pick>
Tensor special_tensor(Type type, const Pick& pick) {
  Tensor tensor(type);
  const std::size_t size = size_of(type.dtype());
  std::byte* at = tensor.mutable_bytes();
  for (std::int64_t i = 0; i < type.size(); ++i)
    std::memcpy(at + static_cast<std::size_t>(i) * size,
                special_number(type.dtype(), pick(static_cast<std::size_t>(i))).bytes(), size);
  return tensor;
}

/// Equal bit for bit, but that one NaN is like another.
inline bool same_bits(const Tensor& a, const Tensor& b) {
  if (a.type() != b.type()) return false;
  const Literal x = a.to_literal(), y = b.to_literal();  // NaNs are made canonical
  const auto is_nan = [](double v) { return v != v; };
  const auto same = [&](double v, double w) {
    return (is_nan(v) && is_nan(w)) || (v == w && std::signbit(v) == std::signbit(w));
  };
  for (std::int64_t i = 0; i < a.size(); ++i) {
    const std::size_t size = size_of(a.dtype());
    const auto offset = static_cast<std::size_t>(i) * size;
    if (std::memcmp(x.bytes() + offset, y.bytes() + offset, size) == 0) continue;
    if (!is_inexact(a.dtype()) || !same(x.at(i).real(), y.at(i).real()) ||
        !same(x.at(i).imag(), y.at(i).imag()))
      return false;
  }
  return true;
}

/// One loop for each operation, none of them replaced by another.
inline const CpuExecutor& plain_cpu() {
  static const CpuExecutor executor = [] {
    CpuOptions options;
    options.program.fuse = false;
    options.program.simplify = false;
    options.threads = 1;
    options.vector_units = VectorUnits::none;  // with them, functions round differently for few elements
    return CpuExecutor(options);
  }();
  return executor;
}

/// Constant folding by an executor.
inline ConstantEvaluator evaluator(const Executor& executor) {
  return [&executor](const Graph& graph) {
    std::vector<Literal> tensors;
    for (const Tensor& tensor : executor.run(graph, std::vector<Tensor>()))
      tensors.push_back(tensor.to_literal());
    return tensors;
  };
}

/// Which outputs of two graphs differ on an executor; empty: none.
inline std::string differences(const Executor& executor, const Graph& a, const Graph& b,
                               const std::vector<Tensor>& inputs) {
  std::string text;
  const std::vector<Tensor> x = executor.run(a, inputs), y = executor.run(b, inputs);
  for (std::size_t i = 0; i < x.size(); ++i) {
    if (!same_bits(x[i], y[i])) text += detail::str(executor.name(), ": output ", i, " differs\n");
  }
  return text.empty() ? text : text + to_text(a) + to_text(b);
}
/// Does it multiply matrices? On the CPU the order in which their sums are added depends on how operands
/// lie.
inline bool has_products(const Graph& graph) {
  for (std::size_t i = 0; i < graph.num_operations(); ++i) {
    if (graph.operation(i).primitive().has_trait(Trait::contraction)) return true;
  }
  return false;
}
/// On either executor.
inline std::string differences(const Graph& a, const Graph& b, const std::vector<Tensor>& inputs) {
  return differences(reference(), a, b, inputs) + differences(plain_cpu(), a, b, inputs);
}

/// Rules on two values, and the graphs that they give.
namespace simplify_rules {

using Build = std::function<Value(Value x, Value y)>;
inline const std::vector<DType> floats{f64, f32, f16, bf16}, integers{i32, i64}, complexes{c64, c128},
    booleans{bool_};
inline std::vector<DType> operator|(std::vector<DType> a, const std::vector<DType>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

// The extent of both axes of the values that rules are tried on.
inline constexpr std::int64_t n = 20;

inline Tensor along(Type type, std::size_t axis) {
  return special_tensor(type, [=](std::size_t i) { return axis == 0 ? i / n : i % n; });
}

// The operations that are left, "mul sub"; x and y are of n x n elements, every number beside every other.
inline void rule(const std::vector<DType>& dtypes, const std::string& left, const Build& build,
                 bool fast_math = false) {
  for (const DType dtype : dtypes) {
    GraphBuilder builder("f");
    const Type type(dtype, {n, n});
    const Value x = builder.input("x", type), y = builder.input("y", type);
    const Graph graph = builder.build({build(x, y)});
    const Graph simplified = passes::simplify(graph, fast_math);
    std::string names;
    for (std::size_t i = 0; i < simplified.num_operations(); ++i)
      names += (i == 0 ? "" : " ") + std::string(simplified.operation(i).name());
    CHECK_MESSAGE(names == left, to_text(graph), to_text(simplified));
    verify(simplified);
    if (!fast_math) CHECK(differences(graph, simplified, {along(type, 0), along(type, 1)}) == "");
  }
}
// The rule is not exact: the graph stays as it is.
inline void no_rule(const std::vector<DType>& dtypes, const Build& build) {
  for (const DType dtype : dtypes) {
    GraphBuilder builder("f");
    const Type type(dtype, {n, n});
    const Value x = builder.input("x", type), y = builder.input("y", type);
    const Graph graph = builder.build({build(x, y)});
    CHECK_MESSAGE(structurally_equal(passes::simplify(graph, false), graph), to_text(graph));
  }
}

}  // namespace simplify_rules
}  // namespace tidu::test
