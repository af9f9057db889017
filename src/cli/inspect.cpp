// inspect.cpp - dump and ops: what a person looks at.
#include <algorithm>
#include <cstdio>
#include <memory>
#include <ostream>
#include <sstream>

#include "cli/commands.hpp"
#include "cli/io.hpp"
#include "tidu/graph/dot.hpp"
#include "tidu/graph/error.hpp"
#include "tidu/graph/json.hpp"
#include "tidu/linearize/transforms.hpp"
#include "tidu/program/program.hpp"

namespace tidu::cli {

namespace {

Graph stage_of(const Graph& graph, const std::string& stage) {
  DerivativeOptions options;
  options.named_inputs = true;
  if (stage == "linear") return jvp(graph, {}, options);
  if (stage == "transposed") return vjp(graph, {}, options);
  return graph;
}

// What Graphviz makes of `dot`. Throws Error (execution) when it is not there or fails.
std::string render_svg(const std::string& dot) {
  const auto close_file = [](std::FILE* file) { std::fclose(file); };
  const std::unique_ptr<std::FILE, decltype(close_file)> source(std::tmpfile(), close_file);
  const std::string message = "dump: expected Graphviz (the program dot) to draw svg";
  if (source == nullptr || std::fwrite(dot.data(), 1, dot.size(), source.get()) != dot.size() ||
      std::fflush(source.get()) != 0) {
    throw Error(ErrorKind::execution, message + ", could not write a temporary file");
  }
  const std::string command = detail::str("dot -Tsvg /proc/self/fd/", fileno(source.get()), " 2>/dev/null");
  std::FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) throw Error(ErrorKind::execution, message + ", could not start it");
  std::string svg;
  char buffer[1 << 14];
  for (std::size_t count = 0; (count = std::fread(buffer, 1, sizeof(buffer), pipe)) > 0;)
    svg.append(buffer, count);
  if (pclose(pipe) != 0 || svg.empty())
    throw Error(ErrorKind::execution, message + ", which is not installed or failed");
  return svg;
}

}  // namespace

int run_dump(const Session& session) {
  const Arguments& arguments = session.arguments;
  const Graph graph = stage_of(read_graph(arguments.graph_file, session.set), arguments.stage);
  if (arguments.stage == "program") {
    if (arguments.format != "text") {
      throw Error(
          ErrorKind::invalid_argument,
          detail::str("--format: expected text for the stage program, got \"", arguments.format, '"'));
    }
    session.out << to_text(Program::make(graph));
  } else if (arguments.format == "json") {
    session.out << to_json(graph, DumpOptions{.keys = arguments.keys});
  } else if (arguments.format == "dot") {
    session.out << to_dot(graph);
  } else if (arguments.format == "svg") {
    session.out << render_svg(to_dot(graph));
  } else {
    session.out << to_text(graph);
    if (arguments.keys) {
      for (ValueId id = 0; id < graph.num_values(); ++id)
        session.out << "  key %" << id << ' ' << to_hex(graph.key(id)) << '\n';
    }
  }
  return 0;
}

namespace {

struct Row {
  std::string_view name;
  std::string jvp, transpose, batch;
  std::vector<std::string> kernels;  ///< by executor: the dtypes
};

Row describe(const Primitive& primitive, const std::vector<std::shared_ptr<const Executor>>& executors) {
  Row row;
  row.name = primitive.name;
  row.jvp = primitive.jvp != nullptr                                ? "rule"
            : primitive.linearity.kind == Linearity::Kind::joint    ? "linear"
            : primitive.linearity.kind == Linearity::Kind::bilinear ? "bilinear"
            : primitive.has_trait(Trait::no_tangent)                ? "zero"
                                                                    : "missing";
  const bool is_linear = primitive.linearity.kind != Linearity::Kind::none;
  row.transpose = primitive.transpose != nullptr ? "rule" : is_linear ? "missing" : "";
  row.batch = primitive.batch != nullptr ? "rule" : primitive.arity == 0 ? "" : "missing";
  for (const auto& executor : executors) {
    std::string dtypes;
    for (std::uint8_t i = 0; i <= static_cast<std::uint8_t>(DType::c128); ++i) {
      const auto dtype = static_cast<DType>(i);
      if (!executor->supports(primitive, dtype)) continue;
      if (!dtypes.empty()) dtypes += ' ';
      dtypes += to_string(dtype);
    }
    row.kernels.push_back(std::move(dtypes));
  }
  return row;
}

std::string ops_text(const std::vector<Row>& rows, const std::vector<std::string>& columns) {
  std::ostringstream out;
  const auto cell = [&out](std::string_view text, std::size_t width) {
    out << text << std::string(text.size() < width ? width - text.size() : 1, ' ');
  };
  cell("primitive", 24);
  cell("jvp", 10);
  cell("transpose", 11);
  cell("batch", 7);
  for (const std::string& column : columns) cell(column, 48);
  out << '\n';
  for (const Row& row : rows) {
    cell(row.name, 24);
    cell(row.jvp, 10);
    cell(row.transpose, 11);
    cell(row.batch, 7);
    for (const std::string& kernel : row.kernels) cell(kernel, 48);
    out << '\n';
  }
  return std::move(out).str();
}

std::string ops_markdown(const std::vector<Row>& rows, const std::vector<std::string>& columns) {
  std::ostringstream out;
  out << "| primitive | jvp | transpose | batch |";
  for (const std::string& column : columns) out << ' ' << column << " |";
  out << "\n|---|---|---|---|";
  for (std::size_t i = 0; i < columns.size(); ++i) out << "---|";
  out << '\n';
  for (const Row& row : rows) {
    out << "| `" << row.name << "` | " << row.jvp << " | " << row.transpose << " | " << row.batch << " |";
    for (const std::string& kernel : row.kernels) out << ' ' << kernel << " |";
    out << '\n';
  }
  return std::move(out).str();
}

std::string ops_json(const std::vector<Row>& rows, const std::vector<std::string>& columns) {
  std::ostringstream out;
  out << "[";
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const Row& row = rows[i];
    out << (i == 0 ? "\n" : ",\n") << " {\"primitive\": " << json_string(row.name)
        << ", \"jvp\": " << json_string(row.jvp) << ", \"transpose\": " << json_string(row.transpose)
        << ", \"batch\": " << json_string(row.batch) << ", \"kernels\": {";
    for (std::size_t k = 0; k < columns.size(); ++k) {
      out << (k == 0 ? "" : ", ") << json_string(columns[k]) << ": " << json_string(row.kernels[k]);
    }
    out << "}}";
  }
  out << "]\n";
  return std::move(out).str();
}

}  // namespace

int run_ops(const Session& session) {
  std::vector<std::shared_ptr<const Executor>> executors;
  std::vector<std::string> columns;
  for (const CliExecutor& executor : session.executors) {
    executors.push_back(executor.make({}));
    columns.push_back(executor.name);
  }
  std::vector<Row> rows;
  for (const Primitive* primitive : session.set.primitives()) {
    rows.push_back(describe(*primitive, executors));
    if (std::find(columns.begin(), columns.end(), "cuda") == columns.end())
      rows.back().kernels.emplace_back();
  }
  if (std::find(columns.begin(), columns.end(), "cuda") == columns.end()) columns.push_back("cuda");
  const std::string& format = session.arguments.format;
  session.out << (format == "md"     ? ops_markdown(rows, columns)
                  : format == "json" ? ops_json(rows, columns)
                                     : ops_text(rows, columns));
  return 0;
}

}  // namespace tidu::cli
