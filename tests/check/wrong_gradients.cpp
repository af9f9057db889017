// wrong_gradients.cpp - programs whose gradient other libraries get wrong without a word: outputs that are
// inputs, repeated outputs, shared sub-expressions, duplicates and misuse. Here each is right or a clear
// error.
#include "check/helpers.hpp"
#include "tidu/check/check_gradients.hpp"
#include "tidu/graph/merge.hpp"

namespace {

using namespace tidu;
using namespace tidu::test;

ErrorKind error_of(const std::function<void()>& call, std::string_view says) {
  try {
    call();
  } catch (const Error& error) {
    CHECK_MESSAGE(std::string_view(error.what()).find(says) != std::string_view::npos, error.what());
    return error.kind();
  }
  FAIL("expected an error that says ", std::string(says));
  return ErrorKind::internal;
}

Graph square_twice() {  // y = x x, outputs (y, y)
  GraphBuilder g("f");
  const Value x = g.input("x", f64), y = x * x;
  return g.build({y, y});
}

}  // namespace

TEST_CASE("wrong gradients: values that are not finite are not compared, and a note says so") {
  const Graph f = of_x(Type(f64, {2}), [](Value x) { return ops::reduce_sum(x * ops::log(x), {0}); });
  const auto notes = [&](const Tensor& at) {
    const CheckReport report = check_gradients(f, std::span(&at, 1), reference());
    CHECK(report.ok);
    std::string text;
    for (const std::string& note : report.notes) text += note + '\n';
    return text;
  };
  CHECK(notes(vector({0.5, 2.0})).empty());
  const std::string of_input = notes(vector({0.5, std::nan("")}));
  CHECK_MESSAGE(of_input.starts_with("input \"x\" is not finite: it f64[2] has 1 NaN, at [1]"), of_input);
  const std::string of_output = notes(vector({0.5, -2.0}));
  CHECK_MESSAGE(of_output.starts_with("output 0 is not finite: it f64[] has 1 NaN"), of_output);
}

TEST_CASE("wrong gradients: an input that is an output too") {
  GraphBuilder g("f");
  const Value x = g.input("x", f64), c = g.input("c", f64);
  const Graph f = g.build({x + c, x});
  CHECK(real_number(gradients_of(f, {"x"}), {scalar(2.0), scalar(5.0), scalar(3.0), scalar(10.0)}) == 13.0);
}

TEST_CASE("wrong gradients: the same output twice") {
  CHECK(real_number(gradients_of(square_twice()), {scalar(2.0), scalar(3.0), scalar(10.0)}) == 52.0);
}

TEST_CASE("wrong gradients: shared factors and shared sums") {
  GraphBuilder g("f");
  const Value x = g.input("x", f64), c = g.input("c", f64), a = g.input("a", f64);
  const Graph f = g.build({(x + c) * a + x * a});
  CHECK(real_number(gradients_of(f, {"x"}), {scalar(1.5), scalar(5.0), scalar(7.0), scalar(1.0)}) == 14.0);

  GraphBuilder h("f");
  const Value z = h.input("x", f64), d = h.input("c", f64);
  const Graph quadratic = h.build({(z + d) * z + z * z});
  CHECK(real_number(gradients_of(quadratic, {"x"}), {scalar(2.0), scalar(5.0), scalar(1.0)}) == 13.0);
}

TEST_CASE("wrong gradients: the transpose of the transpose") {
  const Graph f = of_x(f64, [](Value x) { return x * x; });
  const Linearization lin = linearize(f);
  const Graph twice = linear_transpose(linear_transpose(lin.linear).graph).graph;
  GraphBuilder g("twice");
  const Value x = g.input("x", f64), t = g.input("t", f64);
  REQUIRE(lin.residuals.size() == twice.externals().size());
  std::vector<Value> externals(twice.externals().size(), x);
  const std::vector<Value> values = inline_graph(g, twice, std::array{t}, externals);
  const Graph applied = g.build({values[twice.outputs()[0]]});
  CHECK(real_number(applied, {scalar(3.0), scalar(1.0)}) == 6.0);
}

