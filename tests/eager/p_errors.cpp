// p_errors.cpp - P12, P13: the results of a node are checked; the first error is kept with its type, and
// later calls work.
#include <stop_token>

#include "p_counted.hpp"

namespace tidu::test {
namespace {

// exp(sin(x) * w), recorded at net.cpp:1 to 3.
struct Net {
  Tape tape;
  Var x = tape.leaf(vec({0.2, 0.4}));
  Var w = tape.leaf(vec({2, 3}));
  Var s = tape.apply<prim::sin>({x}, Where{"net.cpp", 1});
  Var p = tape.apply<prim::mul>({s, w}, Where{"net.cpp", 2});
  Var out = tape.apply<prim::exp>({p}, Where{"net.cpp", 3});
  Root root = root_of(out, vec({1, 1}));
  void works() const { CHECK(run(Spy(), {root}, keep()).size() == 2); }
};

// The error of the call when the executor changes the results of `mul`.
template <class Change>
std::string lie(ErrorKind kind, const Change& change) {
  Net net;
  Spy spy;
  spy.after = [&](const Spy::Call& call, std::vector<Tensor>& made) {
    if (call.hook == "transposed" && call.name == "mul") change(made);
  };
  CHECK(kind_of([&] { run(spy, {net.root}, keep()); }) == kind);
  const std::string message = message_of([&] { run(spy, {net.root}, keep()); });
  net.works();
  return message;
}

TEST_CASE("[P12] the number of cotangents that a node returns is checked") {
  expect_parts(lie(ErrorKind::execution, [](auto& made) { made.pop_back(); }),
               {"mul", "net.cpp:2", "expected 2", "got 1"});
  expect_parts(lie(ErrorKind::execution,
                   [](auto& made) {
                     made.push_back(vec({1, 1}));
                   }),
               {"mul", "net.cpp:2", "expected 2", "got 3"});
  expect_parts(lie(ErrorKind::execution, [](auto& made) { made.clear(); }), {"mul", "net.cpp:2", "got 0"});
}

TEST_CASE("[P12] their shapes and dtypes are checked") {
  expect_parts(lie(ErrorKind::type,
                   [](auto& made) {
                     made[0] = vec({1, 2, 3});
                   }),
               {"mul", "net.cpp:2", "f64[2]", "f64[3]"});
  expect_parts(lie(ErrorKind::type, [](auto& made) { made[1] = scalar(1); }),
               {"mul", "net.cpp:2", "f64[2]", "f64[]"});
  expect_parts(lie(ErrorKind::type, [](auto& made) { made[1] = Tensor::zeros(Type(f32, Shape{2})); }),
               {"mul", "net.cpp:2", "f64[2]", "f32[2]"});
}

TEST_CASE("[P12] values that execute_forward computes again are counted") {
  Tape tape;
  const RecordedGraph layer = graph_of("layer", {f64}, [](const auto& in) {
    const Value e = ops::exp(in[0]);
    return std::vector<Value>{e * e};
  });
  const Var x = tape.leaf(0.3);
  const Var y = tape.apply(layer, {x}, false, Where{"net.cpp", 9})[0];
  Spy spy;
  spy.after = [](const Spy::Call& call, std::vector<Tensor>& made) {
    if (call.hook == "forward") made.clear();
  };
  expect_parts(message_of([&] { run(spy, {root_of(y)}, keep()); }),
               {"execute_forward", "layer", "net.cpp:9", "got 0"});
  CHECK(item(run(Spy(), {root_of(y)}), x) == doctest::Approx(2 * std::exp(0.6)));
}

class WrongSum final : public Interpreted {
 public:
  Result<Tensor> add_operands(const eager::AddCall&, Tensor, const Tensor&) const override {
    return vec({1, 2, 3});
  }
};

TEST_CASE("[P12] the type of a sum is checked") {
  Tape tape;
  const Var x = tape.leaf(vec({1, 2}));
  const Var y = tape.apply<prim::mul>({x, tape.apply<prim::sin>({x})});
  const std::string message = message_of([&] { run(WrongSum(), {root_of(y, vec({1, 1}))}, keep()); });
  expect_parts(message, {"f64[2]", "f64[3]", "sum"});
  CHECK(run(Spy(), {root_of(y, vec({1, 1}))}).size() == 1);
}

TEST_CASE("[P12] a cotangent of a broadcast operand is reduced to its shape") {
  Tape tape;
  const Var x = tape.leaf(Tensor::from<double>(Shape{1, 3}, {1, 2, 3}));
  const RecordedGraph add_bias =
      graph_of("add_bias", {Type(f64, Shape{1, 3}), Type(f64, Shape{2, 3})}, [](const auto& in) {
        return std::vector<Value>{ops::broadcast_in_dim(ops::reshape(in[0], {3}), Shape{2, 3}, {1}) * in[1]};
      });
  const Var out =
      tape.apply(add_bias, {x, tape.constant(Tensor::from<double>(Shape{2, 3}, {1, 2, 3, 4, 5, 6}))})[0];
  const auto gradients = run(Spy(), {root_of(out, Tensor::from<double>(Shape{2, 3}, {1, 1, 1, 10, 10, 10}))});
  CHECK(same_bits(gradient(gradients, x), Tensor::from<double>(Shape{1, 3}, {41, 52, 63})));
}

// --- P13

struct Custom : std::logic_error {
  explicit Custom(int number) : std::logic_error("custom"), code(number) {}
  int code;
};
class CustomError : public Error {
 public:
  CustomError(int number, const std::string& message) : Error(ErrorKind::execution, message), code(number) {}
  std::shared_ptr<Error> with_message(const std::string& message) const override {
    return std::make_shared<CustomError>(code, message);
  }
  [[noreturn]] void raise() const override { throw CustomError(*this); }
  int code;
};

TEST_CASE("[P13] an exception of the user's own comes through backward() with its type") {
  Net net;
  Spy spy;
  spy.before = [](const Spy::Call& call) {
    if (call.name == "mul") throw Custom(42);
  };
  int code = 0;
  try {
    run(spy, {net.root}, keep());
  } catch (const Custom& error) {
    code = error.code;
  }
  CHECK(code == 42);
  net.works();
}

TEST_CASE("[P13] an error of the user's own keeps its type, with node and source location") {
  Net net;
  Spy spy;
  spy.before = [](const Spy::Call& call) {
    if (call.name == "mul") throw CustomError(43, "broken");
  };
  int code = 0;
  try {
    run(spy, {net.root}, keep());
  } catch (const CustomError& error) {
    code = error.code;
    expect_parts(error.what(), {"broken", "mul", "net.cpp:2", "f64[2]", "run_transposed_linear"});
  }
  CHECK(code == 43);
  const auto result =
      eager::try_backward(net.out.first.key, net.out.first.trace, vec({1, 1}), spy, nullptr, keep());
  CHECK_FALSE(result.has_value());
  CHECK(result.error().kind() == ErrorKind::execution);
  CHECK(dynamic_cast<const CustomError*>(&result.error()) != nullptr);
}

TEST_CASE(
    "[P13] try_backward never throws: an exception that is no Error comes back as internal, with its text") {
  Net net;
  Spy spy;
  spy.before = [](const Spy::Call&) { throw Custom(1); };
  const auto result =
      eager::try_backward(net.out.first.key, net.out.first.trace, vec({1, 1}), spy, nullptr, keep());
  CHECK_FALSE(result.has_value());
  CHECK(result.error().kind() == ErrorKind::internal);
  CHECK(contains(result.error().what(), "custom"));
  spy.before = [](const Spy::Call&) { throw std::bad_alloc(); };
  CHECK(eager::try_backward(net.out.first.key, net.out.first.trace, vec({1, 1}), spy, nullptr, keep())
            .error()
            .kind() == ErrorKind::out_of_memory);
}

TEST_CASE("[P13] hooks' errors name the hook and the node; phases of a node are distinguished") {
  Net net;
  HookHandle hook = eager::after_node<Tensor>(
      net.p.first.trace, [](HookContext<Tensor>&) { throw Error(ErrorKind::execution, "from a hook"); });
  expect_parts(message_of([&] { run(Spy(), {net.root}, keep()); }),
               {"from a hook", "a hook", "mul", "net.cpp:2"});
  hook.remove();
  Spy spy;
  spy.before = [](const Spy::Call& call) {
    if (call.hook == "forward") throw Error(ErrorKind::execution, "no");
  };
  expect_parts(message_of([&] { run(spy, {net.root}, keep()); }),
               {"no", "execute_forward", "sin", "net.cpp:1"});
  net.works();
}

// An error of the user's that has nothing to copy itself with.
struct Uncopied : Error {
  explicit Uncopied(int is) : Error(ErrorKind::execution, "uncopied"), code(is) {}
  int code;
};
template <class Body>
int code_of(const Body& body) {
  try {
    body();
  } catch (const Uncopied& error) {
    CHECK(std::string_view(error.what()) == "uncopied");
    return error.code;
  }
  return 0;
}

TEST_CASE("[P13] errors of users' types that override nothing come out as they were thrown") {
  Net net;
  const auto attempt = [&](const Spy& spy) {
    return eager::try_backward(net.out.first.key, net.out.first.trace, vec({1, 1}), spy, nullptr, keep());
  };
  const auto check = [&](const Spy& spy, int code) {
    CHECK(code_of([&] { run(spy, {net.root}, keep()); }) == code);
    const auto result = attempt(spy);
    REQUIRE(!result.has_value());
    CHECK(result.error().kind() == ErrorKind::execution);
    CHECK(code_of([&] { result.value(); }) == code);
    const Result<int> copied(result.error());
    CHECK(code_of([&] { copied.value(); }) == code);
  };
  Spy throwing;
  throwing.before = [](const Spy::Call&) { throw Uncopied(7); };
  check(throwing, 7);
  HookHandle hook =
      eager::after_node<Tensor>(net.p.first.trace, [](HookContext<Tensor>&) { throw Uncopied(8); });
  check(Spy(), 8);
  hook.remove();
  net.works();
}

TEST_CASE("[P13] an exception that is no std::exception is an internal error of try_backward") {
  Net net;
  Spy spy;
  spy.before = [](const Spy::Call&) { throw 5; };  // NOLINT(hicpp-exception-baseclass)
  const auto result =
      eager::try_backward(net.out.first.key, net.out.first.trace, vec({1, 1}), spy, nullptr, keep());
  REQUIRE(!result.has_value());
  CHECK(result.error().kind() == ErrorKind::internal);
  net.works();
}

// Two branches that do not depend on each other: a fails at once, b goes on for a while.
struct Branches {
  Tape tape;
  Leaf<Tensor> x{tape.recorder.keys(), "x"};
  Leaf<Tensor> y{tape.recorder.keys(), "y"};
  Leaf<Tensor> z{tape.recorder.keys(), "z"};
  Var b = tape.apply<prim::cos>({tape.apply<prim::exp>({var(y, scalar(0.4))})});
  Var a = tape.apply<prim::sin>({tape.apply<prim::tanh>({var(x, scalar(0.3))})});
  Var out = tape.apply<prim::mul>({tape.apply<prim::mul>({a, b}), var(z, scalar(2.0))});
  std::vector<std::string> reached;
  Branches() {
    for (Leaf<Tensor>* leaf : {&x, &y, &z}) {
      leaf->on_accumulate([this](HookContext<Tensor>& context) { reached.push_back(context.node().name()); });
    }
  }
};

TEST_CASE("[P13] exit at once: no further node is started") {
  Branches t;
  Spy spy;
  spy.before = [](const Spy::Call& call) {
    if (call.name == "sin") throw Custom(1);
  };
  CHECK_THROWS_AS(run(spy, {root_of(t.out)}, keep()), Custom);
  CHECK(spy.names() == std::vector<std::string>{"mul", "mul"});
  CHECK(t.reached == std::vector<std::string>{"z"});
}

TEST_CASE(
    "[P13] not at once: nodes that do not depend on the failed node still run; the first error is kept") {
  Branches t;
  Spy spy;
  std::vector<std::string> started;
  spy.before = [&](const Spy::Call& call) {
    if (call.hook == "transposed") started.push_back(call.name);
    if (call.name == "sin" && call.hook == "transposed") throw Custom(1);
    if (call.name == "exp") throw CustomError(2, "second");
  };
  BackwardOptions options = keep();
  options.exit_at_once = false;
  options.accumulate = true;
  CHECK_THROWS_AS(run(spy, {root_of(t.out)}, options), Custom);
  CHECK(started == std::vector<std::string>{"mul", "mul", "sin", "cos", "exp"});
  CHECK(t.reached == std::vector<std::string>{"z"});
  CHECK_FALSE(t.z.gradient().has_value());
  // Without the second error y is reached, x is not.
  t.reached.clear();
  spy.before = [](const Spy::Call& call) {
    if (call.name == "sin" && call.hook == "transposed") throw Custom(1);
  };
  CHECK_THROWS_AS(run(spy, {root_of(t.out)}, options), Custom);
  CHECK(t.reached == std::vector<std::string>{"z", "y"});
  CHECK_FALSE(t.y.gradient().has_value());
  run(Spy(), {root_of(t.out)}, options);
  CHECK(t.y.gradient().has_value());
}

// tanh(z) * (sin(e) * cos(e)), e = exp(x): the cotangents of e are summed while z's branch waits.
struct Meeting {
  Tape tape;
  Leaf<Tensor> z{tape.recorder.keys(), "z"};
  Leaf<Tensor> x{tape.recorder.keys(), "x"};
  Var late = tape.apply<prim::tanh>({var(z, scalar(0.2))});
  Var e = tape.apply<prim::exp>({var(x, scalar(0.3))}, Where{"net.cpp", 4});
  Var inner = tape.apply<prim::mul>({tape.apply<prim::sin>({e}), tape.apply<prim::cos>({e})});
  Var out = tape.apply<prim::mul>({inner, late});
};

TEST_CASE("[P13] not at once: a sum that fails stops only nodes that depend on it, and names its value") {
  for (const eager::Order order : {eager::Order::latest_first, eager::Order::fifo}) {
    Meeting t;
    std::vector<std::string> reached;
    for (Leaf<Tensor>* leaf : {&t.z, &t.x})
      leaf->on_accumulate([&](HookContext<Tensor>& context) { reached.push_back(context.node().name()); });
    Spy spy;
    spy.before = [](const Spy::Call& call) {
      if (call.hook == "add") throw Error(ErrorKind::execution, "no sum");
    };
    for (const bool at_once : {false, true}) {
      CAPTURE(at_once);
      reached.clear();
      BackwardOptions options = keep();
      options.exit_at_once = at_once;
      options.order = order;
      expect_parts(message_of([&] { run(spy, {root_of(t.out)}, options); }),
                   {"no sum", "in add_operands of the backward of exp(f64[]), recorded at net.cpp:4"});
      if (!at_once) CHECK(reached == std::vector<std::string>{"z"});
    }
    reached.clear();
    run(Spy(), {root_of(t.out)}, keep());
    CHECK(reached.size() == 2);
  }
}

TEST_CASE("[P13] of cotangents of a leaf, whose sum fails, the leaf is named; further ones are left alone") {
  Tape tape;
  Leaf<Tensor> x(tape.recorder.keys(), "x");
  const Var v = var(x, scalar(0.3));
  Var out = tape.apply<prim::sin>({v});
  for (int i = 0; i < 3; ++i) out = tape.apply<prim::add>({out, tape.apply<prim::cos>({v})});
  Spy spy;
  int sums = 0;
  spy.before = [&](const Spy::Call& call) {
    if (call.hook == "add" && ++sums == 2) throw Error(ErrorKind::execution, "no sum");
  };
  BackwardOptions options = keep();
  options.exit_at_once = false;
  expect_parts(message_of([&] { run(spy, {root_of(out)}, options); }),
               {"no sum", "in add_operands of leaf \"x\""});
  CHECK(sums == 2);
}

TEST_CASE("[P13] not at once: also when the call is cancelled after the first error, that is kept") {
  for (const int workers : {1, 2}) {
    Branches t;
    std::stop_source source;
    Spy spy;
    spy.before = [&](const Spy::Call& call) {
      if (call.name != "sin" || call.hook != "transposed") return;
      source.request_stop();
      throw Custom(1);
    };
    BackwardOptions options = keep();
    options.exit_at_once = false;
    options.workers = workers;
    options.stop = source.get_token();
    if (workers == 1) {
      CHECK_THROWS_AS(run(spy, {root_of(t.out)}, options), Custom);
    } else {  // the other thread may see the request to stop before this one has thrown
      CHECK_THROWS(run(spy, {root_of(t.out)}, options));
    }
  }
}

TEST_CASE("[P13] a node below a failed one and a sound one does not run") {
  Tape tape;
  const Var x = tape.leaf(0.3);
  const Var below = tape.apply<prim::tanh>({x});
  const Var sound = tape.apply<prim::cos>({below});
  const Var bad = tape.apply<prim::sin>({below});
  const Var out = tape.apply<prim::mul>({sound, bad});
  Spy spy;
  spy.before = [](const Spy::Call& call) {
    if (call.name == "sin" && call.hook == "transposed") throw Custom(1);
  };
  BackwardOptions options = keep();
  options.exit_at_once = false;
  CHECK_THROWS_AS(run(spy, {root_of(out)}, options), Custom);
  for (const std::string& name : spy.names()) CHECK(name != "tanh");
  CHECK(spy.names().back() == "cos");
}

TEST_CASE("[P13] after an error everything on its way is released, and the next call is right") {
  const int before = Counted::live;
  CountedTape tape;
  const CountedVar x = tape.leaf(0.3);
  CountedVar y = x;
  for (int i = 0; i < 6; ++i) y = tape.apply<prim::mul>({tape.apply<prim::sin>({y}), y});
  const int held = Counted::live - before;
  const double expected = tape.backward(y, keep()).at(x.first.key).item();
  for (int fail_at = 0; fail_at < 12; ++fail_at) {
    int node = 0;
    tape.executor.at_node = [&] {
      if (node++ == fail_at) throw Custom(fail_at);
    };
    CHECK_THROWS_AS(tape.backward(y, keep()), Custom);
    CHECK(Counted::live - before == held);
    tape.executor.at_node = nullptr;
    CHECK(tape.backward(y, keep()).at(x.first.key).item() == expected);
  }
}

TEST_CASE("[P13] a call can be cancelled before it starts and between nodes, and runs the next time") {
  Net net;
  Spy spy;
  std::stop_source source;
  BackwardOptions options = keep();
  options.stop = source.get_token();
  CHECK(run(spy, {net.root}, options).size() == 2);
  spy.clear();
  spy.before = [&](const Spy::Call& call) {
    if (call.name == "mul") source.request_stop();
  };
  CHECK(kind_of([&] { run(spy, {net.root}, options); }) == ErrorKind::cancelled);
  CHECK(spy.names() == std::vector<std::string>{"exp", "mul"});
  spy.clear();
  CHECK(kind_of([&] { run(spy, {net.root}, options); }) == ErrorKind::cancelled);
  CHECK(spy.num_calls() == 0);
  net.works();
}

}  // namespace
}  // namespace tidu::test
