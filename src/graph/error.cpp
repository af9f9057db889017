// error.cpp - the text of messages.
#include "tidu/graph/error.hpp"

namespace tidu::detail {

void TextPart::write_text(std::ostream& to, const void* text) { to << static_cast<const char*>(text); }

std::string text_of(std::initializer_list<TextPart> parts) {
  std::ostringstream out;
  for (const TextPart& part : parts) part.write(out);
  return std::move(out).str();
}

}  // namespace tidu::detail
