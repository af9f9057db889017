// ops.cpp - the command ops: the table of primitives with their rules and kernels, as text, markdown or JSON.
#include <algorithm>
#include <memory>
#include <ostream>
#include <sstream>

#include "cli/commands.hpp"
#include "cli/io.hpp"
#include "tidu/graph/primitive.hpp"

namespace tidu::cli {

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

constexpr std::string_view fixed_columns[] = {"primitive", "jvp", "transpose", "batch"};

// Columns as wide as their widest cell, and no blanks at the ends of lines.
std::string ops_text(const std::vector<Row>& rows, const std::vector<std::string>& columns) {
  std::vector<std::vector<std::string_view>> lines(1);
  lines[0].assign(std::begin(fixed_columns), std::end(fixed_columns));
  lines[0].insert(lines[0].end(), columns.begin(), columns.end());
  for (const Row& row : rows) {
    lines.push_back({row.name, row.jvp, row.transpose, row.batch});
    lines.back().insert(lines.back().end(), row.kernels.begin(), row.kernels.end());
  }
  std::vector<std::size_t> widths(lines[0].size(), 0);
  for (const auto& line : lines) {
    for (std::size_t i = 0; i < line.size(); ++i) widths[i] = std::max(widths[i], line[i].size());
  }
  std::ostringstream out;
  for (const auto& line : lines) {
    std::string text;
    for (std::size_t i = 0; i < line.size(); ++i) {
      text += line[i];
      text.append(widths[i] + 2 - line[i].size(), ' ');
    }
    text.resize(text.find_last_not_of(' ') + 1);
    out << text << '\n';
  }
  return std::move(out).str();
}

std::string ops_markdown(const std::vector<Row>& rows, const std::vector<std::string>& columns) {
  std::ostringstream out;
  out << '|';
  for (const std::string_view column : fixed_columns) out << ' ' << column << " |";
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

// ["f32", "f64"] of "f32 f64".
std::string json_words(std::string_view words) {
  std::string text = "[";
  std::istringstream in{std::string(words)};
  for (std::string word; in >> word;) text += (text.size() > 1 ? ", " : "") + json_string(word);
  return text + "]";
}

std::string ops_json(const std::vector<Row>& rows, const std::vector<std::string>& columns) {
  std::ostringstream out;
  out << "[";
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const Row& row = rows[i];
    out << (i == 0 ? "\n" : ",\n") << " {\"primitive\": " << json_string(row.name)
        << ", \"jvp\": " << json_string(row.jvp) << ", \"transpose\": " << json_string(row.transpose)
        << ", \"batch\": " << json_string(row.batch) << ", \"kernels\": {";
    for (std::size_t k = 0; k < columns.size(); ++k)
      out << (k == 0 ? "" : ", ") << json_string(columns[k]) << ": " << json_words(row.kernels[k]);
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
