// json_write.cpp - graphs as JSON text, format version 1. The outermost graph has one value and one operation
// a line. A graph in an attribute has the same form on one line, unless a caller writes it. Deferred graphs
// are written once each, by name, after the rest of the outermost one.
#include <limits>
#include <map>
#include <numeric>
#include <set>

#include "graph/in_all.hpp"
#include "graph/json_attributes.hpp"
#include "graph/json_write.hpp"
#include "tidu/graph/deferred_graph.hpp"
#include "tidu/graph/error.hpp"
#include "tidu/graph/json.hpp"

namespace tidu {
namespace {

using detail::append_json_integer;
using detail::append_json_string;

// The deferred graphs of a dump, in the order in which they were met.
class DeferredGraphs {
 public:
  // A unique name for each graph, by default the graph's own name.
  std::string name(const DeferredGraph& graph) {
    const auto [at, added] = names_.try_emplace(graph.key());
    if (!added) return at->second;
    if (names_.size() > max_named_in_dump) {
      throw Error(ErrorKind::dump,
                  detail::str("to_json: expected rules that refer to at most ", max_named_in_dump,
                              " graphs, got more: ", detail::in_quotes(graph.name()),
                              " is the rule of a function that each rule makes anew"));
    }
    std::string name = graph.name();
    for (int k = 2; !taken_.insert(name).second; ++k) name = detail::str(graph.name(), '.', k);
    at->second = name;
    graphs_.emplace_back(name, graph.get());
    return name;
  }
  std::size_t size() const { return graphs_.size(); }
  const std::pair<std::string, Graph>& operator[](std::size_t i) const { return graphs_[i]; }

 private:
  static constexpr std::size_t max_named_in_dump = 256;
  std::map<Key128, std::string> names_;
  std::set<std::string> taken_;
  std::vector<std::pair<std::string, Graph>> graphs_;
};

class Writer {
 public:
  Writer(std::string& out, const Graph& graph, DumpOptions options, std::uint32_t level,
         DeferredGraphs* deferred)
      : out_(out),
        graph_(graph),
        data_(graph.data()),
        options_(options),
        level_(level),
        deferred_(deferred) {}
  Writer(std::string& out, const Graph& graph, DumpOptions options, const detail::WriteGraph& nested,
         std::int64_t max_elements)
      : Writer(out, graph, options, 0, nullptr) {
    nested_ = &nested;
    max_elements_ = max_elements;
  }

  void write() {
    out_ += "{\"format\": \"tidu.graph\", \"version\": 1, \"name\": ";
    append_json_string(out_, graph_.name());
    values();
    member("inputs");
    ids(graph_.inputs());
    if (!graph_.externals().empty()) externals();
    operations();
    member("outputs");
    ids(graph_.outputs());
    if (level_ == 0 && deferred_ != nullptr) named_graphs();
    out_ += '}';
  }

 private:
  // Writing one may add others.
  void named_graphs() {
    if (deferred_->size() == 0) return;
    member("graphs");
    out_ += '{';
    for (std::size_t i = 0; i < deferred_->size(); ++i) {
      const auto [name, graph] = (*deferred_)[i];
      next_item(i == 0);
      append_json_string(out_, name);
      out_ += ": ";
      Writer(out_, graph, options_, 1, deferred_).write();
    }
    out_ += '}';
  }

  void member(std::string_view name) {
    out_ += level_ == 0 ? ",\n \"" : ", \"";
    out_ += name;
    out_ += "\": ";
  }
  void next_item(bool first) {
    if (level_ == 0) {
      out_ += first ? "\n  " : ",\n  ";
    } else if (!first) {
      out_ += ", ";
    }
  }
  void text_member(std::string_view name, std::string_view text) {
    out_ += ", \"";
    out_ += name;
    out_ += "\": ";
    append_json_string(out_, text);
  }
  ValueId dump_id(ValueId value) const { return data_.dump_ids.empty() ? value : data_.dump_ids[value]; }
  void ids(std::span<const ValueId> values) {
    out_ += '[';
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (i != 0) out_ += ", ";
      append_json_integer(out_, dump_id(values[i]));
    }
    out_ += ']';
  }

  void values() {
    std::vector<ValueId> order(graph_.num_values());
    for (ValueId value = 0; value < order.size(); ++value) order[dump_id(value)] = value;
    std::vector<const InputKey*> keys;
    if (!data_.inputs.empty()) keys.resize(order.size());
    for (std::size_t i = 0; i < data_.inputs.size(); ++i) keys[data_.inputs[i]] = &data_.input_keys[i];
    member("values");
    out_ += '[';
    for (ValueId id = 0; id < order.size(); ++id) {
      const ValueId value = order[id];
      const Type type = graph_.type(value);
      next_item(id == 0);
      out_ += "{\"id\": ";
      append_json_integer(out_, id);
      text_member("dtype", to_string(type.dtype()));
      out_ += ", \"shape\": [";
      for (std::size_t axis = 0; axis < type.rank(); ++axis) {
        if (axis != 0) out_ += ", ";
        append_json_integer(out_, type.dim(axis));
      }
      out_ += ']';
      const std::string_view label = graph_.label(value);
      if (!label.empty()) text_member("name", label);
      const InputKey* key = keys.empty() ? nullptr : keys[value];
      if (key != nullptr && !(key->is_named() && InputKey::named(label) == *key && detail::is_utf8(label)))
        text_member("input_key", to_hex(key->bits()));
      if (options_.keys) text_member("key", to_hex(graph_.key(value)));
      out_ += '}';
    }
    out_ += ']';
  }

