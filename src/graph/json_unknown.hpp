// json_unknown.hpp - unknown names in a dump. The loader stops at the first one, throwing an UnknownName;
// graph_from_json adds the list of all of them, so that the message on a dump of another version or primitive
// set is complete.
#pragma once

#include <string>

#include "graph/json_tape.hpp"
#include "tidu/graph/error.hpp"
#include "tidu/graph/primitive_set.hpp"

namespace tidu::detail {

/// Within the loaders only: an Error of a primitive or dtype of that name.
class UnknownName final : public Error {
 public:
  using Error::Error;
  std::shared_ptr<Error> with_message(const std::string& message) const override {
    return std::make_shared<UnknownName>(kind(), message);
  }
  [[noreturn]] void raise() const override { throw UnknownName(*this); }
};

/// "\n  all unknown names of the dump:" and a line for each, where there are several, in the order of the
/// text; else nothing. Graphs in attributes are searched as well.
std::string all_unknown_names(const JsonTape& tape, const PrimitiveSet& set);

/// The dtype of that name. `what` names the member; throws UnknownName (dump).
DType expect_dtype(const JsonTape& tape, JsonTape::Index node, std::string_view what);

}  // namespace tidu::detail
