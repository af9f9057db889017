// dump.hpp - a tape as JSON, as Graphviz text and as a page for a browser: what backward would run, what it
// holds, and for whom.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "tidu/eager/trace.hpp"

namespace tidu::eager {

/// What a dump of a tape holds.
struct TapeDumpOptions {
  bool keys = false;  ///< write the keys of leaves and roots; they differ from run to run
  /// Of a picture: how many operations are drawn, those closest to the roots; what is beyond is left out, and
  /// said so, for a picture fit to look at.
  std::size_t max_operations = 2000;
};

/// What the roots depend on, one leaf and one node a line, producers first, ids counted from 0 over leaves,
/// then nodes:
///
///     {"format": "tidu.tape", "version": 1,
///      "leaves": [
///       {"id": 0, "name": "w", "slot": true}],
///      "nodes": [
///       {"id": 1, "op": "mul", "sequence": 1, "where": "model.cpp:5", "outputs": [{"type": "f64[3]", "name":
///        "y"}], "inputs": [{"input": 0, "from": 0, "output": 0}, …], "saved": [{"value": "input 0", "type":
///        "f64[3]", "bytes": 24, "version": 1}], "freed": false}],
///      "roots": [{"from": 1, "output": 0}]}
///
/// A leaf has "slot" when gradients can be added to it. A node has "attrs" as in a graph's dump, or "graph"
/// (the structural address) and "operations" (how many) when it is an invocation of a composite graph;
/// "outputs" tell the type, the name when one was given, and "derivative": false of those that have none;
/// "inputs" those that require a gradient, by position; "device" and "stream" when they are not 0; "hooks"
/// when there are any. Of what is kept for explain() alone: "blocked": true of a node, "passive": true of an
/// input. "version" is there when the executor counts versions; a node whose operands were freed has
/// "freed": true and nothing saved. Roots without a trace are left out. No values are written, and nothing
/// that another thread may free is read. Linear, without recursion.
std::string to_json(std::span<const EagerOutput> roots, const TapeDumpOptions& options = {});

/// Text for `dot -Tsvg`: leaves are green ellipses, nodes blue boxes with what they keep (grey when it was
/// freed, dashed when no gradient flows through them), roots double circles; arrows go from producers to
/// consumers and carry types.
std::string to_dot(std::span<const EagerOutput> roots, const TapeDumpOptions& options = {});

/// One HTML file that shows what to_json tells, as tidu::to_html shows a graph: in layers, with parts that
/// repeat folded until they are asked for; with search, and with what every operation keeps and how many
/// bytes that is. The JSON is in it as `{"format": "tidu.view", "version": 1, "stage": "tape", "tape": ...}`,
/// all nodes of it.
std::string to_html(std::span<const EagerOutput> roots, const TapeDumpOptions& options = {});

}  // namespace tidu::eager
