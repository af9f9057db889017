// attribute.cpp - keys and equality of attributes; graphs are compared by structure.
#include "tidu/graph/attribute.hpp"

#include <algorithm>
#include <bit>

#include "tidu/graph/deferred_graph.hpp"
#include "tidu/graph/graph.hpp"

namespace tidu {
namespace {

Key128 mix_ints(Key128 key, const Ints& ints) {
  key = detail::mix(key, static_cast<std::uint64_t>(ints.size()));
  for (const std::int64_t value : ints) key = detail::mix(key, static_cast<std::uint64_t>(value));
  return key;
}

struct KeyOf {
  Key128 seed;
  Key128 operator()(bool value) const { return detail::mix(seed, static_cast<std::uint64_t>(value)); }
  Key128 operator()(std::int64_t value) const { return detail::mix(seed, static_cast<std::uint64_t>(value)); }
  Key128 operator()(double value) const { return detail::mix(seed, std::bit_cast<std::uint64_t>(value)); }
  Key128 operator()(const std::string& value) const { return detail::mix(seed, std::string_view(value)); }
  Key128 operator()(DType value) const { return detail::mix(seed, to_string(value)); }
  Key128 operator()(const Ints& value) const { return mix_ints(seed, value); }
  Key128 operator()(const IntLists& value) const {
    Key128 key = detail::mix(seed, static_cast<std::uint64_t>(value.size()));
    for (const Ints& ints : value) key = mix_ints(key, ints);
    return key;
  }
  Key128 operator()(const Literal& value) const { return detail::mix(seed, value.key()); }
  Key128 operator()(const std::shared_ptr<const GraphData>& value) const {
    return detail::mix(seed, Graph(value).structural_key());
  }
  Key128 operator()(const std::shared_ptr<const DeferredGraph>& value) const {
    return detail::mix(seed, value->key());
  }
  Key128 operator()(const GraphList& value) const {
    Key128 key = detail::mix(seed, static_cast<std::uint64_t>(value.size()));
    for (const auto& graph : value) key = detail::mix(key, Graph(graph).structural_key());
    return key;
  }
};

}  // namespace

Attribute::Attribute(const Graph& graph) : value_(graph.share()) {}

Key128 Attribute::key() const {
  return std::visit(KeyOf{Key128{7, static_cast<std::uint64_t>(value_.index())}}, value_);
}

bool operator==(const Attribute& a, const Attribute& b) {
  if (a.value_.index() != b.value_.index()) return false;
  if (const auto* deferred = a.get_if<std::shared_ptr<const DeferredGraph>>())
    return (*deferred)->key() == (*b.get_if<std::shared_ptr<const DeferredGraph>>())->key();
  const auto graphs = a.graphs();
  if (a.get_if<GraphList>() == nullptr && graphs.empty()) return a.value_ == b.value_;
  return std::equal(graphs.begin(), graphs.end(), b.graphs().begin(), b.graphs().end(),
                    [](const auto& x, const auto& y) { return structurally_equal(Graph(x), Graph(y)); });
}

}  // namespace tidu
