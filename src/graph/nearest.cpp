// nearest.cpp - distances between names, and other systems' names for dtypes.
#include "graph/nearest.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "tidu/graph/dtype.hpp"
#include "tidu/graph/error.hpp"

namespace tidu::detail {
namespace {

constexpr std::size_t longest_name = 64;
constexpr std::size_t max_names = 3;

// Three rows of the table of optimal string alignment.
std::size_t distance(std::string_view a, std::string_view b) {
  using Row = std::array<std::size_t, longest_name + 1>;
  Row before{}, last{}, row{};
  for (std::size_t j = 0; j <= b.size(); ++j) last[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t changed = last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({changed, last[j] + 1, row[j - 1] + 1});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        row[j] = std::min(row[j], before[j - 2] + 1);
    }
    before = std::exchange(last, row);
  }
  return last[b.size()];
}

bool contains(std::string_view text, std::string_view part) {
  constexpr std::size_t shortest_part = 3;
  return part.size() >= shortest_part && text.find(part) != std::string_view::npos;
}

std::string suggestion(std::span<const std::string_view> names) {
  std::string text;
  for (const std::string_view name : names) text += str(text.empty() ? "" : ", ", printable(name));
  return text.empty() ? text : str(" (nearest: ", text, ')');
}

std::vector<std::string_view> dtype_names() {
  std::vector<std::string_view> names;
  for (std::uint8_t i = 0; i <= static_cast<std::uint8_t>(DType::c128); ++i)
    names.push_back(to_string(static_cast<DType>(i)));
  return names;
}

std::optional<std::string_view> same_dtype(std::string_view name) {
  struct Other {
    std::string_view name, ours;
  };
  static constexpr Other others[] = {
      {"float16", "f16"},     {"half", "f16"},     {"bfloat16", "bf16"}, {"float32", "f32"},
      {"float", "f32"},       {"single", "f32"},   {"float64", "f64"},   {"double", "f64"},
      {"int32", "i32"},       {"int", "i32"},      {"int64", "i64"},     {"long", "i64"},
      {"int64_t", "i64"},     {"int32_t", "i32"},  {"complex64", "c64"}, {"cfloat", "c64"},
      {"complex128", "c128"}, {"cdouble", "c128"}, {"complex", "c128"},  {"boolean", "bool"},
      {"bool_", "bool"},      {"pred", "bool"},    {"i1", "bool"},
  };
  for (const Other& other : others)
    if (other.name == name) return other.ours;
  return std::nullopt;
}

}  // namespace

std::vector<std::string_view> nearest_names(std::string_view name, std::span<const std::string_view> known) {
  if (name.empty() || name.size() > longest_name) return {};
  struct Near {
    std::size_t edits, begins_alike;
    std::string_view name;
  };
  std::vector<Near> near;
  for (const std::string_view other : known) {
    if (other.size() > longest_name) continue;
    const auto [end, other_end] = std::mismatch(name.begin(), name.end(), other.begin(), other.end());
    const bool part = contains(other, name) || contains(name, other);
    const std::size_t edits = part ? std::min<std::size_t>(distance(name, other), 1) : distance(name, other);
    if (2 * edits > name.size()) continue;
    near.push_back({edits, static_cast<std::size_t>(end - name.begin()), other});
  }
  std::stable_sort(near.begin(), near.end(), [](const Near& a, const Near& b) {
    return a.edits != b.edits ? a.edits < b.edits : a.begins_alike > b.begins_alike;
  });
  std::vector<std::string_view> names;
  for (const Near& each : near) {
    if (names.size() == max_names || each.edits > near.front().edits + 1) break;
    names.push_back(each.name);
  }
  return names;
}

std::string nearest_primitives(std::string_view name, const PrimitiveSet& set) {
  const auto& primitives = set.primitives();
  std::vector<std::string_view> known;
  known.reserve(primitives.size());
  for (const Primitive* primitive : primitives) known.push_back(primitive->name);
  return suggestion(nearest_names(name, known));
}

std::string nearest_dtype(std::string_view name) {
  if (const auto same = same_dtype(name)) return suggestion({&*same, 1});
  return suggestion(nearest_names(name, dtype_names()));
}

std::string all_dtypes() { return list(dtype_names()); }

}  // namespace tidu::detail
