// compare.hpp - random tensors, and one operation on the CPU against the reference interpreter.
#pragma once

#include <doctest/doctest.h>

#include <cmath>
#include <complex>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "tidu/cpu/executor.hpp"
#include "tidu/graph/builder.hpp"
#include "tidu/graph/infer.hpp"
#include "tidu/primitives/elementwise.hpp"
#include "tidu/primitives/structural.hpp"
#include "tidu/reference/executor.hpp"

namespace tidu::test {

/// Values from [low, high]; of integers whole ones; with `special`, some are NaN, infinite, zeros of both
/// signs, or extreme integers.
struct Domain {
  double low = -2;
  double high = 2;
  bool special = false;
};

inline Tensor random_tensor(Type type, const Domain& domain, std::mt19937_64& random) {
  // As std::uniform_real_distribution, which takes a multiple of the time in builds that are not optimised.
  const double step = std::ldexp(domain.high - domain.low, -53);
  const auto values = [&](std::mt19937_64& from) {
    return domain.low + step * static_cast<double>(from() >> 11U);
  };
  constexpr double odd[] = {NAN, INFINITY, -INFINITY, 0.0, -0.0, 1.0, -1.0};
  Tensor tensor(type);
  std::byte* at = tensor.mutable_bytes();
  for (std::int64_t i = 0; i < type.size(); ++i, at += size_of(type.dtype())) {
    const auto chosen = static_cast<std::size_t>(domain.special ? random() % 10 : 9);
    const bool special = domain.special && chosen < 7;
    const double value = special && !is_complex(type.dtype()) ? odd[chosen] : values(random);
    switch (type.dtype()) {
      case DType::boolean:
        *at = std::byte{static_cast<unsigned char>(values(random) > (domain.low + domain.high) / 2 ? 1 : 0)};
        break;
      case DType::i32: {
        constexpr std::int32_t extreme[] = {INT32_MIN, INT32_MAX, 0, -1, 1, 0, 0};
        const std::int32_t v = special ? extreme[chosen] : static_cast<std::int32_t>(std::lround(value));
        std::memcpy(at, &v, sizeof v);
        break;
      }
      case DType::i64: {
        constexpr std::int64_t extreme[] = {INT64_MIN, INT64_MAX, 0, -1, 1, 0, 0};
        const std::int64_t v = special ? extreme[chosen] : std::lround(value);
        std::memcpy(at, &v, sizeof v);
        break;
      }
      case DType::f16:
      case DType::bf16: {
        const auto single = static_cast<float>(value);
        const std::uint16_t v = type.dtype() == f16 ? float_to_half(single) : float_to_bfloat16(single);
        std::memcpy(at, &v, sizeof v);
        break;
      }
      case DType::f32: {
        const auto v = static_cast<float>(value);
        std::memcpy(at, &v, sizeof v);
        break;
      }
      case DType::f64: std::memcpy(at, &value, sizeof value); break;
      case DType::c64: {
        const std::complex<float> v(static_cast<float>(value), static_cast<float>(values(random)));
        std::memcpy(at, &v, sizeof v);
        break;
      }
      case DType::c128: {
        const std::complex<double> v(value, values(random));
        std::memcpy(at, &v, sizeof v);
        break;
      }
    }
  }
  return tensor;
}

inline double tolerance(DType dtype) {
  switch (dtype) {
    case DType::f16: return 4e-3;
    case DType::bf16: return 3e-2;
    case DType::f32:
    case DType::c64: return 2e-5;
    case DType::f64:
    case DType::c128: return 2e-12;
    default: return 0;
  }
}

inline bool close(double a, double b, double relative) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
  if (std::isinf(a) || std::isinf(b)) return a == b;
  return std::fabs(a - b) <= relative * (1 + std::fabs(b));
}

/// Are all bits the same, except for those of NaNs?
inline bool same_bits_or_nan(const Tensor& a, const Tensor& b) {
  if (a.type() != b.type()) return false;
  if (a.size() == 0 || std::memcmp(a.bytes(), b.bytes(), a.num_bytes()) == 0) return true;
  const std::size_t element = size_of(a.dtype());
  for (std::int64_t i = 0; i < a.size(); ++i) {
    const std::size_t at = static_cast<std::size_t>(i) * element;
    const bool both_nan = is_inexact(a.dtype()) && std::isnan(a.at(i).real()) && std::isnan(b.at(i).real());
    if (!both_nan && std::memcmp(a.bytes() + at, b.bytes() + at, element) != 0) return false;
  }
  return true;
}

