// dot_text.hpp - text functions for all writers of Graphviz text.
#pragma once

#include <string>
#include <string_view>

namespace tidu::detail {

/// A double-quoted string; line breaks are those of labels.
std::string dot_quoted(std::string_view text);

}  // namespace tidu::detail
