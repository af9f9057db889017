// All errors of the command: the status, and the message. Words that begin with @ are files of the table.
#include <algorithm>
#include <map>
#include <memory>
#include <tidu/graph/primitive.hpp>
#include <tidu/reference/executor.hpp>

#include "cli/helpers.hpp"

namespace tidu {
namespace {

using test::run_command;

struct Refusal {
  std::vector<std::string> words;
  int status;
  std::vector<std::string> says;
};

std::string graph_of(const std::string& values, const std::string& inputs, const std::string& operations,
                     const std::string& outputs) {
  return R"({"format": "tidu.graph", "version": 1, "name": "f", "values": [)" + values + R"(], "inputs": [)" +
         inputs + R"(], "operations": [)" + operations + R"(], "outputs": [)" + outputs + "]}";
}

// With a thousand inputs.
std::string wide_graph() {
  std::string values, inputs;
  for (int i = 0; i < 1000; ++i) {
    if (i != 0) values += ", ", inputs += ", ";
    values += detail::str(R"({"id": )", i, R"(, "dtype": "f64", "shape": [], "name": "x)", i, "\"}");
    inputs += std::to_string(i);
  }
  return graph_of(values, inputs, "", "0");
}

const std::map<std::string, std::string>& files() {
  static const std::map<std::string, std::string> table{
      {"g", test::dot_graph},
      {"i", test::dot_inputs},
      {"mixed", test::mixed_graph},
      {"mixed_i", test::mixed_inputs},
      {"none", "{}"},
      {"list", "[]"},
      {"null", "[null]"},
      {"nulls", "[null, null]"},
      {"three", R"([{"dtype": "f64", "shape": [], "data": [1]}, null, null])"},
      {"twice", R"({"x": {"dtype": "f64", "shape": [3], "data": [1, 2, 3]},
                    "x": {"dtype": "f64", "shape": [3], "data": [1, 2, 3]}})"},
      {"x_alone", R"({"x": {"dtype": "f64", "shape": [3], "data": [1, 2, 3]}})"},
      {"x_rows", R"({"x": {"dtype": "f64", "shape": [2, 3], "data": [1, 2, 3, 4, 5, 6]}})"},
      {"w", R"({"w": {"dtype": "f64", "shape": [3], "data": [1, 2, 3]}})"},
      {"f32", R"({"x": {"dtype": "f32", "shape": [3], "data": [1, 2, 3]},
                  "y": {"dtype": "f64", "shape": [3], "data": [1, 2, 3]}})"},
      {"long", R"({"x": {"dtype": "f64", "shape": [4], "data": [1, 2, 3, 4]},
                   "y": {"dtype": "f64", "shape": [3], "data": [1, 2, 3]}})"},
      {"rows", R"({"x": {"dtype": "f64", "shape": [2, 3], "data": [1, 2, 3, 4, 5, 6]},
                   "y": {"dtype": "f64", "shape": [4, 3], "data": [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]}})"},
      {"wide", wide_graph()},
      {"overflow", R"({"x": {"dtype": "f64", "shape": [1], "data": [1e400]}})"},
      {"nul", std::string("{}\0{}", 5)},
      {"word", R"({"x": {"dtype": "f64", "shape": [1], "data": ["one"]}})"},
      {"bare", R"({"x": [1, 2, 3]})"},
      {"cut", "{\"x\": {\"dtype\": \"f64\",\n \"sha"},
      {"empty", ""},
      {"deep", std::string(200000, '[')},
      {"k_tangent", R"({"k": {"dtype": "i32", "shape": [], "data": [1]}})"},
      {"c_f32", R"([{"dtype": "f32", "shape": [], "data": [1]}])"},
      {"version_2", R"({"format": "tidu.graph", "version": 2, "values": [], "inputs": [], "operations": [],
                        "outputs": []})"},
      {"unknown", graph_of(R"({"id": 0, "dtype": "f64", "shape": [], "name": "x"},
                              {"id": 1, "dtype": "f64", "shape": []})",
                           "0", R"({"op": "sinus", "inputs": [0], "outputs": [1]})", "1")},
      {"wrong_type", graph_of(R"({"id": 0, "dtype": "f64", "shape": [2], "name": "x"},
                                 {"id": 1, "dtype": "f64", "shape": [3]})",
                              "0", R"({"op": "sin", "inputs": [0], "outputs": [1]})", "1")},
      {"wrong_axis",
       graph_of(R"({"id": 0, "dtype": "f64", "shape": [2], "name": "x"},
                                 {"id": 1, "dtype": "f64", "shape": []})",
                "0", R"({"op": "reduce_sum", "inputs": [0], "outputs": [1], "attrs": {"axes": [1]}})", "1")},
      {"external",
       R"({"format": "tidu.graph", "version": 1, "name": "part", "values": [{"id": 0, "dtype": "f64", "shape": []}],
           "inputs": [], "externals": [{"id": 0, "key": "0123456789abcdef0123456789abcdef"}],
           "operations": [], "outputs": [0]})"},
      {"huge",
       graph_of(R"({"id": 0, "dtype": "f64", "shape": [1125899906842624]},
                           {"id": 1, "dtype": "f64", "shape": []})",
                "",
                R"({"op": "full", "inputs": [], "outputs": [0], "attrs": {"value": 2.5, "dtype": "f64",
                            "shape": [1125899906842624]}},
                           {"op": "reduce_sum", "inputs": [0], "outputs": [1], "attrs": {"axes": [0]}})",
                "1, 0")},
      {"beyond", graph_of(R"({"id": 0, "dtype": "f64", "shape": [4611686018427387904, 4], "name": "x"})", "0",
                          "", "0")},
  };
  return table;
}

