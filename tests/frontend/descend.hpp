// descend.hpp - a loop that changes large parameters and their momenta.
#pragma once

#include "support.hpp"

namespace tidu::test {

// Steps that write w and its momentum m; `look` is called after each step.
inline void descend(Array& w, Array& m, int steps, const auto& look) {
  const Array x = random_array({120, 90}, 3), y = random_array({120, 90}, 4);
  for (int step = 0; step < steps; ++step) {
    const Array error = tanh(x * w) - y;
    const Array loss = mean(error * error);
    w.zero_grad();
    loss.backward();
    {
      const NoGrad guard;
      m = 0.9 * m + *w.grad();
      w -= 10.0 * m;
    }
    w.zero_grad();
    look(loss);
  }
}

}  // namespace tidu::test
