// dump.cpp - a tape as JSON, one leaf and one node a line, and as a page that shows it.
#include "tidu/eager/dump.hpp"

#include "eager/tape_list.hpp"
#include "graph/json_attributes.hpp"
#include "graph/view_page.hpp"
#include "tidu/graph/error.hpp"

namespace tidu::eager {
namespace {

using detail::Edge;
using detail::Node;
using tidu::detail::append_json_string;
using tidu::detail::str;

class TapeWriter {
 public:
  TapeWriter(const detail::TapeList& list, const TapeDumpOptions& options) : list_(list), options_(options) {}

  std::string write() {
    out_ = R"({"format": "tidu.tape", "version": 1)";
    lines("leaves", list_.leaves(), [this](const Node& leaf) { write_leaf(leaf); });
    lines("nodes", list_.nodes(), [this](const Node& node) { write_node(node); });
    out_ += ",\n \"roots\": [";
    bool first = true;
    for (const detail::TapeList::Root& root : list_.roots()) {
      item(first);
      out_ += str("\"from\": ", list_.id(root.node), ", \"output\": ", root.slot);
      if (options_.keys) text("key", to_string(root.node->key_of(root.slot)));
      out_ += '}';
    }
    out_ += "]}\n";
    return std::move(out_);
  }

 private:
  template <class Write>
  void lines(const char* name, const std::vector<const Node*>& nodes, const Write& write) {
    out_ += str(",\n \"", name, "\": [");
    bool first = true;
    for (const Node* node : nodes) {
      out_ += first ? "\n  {\"id\": " : ",\n  {\"id\": ";
      out_ += std::to_string(list_.id(node));
      first = false;
      write(*node);
      out_ += '}';
    }
    out_ += ']';
  }
  void item(bool& first) {
    out_ += first ? "{" : ", {";
    first = false;
  }
  void text(const char* name, std::string_view value) {
    out_ += str(", \"", name, "\": ");
    append_json_string(out_, value);
  }
  void number(const char* name, std::uint64_t value) { out_ += str(", \"", name, "\": ", value); }

  void write_leaf(const Node& leaf) {
    if (const std::string name = leaf.name(); !name.empty()) text("name", name);
    if (options_.keys) text("key", to_string(leaf.first_key));
    if (leaf.accumulator() != nullptr) out_ += ", \"slot\": true";
    write_place(leaf);
  }
  void write_place(const Node& node) {
    if (node.device != 0) number("device", node.device);
    if (node.stream != 0) number("stream", node.stream);
    if (detail::NodeExtension* extension = node.extension.load(std::memory_order_acquire)) {
      if (const auto hooks = extension->snapshot()) number("hooks", hooks->size());
    }
  }

  void write_node(const Node& node) {
    const detail::CachedGraph& owner = *node.specialization->owner;
    text("op", node.name());
    if (!owner.op_name.empty()) {
      const tidu::detail::WriteGraph nested = [](std::string& out, const Graph& graph) {
        append_json_string(out, to_hex(graph.structural_key()));
      };
      const OpRecord& op = *owner.graph.operation(0).record().op;
      if (!op.attributes.empty()) tidu::detail::append_attributes(out_, ", \"attrs\": ", op, nested);
    } else {
      text("graph", to_hex(owner.graph.structural_key()));
      number("operations", owner.graph.num_operations());
    }
    number("sequence", node.sequence);
    if (node.file != nullptr) text("where", node.where());
    write_place(node);
    if (node.blocked) out_ += ", \"blocked\": true";
    write_outputs(node);
    write_inputs(node);
    write_saved(node);
  }

  void write_outputs(const Node& node) {
    const auto names = names_of(node);
    out_ += ", \"outputs\": [";
    bool first = true;
    for (std::uint32_t slot = 0; slot < node.num_outputs(); ++slot) {
      item(first);
      out_ += "\"type\": ";
      append_json_string(out_, str(node.specialization->owner->output_types[slot]));
      for (const auto& [at, name] : names)
        if (at == slot) text("name", name);
      if (node.specialization->output_active[slot] == 0) out_ += ", \"derivative\": false";
      out_ += '}';
    }
    out_ += ']';
  }

  void write_inputs(const Node& node) {
    out_ += ", \"inputs\": [";
    bool first = true;
    for (std::uint32_t e = 0; e < node.num_edges + node.num_passive; ++e) {
      const Edge& edge = node.edges()[e];
      item(first);
      if (e < node.num_edges) out_ += str("\"input\": ", node.specialization->edges[e], ", ");
      out_ += str("\"from\": ", list_.id(edge.target), ", \"output\": ", edge.slot);
      if (e >= node.num_edges) out_ += ", \"passive\": true";
      out_ += '}';
    }
    out_ += ']';
  }

  void write_saved(const Node& node) {
    const bool freed = node.freed();
    out_ += ", \"saved\": [";
    bool first = true;
    for (std::uint32_t k = 0; !freed && k < node.num_saved; ++k) {
      const Type type = node.specialization->owner->graph.type(node.specialization->saved[k].value);
      item(first);
      out_ += "\"value\": ";
      append_json_string(out_, saved_value(node, k));
      text("type", str(type));
      number("bytes", type.bytes());
      const std::uint64_t version =
          node.has_versions ? const_cast<Node&>(node).versions()[k] : Node::no_version;
      if (version != Node::no_version) number("version", version);
      out_ += '}';
    }
    out_ += str("], \"freed\": ", freed ? "true" : "false");
  }

  const detail::TapeList& list_;
  const TapeDumpOptions& options_;
  std::string out_;
};

}  // namespace

std::string to_json(std::span<const EagerOutput> roots, const TapeDumpOptions& options) {
  return TapeWriter(detail::TapeList(roots), options).write();
}

std::string to_html(std::span<const EagerOutput> roots, const TapeDumpOptions& options) {
  const std::string json =
      str(R"({"format": "tidu.view", "version": 1, "stage": "tape", "tape": )", to_json(roots, options), '}');
  return tidu::detail::view_page("tape - tidu", json);
}

}  // namespace tidu::eager
