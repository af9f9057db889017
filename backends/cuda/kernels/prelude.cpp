// prelude.cpp - which parts of the prelude a kernel needs.
#include "cuda/kernels/prelude.hpp"

#include <array>

namespace tidu::cuda_detail {

// Made by cmake/TiduEmbed.cmake of the files of prelude/.
extern const unsigned char prelude_types_bytes[], prelude_functions_bytes[], prelude_monoids_bytes[],
    prelude_complex_bytes[], prelude_special_bytes[];
extern const std::size_t prelude_types_size, prelude_functions_size, prelude_monoids_size,
    prelude_complex_size, prelude_special_size;

namespace {

std::string_view text_of(const unsigned char* bytes, std::size_t size) {
  return {reinterpret_cast<const char*>(bytes), size};
}

enum Part : std::size_t { types, functions, monoids, complex_numbers, special_functions, num_parts };

}  // namespace

std::span<const std::string_view> prelude_parts() {
  static const std::array<std::string_view, num_parts> parts{
      text_of(prelude_types_bytes, prelude_types_size),
      text_of(prelude_functions_bytes, prelude_functions_size),
      text_of(prelude_monoids_bytes, prelude_monoids_size),
      text_of(prelude_complex_bytes, prelude_complex_size),
      text_of(prelude_special_bytes, prelude_special_size)};
  return parts;
}

std::string with_prelude(const KernelSource& kernel) {
  const auto names = [&kernel](std::string_view word) { return kernel.text.find(word) != std::string::npos; };
  const std::span<const std::string_view> parts = prelude_parts();
  std::string text;
  for (const Part part : {types, functions, monoids}) text += parts[part];
  if (names("c64") || names("c128")) text += parts[complex_numbers];
  if (names("special::")) text += parts[special_functions];
  text += kernel.text;
  return text;
}

}  // namespace tidu::cuda_detail
