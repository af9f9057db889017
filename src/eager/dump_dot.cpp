// dump_dot.cpp - a tape as Graphviz text.
#include <algorithm>
#include <sstream>

#include "eager/tape_list.hpp"
#include "graph/dot_text.hpp"
#include "tidu/eager/dump.hpp"
#include "tidu/graph/error.hpp"

namespace tidu::eager {
namespace {

using detail::Edge;
using detail::Node;
using detail::TapeList;
using tidu::detail::dot_quoted;
using tidu::detail::str;

class TapeDotWriter {
 public:
  TapeDotWriter(const TapeList& list, const TapeDumpOptions& options)
      : list_(list),
        options_(options),
        first_(list.nodes().size() - std::min(list.nodes().size(), options.max_operations)),
        read_(list.leaves().size(), false) {
    for (const TapeList::Root& root : list.roots())
      if (root.node->is_leaf()) read_[list.id(root.node)] = true;
  }

  std::string write() {
    out_ << "digraph \"tape\" {\n  rankdir=TB;\n  node [fontname=\"Helvetica\", fontsize=11];\n"
            "  edge [fontname=\"Helvetica\", fontsize=9, color=\"#555555\"];\n";
    for (std::size_t i = first_; i < list_.nodes().size(); ++i) write_node(*list_.nodes()[i]);
    for (std::size_t i = 0; i < list_.leaves().size(); ++i) write_leaf(i);
    if (first_ != 0) {
      out_ << "  more [shape=note, label=" << dot_quoted(str(first_, " further operations are not drawn"))
           << "];\n";
    }
    for (std::size_t i = 0; i < list_.roots().size(); ++i) write_root(i);
    out_ << edges_.str() << "}\n";
    return std::move(out_).str();
  }

 private:
  bool is_drawn(const Node* node) const {
    return node->is_leaf() || list_.id(node) >= list_.leaves().size() + first_;
  }
  std::string name(const Node* node) const { return str('n', list_.id(node)); }
  // From a producer to a reader of its output.
  void arrow(const Node* from, std::uint32_t slot, const std::string& to, const std::string& label,
             bool passive) {
    if (!is_drawn(from)) return;
    if (from->is_leaf()) read_[list_.id(from)] = true;
    std::string text = label;
    if (from->num_outputs() > 1) text += str(text.empty() ? "" : "\n", "output ", slot);
    edges_ << "  " << name(from) << " -> " << to << " [label=" << dot_quoted(text)
           << (passive ? ", style=dashed" : "") << "];\n";
  }

  void write_node(const Node& node) {
    std::string label = node.name();
    for (const auto& [slot, given] : names_of(node)) label = str(given, " = ", label);
    label += str("\n#", node.sequence, node.file != nullptr ? "  " + node.where() : std::string());
    if (node.device != 0) label += str("\ndevice ", node.device);
    const bool freed = node.freed();
    for (std::uint32_t k = 0; !freed && k < node.num_saved; ++k) {
      label += str(k == 0 ? "\nkeeps " : ", ", saved_value(node, k), ' ',
                   node.specialization->owner->graph.type(node.specialization->saved[k].value));
    }
    if (freed) label += "\nfreed";
    const char* style = node.blocked ? "filled,dashed" : "filled";
    const char* color = node.blocked || freed ? "#eeeeee" : "#d5e5f7";
    out_ << "  " << name(&node) << " [shape=box, style=\"" << style << "\", fillcolor=\"" << color
         << "\", label=" << dot_quoted(label) << "];\n";
    for (std::uint32_t e = 0; e < node.num_edges + node.num_passive; ++e) {
      const Edge& edge = node.edges()[e];
      const bool passive = e >= node.num_edges;
      arrow(edge.target, edge.slot, name(&node),
            passive ? std::string()
                    : str(node.specialization->owner->input_types[node.specialization->edges[e]]),
            passive);
    }
  }

  void write_leaf(std::size_t i) {
    const Node& leaf = *list_.leaves()[i];
    if (!read_[i]) return;  // only nodes that are not drawn read it
    std::string label = leaf.name();
    if (label.empty()) label = options_.keys ? to_string(leaf.first_key) : str("leaf ", i);
    out_ << "  " << name(&leaf)
         << " [shape=ellipse, style=filled, fillcolor=\"#d5f0d5\", label=" << dot_quoted(label) << "];\n";
  }

  void write_root(std::size_t i) {
    const TapeList::Root& root = list_.roots()[i];
    out_ << "  r" << i << " [shape=doublecircle, label=" << dot_quoted(str("root ", i)) << "];\n";
    const std::string type =
        root.node->is_leaf() ? std::string() : str(root.node->specialization->owner->output_types[root.slot]);
    arrow(root.node, root.slot, str('r', i), type, false);
  }

  const TapeList& list_;
  const TapeDumpOptions& options_;
  std::size_t first_;       // of the nodes that are drawn
  std::vector<bool> read_;  // by leaf: does something that is drawn read it?
  std::ostringstream out_, edges_;
};

}  // namespace

std::string to_dot(std::span<const EagerOutput> roots, const TapeDumpOptions& options) {
  return TapeDotWriter(detail::TapeList(roots), options).write();
}

}  // namespace tidu::eager
