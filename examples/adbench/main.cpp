// main.cpp - the program adbench: reads a problem of ADBench, runs its objective and its derivative, prints
// their times, writes the results, and compares them with reference values.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>
#include <optional>
#include <stdexcept>
#include <string>
#include <tidu/cpu/executor.hpp>
#include <tidu/reference/executor.hpp>
#include <vector>

#include "common/arguments.hpp"
#include "common/json_writer.hpp"
#include "common/program.hpp"
#include "common/reference.hpp"
#include "problem.hpp"

namespace {

using adbench::Problem;
using examples::Arguments;
using examples::Reference;
using tidu::Graph;
using tidu::Tensor;

constexpr const char* usage =
    R"(usage: adbench gmm|ba|hand|hand_complicated|lstm FILE [options]
Objective and derivative of the problem that FILE, in ADBench's format, describes.

  --model DIR        hand: the model; default: "model" beside FILE, else "../model" from there
  --repeat N         how often objective and derivative are run for their median time; default 10
  --json OUT         write objective and derivative to OUT
  --reference REF    compare with the values in REF, a JSON file of ADBench's results
  --form flat|call   lstm: every step as its operations (default), or as a call of the graph of a step
  --replicate        gmm: FILE has one point, which stands for all (ADBench's -rep)
  --backend cpu|reference   compile for the CPU (default), or interpret
  --threads N        threads that the CPU backend may use; default: as many as there are

Times are of running alone. Reading FILE, making and differentiating the graphs, compiling them (once) and, for
ba, writing down which entries of the Jacobian are not zero come before.
OUT has the objective under "objective" and the derivative under
  gmm                gradient: by [alpha | mu | icf]
  lstm               gradient: by [main | extra]
  ba                 jacobian_vals, jacobian_rows, jacobian_cols: row r holds the entries from jacobian_rows[r] to
                     before jacobian_rows[r + 1]; rows as the objective, columns [cameras | points | weights]
  hand               jacobian_colmajor: 3 N x 26, column by column
  hand_complicated   jacobian_colmajor: 3 N x 28, two columns for u before those for theta
Exit status: 0; 2 for wrong arguments or files; 3 when a value is further than 1e-8 from that in REF.
)";

Problem read(const Arguments& arguments) {
  if (arguments.words().size() != 2) throw std::runtime_error("expected a problem and a FILE; see --help");
  const std::string& name = arguments.words()[0];
  const std::filesystem::path file = arguments.words()[1];
  const auto only_for = [&](const char* option, const char* problem) {
    if (arguments.has(option) && name.rfind(problem, 0) != 0)
      throw std::runtime_error(std::string(option) + ": expected the problem " + problem + ", got " + name);
  };
  only_for("--model", "hand");
  only_for("--form", "lstm");
  only_for("--replicate", "gmm");
  if (name == "gmm") return adbench::read_gmm(file, arguments.has("--replicate"));
  if (name == "ba") return adbench::read_ba(file);
  if (name == "lstm") {
    const bool call = arguments.one_of("--form", {"flat", "call"}) == "call";
    return adbench::read_lstm(file, call ? adbench::LstmForm::call : adbench::LstmForm::flat);
  }
  if (name != "hand" && name != "hand_complicated")
    throw std::runtime_error("expected gmm, ba, hand, hand_complicated or lstm, got " + name);
  std::filesystem::path model = arguments.text("--model");
  if (model.empty()) {
    model = file.parent_path() / "model";
    if (!std::filesystem::is_directory(model)) model = file.parent_path() / ".." / "model";
  }
  return adbench::read_hand(file, model, name == "hand_complicated");
}

// Runs one graph: compiled, or interpreted.
using Run = std::function<std::vector<Tensor>()>;
Run runner(const Graph& graph, const std::vector<Tensor>& inputs, const Arguments& arguments) {
  const auto threads = static_cast<int>(arguments.integer("--threads", 0, 1, 1024));
  if (arguments.one_of("--backend", {"cpu", "reference"}) == "reference")
    return [=] { return tidu::reference().run(graph, inputs); };
  const tidu::CpuExecutor executor = tidu::cpu().with_options({.threads = threads});
  return [executable = executor.compile(graph), inputs] { return executable.run(inputs); };
}

std::vector<double> numbers(const std::vector<Tensor>& tensors) {
  std::vector<double> all;
  for (const Tensor& tensor : tensors) {
    const auto elements = tensor.elements<double>();
    all.insert(all.end(), elements.begin(), elements.end());
  }
  return all;
}

struct Results {
  std::vector<double> objective, derivative;
  double objective_ms, derivative_ms;
};

void write(const Problem& problem, const Results& results, const std::string& file, const std::string& out) {
  examples::JsonWriter json(out);
  json.text("problem", problem.name);
  json.text("file", file);
  json.begin_object("dims");
  for (const auto& [name, size] : problem.dims) json.integer(name, size);
  json.end_object();
  json.number("objective_ms", results.objective_ms);
  json.number("derivative_ms", results.derivative_ms);
  if (problem.objective.type(problem.objective.outputs()[0]).rank() == 0)
    json.number("objective", results.objective.front());
  else
    json.numbers("objective", results.objective);
  if (!problem.jacobian_shape.empty()) json.integers("jacobian_shape", problem.jacobian_shape);
  if (!problem.jacobian_rows.empty()) {
    json.integers("jacobian_rows", problem.jacobian_rows);
    json.integers("jacobian_cols", problem.jacobian_cols);
  }
  json.numbers(problem.key, results.derivative);
  json.close();
}

bool agrees(const Problem& problem, const Results& results, const Reference& reference) {
  const double distance = std::max(reference.distance("objective", results.objective),
                                   reference.distance(problem.key, results.derivative));
  const bool structure =
      problem.jacobian_rows.empty() || (reference.has_integers("jacobian_rows", problem.jacobian_rows) &&
                                        reference.has_integers("jacobian_cols", problem.jacobian_cols));
  const bool all = distance <= examples::tolerance && structure;
  std::printf("  reference   %s: %zu values and %zu of the derivative, largest distance %.1e%s\n",
              all ? "agrees" : "DISAGREES", results.objective.size(), results.derivative.size(), distance,
              structure ? "" : "; the Jacobian's entries are in other places");
  return all;
}

double norm(const std::vector<double>& values) {
  double squares = 0;
  for (const double value : values) squares += value * value;
  return std::sqrt(squares);
}

int run(const Arguments& arguments) {
  const std::int64_t repeat = arguments.integer("--repeat", 10, 1, 1'000'000);
  const Problem problem = read(arguments);
  std::optional<Reference> reference;
  if (arguments.has("--reference")) reference.emplace(arguments.text("--reference"), problem.dims);

  const Run run_objective = runner(problem.objective, problem.inputs, arguments);
  const Run run_derivative = runner(problem.derivative, problem.inputs, arguments);
  Results results{numbers(run_objective()), numbers(run_derivative()), 0, 0};
  results.objective_ms = examples::median_ms(run_objective, repeat);
  results.derivative_ms = examples::median_ms(run_derivative, repeat);

  std::printf("%s %s:", problem.name.c_str(), arguments.words()[1].c_str());
  for (const auto& [name, size] : problem.dims)
    std::printf(" %s = %lld", name.c_str(), static_cast<long long>(size));
  std::printf("\n  objective   %s%.15g  (graph of %zu operations)\n",
              results.objective.size() == 1 ? "" : "norm ",
              results.objective.size() == 1 ? results.objective.front() : norm(results.objective),
              problem.objective.num_operations());
  std::printf("  derivative  norm %.15g, %zu entries  (graph of %zu operations)\n", norm(results.derivative),
              results.derivative.size(), problem.derivative.num_operations());
  std::printf("  median time %.4g ms objective, %.4g ms derivative (%lld runs)\n", results.objective_ms,
              results.derivative_ms, static_cast<long long>(repeat));
  if (arguments.has("--json")) write(problem, results, arguments.words()[1], arguments.text("--json"));
  return !reference || agrees(problem, results, *reference) ? examples::exit_good : examples::exit_disagrees;
}

}  // namespace

int main(int argc, char** argv) {
  return examples::run_program("adbench", usage, argc, argv, [&] {
    return run(Arguments(argc, argv,
                         {"--model", "--repeat", "--json", "--reference", "--form", "--backend", "--threads"},
                         {"--replicate"}));
  });
}