TEST_CASE("wrong gradients: duplicates in wrt are refused") {
  const Graph f = of_x(f64, [](Value x) { return x * x; });
  CHECK(error_of([&] { (void)vjp(f, {"x", "x"}); }, "twice") == ErrorKind::invalid_argument);
  CHECK(error_of([&] { (void)jvp(f, {"x", "x"}); }, "twice") == ErrorKind::invalid_argument);
  CHECK(error_of(
            [&] {
              (void)linearize(f, {.wrt = std::vector<std::size_t>{0, 0}, .context = nullptr});
            },
            "twice") == ErrorKind::invalid_argument);
}

TEST_CASE("wrong gradients: passes over one graph do not share keys") {
  const Graph f = of_x(f64, [](Value x) { return x * x * x; });
  // Forward over forward over the same graph, both tangents of x.
  const Graph second = jvp(tangents_of(f), {"x"});
  CHECK(real_number(second, {scalar(2.0), scalar(1.0), scalar(1.0)}, 1) == 12.0);

  const Graph first_vjp = gradients_of(f), second_vjp = gradients_of(f);
  const Graph both = materialize_merge(std::array{first_vjp, second_vjp});
  REQUIRE(both.inputs().size() == 3);
  const Tensors results = run(both, {scalar(2.0), scalar(3.0), scalar(10.0)});
  CHECK(results.at(0).item<double>() == 36.0);
  CHECK(results.at(1).item<double>() == 120.0);
}

TEST_CASE("wrong gradients: unknown names, outputs and counts are refused") {
  const Graph f = square_twice();
  CHECK(error_of([&] { (void)vjp(f, {"z"}); }, "\"z\"") == ErrorKind::invalid_argument);
  CHECK(error_of([&] { (void)linearize(f, {.wrt = std::vector<std::size_t>{1}, .context = nullptr}); },
                 "got 1") == ErrorKind::invalid_argument);
  CHECK(error_of([&] { (void)with_outputs(f, std::array<std::size_t, 1>{2}); }, "2") ==
        ErrorKind::invalid_argument);
  GraphBuilder other("other");
  const Value foreign = other.input("x", f64);
  CHECK(error_of(
            [&] {
              GraphBuilder g("g");
              (void)g.input("x", f64);
              (void)g.build({foreign});
            },
            "output") == ErrorKind::invalid_argument);
  // The seeds of a transposed graph: too few flags, too few cotangents, too few tensors.
  const Linearization lin = linearize(f);
  CHECK(error_of(
            [&] {
              (void)linear_transpose(lin.linear, {.linear_inputs = {}, .seeded = std::vector<bool>{true}});
            },
            "seeded") == ErrorKind::invalid_argument);
  GraphBuilder g("g");
  const Value x = g.input("x", f64);
  const std::vector<Value> externals(lin.linear.externals().size(), x);
  const std::vector<std::optional<Value>> seeds{x};
  CHECK(error_of([&] { (void)linear_transpose_with(g, lin.linear, {}, externals, seeds); }, "cotangents") ==
        ErrorKind::invalid_argument);
  CHECK(error_of(
            [&] {
              (void)run(gradients_of(f), {scalar(2.0), scalar(3.0)});
            },
            "3") == ErrorKind::invalid_argument);
}

TEST_CASE("wrong gradients: intermediates of a composite that were not retained are recomputed") {
  const Graph inner = of_x(f64, [](Value x) {
    const Value e = ops::exp(x);
    return e * e;
  });
  GraphBuilder g("f");
  const Value x = g.input("x", f64);
  const Graph f = g.build(ops::call(inner, std::array{x}));
  CHECK(near(real_number(gradients_of(f), {scalar(0.5), scalar(1.0)}), 2.0 * std::exp(1.0)));
  // A pullback that is given nothing but the inputs' values.
  const Pullback back = pullback(inner);
  const Tensors forward = run(back.forward, {scalar(0.5)});
  Tensors arguments(forward.begin() + 1, forward.end());
  arguments.push_back(scalar(1.0));
  CHECK(near(run(back.backward, arguments).at(0), scalar(2.0 * std::exp(1.0))));
}
