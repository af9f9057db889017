// array.cpp - what README.md shows of Array.
#include <iostream>
#include <tidu/tidu.hpp>

using tidu::Array;

Array loss(const Array& w, const Array& b, const Array& x, const Array& y) {
  return -mean(sum(y * log_softmax(matmul(x, w) + b), /*axes=*/1));
}

int main() {
  const Array x = tidu::array({{0.5, -1.0}, {1.5, 2.0}, {-0.5, 0.25}});
  const Array y = one_hot(tidu::array({0, 1, 1}), 2);
  Array w = tidu::array({{0.1, -0.2}, {0.3, 0.4}}), b = tidu::zeros({2});

  w.set_requires_grad();  // eagerly: what runs is recorded, and run backward
  loss(w, b, x, y).backward();
  std::cout << *w.grad() << '\n';
  tidu::no_grad([&] { w -= 0.1 * *w.grad(); });

  const auto step =
      tidu::value_and_grad(loss, {0, 1});  // as functions; tidu::compile(...) runs it as one graph
  auto [value, grads] = step(w.detach(), b, x, y);
  std::cout << value << '\n' << grads[1] << '\n';

  const auto loss_of_b = [&](const Array& c) { return loss(w.detach(), c, x, y); };
  std::cout << tidu::hvp(loss_of_b, b, tidu::array({1.0, 0.0})) << '\n'  // any order, any mode
            << tidu::hessian(loss_of_b)(b) << '\n';
}
