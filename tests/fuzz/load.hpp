// load.hpp - properties that must hold for every text given to the loaders, and functions that damage texts.
#pragma once

#include <cstddef>
#include <random>
#include <string>
#include <string_view>

#include "tidu/graph/primitive_set.hpp"

namespace tidu::test {

/// The documented limit of the loaders: bytes allocated for each byte of the text and 1000 more.
inline constexpr double allocation_multiple = 100.0;

struct LoadReport {
  std::string complaint;   ///< the violated property; empty when there is none
  bool loaded = false;     ///< the text was a graph
  double allocated = 0.0;  ///< bytes, by the text's and 1000 more
  double seconds = 0.0;    ///< of processor time, in the loader
};

/// The text as a graph: loads, is then valid, prints, and is the same when it is dumped and loaded again; or
/// ends in a printable error of the kinds that graph_from_json documents. Within memory in proportion and a
/// second.
LoadReport load_graph(std::string_view text, const PrimitiveSet& set = standard_primitives());
/// The same of a tensor, which has no keys and no set.
LoadReport load_tensor(std::string_view text);

/// `text` with some bytes, words, numbers or pieces changed, inserted, doubled or cut.
std::string damaged(std::string text, std::mt19937_64& random);

}  // namespace tidu::test