const std::vector<Refusal>& refusals() {
  const std::string commands = "[eval,jvp,vjp,grad,hvp,jac,check,dump,ops]";
  static const std::vector<Refusal> table{
      // arguments
      {{}, 2, {"expected a command, got none"}},
      {{"derive"}, 2, {commands, "got \"derive\""}},
      {{"help", "derive"}, 2, {commands, "got \"derive\""}},
      {{"eval"}, 2, {"eval: expected a graph file"}},
      {{"eval", "@g"}, 2, {"expected --inputs IN.json, got none"}},
      {{"jvp", "@g", "--inputs", "@i"}, 2, {"expected --tangents T.json"}},
      {{"vjp", "@g", "--inputs", "@i"}, 2, {"expected --cotangents C.json"}},
      {{"hvp", "@g", "--inputs", "@i"}, 2, {"expected --tangents T.json"}},
      {{"eval", "@g", "--inputs"}, 2, {"--inputs: expected IN.json, got nothing"}},
      {{"eval", "@g", "@g", "--inputs", "@i"}, 2, {"expected one graph file", "and"}},
      {{"eval", "@g", "--inputs", "@i", "--inputs", "@i"}, 2, {"--inputs: expected once"}},
      {{"eval", "@g", "--inputs", "@i", "--wrt", "x"},
       2,
       {"[--inputs,--batched,--backend,--threads,--eager,--profile]"}},
      {{"check", "@g", "--inputs", "@i", "--eager"}, 2, {"got \"--eager\""}},
      {{"eval", "@g", "--inputs", "@i", "--eager", "--eager"}, 2, {"--eager: expected once"}},
      {{"check", "@g", "--inputs", "@i", "--profile", "p"}, 2, {"got \"--profile\""}},
      {{"grad", "@g", "--inputs", "@i", "--eager", "--profile", "-"},
       2,
       {"--profile: expected a file, got -"}},
      {{"grad", "@g", "--inputs", "@i", "--eager", "--profile", "@no/such"},
       2,
       {"no/such: expected a file", "No such"}},
      {{"hvp", "@g", "--inputs", "@i", "--batched", "x"}, 2, {"got \"--batched\""}},
      {{"eval", "-", "--inputs", "-"}, 2, {"standard input (-) for one file, got it for 2"}},
      {{"eval", "@g", "--inputs", "@i", "--backend", "tpu"}, 2, {"[cpu,reference", "\"tpu\""}},
      {{"eval", "@g", "--inputs", "@i", "--threads", "0"}, 2, {"--threads", "1 to 1024", "\"0\""}},
      {{"eval", "@g", "--inputs", "@i", "--threads", "2.5"}, 2, {"--threads", "\"2.5\""}},
      {{"eval", "@g", "--inputs", "@i", "--threads", "99999999999"}, 2, {"--threads"}},
      {{"jac", "@g", "--inputs", "@i", "--mode", "both"}, 2, {"--mode", "[forward,reverse]", "\"both\""}},
      {{"dump", "@g", "--stage", "final"}, 2, {"--stage", "[primal,linear,transposed,program]"}},
      {{"dump", "@g", "--format", "pdf"}, 2, {"--format", "[text,json,dot,svg,html]", "\"pdf\""}},
      {{"ops", "--format", "dot"}, 2, {"--format", "[text,md,json]"}},
      {{"ops", "@g"}, 2, {"ops: expected no file"}},
      // files
      {{"eval", "@missing", "--inputs", "@i"}, 2, {"missing", "No such file"}},
      {{"eval", "@g", "--inputs", "@missing"}, 2, {"missing", "No such file"}},
      {{"eval", "@", "--inputs", "@i"}, 2, {"expected a file that can be read", "directory"}},
      {{"eval", "@g", "--inputs", ""}, 2, {"\"\": expected a file"}},
      {{"eval", "@empty", "--inputs", "@i"}, 2, {"empty: expected JSON"}},
      {{"eval", "@g", "--inputs", "@cut"}, 2, {"cut: expected JSON", "line 2"}},
      {{"eval", "@g", "--inputs", "@deep"}, 2, {"deep: expected JSON"}},
      {{"eval", "@deep", "--inputs", "@i"}, 2, {"deep: expected JSON", "levels"}},
      {{"eval", "@g", "--inputs", "@list"}, 2, {"list: expected an object of tensors, got an array"}},
      {{"vjp", "@g", "--inputs", "@i", "--cotangents", "@none"},
       2,
       {"none: expected a list of tensors, one for each output"}},
      {{"eval", "@version_2", "--inputs", "@none"}, 2, {"\"version\" to be 1, got 2"}},
      {{"eval", "@unknown", "--inputs", "@none"}, 2, {"unknown: ", "\"sinus\"", "operation 0 of \"f\""}},
      {{"dump", "@wrong_type"}, 2, {"[sin] expected value 1", "f64[2], got f64[3]"}},
      {{"dump", "@wrong_axis"}, 2, {"[reduce_sum]", "operation 0"}},
      {{"dump", "@beyond"}, 2, {"2^62"}},
      {{"eval", "@external", "--inputs", "@none"}, 2, {"external: expected a graph without externals"}},
      {{"dump", "@external", "--stage", "program"}, 2, {"expected a graph without externals"}},
      // tensors
      {{"eval", "@g", "--inputs", "@twice"}, 2, {"twice: ", "\"x\" twice"}},
      {{"eval", "@g", "--inputs", "@x_alone"}, 2, {"x_alone: input \"y\"", "f64[3], got none"}},
      {{"eval", "@g", "--inputs", "@w"}, 2, {"w: expected names of inputs, [x,y], got \"w\""}},
      {{"eval", "@wide", "--inputs", "@w"},
       2,
       {"w: expected names of inputs, [x0,x1,", ",x19,and 980 more], got \"w\""}},
      {{"eval", "@g", "--inputs", "@overflow"}, 2, {"overflow: expected JSON", "line 1, column", "1e400"}},
      {{"eval", "@g", "--inputs", "@nul"}, 2, {"nul: expected JSON", "a NUL byte"}},
      {{"eval", "@nul", "--inputs", "@i"}, 2, {"nul: expected JSON", "a NUL byte"}},
      {{"eval", "@g", "--inputs", "@f32"}, 2, {"f32: input \"x\": expected f64[3], got f32[3]"}},
      {{"check", "@g", "--inputs", "@long"}, 2, {"long: input \"x\": expected f64[3], got f64[4]"}},
      {{"eval", "@g", "--inputs", "@word"}, 2, {"word: tensor \"x\": element 0", "got \"one\""}},
      {{"eval", "@g", "--inputs", "@bare"}, 2, {"bare: tensor \"x\": expected a tensor"}},
      {{"jvp", "@g", "--inputs", "@i", "--tangents", "@w"}, 2, {"w: expected names of inputs, [x,y]"}},
      {{"jvp", "@g", "--inputs", "@i", "--tangents", "@f32"}, 2, {"f32: tangent of \"x\": expected f64[3]"}},
      {{"jvp", "@mixed", "--inputs", "@mixed_i", "--tangents", "@k_tangent"}, 2, {"\"k\"", "i32[]", "none"}},
      {{"vjp", "@g", "--inputs", "@i", "--cotangents", "@nulls"}, 2, {"expected 1 cotangents", "got 2"}},
      {{"vjp", "@g", "--inputs", "@i", "--cotangents", "@c_f32"},
       2,
       {"cotangent 0: expected f64[], got f32"}},
      {{"vjp", "@mixed", "--inputs", "@mixed_i", "--cotangents", "@three"}, 2, {"cotangent 0", "i32[]"}},
      // names in options
      {{"grad", "@g", "--inputs", "@i", "--wrt", "x,w"},
       2,
       {"--wrt: expected names of inputs, [x,y], got \"w\""}},
      {{"grad", "@g", "--inputs", "@i", "--wrt", "x,x"}, 2, {"--wrt", "\"x\" twice"}},
      {{"grad", "@g", "--inputs", "@i", "--wrt", "x,"}, 2, {"--wrt: expected names separated by commas"}},
      {{"jac", "@mixed", "--inputs", "@mixed_i", "--wrt", "k"}, 2, {"--wrt", "\"k\" of type i32[]"}},
      {{"eval", "@g", "--inputs", "@rows", "--batched", "w"}, 2, {"--batched: expected names of inputs"}},
      {{"eval", "@g", "--inputs", "@rows", "--batched", "y,y"}, 2, {"--batched", "\"y\" twice"}},
      {{"eval", "@g", "--inputs", "@rows", "--batched", "x,y"},
       2,
       {"\"y\" with a leading axis of 2, got f64[4,3]"}},
      {{"eval", "@g", "--inputs", "@rows", "--batched", "x"},
       2,
       {"input \"y\": expected f64[3], got f64[4,3]"}},
      {{"eval", "@g", "--inputs", "@none", "--batched", "x"},
       2,
       {"input \"x\": expected a tensor of type f64[3] with a leading axis, got none"}},
      {{"eval", "@g", "--inputs", "@x_alone", "--batched", "y"},
       2,
       {"\"y\"", "f64[3] with a leading axis, got none"}},
      {{"eval", "@g", "--inputs", "@x_rows", "--batched", "y,x"},
       2,
       {"input \"y\": expected a tensor of type f64[2,3], got none"}},
      {{"eval", "@mixed", "--inputs", "@mixed_i", "--batched", "x"},
       2,
       {"\"x\" with a leading axis, got f64[]"}},
      {{"vjp", "@g", "--inputs", "@rows", "--batched", "y,x", "--cotangents", "@null"}, 2, {"axis of 4"}},
      // commands that do not fit the graph
      {{"grad", "@mixed", "--inputs", "@mixed_i"}, 2, {"mixed: grad", "one floating scalar output, got 3"}},
      {{"hvp", "@mixed", "--inputs", "@mixed_i", "--tangents", "@none"}, 2, {"hvp", "got 3 outputs"}},
      {{"jac", "@mixed", "--inputs", "@mixed_i", "--wrt", "z"}, 2, {"expected real inputs", "c128[]"}},
  };
  return table;
}