  void externals() {
    member("externals");
    out_ += '[';
    for (std::size_t i = 0; i < graph_.externals().size(); ++i) {
      const ValueId value = graph_.externals()[i];
      out_ += i == 0 ? "{\"id\": " : ", {\"id\": ";
      append_json_integer(out_, dump_id(value));
      text_member("key", to_hex(graph_.key(value)));
      out_ += '}';
    }
    out_ += ']';
  }

  void operations() {
    const detail::WriteGraph within = [this](std::string& out, const Graph& graph) {
      if (level_ == max_graph_depth) {
        throw Error(ErrorKind::dump, detail::str("expected graphs nested at most ", max_graph_depth,
                                                 " deep, got ", detail::in_quotes(graph.name()), " deeper"));
      }
      Writer(out, graph, options_, level_ + 1, deferred_).write();
    };
    const detail::NameDeferred named = [this](const DeferredGraph& graph) {
      return deferred_ == nullptr ? graph.name() : deferred_->name(graph);
    };
    std::vector<ValueId> results;
    member("operations");
    out_ += '[';
    for (std::uint32_t i = 0; i < graph_.num_operations(); ++i) {
      const Operation operation = graph_.operation(i);
      next_item(i == 0);
      out_ += "{\"op\": ";
      append_json_string(out_, operation.name());
      out_ += ", \"inputs\": ";
      ids(operation.inputs());
      out_ += ", \"outputs\": ";
      results.resize(operation.num_outputs());
      std::iota(results.begin(), results.end(), operation.output());
      ids(results);
      if (!operation.record().op->attributes.empty()) {
        detail::append_attributes(out_, ", \"attrs\": ", *operation.record().op,
                                  nested_ != nullptr ? *nested_ : within, max_elements_, named);
      }
      if (operation.is_linear()) role(operation);
      if (operation.origin() < graph_.num_operations()) {
        out_ += ", \"origin\": ";
        append_json_integer(out_, operation.origin());
      }
      if (!operation.where().empty()) text_member("where", operation.where());
      out_ += '}';
    }
    out_ += ']';
  }

  void role(const Operation& operation) {
    out_ += ", \"role\": {\"linear\": [";
    for (std::size_t i = 0; i < operation.num_inputs(); ++i) {
      if (i != 0) out_ += ", ";
      out_ += operation.is_linear_in(i) ? "true" : "false";
    }
    out_ += "]}";
  }

  std::string& out_;
  const Graph& graph_;
  const GraphData& data_;
  DumpOptions options_;
  std::uint32_t level_;
  DeferredGraphs* deferred_;                    // of the outermost graph, or null: by their own names
  const detail::WriteGraph* nested_ = nullptr;  // of the caller, or null: as a dump in the dump
  std::int64_t max_elements_ = std::numeric_limits<std::int64_t>::max();
};

// Values, operations and elements of tensors of the graph alone.
std::size_t items(const Graph& graph) {
  std::size_t count = detail::saturating_sum(graph.num_values(), graph.num_operations());
  for (const OperationRecord& record : graph.data().operations) {
    for (const auto& [name, value] : record.op->attributes) {
      if (const auto* tensor = value.get_if<Literal>())
        count = detail::saturating_sum(count, static_cast<std::size_t>(tensor->type().size()));
    }
  }
  return count;
}

// A graph that occurs several times is written each time: in a chain of graphs, each of which holds the one
// before twice, the text would double with each.
void refuse_more_repeated(const Graph& graph) {
  if (graph.data().depth == 1) return;
  detail::InAll counts(items);
  const std::size_t all = counts.of(graph);
  if (all - counts.distinct() <= max_repeated_in_dump) return;
  throw Error(ErrorKind::invalid_argument,
              detail::str("to_json: expected graphs that stand in several places to repeat at most ",
                          max_repeated_in_dump, " values, operations and elements of tensors, got more in ",
                          detail::in_quotes(graph.name())));
}

}  // namespace

void detail::append_graph_json(std::string& out, const Graph& graph, DumpOptions options,
                               const WriteGraph& nested, std::int64_t max_elements) {
  Writer(out, graph, options, nested, max_elements).write();
}

std::string to_json(const Graph& graph, DumpOptions options) {
  refuse_more_repeated(graph);
  std::string out;
  out.reserve(128 + graph.num_values() * 48 + graph.num_operations() * 56);
  DeferredGraphs deferred;
  Writer(out, graph, options, 0, &deferred).write();
  out += '\n';
  return out;
}

}  // namespace tidu
