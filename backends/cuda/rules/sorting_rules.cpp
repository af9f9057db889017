// sorting_rules.cpp - sort and top_k. Each key becomes an unsigned word in whose order it is to stand, the
// words are sorted with the places that they come from, and operands gathered from there. Of several keys,
// and of the parts of complex ones, the last is sorted by first: each sort is stable.
#include "cuda/kernels/kernels.hpp"
#include "cuda/rules/compose.hpp"
#include "cuda/rules/library_rules.hpp"

namespace tidu::cuda_detail {
namespace {

// Lines of `extent` elements, `inner` elements apart; line s starts at (s / inner) * extent * inner + s %
// inner.
struct Lines {
  std::int64_t count = 1, extent = 1, inner = 1;
};

std::uint32_t word_bytes(DType dtype) {
  return static_cast<std::uint32_t>(size_of(is_complex(dtype) ? real_dtype(dtype) : dtype));
}

// Words in ascending order for floating numbers by their bits: NaN is last, and -0 the same as 0 unless zeros
// are signed.
constexpr const char* float_words = R"(
FN u32 word32(u32 bits, u32 infinity) {
  const u32 magnitude = bits & 0x7fffffffu;
  if (magnitude > infinity) return 0xffffffffu;
  if (magnitude == 0 && !SIGNED_ZEROS) return 0x80000000u;
  return (bits >> 31) != 0 ? ~bits : bits | 0x80000000u;
}
FN u64 word64(u64 bits) {
  const u64 magnitude = bits & 0x7fffffffffffffffull;
  if (magnitude > 0x7ff0000000000000ull) return 0xffffffffffffffffull;
  if (magnitude == 0 && !SIGNED_ZEROS) return 0x8000000000000000ull;
  return (bits >> 63) != 0 ? ~bits : bits | 0x8000000000000000ull;
}
FN u8 word(boolean x) { return x.byte != 0 ? 1 : 0; }
FN u32 word(i32 x) { return (u32)x ^ 0x80000000u; }
FN u64 word(i64 x) { return (u64)x ^ 0x8000000000000000ull; }
FN u16 word(f16 x) { return (u16)(word32((u32)x.bits << 16, 0x7c000000u) >> 16); }
FN u16 word(bf16 x) { return (u16)(word32((u32)x.bits << 16, 0x7f800000u) >> 16); }
FN u32 word(f32 x) { return word32(float_bits(x), 0x7f800000u); }
FN u64 word(f64 x) { return word64(double_bits(x)); }
)";

std::string_view word_name(std::uint32_t bytes) {
  return bytes == 1 ? "u8" : bytes == 2 ? "u16" : bytes == 4 ? "u32" : "u64";
}

// Words of what stands at places `order` of each line, or of all of it in order, and those places.
// `parts`: numbers in an element, of which the key is the one at `keys`.
void append_words(Plan& plan, DType dtype, const Lines& lines, BufferRef keys, int parts, bool descending,
                  const BufferRef* order, BufferRef words, BufferRef places, const PlanRequest& like) {
  const std::string word(word_name(word_bytes(dtype)));
  std::string text = std::string("#define SIGNED_ZEROS ") + (descending ? "true" : "false") + float_words;
  text += elements_begin("const " + std::string(memory_name(real_dtype(dtype))) + "* __restrict__ x, " +
                         (order != nullptr ? "const u32* __restrict__ order, " : "") + word +
                         "* __restrict__ words, u32* __restrict__ places, const u64 extent, const u64 inner");
  text += "    const u64 line = at / extent, i = at % extent;\n";
  text += order != nullptr ? "    const u32 place = order[at];\n" : "    const u32 place = (u32)i;\n";
  text += "    const u64 from = (line / inner * extent + place) * inner + line % inner;\n";
  text += "    words[at] = (" + word + ")" + (descending ? "~" : "") + "word(x[from * " +
          std::to_string(parts) + "u]);\n    places[at] = place;\n  }\n}\n";
  std::vector<Argument> arguments{argument(keys)};
  if (order != nullptr) arguments.push_back(argument(*order));
  for (const Argument& more :
       {argument(words), argument(places), argument(lines.extent), argument(lines.inner)})
    arguments.push_back(more);
  plan.steps.emplace_back(launch_elements("sort_words", text, lines.count * lines.extent,
                                          std::move(arguments), like.multiprocessors));
}

// The first `kept` elements of each line of the operand in order, and their places as i32 where these are
// wanted.
void append_gather(Plan& plan, DType dtype, const Lines& lines, std::int64_t kept, BufferRef from,
                   BufferRef order, BufferRef to, const BufferRef* places, const PlanRequest& like) {
  const std::string type(memory_name(dtype));
  std::string text =
      elements_begin("const " + type + "* __restrict__ x, const u32* __restrict__ order, " + type +
                     "* __restrict__ y, " + (places != nullptr ? "i32* __restrict__ places, " : "") +
                     "const u64 extent, const u64 inner, const u64 kept");
  text += R"(
    const u64 lane = at % inner, rest = at / inner, i = rest % kept, outer = rest / kept;
    const u32 place = order[(outer * inner + lane) * extent + i];
    y[at] = x[(outer * extent + place) * inner + lane];
)";
  if (places != nullptr) text += "    places[at] = (i32)place;\n";
  text += "  }\n}\n";
  std::vector<Argument> arguments{argument(from), argument(order), argument(to)};
  if (places != nullptr) arguments.push_back(argument(*places));
  for (const std::int64_t number : {lines.extent, lines.inner, kept}) arguments.push_back(argument(number));
  plan.steps.emplace_back(
      launch_elements("sort_gather", text, lines.count * kept, std::move(arguments), like.multiprocessors));
}

