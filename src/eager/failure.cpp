// failure.cpp - see failure.hpp.
#include "eager/failure.hpp"

#include <typeinfo>

namespace tidu::eager::detail {

using tidu::detail::printable;
using tidu::detail::str;

void explain_failure(const Error& error, const Node& node, const char* phase) {
  std::string place;
  if (node.is_leaf()) {
    place = node.describe();
  } else {
    std::string types;
    for (const Type type : node.specialization->owner->input_types)
      types += str(types.empty() ? "" : ", ", type);
    place = str("the backward of ", printable(node.name()), '(', types, ')',
                node.file != nullptr ? str(", recorded at ", printable(node.where())) : std::string(),
                " (node ", node.sequence, ')');
  }
  const auto explained = error.with_message(str(error.what(), "\n  in ", phase, " of ", place));
  const Error& made = *explained;
  if (typeid(made) == typeid(error)) made.raise();
  throw;  // a type of the user's, which has no with_message of its own
}

}  // namespace tidu::eager::detail
