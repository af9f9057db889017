// minimal.cpp - an Array, a graph and an executor in ten lines, for every way to get tidu.
#include <tidu/tidu.hpp>

int main() {
  const tidu::Array x = tidu::array({1.0, 2.0});
  const tidu::Array slope = tidu::grad([](const tidu::Array& v) { return sum(v * v); })(x);
  tidu::GraphBuilder g("f");
  const tidu::Graph f = g.build({tidu::ops::square(g.input("x", {tidu::f64, {}}))});
  const tidu::Graph df = tidu::grad(f, {"x"});
  const tidu::Tensor y = tidu::cpu().run(df, {{"x", tidu::Tensor::from<double>({}, {2.0})}})[0];
  return y.at(0) == 4.0 && sum(slope).item<double>() == 6.0 ? 0 : 1;
}
