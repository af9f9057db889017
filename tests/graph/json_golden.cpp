// Golden dumps of tests/data/dumps: a loaded dump is written again byte for byte, and loads with keys too.
// TIDU_UPDATE_GOLDEN=1 writes the files anew.
#include <doctest/doctest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <tidu/graph/json.hpp>

#include "support/support.hpp"

namespace tidu {
namespace {

TEST_CASE("golden dumps come back byte for byte") {
  const bool update = std::getenv("TIDU_UPDATE_GOLDEN") != nullptr;
  std::size_t count = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator(test::source_dir() / "tests" / "data" / "dumps")) {
    if (entry.path().extension() != ".json") continue;
    INFO(entry.path().filename().string());
    std::ostringstream text;
    text << std::ifstream(entry.path(), std::ios::binary).rdbuf();
    const Graph graph = graph_from_json(text.str());
    verify(graph);
    const std::string again = to_json(graph);
    const std::string keyed = to_json(graph, {.keys = true});
    CHECK(to_json(graph_from_json(keyed), {.keys = true}) == keyed);
    if (update) {
      std::ofstream(entry.path(), std::ios::binary) << again;
    } else {
      CHECK(again == text.str());
    }
    ++count;
  }
  CHECK(count >= 15);
}

}  // namespace
}  // namespace tidu
