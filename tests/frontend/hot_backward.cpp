// hot_backward.cpp - backward calls of a hot sequence, which are replayed if the tape is the same: all
// possible differences in one of them.
#include <memory>
#include <thread>

#include "support.hpp"

namespace tidu::test::hot_backward_cases {
namespace {

constexpr int steps = 60;
constexpr int odd_one = 45;  // the step that is not like the others

struct Model {
  Array w = leaf(random_array({4, 4}, 1, 0.5)), u = leaf(random_array({4, 4}, 2, 0.5)),
        b = leaf(random_array({4}, 3));
  Array x = random_array({5, 4}, 4), c = random_array({5, 4}, 5);
  std::vector<Array*> leaves() {
    std::vector<Array*> all{&w, &u, &b};
    std::erase_if(all, [](const Array* array) { return !array->requires_grad(); });
    return all;
  }
};

// The events of a step, at their positions: `before` forward, `between` forward and backward, and `after`
// backward; each may be replaced by another one.
struct Deviation {
  const char* what;
  std::function<void(Model&)> before{};
  std::function<Array(Model&)> forward{};
  std::function<void(Model&, Array&, Array&)> between{};  // with h and loss
  std::function<void(Model&, const Array&)> backward{};
  std::function<void(Model&, const Array&, std::vector<double>&)> after{};
  bool keeps_slots = false;
};

Array forward(Model& m, Array& h) {
  h = tanh(matmul(m.x, m.w) + m.b);
  const Array d = matmul(h, m.u) * m.c;
  return mean(d * d);
}

void read(const Array& x, std::vector<double>& into) {
  for (const double element : elements(x)) into.push_back(element);
}

// All losses and parameters. `odd`: in which step the deviation is.
std::vector<double> train(const Deviation& deviation, bool twice) {
  std::vector<double> seen;
  Model m;
  for (int step = 0; step < steps; ++step) {
    const bool odd = step == odd_one || (twice && step == odd_one + 1);
    if (odd && deviation.before) deviation.before(m);
    Array h;
    Array loss = odd && deviation.forward ? deviation.forward(m) : forward(m, h);
    if (!(odd && deviation.keeps_slots))
      for (Array* leaf : m.leaves()) leaf->zero_grad();
    if (odd && deviation.between) deviation.between(m, h, loss);
    if (odd && deviation.backward) {
      deviation.backward(m, loss);
    } else {
      loss.backward();
    }
    if (odd && deviation.after) deviation.after(m, loss, seen);
    for (Array* leaf : m.leaves()) {
      const NoGrad guard;
      if (leaf->grad()) *leaf -= 0.1 * *leaf->grad();
    }
    seen.push_back(loss.item());
  }
  for (Array* leaf : m.leaves()) read(*leaf, seen);
  return seen;
}

void check_alike(const std::vector<Deviation>& deviations, std::uint64_t min_repeated) {
  for (const Deviation& deviation : deviations) {
    for (const bool twice : {false, true}) {
      CAPTURE(deviation.what);
      CAPTURE(twice);
      const std::vector<double> plain = train(deviation, twice);
      const std::uint64_t before = hot_statistics().backwards;
      std::vector<double> hot;
      {
        const HotPaths guard;
        hot = train(deviation, twice);
      }
      CHECK(hot_statistics().backwards - before >= min_repeated);
      REQUIRE(hot.size() == plain.size());
      for (std::size_t i = 0; i < plain.size(); ++i)
        CHECK(hot[i] == doctest::Approx(plain[i]).epsilon(1e-10));
    }
  }
}

TEST_CASE("[G3] a backward call of a hot sequence is done again without being run") {
  check_alike({{.what = "nothing"}}, steps - 12);
}

TEST_CASE("[G3] [G4] a backward call on a tape that is not the same runs as it is") {
  check_alike(
      {{.what = "another root",
        .forward =
            [](Model& m) {
              const Array other = matmul(tanh(matmul(m.c, m.w) + m.b), m.u) * m.x;
              return mean(other * other);
            }},
       {.what = "two roots to choose from",
        .between =
            [](Model& m, Array&, Array& loss) {
              Array h;
              Model other = m;
              std::swap(other.x, other.c);
              loss = forward(other, h);
            }},
       {.what = "parameters changed places", .before = [](Model& m) { std::swap(m.w, m.u); }},
       {.what = "one parameter in two places", .before = [](Model& m) { m.w = m.u; }},
       {.what = "a parameter without gradient", .before = [](Model& m) { m.b = m.b.detach(); }},
       {.what = "a detached value",
        .forward =
            [](Model& m) {
              const Array h = tanh(matmul(m.x, m.w) + m.b).detach();
              const Array d = matmul(h, m.u) * m.c;
              return mean(d * d);
            }},
       {.what = "new leaves",
        .before =
            [](Model& m) {
              for (Array* one : m.leaves()) *one = leaf(*one);
            }},
       {.what = "forward without gradients",
        .before =
            [](Model& m) {
              const NoGrad guard;
              Array h;
              (void)forward(m, h);
            }},
       {.what = "the loss is read before", .between = [](Model&, Array&, Array& loss) { (void)loss.item(); }},
       {.what = "an operation between", .between = [](Model&, Array& h, Array&) { (void)exp(h); }}},
      20);
}

TEST_CASE("[G3] a backward call reads the saved values of nodes whose forward was evaluated before") {
  const auto train_apart = [] {
    std::vector<double> seen;
    Model m;
    for (int step = 0; step < 2 * steps; ++step) {
      Array h;
      Array loss = forward(m, h);
      loss = loss + sum(sin(m.w) * h[0]) * 0.25;
      for (Array* leaf : m.leaves()) leaf->zero_grad();
      seen.push_back(loss.item());  // evaluates the forward: its saved values are leaves from then on
      const Array wave = exp(h * 0.5);
      loss.backward();
      for (Array* leaf : m.leaves()) {
        const NoGrad guard;
        *leaf -= 0.01 * *leaf->grad();
      }
      seen.push_back(sum(wave).item());
    }
    for (Array* leaf : m.leaves()) read(*leaf, seen);
    return seen;
  };
  const std::vector<double> plain = train_apart();
  const std::uint64_t before = hot_statistics().backwards;
  const HotPaths guard;
  const std::vector<double> hot = train_apart();
  CHECK(hot_statistics().backwards - before >= steps);
  REQUIRE(hot.size() == plain.size());
  for (std::size_t i = 0; i < plain.size(); ++i) CHECK(hot[i] == doctest::Approx(plain[i]).epsilon(1e-10));
}

TEST_CASE("[G3] [G4] tapes that differ in one value or one edge are distinguished") {
  const Array x = random_array({4}, 1), c = random_array({4}, 2);
  const auto program = [&](std::vector<double>& seen) {
    const Array w = leaf(random_array({4}, 3)), u = leaf(random_array({4}, 4));
    for (int step = 0; step < 80; ++step) {
      const Array a = sin(w), b = sin(u);
      // Pairs of roots whose tapes are equal except for a saved result, a saved operand, and an edge.
      const Array roots[] = {sum(tanh(w + x)), sum(tanh(w + c)), sum(w * x),
                             sum(w * c),       sum(a + a),       sum(a + b)};
      std::vector<Array> gradients;
      for (const int pair : {0, 1, 2}) {
        w.zero_grad();
        u.zero_grad();
        roots[2 * pair + (step % 20 == 15 + pair ? 1 : 0)].backward();
        for (const Array& leaf : {w, u}) gradients.push_back(leaf.grad() ? *leaf.grad() : 0.0 * x);
      }
      for (const Array& gradient : gradients) read(gradient, seen);
    }
  };
  std::vector<double> plain, hot;
  program(plain);
  const std::uint64_t before = hot_statistics().backwards;
  {
    const HotPaths guard;
    program(hot);
  }
  CHECK(hot_statistics().backwards - before >= 3 * 40);
  REQUIRE(hot.size() == plain.size());
  for (std::size_t i = 0; i < plain.size(); ++i) CHECK(hot[i] == doctest::Approx(plain[i]).epsilon(1e-10));
}

TEST_CASE("[G3] [G4] [P5] a backward call with other options runs as it is") {
  check_alike({{.what = "a seed", .backward = [](Model&, const Array& loss) { loss.backward(Array(2.0)); }},
               {.what = "kept and again",
                .backward =
                    [](Model&, const Array& loss) {
                      loss.backward({.keep_graph = true});
                      loss.backward();
                    }},
               {.what = "recorded, and differentiated again",
                .backward =
                    [](Model& m, const Array& loss) {
                      loss.backward({.create_graph = true});
                      const Array squares = sum(*m.w.grad() * *m.w.grad());
                      for (Array* leaf : m.leaves()) leaf->zero_grad();
                      squares.backward();
                    }},
               {.what = "twice, which is an error",
                .after =
                    [](Model&, const Array& loss, std::vector<double>& seen) {
                      seen.push_back(contains(error_of([&] { loss.backward(); }), "freed") ? 1.0 : 0.0);
                    }},
               {.what = "with respect to one",
                .backward =
                    [](Model& m, const Array& loss) {
                      const auto gradients = grad_of(loss, {m.w});
                      m.w.set_grad(*gradients[0]);
                    }},
               {.what = "anomaly mode",
                .backward =
                    [](Model&, const Array& loss) {
                      const AnomalyGuard guard;
                      loss.backward();
                    }}},
              20);
}

TEST_CASE("[G3] [G4] [P8] gradients are added to the content of the slots") {
  check_alike({{.what = "of the last step", .keeps_slots = true},
               {.what = "a gradient that was put there",
                .between = [](Model& m, Array&, Array&) { m.u.set_grad(m.u.detach() * 3.0); }}},
              20);
}

TEST_CASE("[G4] [C9] a saved value of a hot tape that was written to is an error of its backward") {
  check_alike(
      {{.what = "an operand",
        .between = [](Model& m, Array&, Array&) { m.x.required().tensor.mutable_data<double>()[0] += 0.0; },
        .backward =
            [](Model& m, const Array& loss) {
              CHECK(contains(error_of([&] { loss.backward(); }), "changed in place"));
              for (Array* leaf : m.leaves()) leaf->set_grad(zeros_like(*leaf));
            }}},
      20);
}

TEST_CASE("[G3] [P7] hooks of a hot tape are called") {
  static int calls = 0;
  for (const int place : {0, 1, 2}) {
    CAPTURE(place);
    calls = 0;
    static HookHandle handle;
    check_alike({{.what = "a hook",
                  .between =
                      [place](Model& m, Array& h, Array& loss) {
                        const Array& on = place == 0 ? h : place == 1 ? m.w : loss;
                        handle = on.register_hook([](const Array& cotangent) {
                          ++calls;
                          return cotangent * 2.0;
                        });
                      },
                  .after = [](Model&, const Array&, std::vector<double>&) { handle.remove(); }}},
                20);
    CHECK(calls == 6);
  }
}

TEST_CASE("[G2] [G3] gradients of a hot backward are there for any reader at any time") {
  std::vector<double> plain, hot;
  const auto program = [](std::vector<double>& seen) {
    Model m;
    std::vector<Array> kept;
    for (int step = 0; step < steps; ++step) {
      Array h;
      const Array loss = forward(m, h);
      for (Array* leaf : m.leaves()) leaf->zero_grad();
      loss.backward();
      if (step % 13 == 5) read(*m.u.grad(), seen);      // at once
      if (step % 13 == 7) kept.push_back(*m.b.grad());  // later
      if (step % 13 == 9) kept.push_back(h);
      if (step % 13 == 11) (void)sum(m.x * 3.0).item();  // something else
      const NoGrad guard;
      for (Array* leaf : m.leaves()) *leaf -= 0.1 * *leaf->grad();
      if (step % 3 != 0) seen.push_back(loss.item());
    }
    for (const Array& array : kept) read(array, seen);
    for (Array* leaf : m.leaves()) read(*leaf, seen);
  };
  program(plain);
  const std::uint64_t before = hot_statistics().backwards;
  {
    const HotPaths guard;
    program(hot);
  }
  CHECK(hot_statistics().backwards - before >= 10);
  REQUIRE(hot.size() == plain.size());
  for (std::size_t i = 0; i < plain.size(); ++i) CHECK(hot[i] == doctest::Approx(plain[i]).epsilon(1e-10));
}

TEST_CASE("[G3] leaves over one storage are distinguished on a hot tape") {
  const auto program = [](std::vector<double>& seen) {
    Array w = leaf(random_array({6}, 1));
    Array v(w.tensor());
    v.set_requires_grad();
    const Array x = random_array({6}, 2), y = random_array({6}, 3);
    for (int step = 0; step < steps; ++step) {
      const bool odd = step > 20 && step % 7 == 3;
      const Array a = sin(x * w), b = cos(y * (odd ? v : w)), loss = sum(a * b);
      w.zero_grad();
      v.zero_grad();
      loss.backward();
      seen.push_back(loss.item());
      read(*w.grad(), seen);
      seen.push_back(v.grad().has_value() ? 1.0 : 0.0);
      if (v.grad()) read(*v.grad(), seen);
    }
  };
  std::vector<double> plain, hot;
  program(plain);
  const std::uint64_t before = hot_statistics().backwards;
  {
    const HotPaths guard;
    program(hot);
  }
  CHECK(hot_statistics().backwards - before >= 10);
  REQUIRE(hot.size() == plain.size());
  for (std::size_t i = 0; i < plain.size(); ++i) CHECK(hot[i] == doctest::Approx(plain[i]).epsilon(1e-10));
}

TEST_CASE(
    "[C7] saved values of a hot tape go with its backward, and tapes without one go with their values") {
  const HotPaths guard;
  Model m;
  std::weak_ptr<int> alive;
  for (int step = 0; step < steps; ++step) {
    auto owner = std::make_shared<int>(0);
    alive = owner;
    double* const elements_of_it = new double[20]{};
    const Array x(Tensor::wrap(
        Type(f64, {5, 4}), static_cast<void*>(elements_of_it),
        std::shared_ptr<void>(elements_of_it, [owner](void* p) { delete[] static_cast<double*>(p); })));
    owner.reset();
    m.x = x;
    Array h;
    const Array loss = forward(m, h);
    for (Array* leaf : m.leaves()) leaf->zero_grad();
    if (step % 7 != 3) loss.backward();
    (void)loss.item();
    m.x = m.c;
  }
  (void)sum(m.c).item();
  CHECK(alive.expired());
}

}  // namespace
TEST_CASE("a backward call that is learned while two leaves are one tensor reads the right one later") {
  // Three numbers, of which two are equal at first, all at one step, and other two from then on.
  const auto program = [](int all_equal, bool hot) {
    std::vector<double> seen;
    std::thread([&] {  // hot traces are a thread's
      const HotPaths guard(hot);
      Array w = leaf(array({0.1, 0.2, 0.3, 0.4}));
      const Array x = array({1.0, 2.0, 3.0, 4.0});
      for (int step = 0; step < steps; ++step) {
        const double c = step <= all_equal ? 0.5 : 0.3, first = step == all_equal ? 0.5 : 0.3;
        const Array loss = sum(tanh(w * c));
        seen.push_back(loss.item<double>());
        const Array a = x * first, b = x * 0.5;
        w.zero_grad();
        loss.backward();
        seen.push_back(sum(*w.grad()).item<double>());
        seen.push_back(sum(a).item<double>() + sum(b).item<double>());
      }
    })
        .join();
    return seen;
  };
  for (int all_equal = 2; all_equal < 20; ++all_equal) {
    const std::vector<double> plain = program(all_equal, false), hot = program(all_equal, true);
    for (std::size_t i = 0; i < plain.size(); ++i) CHECK(hot[i] == doctest::Approx(plain[i]));
  }
}

}  // namespace tidu::test::hot_backward_cases