void check_refusal_once(const test::Folder& folder, const Refusal& refusal, const PrimitiveSet& set) {
  std::vector<std::string> words;
  std::string line;
  for (const std::string& word : refusal.words) {
    words.push_back(word.starts_with("@") ? folder.path(word.substr(1)) : word);
    line += ' ' + word;
  }
  INFO("tidu", line);
  const test::Answer answer = run_command(words, set);
  CHECK(answer.status == refusal.status);
  CHECK(answer.out.empty());
  CHECK(answer.err.substr(0, 6) == "tidu: ");
  CHECK(answer.err.back() == '\n');
  for (const std::string& part : refusal.says)
    CHECK_MESSAGE(answer.err.find(part) != std::string::npos, answer.err, " lacks ", part);
}

// Operation by operation it is refused alike.
void check_refusal(const test::Folder& folder, const Refusal& refusal, const PrimitiveSet& set) {
  check_refusal_once(folder, refusal, set);
  constexpr std::string_view derive[] = {"eval", "jvp", "vjp", "grad", "hvp", "jac"};
  const auto& words = refusal.words;
  if (words.empty() || std::find(std::begin(derive), std::end(derive), words[0]) == std::end(derive) ||
      std::find(words.begin(), words.end(), "--eager") != words.end()) {
    return;
  }
  Refusal eager = refusal;
  eager.words.insert(eager.words.begin() + 1, "--eager");
  check_refusal_once(folder, eager, set);
}

