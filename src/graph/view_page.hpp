// view_page.hpp - the page in which a browser shows a graph or a tape.
#pragma once

#include <string>
#include <string_view>

namespace tidu::detail {

/// The page of src/graph/view with a title and its JSON. Both are escaped: no character of them can end the
/// element that contains it.
std::string view_page(std::string_view title, std::string_view json);

}  // namespace tidu::detail
