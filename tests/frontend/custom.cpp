// Functions of Arrays with rules of their own, and checkpoints of them: eager, traced, compiled, twice
// differentiated.
#include "tidu/frontend/custom.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "tidu/cpu/executor.hpp"
#include "tidu/frontend/control_flow.hpp"
#include "tidu/frontend/functions.hpp"
#include "tidu/frontend/lazy.hpp"
#include "tidu/frontend/modes.hpp"
#include "tidu/frontend/trace.hpp"
#include "tidu/frontend/transforms.hpp"

namespace {

using namespace tidu;

// log(1 + e^x), for which plain rules overflow.
const auto softplus = [](const Array& x) { return log(1.0 + exp(x)); };
const auto softplus_jvp = [](const Array& x, const Array& dx) {
  return std::pair(log(1.0 + exp(x)), dx / (1.0 + exp(-x)));
};

TEST_CASE("custom_jvp: the rule is used in both modes and at second order, eager, compiled and traced") {
  const auto f = custom_jvp(softplus, softplus_jvp);
  const Array large(800.0), one(1.0);
  CHECK(std::isnan(grad(softplus)(large).item<double>()));
  CHECK(grad(f)(large).item<double>() == 1.0);
  CHECK(grad(compile(f))(large).item<double>() == 1.0);
  CHECK(jvp(f, large, one).second.item<double>() == 1.0);
  const double s = 1.0 / (1.0 + std::exp(-1.0));
  CHECK(grad(grad(f))(one).item<double>() == doctest::Approx(s * (1.0 - s)));
  CHECK(hessian(f)(one).item<double>() == doctest::Approx(s * (1.0 - s)));
  const Graph graph = trace([&](const Array& x) { return f(x) * x; }, Type(f64));
  CHECK(graph.operation(0).name() == "custom_jvp_call");
}

TEST_CASE("custom_vjp: two arguments and a residual of more than one Array") {
  const auto f = custom_vjp(
      [](const Array& x, const Array& y) { return sin(x) * y; },
      [](const Array& x, const Array& y) { return std::pair(sin(x) * y, std::pair(cos(x) * y, sin(x))); },
      [](const std::pair<Array, Array>& kept, const Array& ct) {
        return std::pair(kept.first * ct * 10.0, kept.second * ct);
      });
  const Array x(0.7), y(1.3);
  CHECK(f(x, y).item<double>() == doctest::Approx(std::sin(0.7) * 1.3));
  const auto gradients = grad(f, {0, 1})(x, y);
  CHECK(gradients[0].item<double>() == doctest::Approx(13.0 * std::cos(0.7)));
  CHECK(gradients[1].item<double>() == doctest::Approx(std::sin(0.7)));
  CHECK(jacfwd(f)(x, y).item<double>() == doctest::Approx(13.0 * std::cos(0.7)));
  CHECK(grad(grad(f))(x, y).item<double>() == doctest::Approx(-13.0 * std::sin(0.7)));
}

TEST_CASE(
    "custom_vjp: a backward that is not linear is run for each call, however the calls are differentiated") {
  using Backward = std::function<Array(const std::monostate&, const Array&)>;
  const Backward clipped = [](const std::monostate&, const Array& ct) { return clip(ct, -1.0, 1.0); };
  const Backward signs = [](const std::monostate&, const Array& ct) { return sign(ct); };
  const Backward constant = [](const std::monostate&, const Array& ct) { return ct * 0.0 + 0.5; };
  for (const auto& [backward, expected] : {std::pair(clipped, 1.5), {signs, 2.0}, {constant, 1.0}}) {
    const auto f = custom_vjp([](const Array& x) { return x * 1.0; },
                              [](const Array& x) { return std::pair(x * 1.0, std::monostate()); }, backward);
    const auto loss = [&f](const Array& x) { return f(x) * 0.8 + f(x + 1.0) * 0.7; };
    const auto in_scan = [&f](const Array& x) {
      const auto step = [&](const Array& carry, const Array& at) {
        return std::pair(carry + f(x) * 0.8 + f(x + at) * 0.7, at);
      };
      return scan(step, x * 0.0, array({1.0})).first;
    };
    const Array x(2.0);
    CHECK(grad(loss)(x).item() == doctest::Approx(expected));
    CHECK(compile(grad(loss))(x).item() == doctest::Approx(expected));
    CHECK(grad(compile(loss))(x).item() == doctest::Approx(expected));
    CHECK(jacrev(loss)(x).item() == doctest::Approx(expected));
    CHECK(grad(in_scan)(x).item() == doctest::Approx(expected));
    CHECK(compile(grad(in_scan))(x).item() == doctest::Approx(expected));
    const Graph gradient = grad(trace(loss, x));
    CHECK(cpu().compile(gradient).run({x.tensor()})[0].at(0).real() == doctest::Approx(expected));
    CHECK(grad([&](const Array& at) { return checkpoint(loss)(at); })(x).item() == doctest::Approx(expected));
  }
}

TEST_CASE("custom_vjp: a cotangent that reads none has its value whatever else is differentiated or read") {
  const auto f =
      custom_vjp([](const Array& x, const Array&) { return x * 1.0; },
                 [](const Array& x, const Array& aux) { return std::pair(x * 1.0, aux); },
                 [](const Array& aux, const Array& ct) { return std::pair(ct, ones_like(aux) * 0.5); });
  const Array x = array({1.0, 2.0}), aux = array({3.0});
  const auto loss = [&](const Array& a, const Array& b) { return sum(f(a, b)); };
  const auto is = [](const Array& got, double expected) {
    return max(abs(got - expected)).item<double>() == 0.0;
  };
  CHECK(is(grad(loss, {0, 1})(x, aux)[1], 0.5));
  CHECK(is(grad(loss, {1})(x, aux)[0], 0.5));
  CHECK(is(compile(grad<1>(loss))(x, aux), 0.5));
  CHECK(is(jacrev([&](const Array& b) { return f(x, b); })(aux), 0.5));
  CHECK(is(jvp([&](const Array& b) { return f(x, b); }, aux, ones_like(aux)).second, 0.0));
  const auto steps = [&](const Array& b) {
    return sum(scan([&](const Array& c, const Array& s) { return std::pair(f(c * s, b), c); }, x,
                    array({1.0, 2.0, 3.0}))
                   .first);
  };
  CHECK(is(grad(steps)(aux), 1.5));
  CHECK(is(compile(grad(steps))(aux), 1.5));
  Array p = aux.copy();
  p.set_requires_grad();
  loss(x, p).backward();
  CHECK(is(*p.grad(), 0.5));

  const auto seven =
      custom_vjp([](const Array& a) { return a * 2.0; }, [](const Array& a) { return std::pair(a * 2.0, a); },
                 [](const Array& a, const Array&) { return ones_like(a) * 7.0; });
  CHECK(is(grad([&](const Array& a) { return sum(seven(a)); })(x), 7.0));
  // Backward runs too where a result is read whose cotangent it does not read.
  const auto two =
      custom_vjp([](const Array& a, const Array& b) { return std::pair(a * 1.0, b * 1.0); },
                 [](const Array& a, const Array& b) { return std::pair(std::pair(a * 1.0, b * 1.0), b); },
                 [](const Array& b, const std::pair<Array, Array>& ct) {
                   return std::pair(ct.first, ones_like(b) * 0.5);
                 });
  const auto second = [&](const Array& a, const Array& b) { return sum(two(a, b).second); };
  CHECK(is(grad(second, {0, 1})(x, aux)[1], 0.5));
  CHECK(is(grad(second, {0, 1})(x, aux)[0], 0.0));
  CHECK(is(grad(second, {1})(x, aux)[0], 0.5));
}

TEST_CASE("custom rules that read the function's result alone have second derivatives on the tape too") {
  const auto root = [](const Array& a) {  // y of y³ + y = a, by Newton's method
    Array y = ones_like(a);
    for (int i = 0; i < 20; ++i) y = y - (y * y * y + y - a) / (3.0 * y * y + 1.0);
    return y;
  };
  const auto by_jvp = custom_jvp(root, [root](const Array& a, const Array& da) {
    const Array y = root(a);
    return std::pair(y, da / (3.0 * y * y + 1.0));
  });
  const auto by_vjp = custom_vjp(
      root,
      [root](const Array& a) {
        const Array y = root(a);
        return std::pair(y, y);
      },
      [](const Array& y, const Array& ct) { return ct / (3.0 * y * y + 1.0); });
  const auto compiled = compile([by_vjp](const Array& a) { return exp(by_vjp(a)) * a; });
  const Array a = array({0.5, 2.0, 10.0}), v = array({1.0, -2.0, 0.5}), y = root(a);
  const Array slope = 3.0 * y * y + 1.0;
  const auto check = [&](const Array& got, const Array& expected) {
    for (std::int64_t i = 0; i < 3; ++i)
      CHECK(got[i].item<double>() == doctest::Approx(expected[i].item<double>()));
  };
  const auto sum_of = [](const auto& f) { return [f](const Array& x) { return sum(f(x)); }; };
  const Array curvature = -6.0 * y / (slope * slope * slope);
  check(hvp(sum_of(by_jvp), a, v), curvature * v);
  check(hvp(sum_of(by_vjp), a, v), curvature * v);
  check(hvp(sum_of(compiled), a, v), exp(y) * v * (2.0 / slope + a / (slope * slope) + a * curvature));
  Array leaf = a.copy();  // to third order
  leaf.set_requires_grad();
  BackwardOptions again;
  again.create_graph = true;
  const Array first = *grad_of(sum(by_vjp(leaf)), {leaf}, again)[0];
  const Array second = *grad_of(sum(first), {leaf}, again)[0];
  check(second, curvature);
  const Array third = *grad_of(sum(second), {leaf})[0];
  check(third, (108.0 * y * y - 6.0 * slope) / (slope * slope * slope * slope * slope));
}

TEST_CASE("checkpoint: the same gradients, of any order") {
  const auto layer = [](const Array& x) { return tanh(sin(x) * x); };
  for (const auto& policy : {CheckpointPolicy::nothing(), CheckpointPolicy::everything()}) {
    const auto f = checkpoint(layer, policy);
    const Array x(0.4);
    CHECK(f(x).item<double>() == layer(x).item<double>());
    CHECK(grad(f)(x).item<double>() == doctest::Approx(grad(layer)(x).item<double>()));
    CHECK(grad(grad(f))(x).item<double>() == doctest::Approx(grad(grad(layer))(x).item<double>()));
    CHECK(hessian(f)(x).item<double>() == doctest::Approx(hessian(layer)(x).item<double>()));
  }
}

// Weights and inputs, and a function of tanh(x w).
const auto scaled = [](const Array& w, const Array& x) { return sum(tanh(x * w)); };
const auto scaled_checkpoint = [](const Array& w, const Array& x) {
  return sum(checkpoint([&](const Array& t) { return tanh(t * w); })(x));
};

TEST_CASE("checkpoint: captured Arrays have their derivatives, in every mode") {
  const Array c = array({1.0, 2.0, 3.0}), x = array({0.5, 0.25, 2.0}), v = array({1.0, -2.0, 0.5});
  const auto same = [](const Array& got, const Array& expected) {
    REQUIRE(got.type() == expected.type());
    CHECK(max(abs(got - expected)).item() <= 1e-14);
  };
  const auto plain = [&](const Array& w) { return scaled(w, x); };
  const auto captured = [&](const Array& w) { return scaled_checkpoint(w, x); };
  const Array gradient = grad(plain)(c);
  CHECK(gradient[0].item() == doctest::Approx(0.39322387));
  for (const bool lazily : {false, true}) {
    std::optional<Lazy> lazy;
    if (lazily) lazy.emplace();
    same(grad(captured)(c), gradient);
    same(grad<1>(scaled_checkpoint)(c, x), grad<1>(scaled)(c, x));
    Array w = c.copy();
    w.set_requires_grad();
    captured(w).backward();
    REQUIRE(w.grad().has_value());
    same(*w.grad(), gradient);
    same(vjp(captured, c).second(Array(2.0)), gradient * 2.0);
    same(jvp(captured, c, v).second, jvp(plain, c, v).second);
    same(hvp(captured, c, v), hvp(plain, c, v));
    same(hessian(captured)(c), hessian(plain)(c));
    const auto curve = [&](const auto& f) {
      return grad([&f, v](const Array& at) { return sum(grad(f)(at) * v); });
    };
    same(curve(captured)(c), curve(plain)(c));
    same(vmap(captured)(stack({c, v})), vmap(plain)(stack({c, v})));
    same(vmap(grad(captured))(stack({c, v})), vmap(grad(plain))(stack({c, v})));
    same(compile(scaled_checkpoint)(c, x), plain(c));
    same(compile(grad(captured))(c), gradient);
    same(grad(compile(captured))(c), gradient);
    same(no_grad([&] { return captured(w); }), plain(c));
  }
}

TEST_CASE("checkpoint: captures of captures, of data and of integers, in checkpoints and policies") {
  const Array c = array({1.0, 2.0, 3.0}), x = array({0.5, 0.25, 2.0}), order = array({2, 0, 1});
  const auto plain = [&](const Array& w) { return sum(take(sin(x * w), order) * exp(w)); };
  for (const auto& policy : {CheckpointPolicy::nothing(), CheckpointPolicy::everything()}) {
    const auto nested = [&](const Array& w) {
      const auto inner = checkpoint([&](const Array& t) { return take(sin(t * w), order); }, policy);
      return sum(checkpoint([&](const Array& t) { return inner(t) * exp(w); }, policy)(x));
    };
    CHECK(max(abs(grad(nested)(c) - grad(plain)(c))).item() <= 1e-14);
    CHECK(max(abs(hessian(nested)(c) - hessian(plain)(c))).item() <= 1e-14);
    CHECK(max(abs(compile(grad(nested))(c) - grad(plain)(c))).item() <= 1e-14);
  }
}

TEST_CASE("custom rules: captured data is constant, a captured Array with a derivative is refused by name") {
  const Array c = array({1.0, 2.0, 3.0}), x = array({0.5, 0.25, 2.0});
  const auto by_jvp = [&](const Array& w, const Array& other) {
    return custom_jvp([&](const Array& t) { return t * w; },
                      [&](const Array& t, const Array& dt) { return std::pair(t * w, dt * other); });
  };
  const int vjp_line = __LINE__ + 2;
  const auto by_vjp = [&](const Array& w, const Array& other) {
    return custom_vjp([&](const Array& t) { return t * w; },
                      [&](const Array& t) { return std::pair(t * w, t); },
                      [&](const Array&, const Array& ct) { return ct * other; });
  };
  const auto refused = [](const std::string& error, const std::string& begin, const std::string& how) {
    return error.rfind("[" + begin + "] expected functions of their arguments and of data", 0) == 0 &&
           error.find(how) != std::string::npos && error.find("custom.cpp:") != std::string::npos;
  };
  const auto error_of = [](const auto& body) {
    try {
      body();
    } catch (const Error& error) {
      CHECK(error.kind() == ErrorKind::invalid_argument);
      return std::string(error.what());
    }
    return std::string();
  };
  Array w = c.copy();
  w.set_requires_grad();
  const std::string of_leaf = "captures an Array (f64[3]) that requires a gradient: pass it as an argument";
  const std::string of_trace = "captures an Array (f64[3]) of another trace: pass it as an argument";
  CHECK(refused(error_of([&] { by_jvp(w, c)(x); }), "custom_jvp", "\"function\") that " + of_leaf));
  CHECK(refused(error_of([&] { by_jvp(c, w)(x); }), "custom_jvp", "\"jvp\") that " + of_leaf));
  CHECK(refused(error_of([&] { by_vjp(w, c)(x); }), "custom_vjp", "\"function\") that " + of_leaf));
  CHECK(refused(error_of([&] { by_vjp(c, w)(x); }), "custom_vjp", "\"backward\") that " + of_leaf));
  CHECK(error_of([&] { by_vjp(c, w)(x); }).find(":" + std::to_string(vjp_line)) != std::string::npos);
  const auto mean_of = [&](const Array& t) { return sum(by_vjp(t, t)(x)); };
  CHECK(refused(error_of([&] { grad(mean_of)(c); }), "custom_vjp", of_leaf));
  CHECK(refused(error_of([&] { compile(mean_of)(c); }), "custom_vjp", of_trace));
  CHECK(refused(error_of([&] { vmap(mean_of)(stack({c, x})); }), "custom_vjp", of_trace));
  for (const Array& each : {grad([&](const Array& t) { return sum(by_jvp(c, c)(t)); })(x),
                            grad([&](const Array& t) { return sum(by_vjp(c, w.detach())(t)); })(x)})
    CHECK(max(abs(each - c)).item() == 0.0);
  CHECK(max(abs(no_grad([&] { return by_vjp(w, w)(x); }) - x * c)).item() == 0.0);
}

TEST_CASE("custom_jvp: a rule that adds a constant to the tangent is refused in every mode") {
  const auto with_rule = [](const auto& rule) {
    return custom_jvp([](const Array& x) { return x * 1.0; }, rule);
  };
  const auto affine = with_rule([](const Array& x, const Array& t) { return std::pair(x * 1.0, t + x); });
  const Array x = array({1.0, 2.0});
  const auto refused = [](const auto& derive) {
    try {
      derive();
      FAIL("expected an error");
    } catch (const ADRuleError& error) {
      const std::string text = error.what();
      CHECK_MESSAGE(text.find("linear in the tangents, got add of a tangent and of operand 1") != text.npos,
                    text);
    }
  };
  const auto total = [&](const Array& a) { return sum(affine(a)); };
  refused([&] { (void)jvp([&](const Array& a) { return affine(a); }, x, x); });
  refused([&] { (void)grad(total)(x); });
  refused([&] { (void)compile(grad(total))(x); });
  const auto linear =
      with_rule([](const Array& a, const Array& t) { return std::pair(a * 1.0, t + 0.0 * a + zeros({2})); });
  CHECK(max(abs(grad([&](const Array& a) { return sum(linear(a)); })(x) - 1.0)).item() == 0.0);
}

TEST_CASE("custom rules: one that does not fit is refused with the place of the call") {
  const auto f = custom_jvp(softplus, [](const Array& x, const Array&) { return std::pair(x, sum(x)); });
  const Array x = array({1.0, 2.0});
  try {
    f(x);
    FAIL("expected an error");
  } catch (const Error& error) {
    const std::string text = error.what();
    CHECK(
        text.find("expected f64[2] for output 1 of graph jvp (\"jvp\"), the tangent of output 0, got f64") !=
        std::string::npos);
    CHECK(text.find("custom.cpp") != std::string::npos);
  }
}

}  // namespace