TEST_CASE("errors, with their status and message") {
  const test::Folder folder;
  for (const auto& [name, text] : files()) folder.file(name, text);
  for (const Refusal& refusal : refusals()) check_refusal(folder, refusal, standard_primitives());
}

TEST_CASE("missing rules, missing kernels and missing memory have status 1") {
  const test::Folder folder;
  for (const auto& [name, text] : files()) folder.file(name, text);
  static Primitive without_jvp = *standard_primitives().find("mul"), without_batch = without_jvp;
  without_jvp.jvp = nullptr;
  without_jvp.linearity = {};
  without_jvp.transpose = nullptr;
  without_batch.batch = nullptr;
  const PrimitiveSet no_jvp = standard_primitives().replacing(&without_jvp);
  const PrimitiveSet no_batch = standard_primitives().replacing(&without_batch);
  check_refusal(folder, {{"grad", "@g", "--inputs", "@i"}, 1, {"g: ", "mul", "jvp", "operation 0"}}, no_jvp);
  check_refusal(folder, {{"dump", "@g", "--stage", "linear"}, 1, {"g: ", "mul", "jvp"}}, no_jvp);
  check_refusal(folder, {{"eval", "@g", "--inputs", "@rows", "--batched", "y"}, 2, {"f64[2,3]"}}, no_batch);
  folder.file("one", R"({"x": {"dtype": "f64", "shape": [1, 3], "data": [1, 2, 3]},
                         "y": {"dtype": "f64", "shape": [3], "data": [1, 2, 3]}})");
  check_refusal(folder, {{"eval", "@g", "--inputs", "@one", "--batched", "x"}, 1, {"mul", "batch"}},
                no_batch);

  std::ostringstream out, err;
  const std::vector<CliExecutor> bare{
      {"bare", [](const CliExecutorOptions&) { return std::make_shared<ReferenceExecutor>(); }}};
  const std::vector<std::string> words{"eval", folder.path("g"), "--inputs", folder.path("i")};
  CHECK(cli_main(words, out, err, "tidu", standard_primitives(), bare) == 1);
  CHECK(err.str().find("[mul] expected a kernel") != std::string::npos);
  CHECK(cli_main(words, out, err, "tidu", standard_primitives(), {}) == 2);
}

