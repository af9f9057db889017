// deferred_graph.cpp - see deferred_graph.hpp.
#include "tidu/graph/deferred_graph.hpp"

namespace tidu {

Graph DeferredGraph::get() const {
  {
    const std::lock_guard lock(mutex_);
    if (std::shared_ptr<const GraphData> made = made_.lock()) return Graph(std::move(made));
  }
  Graph made = make_();  // without the lock: it may ask for other deferred graphs, and for this one
  const std::lock_guard lock(mutex_);
  made_ = made.share();
  return made;
}

}  // namespace tidu
