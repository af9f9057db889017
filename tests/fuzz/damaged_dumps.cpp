// damaged_dumps.cpp - dumps with random damage, and every text that was found by fuzzing or broke something
// once: each loads, and is then a valid graph that round-trips, or ends in a typed error.
#include <doctest/doctest.h>

#include <algorithm>

#include "fuzz/corpus.hpp"
#include "fuzz/load.hpp"
#include "support/support.hpp"
#include "support/test_primitives.hpp"
#include "tidu/graph/json.hpp"

namespace tidu::test {
namespace {

struct Source {
  std::string text;
  const PrimitiveSet* set;
};

std::vector<Source> sources() {
  std::vector<Source> all;
  for (const char* folder : {"dumps", "fuzz/load"}) {
    for (CorpusFile& file : corpus(folder)) {
      if (load_graph(file.bytes).loaded) all.push_back({std::move(file.bytes), &standard_primitives()});
    }
  }
  GraphBuilder inner("inner", test_set());
  const Value a = inner.input("a", Type(f32, {2}));
  const Graph held = inner.build({sin(a), add(a, a)});
  GraphBuilder builder("kinds", test_set());
  const Value x = builder.input("x", Type(f32, {2}));
  const Value e = builder.external(ValueKey{Key128{3, 4}}, Type(f32, {2}));
  const Values pair = call(held, std::vector{mul(emit1(kinds_op(), {x}), e)});
  const Graph graph = builder.build({pair[1], draw(pair[0])});
  for (const bool keys : {false, true}) all.push_back({to_json(graph, {.keys = keys}), &test_set()});
  return all;
}

}  // namespace

TEST_CASE("a dump of thousands of axes loads within memory in proportion") {
  std::string ones = "1", axes = "0";
  for (int k = 1; k < 3000; ++k) {
    ones += ", 1";
    axes += detail::str(", ", k);
  }
  const std::string text = detail::str(
      R"({"format": "tidu.graph", "version": 1, "name": "f", "values": [{"id": 0, "dtype": "f64", "shape": [)",
      ones,
      R"(], "name": "x"}, {"id": 1, "dtype": "f64", "shape": []}], "inputs": [0], "operations": [{"op": "reduce_sum", "inputs": [0], "outputs": [1], "attrs": {"axes": [)",
      axes, "]}}], \"outputs\": [1]}\n");
  const LoadReport report = load_graph(text);
  CHECK(report.loaded);
  CHECK(report.complaint == "");
}

TEST_CASE("damaged dumps load or end in a typed error, within memory in proportion and a second") {
  const std::vector<Source> all = sources();
  REQUIRE(all.size() >= 17);
  for (const Source& source : all)
    static_cast<void>(try_graph_from_json(source.text, *source.set));  // makes statics first
  std::mt19937_64 random(2024);
  std::size_t loaded = 0;
  const std::size_t count = scaled(20'000);
  LoadReport worst;
  for (std::size_t n = 0; n < count; ++n) {
    const Source& source = all[n % all.size()];
    const std::string text = damaged(source.text, random);
    const LoadReport report = load_graph(text, *source.set);
    if (!report.complaint.empty()) FAIL_CHECK(report.complaint << text);
    loaded += report.loaded ? 1 : 0;
    worst.allocated = std::max(worst.allocated, report.allocated);
    worst.seconds = std::max(worst.seconds, report.seconds);
  }
  MESSAGE(loaded << " of " << count << " loaded; at most " << worst.allocated
                 << " bytes allocated for each of the dump and 1000 more, and " << worst.seconds << " s");
  CHECK(worst.allocated > 1);
  CHECK(loaded > 0);
  CHECK(loaded < count / 2);
}

TEST_CASE("texts of the corpus and those that broke a loader once") {
  std::size_t loaded = 0;
  for (const char* folder : {"fuzz/load", "fuzz/load_regressions"}) {
    for (const CorpusFile& file : corpus(folder)) {
      INFO(file.name);
      const LoadReport graph = load_graph(file.bytes);
      CHECK(graph.complaint == "");
      CHECK(load_tensor(file.bytes).complaint == "");
      loaded += graph.loaded ? 1 : 0;
    }
  }
  CHECK(loaded > 10);
}

}  // namespace tidu::test
