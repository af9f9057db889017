// dump.cpp - the command dump: a graph, a graph derived from it, or its program, in every format.
#include <sys/wait.h>

#include <cstdio>
#include <memory>
#include <optional>
#include <ostream>

#include "cli/commands.hpp"
#include "cli/io.hpp"
#include "tidu/cpu/program.hpp"
#include "tidu/graph/dot.hpp"
#include "tidu/graph/error.hpp"
#include "tidu/graph/html.hpp"
#include "tidu/graph/json.hpp"
#include "tidu/linearize/transforms.hpp"
#include "tidu/tensor/executor.hpp"

namespace tidu::cli {

namespace {

// Runs Graphviz on `dot`. Throws Error (execution) if it is not installed or fails.
std::string render_svg(const std::string& dot) {
  const auto fail = [](std::string_view got) {
    throw Error(ErrorKind::execution,
                detail::str("--format svg: expected Graphviz (the program dot) to draw the graph, ", got));
  };
  const auto close_file = [](std::FILE* file) { std::fclose(file); };
  const std::unique_ptr<std::FILE, decltype(close_file)> source(std::tmpfile(), close_file);
  if (source == nullptr || std::fwrite(dot.data(), 1, dot.size(), source.get()) != dot.size() ||
      std::fflush(source.get()) != 0) {
    fail("could not write a temporary file for it");
  }
  const std::string command = detail::str("dot -Tsvg /proc/self/fd/", fileno(source.get()), " 2>/dev/null");
  std::FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) fail("could not start it");
  std::string svg;
  char buffer[1 << 14];
  for (std::size_t count = 0; (count = std::fread(buffer, 1, sizeof(buffer), pipe)) > 0;)
    svg.append(buffer, count);
  const int status = pclose(pipe);
  constexpr int not_found = 127;  // exit status of the shell for it
  if (WIFEXITED(status) && WEXITSTATUS(status) == not_found)
    fail("it is not installed; --format dot gives its input");
  if (status != 0 || svg.empty()) fail(detail::str("it failed with status ", status));
  return svg;
}

void write_keys(std::ostream& out, const Graph& graph) {
  for (ValueId id = 0; id < graph.num_values(); ++id)
    out << "  key %" << id << ' ' << to_hex(graph.key(id)) << '\n';
}

// The content of a stage: a graph, and its program if it has one.
struct Stage {
  Graph graph;
  std::optional<Program> program;
};

Stage make_stage(const Session& session) {
  const Arguments& arguments = session.arguments;
  const Graph graph = read_graph(arguments.graph_file, session.set);
  return in_file(arguments.graph_file, [&]() -> Stage {
    DerivativeOptions options;
    options.named_inputs = true;
    if (arguments.stage == "linear") return {jvp(graph, {}, options), std::nullopt};
    if (arguments.stage == "transposed") return {vjp(graph, {}, options), std::nullopt};
    if (arguments.stage == "primal") return {graph, std::nullopt};
    const auto evaluate = [&](const Graph& constants) {
      std::vector<Literal> tensors;
      for (const Tensor& tensor : make_executor(session)->run(constants, std::vector<Tensor>()))
        tensors.push_back(tensor.to_literal());
      return tensors;
    };
    Program program = Program::make(graph, {}, evaluate);
    return {program.graph(), program};
  });
}

}  // namespace

int run_dump(const Session& session) {
  const Arguments& arguments = session.arguments;
  const auto [graph, program] = make_stage(session);
  if (arguments.format == "json") {
    session.out << to_json(graph, {.keys = arguments.keys});
  } else if (arguments.format == "text") {
    session.out << (program ? to_text(*program) : to_text(graph));
    if (arguments.keys) write_keys(session.out, graph);
  } else if (arguments.format == "html") {
    session.out << to_html(graph, {.stage = arguments.stage});
  } else {
    DotOptions options;
    options.keys = arguments.keys;
    const std::string dot = to_dot(graph, options);
    session.out << (arguments.format == "dot" ? dot : render_svg(dot));
  }
  return 0;
}

}  // namespace tidu::cli
