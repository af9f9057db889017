// The command check on every graph with inputs in tests/data: all rules are right, so any finding is a false
// alarm, and notes list the parts that could not be compared.
#include <algorithm>

#include "cli/helpers.hpp"
#include "support/shard.hpp"
#include "support/support.hpp"

namespace tidu::check_corpus_cases {
namespace {

using nlohmann::json;

std::vector<std::filesystem::path> cases(std::string_view folder) {
  std::vector<std::filesystem::path> paths;
  for (const auto& entry :
       std::filesystem::directory_iterator(test::source_dir() / "tests" / "data" / folder)) {
    if (entry.path().extension() == ".json") paths.push_back(entry.path());
  }
  std::ranges::sort(paths);
  return paths;
}

test::Answer check_case(const test::Folder& folder, const std::filesystem::path& path) {
  std::ifstream file(path);
  const json content = json::parse(file);
  return test::run_command({"check", folder.file("graph.json", content["graph"].dump()), "--inputs",
                            folder.file("inputs.json", content["inputs"].dump()), "--backend", "reference"});
}

TEST_CASE("check: no false alarm on any graph of the corpus") {
  const test::Folder folder;
  test::Shard shard;
  std::size_t count = 0;
  for (const std::string_view name : {"check", "conformance"}) {
    for (const std::filesystem::path& path : cases(name)) {
      ++count;
      if (!shard.next() || (test::shortened() && name == "conformance" && count % 4 != 0)) continue;
      INFO(path.filename().string());
      const test::Answer answer = check_case(folder, path);
      CHECK_MESSAGE(answer.status == 0, answer.out, answer.err);
      CHECK(!answer.out.empty());
    }
  }
  CHECK(count >= 490);
}

TEST_CASE("check: notes name the values that were not compared, and the reason") {
  const test::Folder folder;
  const auto data = test::source_dir() / "tests" / "data";
  const auto note_of = [&](const std::filesystem::path& path, std::string_view words) {
    const test::Answer answer = check_case(folder, data / path);
    CHECK(answer.status == 0);
    CHECK_MESSAGE(answer.out.find(words) != std::string::npos, answer.out);
  };
  note_of("check/masked_division.json",
          "note: operation 3, div, is not finite at operand 1 [0] and was not compared there\n");
  note_of("conformance/while_newton_plain.json",
          "note: forward mode was checked and reverse mode was not, which \"while\" has not: "
          "[while] "
          "expected a loop with a bound for reverse mode, got one without in \"newton\"");
  note_of("conformance/while_newton_plain.json", "jvp agrees with differences to ");
}

}  // namespace
}  // namespace tidu::check_corpus_cases
