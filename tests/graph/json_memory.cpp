// Large dumps of little content allocate in proportion; damaged dumps are in tests/fuzz.
#include <doctest/doctest.h>

#include <string>
#include <tidu/graph/json.hpp>

#include "graph/counting_allocator.hpp"
#include "support/test_primitives.hpp"

namespace tidu {
namespace {

TEST_CASE("large dumps of little content allocate in proportion") {
  const auto ratio = [](const std::string& text) {
    const std::size_t before = test::allocated_bytes();
    static_cast<void>(try_graph_from_json(text, test::test_set()));
    return static_cast<double>(test::allocated_bytes() - before) / static_cast<double>(text.size());
  };
  const auto repeated = [](std::string_view head, std::string_view item, std::string_view tail) {
    std::string text(head);
    for (int i = 0; i < 200'000; ++i) text += item;
    return text += tail;
  };
  const std::string_view head = R"({"format": "tidu.graph", "version": 1, "name": "f", "values": [)";
  CHECK(ratio(repeated("[", "0,", "0]")) < 60);
  CHECK(ratio(repeated("[", "[],", "0]")) < 60);
  CHECK(ratio(repeated(head, "0,", R"(0], "inputs": [], "operations": [], "outputs": []})")) < 100);
  CHECK(ratio(repeated(
            head, "",
            repeated(
                R"(], "inputs": [], "operations": [{"op": "constant", "inputs": [], "outputs": [0], "attrs":)"
                R"( {"value": {"dtype": "c128", "shape": [200000], "data": [)",
                "[],", "[]]}}}], \"outputs\": []}"))) < 100);
}

}  // namespace
}  // namespace tidu
