// dot.cpp - Graphviz text. Graphs that operations hold are drawn as clusters after the graph that holds them,
// each distinct one once, from a list of work: no recursion.
#include "tidu/graph/dot.hpp"

#include <algorithm>
#include <unordered_map>
#include <vector>

#include "graph/dot_text.hpp"
#include "tidu/graph/error.hpp"

namespace tidu {

namespace detail {

std::string dot_quoted(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    if (c == '\n') {
      out += "\\n";
    } else if (static_cast<unsigned char>(c) >= 0x20) {
      out += c;
    }
  }
  return out + '"';
}

}  // namespace detail

namespace {

using detail::dot_quoted;
using detail::str;

class DotWriter {
 public:
  explicit DotWriter(const DotOptions& options) : options_(options) {}

  std::string write(const Graph& graph) {
    out_ << "digraph " << dot_quoted(graph.name()) << " {\n"
         << "  rankdir=" << (options_.left_to_right ? "LR" : "TB") << ";\n"
         << "  node [fontname=\"Helvetica\", fontsize=11];\n  edge [fontname=\"Helvetica\", fontsize=9, "
            "color=\"#555555\", labeldistance=1.8];\n";
    add(graph.share());
    for (std::size_t i = 0; i < graphs_.size(); ++i) {
      const Graph each(graphs_[i]);
      if (i != 0) {
        out_ << "  subgraph cluster_" << i
             << " {\n  label=" << dot_quoted(str("graph ", i, ": ", each.name()))
             << ";\n  style=\"rounded\";\n  color=\"#888888\";\n";
      }
      write_graph(each, str('g', i, '_'));
      if (i != 0) out_ << "  }\n";
    }
    out_ << "}\n";
    return std::move(out_).str();
  }

 private:
  // The number of the cluster in which a graph is drawn.
  std::size_t add(const std::shared_ptr<const GraphData>& graph) {
    const auto [it, added] = numbers_.try_emplace(graph.get(), graphs_.size());
    if (added) graphs_.push_back(graph);
    return it->second;
  }

  void write_graph(const Graph& graph, const std::string& prefix) {
    const std::size_t shown = std::min(graph.num_operations(), options_.max_operations);
    for (std::size_t i = 0; i < graph.inputs().size(); ++i) {
      const ValueId id = graph.inputs()[i];
      node(prefix, 'v', id, str(graph.input_name(i), '\n', graph.type(id), key_line(graph, id)),
           "shape=ellipse, style=filled, fillcolor=\"#d5f0d5\"");
    }
    for (const ValueId id : graph.externals()) {
      const std::string_view label = graph.label(id);
      node(prefix, 'v', id,
           str(label.empty() ? "external " + to_hex(graph.key(id)).substr(0, 8) : std::string(label), '\n',
               graph.type(id), key_line(graph, id)),
           "shape=ellipse, style=\"filled,dashed\", fillcolor=\"#eeeeee\"");
    }
    for (std::uint32_t i = 0; i < shown; ++i) write_operation(graph, prefix, graph.operation(i));
    if (shown < graph.num_operations()) {
      node(prefix, 'x', 0, str(graph.num_operations() - shown, " further operations are not drawn"),
           "shape=note");
    }
    for (std::size_t i = 0; i < graph.outputs().size(); ++i) {
      const ValueId id = graph.outputs()[i];
      node(prefix, 'o', i, str("output ", i), "shape=doublecircle, fontsize=9, margin=0.02");
      const auto producer = graph.producer(id);
      if (!producer || *producer < shown) edge(graph, prefix, id, str(prefix, 'o', i), "");
    }
  }

  void write_operation(const Graph& graph, const std::string& prefix, const Operation& operation) {
    std::string text = text_of(operation);
    if (!operation.where().empty()) text += str('\n', operation.where());
    const bool linear = operation.is_linear();
    node(prefix, 'n', operation.index(), text,
         str("shape=box, style=\"rounded,filled\", fillcolor=\"", linear ? "#ffdfb0" : "#d6e6ff", '"'));
    for (std::size_t i = 0; i < operation.num_inputs(); ++i) {
      edge(graph, prefix, operation.input(i), str(prefix, 'n', operation.index()),
           operation.is_linear_in(i) ? ", color=\"#c06000\", penwidth=2" : "",
           operation.num_inputs() > 1 ? str(i) : "");
    }
  }

  // Name and attributes, one a line, long ones cut; a held graph by the number of its cluster.
  std::string text_of(const Operation& operation) {
    constexpr std::size_t longest = 48;
    const OpRecord& op = *operation.record().op;
    std::string text(operation.name());
    bool plain = true;
    for (const auto& [name, value] : op.attributes) {
      for (const std::shared_ptr<const GraphData>& held : value.graphs()) {
        plain = false;
        const std::size_t number = options_.inner_graphs ? add(held) : 0;
        text += str('\n', name, ": ", options_.inner_graphs ? str("graph ", number, ' ') : "", held->name);
      }
    }
    if (!plain) return text;
    const std::string all = to_string(operation.op());
    if (all.size() > text.size()) {
      text += str('\n', detail::printable(std::string_view(all).substr(text.size() + 1), longest));
    }
    return text;
  }

  std::string key_line(const Graph& graph, ValueId id) const {
    return options_.keys ? '\n' + to_hex(graph.key(id)) : std::string();
  }

  void node(const std::string& prefix, char kind, std::size_t number, const std::string& label,
            std::string_view style) {
    out_ << "  " << prefix << kind << number << " [label=" << dot_quoted(label) << ", " << style << "];\n";
  }

  void edge(const Graph& graph, const std::string& prefix, ValueId value, const std::string& to,
            std::string_view style, const std::string& head = {}) {
    out_ << "  " << prefix;
    const auto producer = graph.producer(value);
    if (!producer) {
      out_ << 'v' << value << " -> " << to << " [label=\"\"";
    } else {
      const Operation operation = graph.operation(*producer);
      const std::string_view label = graph.label(value);
      std::string text = label.empty() ? to_string(graph.type(value)) : str(label, ": ", graph.type(value));
      if (operation.num_outputs() > 1) text = str('#', value - operation.output(), ' ', text);
      text += key_line(graph, value);
      out_ << 'n' << *producer << " -> " << to << " [label=" << dot_quoted(text);
    }
    if (!head.empty()) out_ << ", headlabel=" << dot_quoted(head);
    out_ << style << "];\n";
  }

  const DotOptions& options_;
  std::ostringstream out_;
  std::vector<std::shared_ptr<const GraphData>> graphs_;
  std::unordered_map<const GraphData*, std::size_t> numbers_;
};

}  // namespace

std::string to_dot(const Graph& graph, const DotOptions& options) { return DotWriter(options).write(graph); }

}  // namespace tidu