// An executor of graphs alone.
class Plain final : public Executor {
 public:
  std::string_view name() const override { return "plain"; }
  Result<std::vector<Tensor>> try_run(const Graph& graph, std::span<const Tensor> inputs) const override {
    return reference().try_run(graph, inputs);
  }
  bool supports(const Primitive&, DType) const override { return true; }
};

TEST_CASE("whatever a backend throws, the command does not") {
  const test::Folder folder;
  for (const auto& [name, text] : files()) folder.file(name, text);
  const std::vector<CliExecutor> throwing{
      {"throwing", [](const CliExecutorOptions&) -> std::shared_ptr<const Executor> { throw 7; }}};
  const std::vector<std::string> words{"eval", folder.path("g"), "--inputs", folder.path("i")};
  std::ostringstream out, err;
  CHECK(cli_main(words, out, err, "tidu", standard_primitives(), throwing) == 1);
  CHECK(err.str() == "tidu: something was thrown that is no std::exception\n");
}

TEST_CASE("--eager needs a backend that runs tapes") {
  const test::Folder folder;
  for (const auto& [name, text] : files()) folder.file(name, text);
  const std::vector<CliExecutor> plain{
      {"plain", [](const CliExecutorOptions&) { return std::make_shared<Plain>(); }}};
  std::vector<std::string> words{"grad", folder.path("g"), "--inputs", folder.path("i")};
  std::ostringstream out, err;
  CHECK(cli_main(words, out, err, "tidu", standard_primitives(), plain) == 0);
  words.emplace_back("--eager");
  CHECK(cli_main(words, out, err, "tidu", standard_primitives(), plain) == 2);
  CHECK(err.str() == "tidu: --eager: expected a backend that runs tapes, got \"plain\"\n");
}

