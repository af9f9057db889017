// helpers.hpp - how the tests of derivatives write graphs and run them: on the reference interpreter, by
// position.
#pragma once

#include <doctest/doctest.h>

#include <complex>
#include <functional>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "check/numeric.hpp"
#include "tidu/graph/builder.hpp"
#include "tidu/linearize/transforms.hpp"
#include "tidu/primitives/elementwise.hpp"
#include "tidu/primitives/structural.hpp"
#include "tidu/reference/executor.hpp"

namespace tidu::test {

using check::MaybeTensors;
using check::Numbers;
using check::Random;
using check::Tensors;
using Complex = std::complex<double>;

/// f of one input "x" of that type.
inline Graph of_x(Type type, const std::function<Value(Value)>& f) {
  GraphBuilder g("f");
  return g.build({f(g.input("x", type))});
}
/// f of two inputs, "x" and "y".
inline Graph of_xy(Type x, Type y, const std::function<Values(Value, Value)>& f) {
  GraphBuilder g("f");
  const Value a = g.input("x", x), b = g.input("y", y);
  return g.build(f(a, b));
}

inline Tensors run(const Graph& graph, const Tensors& inputs) { return reference().run(graph, inputs); }
inline Tensor scalar(double x) { return Tensor::scalar(x); }
inline Tensor scalar(Complex z) { return Tensor::scalar(c128, z); }
inline Tensor vector(std::initializer_list<double> x) {
  return Tensor::from<double>({static_cast<std::int64_t>(x.size())}, x);
}
inline Tensor vector(std::initializer_list<Complex> x) {
  return Tensor::from<Complex>({static_cast<std::int64_t>(x.size())}, x);
}

/// Output `k` of `graph`, a scalar.
inline Complex number(const Graph& graph, const Tensors& inputs, std::size_t k = 0) {
  return run(graph, inputs).at(k).at(0);
}
inline double real_number(const Graph& graph, const Tensors& inputs, std::size_t k = 0) {
  return number(graph, inputs, k).real();
}

inline bool near(Complex a, Complex b, double tolerance = 1e-12) {
  return std::abs(a - b) <= tolerance * std::max(1.0, std::max(std::abs(a), std::abs(b)));
}
inline bool near(const Tensor& a, const Tensor& b, double tolerance = 1e-12) {
  return a.type() == b.type() && check::relative_error(a, b) <= tolerance;
}

/// The derivatives alone, of the graphs that jvp and vjp make.
inline Graph tangents_of(const Graph& f, const Names& wrt = {}) {
  const Derivative d = jvp_parts(f, wrt);
  std::vector<std::size_t> positions;
  for (std::size_t k = d.first; k < d.graph.outputs().size(); ++k) positions.push_back(k);
  return with_outputs(d.graph, positions);
}
inline Graph gradients_of(const Graph& f, const Names& wrt = {}) {
  const Derivative d = vjp_parts(f, wrt);
  std::vector<std::size_t> positions;
  for (std::size_t k = d.first; k < d.graph.outputs().size(); ++k) positions.push_back(k);
  return with_outputs(d.graph, positions);
}

}  // namespace tidu::test
