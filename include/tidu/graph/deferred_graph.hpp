// deferred_graph.hpp - a graph that is made on demand: the rule of a function whose rule calls the function
// again. Such a rule would be infinite if calls were inlined.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "tidu/graph/graph.hpp"
#include "tidu/graph/key.hpp"

namespace tidu {

/// Stands for a graph in an attribute of kind `rule`. Safe to share between threads.
class DeferredGraph {
 public:
  /// `key`: equal for deferred graphs that are the same graph, different for others. `make` may be called
  /// several times, on any thread, and has to give the same graph each time; get() throws the exceptions of
  /// `make`.
  DeferredGraph(std::string name, Key128 key, std::function<Graph()> make)
      : name_(std::move(name)), key_(key), make_(std::move(make)) {}

  const std::string& name() const { return name_; }
  const Key128& key() const { return key_; }
  /// The graph. It is kept only while another handle refers to it: the graph may hold the operation that
  /// defers it.
  Graph get() const;

 private:
  std::string name_;
  Key128 key_;
  std::function<Graph()> make_;
  mutable std::mutex mutex_;
  mutable std::weak_ptr<const GraphData> made_;
};

}  // namespace tidu
