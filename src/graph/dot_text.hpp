// dot_text.hpp - what every writer of Graphviz text needs.
#pragma once

#include <string>
#include <string_view>

namespace tidu::detail {

/// A double-quoted string; line breaks are those of labels.
std::string dot_quoted(std::string_view text);

}  // namespace tidu::detail
