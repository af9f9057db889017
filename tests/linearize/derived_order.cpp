// derived_order.cpp - derived graphs are the same whatever compiled the library: the order of their
// operations is that of the statements of rules, never that in which a compiler takes the operands of an
// expression. tests/data/derived.txt holds a hash of the text of the graphs derived from cases of
// tests/data/conformance, for each primitive at least one; g++ and clang++ builds are tested against it.
// TIDU_UPDATE_GOLDEN=1 writes it anew.
#include <doctest/doctest.h>

#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <string>
#include <tidu/graph/json.hpp>
#include <tidu/linearize/transforms.hpp>

#include "support/support.hpp"

namespace tidu {
namespace {

using nlohmann::json;

std::filesystem::path data_dir() { return test::source_dir() / "tests" / "data"; }

std::string content(const std::filesystem::path& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

// FNV-1a, 64 bits.
std::string hash(const std::string& text) {
  std::uint64_t state = 0xcbf29ce484222325U;
  for (const char c : text) state = (state ^ static_cast<unsigned char>(c)) * 0x100000001b3U;
  std::ostringstream out;
  out << std::hex << state;
  return out.str();
}

// Forward, backward, forward over backward, and all of these with a leading axis; those that a graph does not
// have are left out.
std::string derived(const Graph& f) {
  const DerivativeOptions named{.named_inputs = true};
  std::string text;
  const auto add = [&](const std::function<Graph()>& make) {
    try {
      text += to_text(make());
    } catch (const Error& error) {
      text += error.what();
    }
  };
  add([&] { return jvp(f, {}, named); });
  add([&] { return jvp(vjp(f, {}, named), {}, named); });
  add([&] { return vmap(vjp(f, {}, named), 3); });
  return text;
}

// Cases by name; those in f32 and those with a sum around derive nothing of their own.
std::map<std::string, Graph> cases() {
  std::map<std::string, Graph> graphs;
  for (const auto& entry : std::filesystem::directory_iterator(data_dir() / "conformance")) {
    const std::string name = entry.path().stem().string();
    if (entry.path().extension() != ".json" || name.find("_scalar") != std::string::npos ||
        name.find("_f32") != std::string::npos)
      continue;
    const json all = json::parse(content(entry.path()));
    if (all.contains("graph")) graphs.emplace(name, graph_from_json(all["graph"].dump()));
  }
  return graphs;
}

std::set<std::string> primitives_of(const Graph& graph) {
  std::set<std::string> names;
  for (std::size_t i = 0; i < graph.num_operations(); ++i) names.emplace(graph.operation(i).name());
  return names;
}

TEST_CASE("derived graphs do not depend on the compiler") {
  const std::filesystem::path golden = data_dir() / "derived.txt";
  const std::map<std::string, Graph> graphs = cases();
  if (std::getenv("TIDU_UPDATE_GOLDEN") != nullptr) {
    std::ofstream out(golden, std::ios::binary);
    for (const auto& [name, graph] : graphs) out << name << ' ' << hash(derived(graph)) << '\n';
  }
  std::ifstream in(golden);
  std::set<std::string> covered;
  for (std::string name, wanted; in >> name >> wanted;) {
    INFO(name);
    const auto found = graphs.find(name);
    REQUIRE(found != graphs.end());
    const std::string text = derived(found->second);
    CHECK_MESSAGE(hash(text) == wanted, text);
    covered.merge(primitives_of(found->second));
  }
  for (const auto& each : graphs)
    for (const std::string& primitive : primitives_of(each.second))
      CHECK_MESSAGE(covered.count(primitive) == 1, primitive, " of case ", each.first,
                    " is not in derived.txt");
}

}  // namespace
}  // namespace tidu
