// Arrays on devices: moved by to() alone, computed where they are, eagerly, lazily, traced and backward; and
// graphs over several devices.
#include <array>
#include <optional>
#include <string>

#include "cpu/compare.hpp"
#include "cuda/machine.hpp"
#include "tidu/check/check_gradients.hpp"
#include "tidu/cpu/executor.hpp"
#include "tidu/frontend/array.hpp"
#include "tidu/frontend/functions.hpp"
#include "tidu/frontend/lazy.hpp"
#include "tidu/frontend/modes.hpp"
#include "tidu/frontend/trace.hpp"
#include "tidu/frontend/transforms.hpp"
#include "tidu/graph/builder.hpp"
#include "tidu/linearize/transforms.hpp"
#include "tidu/primitives/elementwise.hpp"
#include "tidu/primitives/structural.hpp"
#include "tidu/reference/executor.hpp"

namespace tidu::test {
namespace {

Tensor numbers(double first) {
  return Tensor::from<double>({4}, {first, first + 0.25, first - 0.5, first + 1.5});
}

bool same(const Array& got, const Array& wanted) {
  const std::string found = difference(got.tensor(), wanted.tensor());
  CHECK_MESSAGE(found.empty(), found);
  return found.empty();
}

template <class F>
std::string message_of(const F& f) {
  try {
    f();
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::invalid_argument);
    return error.what();
  }
  return "no error";
}

TEST_CASE("operations on Arrays that are on a device are done there, and only reading waits") {
  const Machine machine;
  const Array host(numbers(1));
  CHECK(host.device() == "cpu");
  const Array x = host.to(machine.cuda);
  CHECK(x.device() == "cuda:0");
  CHECK(x.to(machine.cuda).body() == x.body());
  const Array y = sin(x) * 2.0 + x;
  CHECK(y.device() == "cuda:0");
  CHECK(zeros_like(y).device() == "cuda:0");
  CHECK(machine.device->count("launch") != 0);
  CHECK(machine.waits() == 0);
  CHECK(same(y, sin(host) * 2.0 + host));
  CHECK(machine.waits() == 1);
  const Array back = y.to(cpu());
  CHECK(back.device() == "cpu");
  CHECK((back * 2.0).device() == "cpu");
  CHECK(same(back, y));
}

TEST_CASE("operands of two places are an error that says which is where") {
  const Machine machine, other(1);
  const Array host(numbers(1));
  const Array x = host.to(machine.cuda), far = host.to(other.cuda);
  CHECK(far.device() == "cuda:1");
  const std::string message = message_of([&] { return x * host; });
  CHECK_MESSAGE(
      message.find("[multiply] expected operands on one device, got f64[4] on cuda:0 as operand 0 and "
                   "f64[4] on cpu as operand 1: Array::to() moves one") != std::string::npos,
      message);
  CHECK(message.find("devices.cpp") != std::string::npos);
  CHECK(message_of([&] { return x + far; }).find("on cuda:0 as operand 0 and f64[4] on cuda:1") !=
        std::string::npos);
  // Before anything runs.
  const auto f = [&](const Array& a) { return a * host; };
  CHECK(message_of([&] { return compile(f)(x); }).find("on cuda:0 as operand 0") != std::string::npos);
  // Moved, they meet.
  CHECK(same(x * host.to(machine.cuda), host * host));
  CHECK(same(x.to(other.cuda) + far, host + host));
}

// A loss through two devices: w is on the host.
template <class Put>
Array mixed(const Array& w, const Array& x, const Put& put, const eager::BackwardExecutor<Tensor>& host) {
  const Array there = put(w) * x;
  const Array middle = sin(there).to(host);
  return sum(put(middle * w) * x);
}

TEST_CASE("gradients go back through to(), to where the operand was") {
  const Machine machine;
  const Array x_host(numbers(0.5));
  const auto differentiate = [&](bool on_device, bool lazily, bool create_graph) {
    std::optional<Lazy> lazy;
    if (lazily) lazy.emplace();
    Array w(numbers(1));
    w.set_requires_grad();
    Array x = on_device ? x_host.to(machine.cuda) : x_host.copy();
    x.set_requires_grad();
    const auto put = [&](const Array& a) { return on_device ? a.to(machine.cuda) : a; };
    const Array loss = mixed(w, x, put, cpu());
    if (!create_graph) {
      loss.backward();
    } else {
      BackwardOptions options;
      options.create_graph = true;
      const auto first = grad_of(loss, {w}, options);
      const Array again = sum(*first[0] * *first[0]);
      again.backward();
    }
    CHECK(w.grad()->device() == "cpu");
    CHECK(x.grad()->device() == (on_device ? "cuda:0" : "cpu"));
    std::vector<Array> results{loss, *w.grad(), *x.grad()};
    lazy.reset();
    return results;
  };
  for (const bool create_graph : {false, true}) {
    const std::vector<Array> wanted = differentiate(false, false, create_graph);
    for (const bool lazily : {false, true}) {
      const std::vector<Array> got = differentiate(true, lazily, create_graph);
      for (std::size_t i = 0; i < wanted.size(); ++i) CHECK(same(got[i], wanted[i]));
    }
  }
}

TEST_CASE("a step on a device alone waits for nothing, and lazily is one program") {
  const Machine machine;
  Array w = Array(numbers(1)).to(machine.cuda);
  const Array x = Array(numbers(0.5)).to(machine.cuda);
  w.set_requires_grad();
  for (int step = 0; step < 3; ++step) {
    sum(sin(w * x)).backward();
    const NoGrad off;
    w -= *w.grad() * 0.1;
    w.zero_grad();
  }
  CHECK(machine.waits() == 0);
  CHECK(w.device() == "cuda:0");
  Array host(numbers(1));
  const Array x_host(numbers(0.5));
  host.set_requires_grad();
  for (int step = 0; step < 3; ++step) {
    sum(sin(host * x_host)).backward();
    const NoGrad off;
    host -= *host.grad() * 0.1;
    host.zero_grad();
  }
  CHECK(same(w.detach(), host.detach()));

  const std::uint64_t before = lazy_statistics().evaluations;
  std::optional<Array> gradient;
  {
    const Lazy lazy;
    Array leaf = w.detach();
    leaf.set_requires_grad();
    sum(sin(leaf * x)).backward();
    gradient = leaf.grad();
    CHECK(is_lazy(*gradient));
    CHECK(gradient->device() == "cuda:0");
    CHECK(machine.waits() == 1);
    eval(*gradient);
    CHECK_FALSE(is_lazy(*gradient));
    CHECK(machine.waits() == 1);
  }
  CHECK(lazy_statistics().evaluations == before + 1);
  CHECK(same(*gradient, cos(host.detach() * x_host) * x_host));
}

TEST_CASE("a compiled function may span devices, and is traced for each place") {
  const Machine machine;
  const auto f = [&](const Array& w, const Array& x) {
    const Array there = sin(w.to(machine.cuda)) * x;
    return there.to(cpu()) * w;
  };
  const auto compiled = compile(f);
  const Array w(numbers(1)), x_host(numbers(0.5));
  const Array x = x_host.to(machine.cuda);
  const Array wanted = sin(w) * x_host * w;
  CHECK(compiled(w, x).device() == "cpu");
  CHECK(same(compiled(w, x), wanted));
  CHECK(compiled.num_traced() == 1);
  Array leaf = w.copy();
  leaf.set_requires_grad();
  sum(compiled(leaf, x)).backward();
  CHECK(leaf.grad()->device() == "cpu");
  CHECK(same(*leaf.grad(), sin(w) * x_host + cos(w) * w * x_host));
  const auto g = [&](const Array& a) { return a * 2.0; };
  const auto doubled = compile(g);
  CHECK(doubled(w).device() == "cpu");
  CHECK(doubled(x).device() == "cuda:0");
  CHECK(doubled.num_traced() == 2);
  const auto direction = grad([&](const Array& a) { return sum(f(a, x)); })(w);
  CHECK(same(direction, *leaf.grad()));
}

TEST_CASE("what is made like a traced Array is where that will be") {
  const Machine machine;
  const Array host(numbers(1));
  const Array x = host.to(machine.cuda);
  const auto f = [](const Array& a) {
    const Array b = sin(a);
    return b * ones_like(a) + full_like(b, 0.5) + zeros_like(b);
  };
  const Array wanted = f(host);
  const auto compiled = compile(f);
  CHECK(compiled(x).device() == "cuda:0");
  CHECK(same(compiled(x), wanted));
  CHECK(compiled(host).device() == "cpu");
  CHECK(same(compiled(host), wanted));
  CHECK(same(grad([&](const Array& a) { return sum(f(a)); })(x), cos(host)));
  CHECK(same(jvp(f, x, ones_like(x)).second, cos(host)));
  CHECK(same(call_graph(trace(f, x), {host})[0], wanted));
  CHECK(same(call_graph(trace(f, host.type()), {host})[0], wanted));  // anywhere
}

// y = (sin x on the device) x, back on the host.
Graph moving_graph() {
  GraphBuilder builder("moving", standard_primitives());
  const Value x = builder.input("x", Type(f64, {4}));
  const Value there = ops::sin(ops::device_put(x, "cuda:0", "cpu"));
  return builder.build({ops::device_put(there, "cpu", "cuda:0") * x});
}

TEST_CASE("one executor runs a graph that moves on its one device; transposed, it moves back") {
  const Graph graph = moving_graph();
  const Tensor x = numbers(1);
  const Tensor wanted = (sin(Array(x)) * Array(x)).tensor();
  const Machine machine;
  CHECK(difference(reference().run(graph, {x})[0], wanted) == "");
  CHECK(difference(cpu().run(graph, {x})[0], wanted) == "");
  CHECK(difference(machine.cuda.run(graph, {x})[0], wanted) == "");
  const Graph pullback = vjp(graph, {"x"});
  const std::string text = to_text(pullback);
  CHECK_MESSAGE(text.find("device_put") != std::string::npos, text);
  std::vector<std::string> moves;
  for (std::size_t i = 0; i < pullback.num_operations(); ++i)
    if (pullback.operation(i).name() == "device_put")
      moves.push_back(pullback.operation(i).op().string("src") + " to " +
                      pullback.operation(i).op().string("device"));
  CHECK(moves ==
        std::vector<std::string>{"cpu to cuda:0", "cuda:0 to cpu", "cpu to cuda:0", "cuda:0 to cpu"});
  // The frontend runs it on both.
  const Array array(x);
  (void)array.to(machine.cuda);
  machine.device->clear_log();
  CHECK(same(call_graph(graph, {array})[0], Array(wanted)));
  CHECK(machine.device->count("launch") == 1);
  const Graph rows = batch(graph, 3).graph;
  const Array many = broadcast_to(array, {3, 4});
  CHECK(same(call_graph(rows, {many})[0], sin(many) * many));
}

TEST_CASE("under an executor of a device what is on the host goes there, as before") {
  const Machine machine;
  const ExecutorGuard guard(machine.cuda);
  const Array host(numbers(1));
  const Array x = host.to(machine.cuda);
  CHECK((x * host).device() == "cuda:0");
  CHECK((host * 2.0).device() == "cuda:0");
}

TEST_CASE("an executor that is gone computes nothing") {
  Array left;
  {
    const Machine machine(5);
    left = Array(numbers(1)).to(machine.cuda);
  }
  CHECK(message_of([&] { return left * 2.0; }).find("some executor was named for") != std::string::npos);
  CHECK(same(left.to(cpu()), Array(numbers(1))));
}

TEST_CASE("elements that are assigned stay where the Array is") {
  const Machine machine;
  const Array host(numbers(1));
  Array x = host.to(machine.cuda);
  x.assign(Array(numbers(2)));
  CHECK(x.device() == "cuda:0");
  CHECK(same(x, Array(numbers(2))));
  Array y = host.copy();
  y.assign(x);
  CHECK(y.device() == "cpu");
  CHECK(same(y, Array(numbers(2))));
}

}  // namespace
}  // namespace tidu::test