// Sanitizers end a program that asks for too much, instead of refusing.
#if !defined(TIDU_ASAN) && !defined(TIDU_TSAN)
TEST_CASE("no memory for the content of a small dump") {
  const test::Folder folder;
  for (const auto& [name, text] : files()) folder.file(name, text);
  for (const std::string backend : {"cpu", "reference"}) {
    for (const std::string command : {"eval", "jac", "check"}) {
      check_refusal(folder,
                    {{command, "@huge", "--inputs", "@none", "--backend", backend},
                     1,
                     {"huge: ", "9007199254740992 bytes"}},
                    standard_primitives());
    }
  }
  for (const std::string stage : {"primal", "linear", "transposed", "program"})
    CHECK(run_command({"dump", folder.path("huge"), "--stage", stage}).status == 0);
}
#endif

TEST_CASE("a backend without its device gives an error of one line") {
  for (const CliExecutor& executor : standard_executors()) {
    if (executor.name != "cuda") continue;
    try {
      (void)executor.make({0, true});
      continue;  // here it has one
    } catch (const Error&) {
    }
    const test::Folder folder;
    const std::string graph =
        folder.file("g", graph_of(R"({"id": 0, "dtype": "f64", "shape": [3], "name": "x"})", "0", "", "0"));
    const std::string inputs =
        folder.file("i", R"({"x": {"dtype": "f64", "shape": [3], "data": [1, 2, 3]}})");
    const test::Answer answer = run_command({"eval", graph, "--inputs", inputs, "--backend", "cuda"});
    INFO(answer.err);
    CHECK(answer.status == 1);
    CHECK(answer.out.empty());
    CHECK(answer.err.find("tidu: no CUDA device: ") == 0);
    CHECK(std::count(answer.err.begin(), answer.err.end(), '\n') == 1);
    CHECK(run_command({"ops"}).status == 0);
  }
}

TEST_CASE("a stream that takes nothing is an error") {
  std::ostringstream out, err;
  out.setstate(std::ios::badbit);
  const std::vector<std::string> words{"ops"};
  CHECK(cli_main(words, out, err, "tidu", standard_primitives(), standard_executors()) == 1);
  CHECK(err.str() == "tidu: expected to write the result, standard output refused it\n");
}

TEST_CASE("an input that is given by its name and by its key is refused") {
  const test::Folder folder;
  const std::string key = "0123456789abcdef0123456789abcdef";
  std::string text = test::dot_graph;
  text.replace(text.find("\"name\": \"x\""), 11, "\"name\": \"x\", \"input_key\": \"" + key + "\"");
  const std::string one = R"({"dtype": "f64", "shape": [3], "data": [1, 2, 3]})";
  const std::string graph = folder.file("g.json", text);
  const auto run = [&](const std::string& more) {
    return test::run_command(
        {"eval", graph, "--inputs", folder.file("i.json", R"({"y": )" + one + more + "}")});
  };
  CHECK(run(", \"x\": " + one).status == 0);
  const test::Answer answer = run(", \"x\": " + one + ", \"" + key + "\": " + one);
  CHECK(answer.status != 0);
  CHECK(answer.err.find("expected each input once, got \"x\" twice") != std::string::npos);
}

}  // namespace
}  // namespace tidu
