// packs.cpp - loops over packs as text.
#include "cuda/kernels/packs.hpp"

#include <algorithm>

namespace tidu::cuda_detail {
namespace {

std::string type_of(const Packs::Entry& entry) { return std::string(memory_name(entry.dtype)); }

}  // namespace

Packs::Packs(const Body& body, const std::vector<bool>& packed, const std::vector<std::uint32_t>& results) {
  for (std::uint32_t i = 0; i < packed.size(); ++i) {
    if (packed[i]) reads.push_back({i, body.operands[i].dtype()});
  }
  for (const std::uint32_t k : results) writes.push_back({k, body.pieces[body.results[k]].type.dtype()});
}

void Packs::merge(const Packs& other) {
  const auto add = [](std::vector<Entry>& to, const std::vector<Entry>& from) {
    for (const Entry& entry : from) {
      const bool known =
          std::any_of(to.begin(), to.end(), [&](const Entry& e) { return e.which == entry.which; });
      if (!known) to.push_back(entry);
    }
  };
  add(reads, other.reads);
  add(writes, other.writes);
}

void Packs::widen(std::initializer_list<std::int64_t> lengths) {
  if (reads.empty() && writes.empty()) return;
  constexpr std::int64_t most = 8;
  std::size_t largest = 1;
  for (const auto* all : {&reads, &writes}) {
    for (const Entry& entry : *all) largest = std::max(largest, size_of(entry.dtype));
  }
  width = std::min(most, static_cast<std::int64_t>(16 / largest));
  while (std::any_of(lengths.begin(), lengths.end(), [this](std::int64_t n) { return n % width != 0; }))
    width /= 2;
}

std::int64_t Packs::bytes_read() const {
  std::size_t bytes = 0;
  for (const Entry& entry : reads) bytes += size_of(entry.dtype);
  return static_cast<std::int64_t>(bytes) * width;
}

void Packs::look_ahead(std::int64_t most, const std::string& text) {
  constexpr std::int64_t bytes_of_registers = 128, max_lines = 192;
  if (reads.empty()) return;
  const std::int64_t lines = 1 + std::count(text.begin(), text.end(), '\n');
  ahead = std::max<std::int64_t>(
      1, std::min({most, bytes_of_registers / bytes_read(), max_lines / (lines * width)}));
}

std::string Packs::function(const std::string& index, const std::string& text) const {
  std::string parameters = "const index_t " + index;
  for (const Entry& read : reads)
    parameters += ", const " + type_of(read) + " x" + std::to_string(read.which);
  for (const Entry& write : writes) parameters += ", " + type_of(write) + "& y" + std::to_string(write.which);
  return "  const auto element = [&](" + parameters + ") {\n" + text + "  };\n";
}

std::string Packs::alignment() const {
  if (width == 1) return "  const bool aligned = false;\n";
  std::string all;
  for (const Entry& read : reads)
    all += (all.empty() ? "" : " && ") + ("aligned16(p" + std::to_string(read.which) + ")");
  for (const Entry& write : writes)
    all += (all.empty() ? "" : " && ") + ("aligned16(q" + std::to_string(write.which) + ")");
  return "  const bool aligned = " + all + ";\n";
}

std::string Packs::packs(std::int64_t count) const {
  std::string text;
  for (const Entry& read : reads) {
    text += "  pack<" + type_of(read) + ", " + std::to_string(width) + "> x" + std::to_string(read.which) +
            "[" + std::to_string(count) + "];\n";
  }
  return text;
}

std::string Packs::loads(const std::string& place) const {
  std::string text;
  for (const Entry& read : reads) {
    const std::string n = std::to_string(read.which);
    text +=
        "x" + n + "[j] = load_pack<" + std::to_string(width) + ">(p" + n + " + (" + place + "), aligned); ";
  }
  return text;
}

std::string Packs::computes(const std::string& index, const std::string& place,
                            const std::string& condition) const {
  const std::string w = std::to_string(width);
  std::string text, call = "element(" + index + " + k";
  for (const Entry& write : writes)
    text += "  pack<" + type_of(write) + ", " + w + "> y" + std::to_string(write.which) + ";\n";
  for (const Entry& read : reads) call += ", x" + std::to_string(read.which) + "[j].at[k]";
  for (const Entry& write : writes) call += ", y" + std::to_string(write.which) + ".at[k]";
  text += "#pragma unroll\n  for (index_t k = 0; k < " + w + "; ++k) " + call + ");\n";
  const std::string guard = condition.empty() ? "  " : "  if (" + condition + ") ";
  for (const Entry& write : writes) {
    const std::string n = std::to_string(write.which);
    text += guard + "store_pack<" + w + ">(q" + n + " + (" + place + "), y" + n + ", aligned);\n";
  }
  return text;
}

std::string Packs::loop(const std::string& first, const std::string& last, const std::string& step,
                        const std::string& place, const std::string& condition) const {
  const std::string a = std::to_string(ahead) + "u";
  const std::string each = "#pragma unroll\n  for (index_t j = 0; j < " + a +
                           "; ++j) {\n  const index_t c = at + j * (" + step + ");\n";
  std::string text =
      "  for (index_t at = " + first + "; at < " + last + "; at += (" + step + ") * " + a + ") {\n";
  if (!reads.empty()) text += packs(ahead) + each + "  if (c < " + last + ") { " + loads(place) + "}\n  }\n";
  text += each + "  if (c < " + last + ") {\n" + computes("c", place, condition) + "  }\n  }\n  }\n";
  return text;
}

}  // namespace tidu::cuda_detail
