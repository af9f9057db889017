// loop_kernel.cpp - kernels that compute elements one by one: each thread a few neighbours at a time, which
// it reads and writes by accesses of up to sixteen bytes where the operand is read in the order of the
// result.
#include <algorithm>
#include <cstring>

#include "cuda/kernels.hpp"
#include "tidu/graph/error.hpp"

namespace tidu::cuda_detail {
namespace {

constexpr int threads = 256;

std::string number(std::int64_t value) { return std::to_string(value); }

}  // namespace

std::shared_ptr<const KernelSource> make_kernel(std::string_view name, std::string text) {
  std::uint64_t hash = 0xcbf29ce484222325U;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3U;
  std::string entry(name);
  entry += '_';
  for (int i = 0; i < 12; ++i, hash >>= 5U) entry += "0123456789abcdefghijklmnopqrstuv"[hash & 31U];
  constexpr std::string_view placeholder = "ENTRY";
  for (std::size_t at = text.find(placeholder); at != std::string::npos; at = text.find(placeholder, at))
    text.replace(at, placeholder.size(), entry);
  return std::make_shared<const KernelSource>(KernelSource{std::move(entry), std::move(text)});
}

Argument argument(Place place) {
  Argument result;
  result.place = place;
  return result;
}
Argument argument(std::int64_t value) {
  Argument result;
  result.is_place = false;
  result.bytes = sizeof value;
  std::memcpy(result.value.data(), &value, sizeof value);
  return result;
}

std::string name_of(const Body& body) {
  constexpr std::size_t most = 3;
  std::string name;
  std::size_t count = 0;
  for (const Piece& piece : body.pieces) {
    if (!piece.op || piece.op->primitive().has_trait(Trait::shape_only | Trait::constant)) continue;
    if (++count <= most) name += (name.empty() ? "" : "_") + std::string(piece.op->name());
  }
  if (name.empty() && !body.pieces.empty() && body.pieces.back().op) name = body.pieces.back().op->name();
  for (char& c : name) {
    if (c == '.' || c == '-') c = '_';
  }
  if (count > most) name += "_" + std::to_string(count);
  return name;
}

Body body_of(const PlanRequest& request) {
  Body body;
  std::vector<std::uint32_t> in;
  for (const Type type : request.in) in.push_back(body.add_operand(type));
  body.results.push_back(body.add(request.op, std::move(in), request.out[0]));
  return body;
}

bool is_wide(const Body& body) {
  constexpr std::int64_t most = 0x7fffffff;
  return std::any_of(body.pieces.begin(), body.pieces.end(), [](const Piece& piece) {
    if (piece.type.size() > most) return true;
    // Coordinates before an edge wrap around; those behind it must not.
    return std::any_of(piece.type.shape().begin(), piece.type.shape().end(),
                       [](std::int64_t extent) { return extent > most; });
  });
}

std::string operand_parameters(const Body& body) {
  std::string text;
  for (std::size_t i = 0; i < body.operands.size(); ++i) {
    text += (i == 0 ? "const " : ", const ") + std::string(memory_name(body.operands[i].dtype())) +
            "* __restrict__ p" + number(static_cast<std::int64_t>(i));
  }
  return text;
}
std::string operand_names(const Body& body) {
  std::string text;
  for (std::size_t i = 0; i < body.operands.size(); ++i)
    text += (i == 0 ? "p" : ", p") + number(static_cast<std::int64_t>(i));
  return text;
}

std::uint32_t blocks_for(std::int64_t work, std::int64_t per_block, int multiprocessors) {
  const std::int64_t most = std::int64_t{16} * multiprocessors;
  return static_cast<std::uint32_t>(std::clamp<std::int64_t>((work + per_block - 1) / per_block, 1, most));
}

Plan plan_loop(const Body& body, int multiprocessors) {
  const std::int64_t count = body.pieces[body.results[0]].type.size();
  const bool wide = is_wide(body);
  Writer writer(body);
  std::size_t largest = 1;
  std::string stores;
  for (std::size_t r = 0; r < body.results.size(); ++r) {
    const Piece& piece = body.pieces[body.results[r]];
    if (piece.type.size() != count)
      throw Error(ErrorKind::internal, "plan_loop: expected results of one size");
    const std::string value = writer.value(body.results[r], writer.by_place(piece.type.shape(), "i"));
    stores += "  store(y" + number(static_cast<std::int64_t>(r)) + ", " + value + ");\n";
    largest = std::max(largest, size_of(piece.type.dtype()));
  }
  std::vector<bool> streamed = writer.streamed();
  streamed.resize(body.operands.size());
  for (std::size_t i = 0; i < streamed.size(); ++i) {
    if (streamed[i]) largest = std::max(largest, size_of(body.operands[i].dtype()));
  }
  const auto width = static_cast<std::int64_t>(16 / largest);

  // What one element needs: operands, the index, elements read at it, results.
  const std::string parameters = operand_parameters(body), names = operand_names(body);
  const std::string comma = body.operands.empty() ? "" : ", ";
  std::string element = parameters + comma + "const index_t i", whole = parameters, call = names + comma,
              packed = names + comma, aligned_all, loads, packs, saves;
  call += "(index_t)c";
  packed += "i + k";
  for (std::size_t i = 0; i < streamed.size(); ++i) {
    if (!streamed[i]) continue;
    const std::string n = number(static_cast<std::int64_t>(i)), type(memory_name(body.operands[i].dtype()));
    element += ", const " + type + " x" + n;
    call += ", p" + n + "[c]";
    packed += ", x" + n + ".at[k]";
    aligned_all += (aligned_all.empty() ? "" : " && ") + ("aligned16(p" + n + ")");
    loads += "      const auto x" + n + " = load_pack<" + number(width) + ">(p" + n + " + i);\n";
  }
  for (std::size_t r = 0; r < body.results.size(); ++r) {
    const std::string n = number(static_cast<std::int64_t>(r)),
                      type(memory_name(body.pieces[body.results[r]].type.dtype()));
    element += ", " + type + "& y" + n;
    whole += (whole.empty() ? "" : ", ") + type + "* __restrict__ q" + n;
    call += ", q" + n + "[c]";
    packed += ", y" + n + ".at[k]";
    aligned_all += (aligned_all.empty() ? "" : " && ") + ("aligned16(q" + n + ")");
    packs += "      pack<" + type + ", " + number(width) + "> y" + n + ";\n";
    saves += "      store_pack<" + number(width) + ">(q" + n + " + i, y" + n + ");\n";
  }
  element += writer.parameter_list();
  whole += writer.parameter_list();
  call += writer.parameter_names();
  packed += writer.parameter_names();
  const std::string w = number(width);
  std::string text = "typedef " + std::string(wide ? "u64" : "u32") + " index_t;\nFN void element(" +
                     element + ") {\n" + writer.text() + stores + "}\n";
  text += "extern \"C\" __global__ void __launch_bounds__(256) ENTRY(" + whole + ", const u64 count) {\n";
  text += "  const u64 step = (u64)grid_x() * 256u, first = (u64)block_x() * 256u + thread_index();\n";
  text += "  u64 done = 0;\n";
  if (width > 1) {
    text += "  if (" + aligned_all + ") {\n    done = count / " + w + ";\n";
    text +=
        "#pragma unroll 2\n    for (u64 c = first; c < done; c += step) {\n      const index_t i = "
        "(index_t)(c * " +
        w + ");\n" + loads + packs;
    text += "#pragma unroll\n      for (index_t k = 0; k < " + w + "; ++k) element(" + packed + ");\n" +
            saves + "    }\n    done *= " + w + ";\n  }\n";
  }
  text += "  for (u64 c = done + first; c < count; c += step) element(" + call + ");\n}\n";

  Launch launch;
  launch.kernel = make_kernel(name_of(body), std::move(text));
  launch.block = threads;
  launch.grid[0] = blocks_for((count + width - 1) / width, threads, multiprocessors);
  for (std::size_t i = 0; i < body.operands.size(); ++i) launch.arguments.push_back(argument(operand(i)));
  for (std::size_t r = 0; r < body.results.size(); ++r) launch.arguments.push_back(argument(result(r)));
  for (const std::int64_t value : writer.parameters()) launch.arguments.push_back(argument(value));
  launch.arguments.push_back(argument(count));
  Plan plan;
  plan.supported = true;
  if (count > 0) plan.steps.emplace_back(std::move(launch));
  return plan;
}

}  // namespace tidu::cuda_detail
