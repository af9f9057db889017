// Every case of tests/data/conformance through the command, on every executor: values, jvp, vjp, gradients,
// Hessian-vector products, mapped over an axis, and Jacobians both ways; compiled, and with --eager. Cases
// without a vjp hold a loop without a bound, which has forward mode alone, and which a device has not. With
// TIDU_TEST_BACKEND in the environment, on that executor alone.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <memory>

#include "cli/helpers.hpp"
#include "support/shard.hpp"
#include "support/support.hpp"

namespace tidu {
namespace {

using nlohmann::json;

double number(const json& element) {
  if (!element.is_string()) return element.get<double>();
  const std::string text = element.get<std::string>();
  if (text == "nan") return std::numeric_limits<double>::quiet_NaN();
  const double infinity = std::numeric_limits<double>::infinity();
  return text == "inf" ? infinity : -infinity;
}

// The numbers of a tensor, a complex one as two.
std::vector<double> numbers(const json& tensor) {
  std::vector<double> all;
  if (tensor.is_null()) return all;
  for (const json& element : tensor["data"]) {
    if (element.is_boolean()) {
      all.push_back(element.get<bool>() ? 1.0 : 0.0);
    } else if (element.is_array()) {
      for (const json& part : element) all.push_back(number(part));
    } else {
      all.push_back(number(element));
    }
  }
  return all;
}

bool is_zero(const json& tensor) {
  const std::vector<double> all = numbers(tensor);
  return std::all_of(all.begin(), all.end(), [](double x) { return x == 0.0; });
}

// Empty when `got` is `want`, else the difference. A derivative that is absent equals zeros.
std::string difference(const json& got, const json& want, double rtol) {
  if (got.is_null()) return is_zero(want) ? "" : "null where a value belongs";
  if (want.is_null()) return is_zero(got) ? "" : "a value where nothing is differentiable";
  if (got["dtype"] != want["dtype"] || got["shape"] != want["shape"])
    return got.dump() + " of another type than " + want.dump();
  const std::string dtype = want["dtype"];
  if (dtype == "bool" || dtype == "i32" || dtype == "i64")
    return got["data"] == want["data"] ? "" : got.dump() + " for " + want.dump();
  const std::vector<double> g = numbers(got), w = numbers(want);
  if (g.size() != w.size()) return "another number of elements";
  double scale = 1.0;
  for (const double x : w) scale = std::isfinite(x) ? std::max(scale, 1.0 + std::abs(x)) : scale;
  for (std::size_t i = 0; i < w.size(); ++i) {
    const bool finite = std::isfinite(g[i]) && std::isfinite(w[i]);
    const bool same = g[i] == w[i] || (std::isnan(g[i]) && std::isnan(w[i]));
    if (finite ? std::abs(g[i] - w[i]) > rtol * scale : !same)
      return "number " + std::to_string(i) + ": " + std::to_string(g[i]) + " for " + std::to_string(w[i]);
  }
  return "";
}

// The command has said why; the next case may do better.
struct Refused {};

class Case {
 public:
  Case(const test::Folder& folder, const json& content, std::vector<std::string> options)
      : folder_(folder),
        case_(content),
        want_(content["expect"]),
        rtol_(content["rtol"]),
        options_(std::move(options)),
        graph_(folder.file("graph.json", content["graph"].dump())),
        inputs_(folder.file("inputs.json", content["inputs"].dump())) {}

  void check() {
    const std::string tangents = folder_.file("tangents.json", case_["tangents"].dump());
    compare(call({"eval"}), "outputs", want_["outputs"]);
    const bool reverse = want_.contains("vjp");
    // Operation by operation tangents are the backward of the backward.
    const bool forward = reverse || std::count(options_.begin(), options_.end(), "--eager") == 0;
    if (forward) {
      const json jvp = call({"jvp", "--tangents", tangents});
      compare(jvp, "outputs", want_["outputs"]);
      compare(jvp, "tangents", want_["tangents"]);
    }
    if (reverse) {
      const json vjp =
          call({"vjp", "--cotangents", folder_.file("cotangents.json", case_["cotangents"].dump())});
      compare(vjp, "outputs", want_["outputs"]);
      compare(vjp, "gradients", want_["vjp"]);
    }
    if (want_.contains("hvp")) {
      const json hvp = call({"hvp", "--tangents", tangents});
      compare(hvp, "gradients", want_["grad"]);
      compare(hvp, "hvp", want_["hvp"]);
      compare(call({"grad"}), "gradients", want_["grad"]);
    }
    if (want_.contains("jac")) {
      for (const std::string mode : {"forward", "reverse"}) {
        if (mode == "reverse" ? !reverse : !forward) continue;
        const json jac = call({"jac", "--mode", mode});
        REQUIRE(jac["jacobians"].size() == want_["jac"].size());
        for (std::size_t k = 0; k < want_["jac"].size(); ++k)
          compare_members(jac["jacobians"][k], want_["jac"][k], mode + " jacobian");
      }
    }
    if (case_.contains("batched")) {
      std::string names;
      for (const json& name : case_["batched"]["names"])
        names += (names.empty() ? "" : ",") + name.get<std::string>();
      inputs_ = folder_.file("batched.json", case_["batched"]["inputs"].dump());
      compare(call({"eval", "--batched", names}), "outputs", want_["batched"]);
    }
  }

