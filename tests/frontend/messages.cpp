// messages.cpp - error messages of Arrays: the function, the expected and the actual argument, and the
// location in the user's program; also for functions that run as one graph, and for the profile.
#include <algorithm>
#include <sstream>

#include "support.hpp"

namespace tidu::test {
namespace {

std::string here(int line) { return std::string(__FILE__) + ":" + std::to_string(line); }
std::string short_here(int line) { return "messages.cpp:" + std::to_string(line); }

std::size_t count(const std::string& text, std::string_view part) {
  std::size_t found = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

TEST_CASE("an Array without a value is refused by the operation that it is given to") {
  const Array x = array({1.0, 2.0}), none;
  int line = __LINE__ + 1;
  std::string error = error_of([&] { (void)(x * none); });
  CHECK(contains(error, "[multiply] expected Arrays with a value"));
  CHECK(contains(error, "as operand 1"));
  CHECK(contains(error, here(line)));
  line = __LINE__ + 1;
  error = error_of([&] { (void)sin(none); });
  CHECK(contains(error, "[sin] expected Arrays with a value"));
  CHECK(contains(error, here(line)));
  CHECK(contains(error_of([&] { (void)where(none, x, x); }), "[where] expected Arrays with a value"));
  CHECK(contains(error_of([&] { (void)trace([&](const Array& a) { return a + none; }, Type(f64, {2})); }),
                 "[add] expected Arrays with a value"));
  const Lazy lazy;
  CHECK(contains(error_of([&] { (void)(none + 1.0); }), "with a value"));
}

TEST_CASE("a place in a header is not taken for the user's") {
  const std::string error = error_of([] { (void)static_cast<bool>(array({1.0, 2.0})); });
  CHECK(contains(error, "one element, got f64[2]"));
  CHECK_FALSE(contains(error, "array.hpp"));
}

TEST_CASE("several elements as a condition give an error that suggests all() or any()") {
  const Array x = array({1.0, -2.0});
  const std::string error = error_of([&] {
    if (x > 0.0) return;
  });
  CHECK(contains(error, "[Array::operator bool] expected an Array of one element, got bool[2]"));
  CHECK(contains(error, "all(x)"));
  CHECK(contains(error, "any(x)"));
  CHECK(contains(error_of([&] { (void)x.item<bool>(); }), "[Array::item] expected an Array of one element"));
  CHECK(static_cast<bool>(any(x > 0.0)));
  CHECK_FALSE(static_cast<bool>(all(x > 0.0)));
  CHECK(static_cast<bool>(Array(std::complex<double>(0.0, 1.0))));
}

TEST_CASE("functions that make Arrays name themselves and the place") {
  const int line = __LINE__ + 1;
  const std::string error = error_of([&] { (void)zeros({-1}); });
  CHECK(contains(error, "expected extents >= 0, got shape [-1]"));
  CHECK(contains(error, "in zeros(), " + here(line)));
  CHECK(contains(error_of([&] { (void)ones({-3}); }), "in ones(), "));
  CHECK(contains(error_of([&] { (void)full({-2}, 3.0); }), "in full(), "));
  CHECK(contains(error_of([&] { (void)array({{1, 2}, {3}}); }), "got one of 2 and one of 1"));
  CHECK(contains(error_of([&] { (void)array({{1, 2}, {3, {4}}}); }), "got a list beside a number"));
}

TEST_CASE("transforms name themselves, once") {
  const auto wave = [](const Array& x) { return sin(x); };
  const Array x = array({1.0, 2.0, 3.0});
  const std::string cotangent = error_of([&] { (void)vjp(wave, x).second(ones({2})); });
  CHECK(contains(cotangent, "[vjp] expected a cotangent of type f64[3] for result 0, got f64[2]"));
  const std::string traced =
      error_of([&] { (void)jvp([&](const Array& a) { return vjp(wave, a).second(ones({2})); }, x, x); });
  CHECK(contains(traced, "[vjp] expected a cotangent of type f64[3] for result 0, got f64[2]"));
  const std::string scalar = error_of([&] { (void)hessian(wave)(x); });
  CHECK(contains(scalar, "[hessian] expected a function whose (first) result is a floating scalar"));
  CHECK(count(scalar, "in hessian") == 1);
  // If an inner operation has no derivative, they name the requested transform, and the location.
  const auto loop = [](const Array& a) {
    return sum(
        while_loop([](const Array& y) { return sum(y) < 9.0; }, [](const Array& y) { return 2.0 * y; }, a));
  };
  const auto says = [](const std::string& message, std::string_view rule, const std::string& last) {
    CHECK_MESSAGE(contains(message, detail::str("in the ", rule, " rule of ")), message);
    CHECK_MESSAGE(count(message, last) == 1, message);
  };
  const auto traced_error = [&](const auto& inner) { return error_of([&] { (void)jvp(inner, x, x); }); };
  const auto at = [](const char* name, int line) {
    return detail::str("in ", name, "(f64[3]), ", here(line));
  };
  says(error_of([&] { (void)jacrev(loop)(x); }), "transpose", at("jacrev", __LINE__));
  says(traced_error([&](const Array& a) { return grad(loop)(a); }), "transpose", at("grad", __LINE__));
  says(traced_error([&](const Array& a) { return vjp(loop, a).second(Array(1.0)); }), "transpose",
       "in vjp(f64[3])");
  says(traced_error([&](const Array& a) { return hvp(loop, a, a); }), "transpose", "in hvp(f64[3])");
  const auto bent = custom_jvp(wave, [](const Array& a, const Array& t) { return std::pair(sin(a), t * t); });
  says(error_of([&] { (void)jvp(bent, x, x); }), "jvp", "in jvp(f64[3])");
}

TEST_CASE("an error in a compiled function names the location of compile too") {
  CpuOptions options;
  options.check_indices = true;
  const CpuExecutor checks(options);
  const ExecutorGuard guard(checks);
  const auto pick = [](const Array& x, const Array& at) { return sin(take(x, at)) * 0.25; };
  const Array x = array({1.0, 2.0});
  const int line = __LINE__ + 1;
  const auto compiled = compile(pick);
  const std::string error = error_of([&] { (void)compiled(x, array({0, 9})); });
  CHECK(contains(error, "expected indices in [0, 2), got 9"));
  CHECK(contains(error, "in compiled(f64[2], i64[2]), " + here(line)));
}

TEST_CASE("nothing is printed of a value that cannot be computed") {
  CpuOptions options;
  options.check_indices = true;
  const CpuExecutor checks(options);
  const ExecutorGuard guard(checks);
  std::ostringstream out;
  const std::string error = error_of([&] {
    const Lazy lazy;
    out << take(array({1.0, 2.0}), array({0, 7}));
  });
  CHECK(contains(error, "got 7"));
  CHECK(out.str().empty());
}

TEST_CASE("backward in a hook says how it is done") {
  const Array x = leaf(array({1.0, 2.0})), y = leaf(array({3.0}));
  HookHandle hook = x.register_hook([&](const Array&) { sum(y * y).backward(); });
  CHECK(contains(error_of([&] { sum(x * x).backward(); }), "GradMode(true)"));
  hook.remove();
  x.register_hook([&](const Array&) {
    const GradMode on(true);
    sum(y * y).backward();
  });
  sum(x * x).backward();
  CHECK(y.grad()->tensor().at(0) == 6.0);
}

TEST_CASE("[P14] anomaly mode looks into functions that run as one graph") {
  const AnomalyGuard guard;
  const Array x = leaf(array({4.0, 0.0}));
  int line = __LINE__ + 1;
  const auto forward = compile([](const Array& a) { return sum(log(a - 1.0) * 2.0); });
  std::string error = error_of([&] { (void)forward(x); });
  CHECK(contains(error, "forward of compiled"));
  CHECK(contains(error, "within it first in operation"));
  CHECK(contains(error, "log (" + short_here(line) + "): its result f64[2] has 1 NaN, at [1]"));

  line = __LINE__ + 1;
  const auto root = compile([](const Array& a) { return sum(sqrt(a) * 3.0); });
  const Array y = root(x);
  error = error_of([&] { y.backward(); });
  CHECK(contains(error, "backward of operation"));
  CHECK(contains(error, "within it first in the derivative of operation"));
  CHECK(contains(error, "sqrt (" + short_here(line) + "): the result of"));
  CHECK(contains(error, "f64[2] has 1 infinity, at [1]"));

  line = __LINE__ + 1;
  const auto power = compile([](const Array& a) { return sum(pow(a * 2.0, 0.5)); });  // reads residuals
  const Array z = power(x);
  error = error_of([&] { z.backward(); });
  CHECK(contains(error, "within it first in the derivative of operation"));
  CHECK(contains(error, "pow (" + short_here(line) + ")"));

  line = __LINE__ + 1;
  const auto gradient = compile(grad([](const Array& a) { return sum(sqrt(a)); }));
  error = error_of([&] { (void)gradient(x); });
  CHECK(contains(error, "forward of compiled"));
  CHECK(contains(error, "within it first in the derivative of operation"));
  CHECK(contains(error, "sqrt (" + short_here(line) + ")"));
  // Operations of one primitive need no such line.
  CHECK_FALSE(contains(error_of([&] { sum(sqrt(x)).backward(); }), "within"));
}

std::size_t executed(const eager::Profile& profile, std::string_view name) {
  const std::vector<eager::ProfileEvent> events = profile.events();
  return static_cast<std::size_t>(
      std::count_if(events.begin(), events.end(), [&](const eager::ProfileEvent& event) {
        return event.phase == eager::ProfilePhase::execute && contains(event.name, std::string(name)) &&
               event.end >= event.begin;
      }));
}

TEST_CASE("a profile has functions that run as one graph, and lazy evaluations") {
  const Array x = array({1.0, 2.0});
  eager::Profile profile;
  const ProfileGuard guard(profile);
  const auto step = compile([](const Array& a) { return sum(sin(a) * a); });
  (void)step(x);
  CHECK(executed(profile, "compiled") == 1);
  (void)call_graph(grad(trace([](const Array& a) { return sum(a * a); }, x)), {x});
  CHECK(profile.events().size() == 2);
  {
    const Lazy lazy;
    (void)sum(exp(x) * x).item();
  }
  CHECK(executed(profile, "lazy program of") == 1);
}

TEST_CASE("an operand without a value is refused by the function, at the user's place") {
  const Array nothing, x = array({1.0, 2.0}), at = array({0, 1});
  const auto refused = [](const std::string& error, const std::string& function, int line) {
    CAPTURE(error);
    CHECK(contains(error, "[" + function + "] expected Arrays with a value"));
    CHECK(contains(error, "in " + function));
    CHECK(contains(error, here(line)));
  };
  refused(error_of([&] { (void)take(nothing, at); }), "take", __LINE__);
  refused(error_of([&] { (void)where(x > 0.0, nothing, 1.0); }), "where", __LINE__);
  refused(error_of([&] { (void)(nothing * 2.0); }), "multiply", __LINE__);
  refused(error_of([&] { (void)pow(nothing, 2); }), "pow", __LINE__);
  refused(error_of([&] { (void)concatenate({nothing, x}); }), "concatenate", __LINE__);
  refused(error_of([&] { (void)stack({x, nothing}); }), "stack", __LINE__);
  refused(error_of([&] { (void)tensordot(x, nothing, 1); }), "tensordot", __LINE__);
  refused(error_of([&] { (void)einsum("i,i", {x, nothing}); }), "einsum", __LINE__);
  refused(error_of([&] { (void)nothing.reshape({-1}); }), "reshape", __LINE__);
  refused(error_of([&] { (void)nothing[0]; }), "index", __LINE__);
  refused(error_of([&] { (void)sum(nothing); }), "sum", __LINE__);
  refused(error_of([&] { (void)sort(nothing); }), "sort", __LINE__);
  refused(error_of([&] { (void)zeros_like(nothing); }), "zeros_like", __LINE__);
  Array y = x.copy();
  refused(error_of([&] { y.assign(nothing); }), "Array::assign", __LINE__);
  refused(error_of([&] { (void)max_pool(nothing, {2}); }), "max_pool", __LINE__);
}

TEST_CASE("an argument without a value is refused by the transform, at the user's place") {
  const Array nothing, x = array({1.0, 2.0});
  const auto f = [](const Array& a) { return sum(a * a); };
  const auto refused = [](const std::string& error, const std::string& function, int line) {
    CAPTURE(error);
    CHECK(contains(error, "[" + function + "] expected Arrays with a value"));
    CHECK(contains(error, "as Array 0 of the arguments"));
    CHECK(contains(error, "in " + function));
    CHECK(contains(error, here(line)));
  };
  refused(error_of([&] { (void)compile(f)(nothing); }), "compiled", __LINE__);
  refused(error_of([&] { (void)grad(f)(nothing); }), "grad", __LINE__);
  refused(error_of([&] { (void)value_and_grad(f)(nothing); }), "value_and_grad", __LINE__);
  refused(error_of([&] { (void)vmap(f)(nothing); }), "vmap", __LINE__);
  refused(error_of([&] { (void)jacrev(f)(nothing); }), "jacrev", __LINE__);
  refused(error_of([&] { (void)hessian(f)(nothing); }), "hessian", __LINE__);
  CHECK(contains(error_of([&] { (void)vjp(f, nothing); }), "[vjp] expected Arrays with a value"));
  refused(error_of([&] { (void)jacfwd(f)(nothing); }), "jacfwd", __LINE__);
  CHECK(contains(error_of([&] { (void)jvp(f, nothing, x); }), "[jvp] expected Arrays with a value"));
  CHECK(contains(error_of([&] { (void)jvp(f, x, nothing); }), "as Array 0 of the tangents"));
  CHECK(grad(f)(x).shape() == Shape{2});
}

TEST_CASE("an Array without a value is refused by its members, at the user's place") {
  Array nothing;
  const Array x = array({1.0, 2.0});
  const auto refused = [](const std::string& error, const std::string& member, int line) {
    CAPTURE(error);
    CHECK(contains(error, "[Array::" + member + "] expected Arrays with a value"));
    CHECK(contains(error, "in Array::" + member + ", " + here(line)));
  };
  refused(error_of([&] { (void)nothing.type(); }), "type", __LINE__);
  refused(error_of([&] { (void)nothing.dtype(); }), "type", __LINE__);
  refused(error_of([&] { (void)nothing.shape(); }), "type", __LINE__);
  refused(error_of([&] { (void)nothing.shape(0); }), "shape", __LINE__);
  refused(error_of([&] { (void)nothing.ndim(); }), "type", __LINE__);
  refused(error_of([&] { (void)nothing.size(); }), "type", __LINE__);
  refused(error_of([&] { (void)nothing.device(); }), "device", __LINE__);
  refused(error_of([&] { (void)nothing.tensor(); }), "tensor", __LINE__);
  refused(error_of([&] { (void)nothing.item(); }), "item", __LINE__);
  refused(error_of([&] { nothing.assign(x); }), "assign", __LINE__);
  refused(error_of([&] { nothing.set_requires_grad(); }), "set_requires_grad", __LINE__);
  refused(error_of([&] { (void)nothing.is_leaf(); }), "is_leaf", __LINE__);
  refused(error_of([&] { nothing.backward(); }), "backward", __LINE__);
  refused(error_of([&] { nothing.backward(x); }), "backward", __LINE__);
  refused(error_of([&] { (void)nothing.grad(); }), "grad", __LINE__);
  refused(error_of([&] { nothing.zero_grad(); }), "zero_grad", __LINE__);
  refused(error_of([&] { nothing.set_grad(x); }), "set_grad", __LINE__);
  refused(error_of([&] { (void)nothing.detach(); }), "detach", __LINE__);
  refused(error_of([&] { nothing.register_hook([](const Array&) {}); }), "register_hook", __LINE__);
  refused(error_of([&] { nothing.set_name("w"); }), "set_name", __LINE__);
  CHECK(contains(error_of([&] { (void)x.shape(1); }), "in Array::shape, " + here(__LINE__)));
}

TEST_CASE("a function that returns an Array without a value is refused by the transform") {
  const Array x = array({1.0, 2.0});
  const auto empty = [](const Array&) { return Array(); };
  const auto refused = [](const std::string& error, const std::string& function, int line) {
    CAPTURE(error);
    CHECK(contains(error, "[" + function + "] expected Arrays with a value"));
    CHECK(contains(error, "as Array 0 of the results"));
    CHECK(contains(error, here(line)));
  };
  refused(error_of([&] { (void)compile(empty)(x); }), "compiled", __LINE__);
  refused(error_of([&] { (void)grad(empty)(x); }), "grad", __LINE__);
  refused(error_of([&] { (void)vmap(empty)(x); }), "vmap", __LINE__);
  refused(error_of([&] { (void)jacfwd(empty)(x); }), "jacfwd", __LINE__);
  refused(error_of([&] { (void)checkpoint(empty)(x); }), "function", __LINE__);
  CHECK(contains(error_of([&] { (void)vjp(empty, x); }), "as Array 0 of the results"));
  CHECK(contains(error_of([&] { (void)jvp(empty, x, x); }), "as Array 0 of the results"));
  CHECK(contains(error_of([&] { (void)hvp(empty, x, x); }), "as Array 0 of the results"));
  CHECK(contains(error_of([&] { (void)trace(empty, x); }), "as Array 0 of the results"));
}

TEST_CASE("functions with derivatives of their own refuse Arrays without a value at the user's place") {
  const Array nothing, x = array({1.0, 2.0});
  const auto f = [](const Array& a) { return a * a; };
  const auto refused = [](const std::string& error, int line) {
    CAPTURE(error);
    CHECK(contains(error, "[function] expected Arrays with a value"));
    CHECK(contains(error, "as Array 0 of the arguments"));
    CHECK(contains(error, here(line)));
  };
  refused(error_of([&] { (void)checkpoint(f)(nothing); }), __LINE__);
  const auto jvp_rule = [](const Array& a, const Array& t) { return std::pair(a * a, 2.0 * a * t); };
  refused(error_of([&] { (void)custom_jvp(f, jvp_rule)(nothing); }), __LINE__);
  const auto forward = [](const Array& a) { return std::pair(a * a, a); };
  const auto backward = [](const Array& a, const Array& ct) { return 2.0 * a * ct; };
  refused(error_of([&] { (void)custom_vjp(f, forward, backward)(nothing); }), __LINE__);
  CHECK(checkpoint(f)(x).shape() == Shape{2});
}

TEST_CASE("a pullback refuses arguments that are no cotangent for each result") {
  const auto two = [](const Array& a) { return std::vector<Array>{a * a, sin(a)}; };
  const Array x = array({1.0, 2.0});
  const auto check = [&](const auto& pullback) {
    CHECK(contains(error_of([&] { (void)pullback(std::vector<Array>{x}); }),
                   "[vjp] expected a cotangent for each of 2 results, got 1"));
    CHECK(contains(error_of([&] {
                     (void)pullback(std::vector<Array>{x, Array()});
                   }),
                   "[vjp] expected Arrays with a value, got a default-constructed or moved-from one as Array "
                   "1 of the cotangents"));
    CHECK(contains(error_of([&] {
                     (void)pullback(std::vector<Array>{x, ones({3})});
                   }),
                   "expected a cotangent of type f64[2] for result 1, got f64[3]"));
  };
  check(vjp(two, x).second);
  (void)trace([&](const Array& a) { return check(vjp(two, a).second), a; }, x);
  // An integer has no cotangent, so none is needed for it.
  const auto with_place = [](const Array& a) { return std::vector<Array>{a * a, argmax(a)}; };
  const Array seed = ones({2});
  const auto gradient = vjp(with_place, x).second(std::vector<Array>{seed, Array()});
  CHECK(elements(gradient) == std::vector<double>{2, 4});
}

TEST_CASE("pools of an Array without spatial axes name the expected axes") {
  for (const auto& pool : {max_pool, avg_pool}) {
    const std::string error = error_of([&] {
      (void)pool(ones({4, 4}), {2, 2}, {}, "VALID", Where::current());
    });
    CHECK(contains(error, "pool] expected [batch, features, spatial...], got f64[4,4]"));
  }
  CHECK(contains(error_of([] { (void)max_pool(ones({4}), {2}); }), "expected [batch, features, spatial...]"));
  CHECK(contains(error_of([] { (void)max_pool(ones({1, 1, 4}), {2, 2}); }), "a window of 1 entries"));
  CHECK(elements(max_pool(ones({1, 2}), {})) == std::vector<double>{1, 1});
}

TEST_CASE("a padding that has another name is refused at the user's place") {
  const int line = __LINE__ + 1;
  const std::string error = error_of([&] { (void)max_pool(ones({1, 4, 4, 1}), {2, 2}, {2, 2}, "SOME"); });
  CHECK(contains(error, "expected \"VALID\" or \"SAME\", got \"SOME\""));
  CHECK(contains(error, "in WindowPadding, " + here(line)));
}

TEST_CASE("graphs tell the user's places, and none in the library") {
  const Type square_matrix(f64, {4, 4});
  const Array k = array({1.0, 2.0});
  const auto scaled = custom_jvp([&](const Array& x) { return x * k; },
                                 [&](const Array& x, const Array& dx) { return std::pair(x * k, dx * k); });
  const Graph graphs[] = {
      trace([&](const Array& x) { return x * k; }, Type(f64, {2})),
      trace([&](const Array& x) { return scaled(x); }, Type(f64, {2})),
      trace([](const Array& a, const Array& b) { return linalg::solve(a, b); }, square_matrix, square_matrix),
      trace([](const Array& a) { return linalg::inv(a); }, square_matrix),
      trace([](const Array& a) { return linalg::slogdet(a); }, square_matrix),
      trace([](const Array& a) { return linalg::det(a); }, square_matrix),
      trace(
          [](const Array& x) {
            return fori_loop(
                0, 3, [](const Array&, const Array& c) { return c; }, x);
          },
          f64),
      trace(
          [](const Array& n) {
            return fori_loop(
                0, n, [](const Array&, const Array& c) { return c; }, n);
          },
          i64)};
  for (const Graph& graph : graphs) {
    const std::string text = to_json(graph);
    CAPTURE(text);
    CHECK(count(text, ".cpp:") == count(text, "messages.cpp:"));
    CHECK(count(text, ".hpp:") == 0);
  }
  CHECK(count(to_json(graphs[1]), "messages.cpp:") > 3);
}

TEST_CASE("an Array that outlived its trace is refused at the user's place") {
  Array kept;
  (void)trace([&](const Array& a) { return kept = a * 2.0; }, array({1.0, 2.0}));
  const std::string error = error_of([&] { (void)(kept + 1.0); });
  CHECK(contains(error, "got one of a trace that has ended"));
  CHECK(contains(error, "in add(f64[2], f64[]), " + here(__LINE__ - 2)));
  const int line = __LINE__ + 1;
  const auto keeps = compile([&](const Array&) { return kept; });
  const std::string returned = error_of([&] { (void)keeps(ones({2})); });
  CHECK(contains(returned, "got one of a trace that has ended"));
  CHECK(contains(returned, "in compiled(f64[2], f64[2]), " + here(line)));
  const Graph twice = trace([](const Array& a) { return a * 2.0; }, Type(f64, {2}));
  const std::string called = error_of([&] { (void)call_graph(twice, {kept}); });
  CHECK(contains(called, "got one of a trace that has ended"));
  CHECK(contains(called, here(__LINE__ - 2)));
}

TEST_CASE("hooks and names on traced Arrays are refused as such, not for want of a gradient") {
  const auto hooked = [](const Array& a) {
    Array y = a * a;
    y.register_hook([](const Array&) {});
    return y;
  };
  const Array x = array({1.0, 2.0});
  const std::string mapped = error_of([&] { (void)vmap(grad(hooked))(x); });
  CHECK(contains(mapped, "[Array::register_hook] expected an Array on a tape, got one that is being traced"));
  CHECK(contains(mapped, "hooks belong to the tape"));
  CHECK(contains(mapped, short_here(__LINE__ - 7)));
  CHECK(contains(error_of([&] { (void)compile(hooked)(x); }), "got one that is being traced (f64[2])"));
  CHECK(contains(error_of([&] { (void)checkpoint(hooked)(x); }), "got one that is being traced (f64[2])"));
  CHECK(contains(error_of([&] { (void)hooked(x); }), "expected an Array that requires a gradient"));
  const auto named = [](const Array& a) { return (a * a).set_name("y"); };
  CHECK(contains(error_of([&] { (void)compile(named)(x); }), "names belong to the tape"));
}

TEST_CASE("a gradient by a whole number says how to give one") {
  const auto square_of = [](const auto& a) { return Array(2.0) * a; };
  const std::string error = error_of([&] { (void)grad(square_of)(2); });
  CHECK(contains(error, "of 1 arguments, got 0, whose argument holds none (a whole number is passed on"));
  CHECK_FALSE(contains(error_of([&] { (void)grad(square_of, std::vector<int>{3})(1.0); }), "whole number"));
}

}  // namespace
}  // namespace tidu::test
