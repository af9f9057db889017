// quotations.cpp - errors of transforms and executors are valid UTF-8 without control characters, whatever
// the names of graphs and inputs that they quote.
#include <doctest/doctest.h>

#include "support/printable.hpp"
#include "support/probe.hpp"
#include "tidu/graph/builder.hpp"
#include "tidu/linearize/batch.hpp"
#include "tidu/linearize/transforms.hpp"
#include "tidu/primitives/elementwise.hpp"
#include "tidu/reference/executor.hpp"

namespace tidu::test::quotation_cases {
namespace {

Tensor vec(std::initializer_list<double> x) {
  return Tensor::from<double>({static_cast<std::int64_t>(x.size())}, x);
}

TEST_CASE("errors of transforms and executors are printable, whatever the names") {
  for (const std::string& name : test::awkward_texts(0, 1)) {
    GraphBuilder g(name), c(name);
    const Value x = g.input(name, {f64, {3}}), n = g.input("n", i64);
    const Graph f = g.build({ops::sin(x), n}), h = c.build({ops::real(c.input(name, c128))});
    TransposeOptions far;
    far.linear_inputs = std::vector<std::size_t>{9};
    const std::string other = name + "'";  // outlives the view of it
    const NamedTensor given{name, vec({1, 2, 3})}, unknown{other, vec({1})};
    const std::string messages[] = {message_of([&] { jvp(f, {name + "'"}); }),
                                    message_of([&] {
                                      vjp(f, {name, name});
                                    }),
                                    message_of([&] { vjp(f, {"n"}); }),
                                    message_of([&] { grad(f); }),
                                    message_of([&] { jacrev(h); }),
                                    message_of([&] { names_at(f, std::vector<std::size_t>{9}); }),
                                    message_of([&] { with_outputs(f, std::vector<std::size_t>{9}); }),
                                    message_of([&] { vmap(f, 2, {name + "'"}); }),
                                    message_of([&] { linear_transpose(f); }),
                                    message_of([&] { linear_transpose(f, far); }),
                                    message_of([&] { reference().run(f); }),
                                    message_of([&] {
                                      reference().run(f, {vec({1}), vec({1})});
                                    }),
                                    message_of([&] { reference().run(f, {given}); }),
                                    message_of([&] {
                                      reference().run(f, {given, given});
                                    }),
                                    message_of([&] { reference().run(f, {unknown}); })};
    for (const std::string& message : messages) {
      CHECK(message != "no error");
      if (!test::is_printable(message)) FAIL_CHECK(std::string(detail::printable(message)));
    }
  }
}

}  // namespace
}  // namespace tidu::test::quotation_cases
