// hot_odd.cpp - steps of a hot loop that deviate: each has the same results as without hot paths.
#include <memory>

#include "support.hpp"
#include "tidu/frontend/lazy.hpp"

namespace tidu::test {
namespace {

// The results of `body` with hot paths equal those without.
void check_as_without(const std::function<std::vector<double>()>& body) {
  const std::vector<double> plain = body();
  const HotPaths hot;
  const std::vector<double> seen = body();
  REQUIRE(seen.size() == plain.size());
  for (std::size_t i = 0; i < seen.size(); ++i) {
    INFO(i);
    CHECK(seen[i] == doctest::Approx(plain[i]).epsilon(1e-9));
  }
}

// Memory that is not the library's cannot be recorded: the other operand was taken up by then.
TEST_CASE("[G4] an operation that is abandoned after the last result of a hot step") {
  for (const int period : {2, 3, 4}) {
    check_as_without([period] {
      std::vector<double> seen;
      const Array x = random_array({4}, 1), p = random_array({4}, 2), q = random_array({4}, 3);
      double memory[4] = {1, 2, 3, 4};
      const Array borrowed(Tensor::borrow(q.type(), memory, nullptr));
      for (int step = 0; step < 300; ++step) {
        const Array t = tanh(x);
        const bool odd = step >= 40 && (step / 3) % period == 0;
        if (step >= 40 && (step / 3) % period == 1) seen.push_back(t.tensor().at(0).real());
        const Array r = p * (odd ? borrowed : q);
        if (odd) seen.push_back(t.tensor().at(0).real());
        seen.push_back(sum(r + t).item());
      }
      return seen;
    });
  }
}

TEST_CASE("[G4] leaves of an operation that was abandoned at the beginning of a step are released") {
  const HotPaths hot;
  const Array x = random_array({4}, 1);
  double memory[4] = {1, 2, 3, 4};
  const Array borrowed(Tensor::borrow(x.type(), memory, nullptr));
  double total = 0.0;
  const auto step = [&](const Array& p, const Array& q) { total += sum(tanh(p * q)).item(); };
  for (int i = 0; i < 60; ++i) step(x, x);
  std::weak_ptr<double[]> watched;
  {
    const std::shared_ptr<double[]> data(new double[4]{0.1, 0.2, 0.3, 0.4});
    watched = data;
    const Array given(Tensor::wrap(x.type(), data.get(), data));
    CHECK_FALSE(is_lazy(given * borrowed));
  }
  CHECK(watched.expired());
  const HotStatistics before = hot_statistics();
  for (int i = 0; i < 60; ++i) step(x, x);
  CHECK(hot_statistics().known - before.known > 60);
}

TEST_CASE("[G4] another operand of a hot loop comes to require a gradient, and an older loss goes backward") {
  for (const bool at_first : {false, true}) {
    for (const int older : {0, 1, 2}) {
      check_as_without([at_first, older] {
        std::vector<double> seen;
        Array x = leaf(random_array({4}, 1)), b = random_array({4}, 3);
        const Array c = random_array({4}, 2);
        b.set_requires_grad(at_first);
        Array old;
        const int odd = 40;
        for (int step = 0; step < 60; ++step) {
          if (step == odd) b.set_requires_grad(!at_first);
          const Array scaled = c * 2.0;
          const Array loss = sum(sin(x) * scaled + b);
          x.zero_grad();
          if (b.requires_grad()) b.zero_grad();
          if (step == odd - 1) {
            loss.backward({.keep_graph = true});
            old = loss;
          } else if (step >= odd && step < odd + older) {
            old.backward({.keep_graph = true});
          } else {
            loss.backward();
          }
          seen.push_back(loss.item());
          seen.push_back(sum(*x.grad()).item());
          const auto gradient = b.requires_grad() ? b.grad() : std::nullopt;
          seen.push_back(gradient ? gradient->tensor().at(0).real() : -1000);
        }
        return seen;
      });
    }
  }
}

TEST_CASE("[G2] values that a hot backward call does not reach go backward later") {
  const Graph graph = trace([](const Array& a, const Array& b) { return sin(a) + floor(b); },
                            random_array({4}, 1), random_array({4}, 2));
  for (const int period : {1, 20}) {
    check_as_without([&graph, period] {
      std::vector<double> seen;
      Array w = leaf(random_array({4}, 1)), u = leaf(random_array({4}, 2));
      for (int step = 0; step < 60; ++step) {
        const Array y = sin(w), z = cos(u);
        const Array loss = sum(call_graph(graph, {y, z})[0]), other = sum(z);
        w.zero_grad();
        u.zero_grad();
        loss.backward();
        if (step % period == 0) other.backward();
        seen.push_back(loss.item());
        seen.push_back(sum(*w.grad()).item());
        seen.push_back(u.grad() ? sum(*u.grad()).item() : -1000);
      }
      return seen;
    });
  }
}

// Numbers of one value are one operand, whichever way they came by it.
TEST_CASE("[G4] numbers of a hot loop that are equal in some steps, and arrays of such a value") {
  check_as_without([] {
    std::vector<double> seen;
    Array w = leaf(random_array({4}, 1));
    for (int step = 0; step < 120; ++step) {
      const double rate = step % 11 == 0 ? 0.5 : 0.01 * (step % 5);
      Array half = full({}, 0.5);
      const Array loss = sum(tanh(w * 0.5) * rate + w * half);
      w.zero_grad();
      loss.backward({.keep_graph = true});
      Tensor elements = half.tensor();
      if (step > 40 && step % 7 == 0) elements.mutable_data<double>()[0] = 3.0;
      seen.push_back(sum(w * 0.5).item());
      seen.push_back(sum(*w.grad() * 0.5).item());
      const NoGrad guard;
      w -= rate * *w.grad();
      seen.push_back(loss.item());
    }
    return seen;
  });
}

// A number that comes once is no reason to take one that comes again for another operand than before.
TEST_CASE("[G1] numbers that change in every step, many of them, keep a loop as known as others") {
  const Array x = random_array({4}, 1);
  const auto run = [&x](int steps, double change) {
    double last = 0;
    for (int step = 0; step < steps; ++step) {
      Array y = x;
      for (int k = 1; k <= 8; ++k) y = (y * (0.1 * k) + x) * (1 / (k + change * step));
      for (int k = 1; k <= 8; ++k) y = tanh(y * (0.1 * k) + x) * (1 / (k + change * step));
      last = sum(y).item();
    }
    return last;
  };
  const double plain = run(200, 0.01);
  const HotPaths hot;
  const auto known = [&](double change) {
    const std::uint64_t before = hot_statistics().known;
    const double last = run(200, change);
    if (change != 0) CHECK(last == doctest::Approx(plain).epsilon(1e-9));
    return hot_statistics().known - before;
  };
  const std::uint64_t same = known(0);
  CHECK(same > 5000);
  CHECK(known(0.01) > same * 9 / 10);
}

TEST_CASE("[G3] [G4] a leaf that is gone before backward, and one like it that is not") {
  for (const bool mostly_gone : {true, false}) {
    check_as_without([mostly_gone] {
      std::vector<double> seen;
      const Array x = random_array({4}, 1);
      for (int step = 0; step < 100; ++step) {
        Array kept, loss;
        {
          const Array p = leaf(full({4}, 0.5));
          const Array a = sin(p * x);
          loss = sum(a * a);
          if ((step % 50 == 40) == mostly_gone) kept = p;
        }
        loss.backward();
        if (!kept.empty_handle()) {
          const std::optional<Array> gradient = kept.grad();
          seen.push_back(gradient ? 1 : 0);
          if (gradient)
            for (const double element : elements(*gradient)) seen.push_back(element);
        }
        seen.push_back(loss.item());
      }
      return seen;
    });
  }
}

}  // namespace
}  // namespace tidu::test
