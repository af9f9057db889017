// dump.hpp - a tape as JSON, as Graphviz text and as a page for a browser: the operations that backward would
// run, and the values that each one keeps.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "tidu/eager/trace.hpp"

namespace tidu::eager {

/// Options of a dump of a tape.
struct TapeDumpOptions {
  bool keys = false;  ///< write the keys of leaves and roots; they differ from run to run
  /// Operations that a picture shows, those closest to the roots; the rest is omitted, with a note, to keep
  /// the picture readable.
  std::size_t max_operations = 2000;
};

/// The part of the tape that the roots depend on, one leaf and one node a line, producers first, ids counted
/// from 0 over leaves, then nodes:
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
/// A leaf has "slot" when gradients can be added to it. A node has "attrs" as in a graph's dump. A node that
/// is an invocation of a composite graph has "graph" (the structural address) and "operations" (their number)
/// instead. "outputs" have a type, a name if one was given, and "derivative": false if they have none.
/// "inputs" lists those that require a gradient, by position. "device" and "stream" are there when they are
/// not 0, "hooks" when there are any. Nodes and inputs that are kept for explain() alone have "blocked": true
/// and "passive": true. "version" is there when the executor counts versions. A node whose operands were
/// freed has "freed": true and nothing saved. Roots without a trace are left out. The dump contains no
/// values, and does not read memory that another thread may free. Linear, without recursion.
std::string to_json(std::span<const EagerOutput> roots, const TapeDumpOptions& options = {});

/// Text for `dot -Tsvg`. Leaves are green ellipses, roots double circles. Nodes are blue boxes with their
/// saved values, grey if these were freed, dashed if no gradient flows through them. Arrows go from producers
/// to consumers and carry types.
std::string to_dot(std::span<const EagerOutput> roots, const TapeDumpOptions& options = {});

/// One HTML file with the information of to_json, in the form of tidu::to_html: in layers, with repeated
/// parts collapsed at first, with search, and with the saved values of every operation and their bytes. It
/// holds the JSON as `{"format": "tidu.view", "version": 1, "stage": "tape", "tape": ...}`, all nodes of it.
std::string to_html(std::span<const EagerOutput> roots, const TapeDumpOptions& options = {});

}  // namespace tidu::eager