/// Empty when they agree, else the first element that does not.
inline std::string difference(const Tensor& got, const Tensor& expected, double factor = 1) {
  if (got.type() != expected.type()) return detail::str("type ", got.type(), ", expected ", expected.type());
  if (got.size() == 0 || std::memcmp(got.bytes(), expected.bytes(), got.num_bytes()) == 0) return {};
  const double relative = factor * tolerance(got.dtype());
  for (std::int64_t i = 0; i < got.size(); ++i) {
    if (got.dtype() == i64) {  // beyond 2^53
      if (got.data<std::int64_t>()[i] != expected.data<std::int64_t>()[i])
        return detail::str("element ", i, " of ", got.type());
      continue;
    }
    const std::complex<double> a = got.at(i), b = expected.at(i);
    const double scale = is_complex(got.dtype()) && std::isfinite(std::abs(b)) ? 1 + std::abs(b) : 1;
    if (!close(a.real(), b.real(), relative * scale) || !close(a.imag(), b.imag(), relative * scale)) {
      return detail::str("element ", i, " of ", got.type(), " is ", a, ", expected ", b);
    }
  }
  return {};
}

#ifdef TIDU_TEST_EMULATED
/// Keeps the graph for finish_checks, which runs its kernels for a device on the host: all of them are
/// compiled together.
std::vector<std::string> differences(const Graph& graph, const std::vector<Tensor>& inputs,
                                     const CpuExecutor& executor);
void finish_checks();
#else
inline std::vector<std::string> differences(const Graph& graph, const std::vector<Tensor>& inputs,
                                            const CpuExecutor& executor) {
  const std::vector<Tensor> got = executor.run(graph, std::span<const Tensor>(inputs));
  const std::vector<Tensor> expected = reference().run(graph, std::span<const Tensor>(inputs));
  std::vector<std::string> found;
  if (got.size() != expected.size()) found.push_back("number of outputs");
  for (std::size_t i = 0; i < got.size() && i < expected.size(); ++i) {
    const std::string text = difference(got[i], expected[i]);
    if (!text.empty()) found.push_back(detail::str("output ", i, ": ", text));
  }
  return found;
}
/// Ends a test case.
inline void finish_checks() {}
#endif

/// The graph of one operation on inputs of those types.
inline Graph graph_of(const Op& op, const std::vector<Type>& operands) {
  GraphBuilder builder("one");
  std::vector<Value> inputs;
  for (std::size_t i = 0; i < operands.size(); ++i)
    inputs.push_back(builder.input(detail::str("x", i), operands[i]));
  const Values results = builder.emit(op, inputs);
  return builder.build(std::span<const Value>(results.data(), results.size()));
}

inline void check_operation(const Op& op, const std::vector<Type>& operands,
                            const std::vector<Domain>& domains, std::mt19937_64& random) {
  static const CpuExecutor two_threads = [] {
    CpuOptions options;
    options.threads = 2;
    return CpuExecutor(options);
  }();
  const Graph graph = graph_of(op, operands);
  std::vector<Tensor> inputs;
  for (std::size_t i = 0; i < operands.size(); ++i)
    inputs.push_back(random_tensor(operands[i], domains[i % domains.size()], random));
  INFO(to_string(op), " on ", detail::list(operands));
  for (const std::string& text : differences(graph, inputs, two_threads)) CHECK_MESSAGE(text.empty(), text);
}

inline const std::vector<Shape>& some_shapes() {
  static const std::vector<Shape> shapes{{}, {1}, {0}, {7}, {3, 0}, {2, 3}, {4, 1, 5}, {2, 3, 1, 4}, {40000}};
  return shapes;
}
inline constexpr DType every_dtype[] = {bool_, i32, i64, f16, bf16, f32, f64, c64, c128};

}  // namespace tidu::test
