// random_graphs.cpp - seeded random graphs, see generator.hpp: every way to a derivative agrees, differences
// too, and the operations that the graphs contain.
#include <doctest/doctest.h>

#include <set>

#include "fuzz/corpus.hpp"
#include "fuzz/transform.hpp"
#include "support/support.hpp"
#include "tidu/primitives/collectives.hpp"

namespace tidu::test {

TEST_CASE("random graphs: every way to a derivative agrees, orders 1 to 3") {
  const std::size_t count = scaled(10000);
  std::size_t wrong = 0;
  int judged = 0;
  for (std::size_t seed = 0; seed < count; ++seed) {
    SeededChoices choices(seed);
    const RandomCase c = random_case(choices);
    check::Random random(seed ^ 0x5bd1e995ULL);
    std::string text;
    try {
      const TransformReport report = judge(c, random);
      judged += report.judged;
      text = report.complaints;
    } catch (const std::exception& error) {
      text = error.what();
    }
    if (text.empty()) continue;
    if (++wrong <= 10) FAIL_CHECK(detail::str("seed ", seed, ": ", text, '\n', to_text(c.graph)));
  }
  CHECK_MESSAGE(wrong == 0, wrong, " of ", count, " graphs are differentiated wrongly");
  CHECK(static_cast<double>(judged) > 0.8 * 3.0 * static_cast<double>(count));
}

TEST_CASE("random graphs are made of every primitive that has derivatives") {
  std::set<std::string_view> names;
  for (std::size_t seed = 0; seed < 4000; ++seed) {
    SeededChoices choices(seed);
    names.merge(primitives_in(random_case(choices).graph));
  }
  // Collectives need ranks to run on: tests/backends/mpi has their derivatives.
  for (const Primitive* collective : prim::collective_primitives()) names.insert(collective->name);
  for (const Primitive* primitive : standard_primitives().primitives()) {
    INFO(primitive->name);
    CHECK((!primitive->differentiable() || names.count(primitive->name) == 1));
  }
}

TEST_CASE("random graphs of the corpus and those that were differentiated wrongly once") {
  std::size_t judged = 0;
  for (const char* folder : {"fuzz/transform", "fuzz/transform_regressions"}) {
    for (const CorpusFile& file : corpus(folder)) {
      INFO(file.name);
      CHECK(complaint_of_bytes(file.bytes) == "");
      ++judged;
    }
  }
  CHECK(judged > 10);
}

}  // namespace tidu::test