struct Key {
  DType dtype;
  BufferRef at;
  int parts = 1;
};

// Places of elements in order; all keys have these lines.
BufferRef append_sorts(Plan& plan, const std::vector<Key>& keys, const Lines& lines, bool descending,
                       const PlanRequest& like) {
  const auto count = static_cast<std::size_t>(lines.count * lines.extent);
  std::uint32_t widest = 1;
  for (const Key& key : keys) widest = std::max(widest, word_bytes(key.dtype));
  const BufferRef words = take_scratch(plan, count * widest), words_out = take_scratch(plan, count * widest);
  const BufferRef places = take_scratch(plan, count * 4), order = take_scratch(plan, count * 4);
  SortStep step;
  step.segments = lines.count;
  step.length = lines.extent;
  step.keys = words;
  step.values = places;
  step.keys_out = words_out;
  step.values_out = order;
  // The library's own copies of keys and values, and its counts.
  step.workspace_bytes = aligned(count * (widest + 4U) + count / 4 + (std::size_t{4} << 20));
  step.workspace = take_scratch(plan, step.workspace_bytes);
  for (std::size_t i = keys.size(); i-- > 0;) {
    const bool first = i + 1 == keys.size();
    append_words(plan, keys[i].dtype, lines, keys[i].at, keys[i].parts, descending, first ? nullptr : &order,
                 words, places, like);
    step.key_bytes = word_bytes(keys[i].dtype);
    append_sort(plan, step);
  }
  return order;
}

constexpr std::int64_t longest = 0x7fffffff;

Plan sort(const PlanRequest& request) {
  Plan plan;
  const Type x = request.in[0];
  const auto axis = static_cast<std::size_t>(request.op.integer("dimension"));
  Lines lines;
  lines.extent = x.dim(axis);
  for (std::size_t k = axis + 1; k < x.rank(); ++k) lines.inner *= x.dim(k);
  lines.count = x.size() / lines.extent;
  plan.supported = lines.extent <= longest;
  std::vector<Key> keys;
  for (std::size_t i = 0; i < static_cast<std::size_t>(request.op.integer("num_keys")); ++i) {
    const DType dtype = request.in[i].dtype();
    const bool complex = is_complex(dtype);
    keys.push_back({dtype, operand(i), complex ? 2 : 1});
    if (complex) keys.push_back({dtype, operand(i, size_of(dtype) / 2), 2});
  }
  const BufferRef order = append_sorts(plan, keys, lines, false, request);
  for (std::size_t i = 0; i < request.in.size(); ++i)
    append_gather(plan, request.in[i].dtype(), lines, lines.extent, operand(i), order, result(i), nullptr,
                  request);
  return plan;
}

Plan top_k(const PlanRequest& request) {
  Plan plan;
  const Type x = request.in[0];
  Lines lines;
  lines.extent = x.shape().back();
  lines.count = x.size() / lines.extent;
  plan.supported = lines.extent <= longest;
  const BufferRef order = append_sorts(plan, {{x.dtype(), operand(0)}}, lines, true, request);
  const BufferRef places = result(1);
  append_gather(plan, x.dtype(), lines, request.op.integer("k"), operand(0), order, result(0), &places,
                request);
  return plan;
}

constexpr RuleEntry entries[] = {
    {"sort", sort, dtypes::all},
    {"top_k", top_k, dtypes::booleans | dtypes::integers | dtypes::floats},
};

}  // namespace

RuleTable sorting_rules() { return entries; }

}  // namespace tidu::cuda_detail
