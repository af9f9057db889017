#include <iostream>
#include <tidu/tidu.hpp>

int main() {
  using namespace tidu;
  GraphBuilder g("f");  // f(x, w) = Σ tanh(x · w)
  const Value x = g.input("x", {f64, {2, 3}});
  const Value w = g.input("w", {f64, {3}});
  const Graph f = g.build({ops::reduce_sum(ops::tanh(ops::matmul(x, w)), {0})});

  const Graph df = value_and_grad(f, {"w"});  // a graph again: print it, differentiate it, run it
  std::cout << to_text(df);

  const Tensor x0 = Tensor::from<double>({2, 3}, {0.1, 0.2, 0.3, -0.4, 0.5, -0.6});
  const Tensor w0 = Tensor::from<double>({3}, {1, -2, 0.5});
  for (const Tensor& result : cpu().run(df, {{"x", x0}, {"w", w0}})) std::cout << to_json(result) << '\n';

  const Graph hessian_of_f = hessian(f, {"w"});  // any order: [3, 3], symmetric
  std::cout << to_json(cpu().run(hessian_of_f, {{"x", x0}, {"w", w0}})[0]) << '\n';
}