 private:
  json call(std::vector<std::string> words) const {
    const std::string command = words[0];
    words.insert(words.end(), {graph_, "--inputs", inputs_});
    words.insert(words.end(), options_.begin(), options_.end());
    const test::Answer answer = test::run_command(words);
    INFO(command);
    CHECK_MESSAGE(answer.status == 0, answer.err);
    if (answer.status != 0) throw Refused();
    CHECK((answer.err.empty() || answer.err.find("tidu: note: ") == 0));
    return answer.json();
  }

  void compare(const json& got, const std::string& key, const json& want) const {
    REQUIRE(got.contains(key));
    if (want.is_object()) return compare_members(got[key], want, key);
    REQUIRE(got[key].size() == want.size());
    for (std::size_t i = 0; i < want.size(); ++i) {
      INFO(key, ' ', i);
      CHECK(difference(got[key][i], want[i], rtol_) == "");
    }
  }

  void compare_members(const json& got, const json& want, const std::string& what) const {
    for (const auto& item : want.items()) {
      INFO(what, " of ", item.key());
      REQUIRE(got.contains(item.key()));
      CHECK(difference(got[item.key()], item.value(), rtol_) == "");
    }
  }

  const test::Folder& folder_;
  const json& case_;
  const json& want_;
  double rtol_;
  std::vector<std::string> options_;
  std::string graph_, inputs_;
};

void check_all(const std::vector<std::string>& how) {
  const test::Folder folder;
  std::size_t count = 0;
  // Those whose device is here.
  std::vector<CliExecutor> executors = standard_executors();
  std::vector<std::shared_ptr<const Executor>> kept;  // so that a device stays open from call to call
  const char* const wanted = std::getenv("TIDU_TEST_BACKEND");
  std::erase_if(executors, [&](const CliExecutor& executor) {
    if (wanted != nullptr && executor.name != wanted) return true;
    try {
      kept.push_back(executor.make({0, true}));
      return kept.back() == nullptr;
    } catch (const Error&) {
      return true;
    }
  });
  REQUIRE(executors.size() >= (wanted != nullptr ? 1 : 2));
  test::Shard shard;
  std::vector<std::filesystem::path> paths;
  for (const auto& entry :
       std::filesystem::directory_iterator(test::source_dir() / "tests" / "data" / "conformance")) {
    if (entry.path().extension() == ".json") paths.push_back(entry.path());
  }
  std::ranges::sort(paths);  // so that the same ones are left out everywhere
  for (const std::filesystem::path& path : paths) {
    std::ifstream file(path);
    const json content = json::parse(file);
    ++count;
    if (!shard.next()) continue;
    // The code that differs operation by operation is the same for all of them.
    if (!how.empty() && test::shortened() && count % 2 == 0) continue;
    for (const CliExecutor& executor : executors) {
      if (!content["expect"].contains("vjp") && executor.name == "cuda") continue;
      INFO(path.filename().string(), " on ", executor.name);
      std::vector<std::string> options{"--backend", executor.name};
      options.insert(options.end(), how.begin(), how.end());
      try {
        Case(folder, content, options).check();
      } catch (const Refused&) {
        continue;
      }
    }
  }
  CHECK(count >= 484);
}

TEST_CASE("every conformance case holds on every executor") { check_all({}); }

TEST_CASE("every conformance case holds operation by operation on every executor") { check_all({"--eager"}); }

TEST_CASE("the comparison finds differences") {
  const json want = json::parse(R"({"dtype": "f64", "shape": [3], "data": [1, "nan", -2]})");
  CHECK(difference(want, want, 0.0) == "");
  CHECK(difference(json::parse(R"({"dtype": "f64", "shape": [3], "data": [1, "nan", -2.1]})"), want, 1e-3) !=
        "");
  CHECK(difference(json::parse(R"({"dtype": "f64", "shape": [3], "data": [1, "inf", -2]})"), want, 1e-3) !=
        "");
  CHECK(difference(json::parse(R"({"dtype": "f32", "shape": [3], "data": [1, "nan", -2]})"), want, 1e-3) !=
        "");
  CHECK(difference(json::parse(R"({"dtype": "f64", "shape": [2], "data": [1, "nan"]})"), want, 1e-3) != "");
  CHECK(difference(nullptr, want, 1e-3) != "");
  CHECK(difference(nullptr, json::parse(R"({"dtype": "f64", "shape": [2], "data": [0, 0]})"), 0.0) == "");
}

}  // namespace
}  // namespace tidu
