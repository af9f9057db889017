// view_page.cpp - fills the page that the build has assembled from src/graph/view (see module.cmake).
#include "graph/view_page.hpp"

#include <algorithm>
#include <cstddef>

#include "graph/json_attributes.hpp"
#include "tidu/graph/error.hpp"

namespace tidu::detail {

// Made by cmake/TiduEmbed.cmake; the bytes of the page, in which two marks stand for the variable parts.
extern const unsigned char view_page_bytes[];
extern const std::size_t view_page_size;

namespace {

constexpr std::string_view title_mark = "@TITLE@", data_mark = "@DATA@";

void append_text(std::string& out, std::string_view text) {
  for (const char c : text) {
    switch (c) {
      case '&': out += "&amp;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '"': out += "&quot;"; break;
      default: out += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
    }
  }
}

// In JSON a '<' can stand in strings alone, where \u003c is the same; without it no element ends or begins.
void append_data(std::string& out, std::string_view json) {
  for (std::size_t from = 0; from < json.size();) {
    const std::size_t to = std::min(json.find('<', from), json.size());
    out += json.substr(from, to - from);
    if (to < json.size()) out += "\\u003c";
    from = to + 1;
  }
}

}  // namespace

std::string view_page(std::string_view title, std::string_view json) {
  const std::string_view page(reinterpret_cast<const char*>(view_page_bytes), view_page_size);
  const std::size_t title_at = page.find(title_mark), data_at = page.find(data_mark);
  if (title_at == page.npos || data_at == page.npos || data_at < title_at)
    throw Error(ErrorKind::internal, "expected a page with a title and then data, got another");
  const std::size_t after_title = title_at + title_mark.size(), after_data = data_at + data_mark.size();
  std::string out;
  out.reserve(page.size() + title.size() + json.size() + json.size() / 64);
  out += page.substr(0, title_at);
  append_text(out, replaced_utf8(title));
  out += page.substr(after_title, data_at - after_title);
  append_data(out, json);
  out += page.substr(after_data);
  return out;
}

}  // namespace tidu::detail
