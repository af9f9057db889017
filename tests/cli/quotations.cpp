// The command's output on standard error is UTF-8 without control characters, for any words, names in files
// and bytes of files.
#include "cli/helpers.hpp"
#include "support/printable.hpp"

namespace tidu {
namespace {

using Words = std::vector<std::string>;

// `text` stands where a word has an @.
Words with_text(Words words, const std::string& text) {
  for (std::string& word : words) {
    if (const std::size_t at = word.find('@'); at != std::string::npos) word.replace(at, 1, text);
  }
  return words;
}

std::string refusal_of(const Words& words) {
  const test::Answer answer = test::run_command(words);
  CHECK(answer.status == 2);
  std::string said = answer.err;
  REQUIRE(said.ends_with('\n'));
  said.pop_back();
  return said;
}

std::string in_json(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

TEST_CASE("refusals of words are printable, and quote them whole") {
  const test::Folder folder;
  const std::string g = folder.file("g", test::dot_graph), i = folder.file("i", test::dot_inputs);
  const Words rows[] = {
      {"@"},
      {"help", "@"},
      {"eval", "@", "--inputs", i},
      {"eval", g, "@", "--inputs", i},
      {"eval", g, "--@", i},
      {"eval", g, "--inputs", "@"},
      {"eval", g, "--inputs", i, "--threads", "@"},
      {"eval", g, "--inputs", i, "--backend", "@"},
      {"eval", g, "--inputs", i, "--batched", "@"},
      {"grad", g, "--inputs", i, "--wrt", "@"},
      {"grad", g, "--inputs", i, "--wrt", "@,"},
      {"grad", g, "--inputs", i, "--eager", "--profile", folder.path("no/such/@")},
      {"jac", g, "--inputs", i, "--mode", "@"},
      {"dump", g, "--stage", "@"},
      {"ops", "@"},
      {"ops", "--format", "@"},
  };
  for (const Words& row : rows) {
    for (const std::string& text : test::awkward_texts(56, 60)) {
      const std::string said = refusal_of(with_text(row, text));
      if (!test::is_printable(said)) FAIL_CHECK(row[0] << ": " << std::string(detail::printable(said)));
      CHECK(said.find(text.substr(0, 56)) != std::string::npos);
    }
  }
}

TEST_CASE("refusals of files are printable, whatever names and bytes they hold") {
  const test::Folder folder;
  const std::string g = folder.file("g", test::dot_graph), i = folder.file("i", test::dot_inputs);
  const std::string file = folder.path("file");
  const Words as_inputs{"eval", g, "--inputs", file};
  for (const std::string& text : test::awkward_texts(56, 60)) {
    const std::string name = in_json(text);
    const auto check = [&](const std::string& bytes, const Words& words) {
      folder.file("file", bytes);
      const std::string said = refusal_of(words);
      if (!test::is_printable(said)) FAIL_CHECK(bytes << ": " << std::string(detail::printable(said)));
    };
    check(text, as_inputs);
    check("{\"" + text + "\": ", as_inputs);
    check("{" + name + ": 1}", as_inputs);
    check("{" + name + R"(: {"dtype": "f64", "shape": [], "data": [1]}})", as_inputs);
    check("{" + name + ": 1, " + name + ": 2}", as_inputs);
    check("[" + name + "]", {"vjp", g, "--inputs", i, "--cotangents", file});
    // a graph and its input of that name: without a tensor, without a derivative, with two outputs
    const std::string graph = R"({"format": "tidu.graph", "version": 1, "name": )" + name +
                              R"(, "values": [{"id": 0, "dtype": "i32", "shape": [], "name": )" + name +
                              R"(}], "inputs": [0], "operations": [], "outputs": [0, 0]})";
    check(graph, {"eval", file, "--inputs", folder.file("none", "{}")});
    check(graph, {"eval", file, "--inputs", i});
    const std::string tensors =
        folder.file("t", "{" + name + R"(: {"dtype": "i32", "shape": [], "data": [1]}})");
    check(graph, {"grad", file, "--inputs", tensors});
    check(graph, {"hvp", file, "--inputs", tensors, "--tangents", tensors});
  }
}

}  // namespace
}  // namespace tidu
