// loop_kernel.cpp - kernels that compute elements one by one: each thread a few neighbours at a time, which
// it reads and writes by accesses of up to sixteen bytes where the operand is read in the order of the
// result.
#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "cuda/kernels/kernels.hpp"
#include "cuda/kernels/packs.hpp"
#include "tidu/graph/error.hpp"

namespace tidu::cuda_detail {
namespace {

constexpr int threads = 256;

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

Argument argument(BufferRef place) {
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
  return std::any_of(body.pieces.begin(), body.pieces.end(), [&body](const Piece& piece) {
    if (piece.type.size() > most) return true;
    // Elements of what is padded may lie far apart, and most of them be cut off.
    if (piece.op && piece.op->name() == "pad") {
      const IntLists& config = piece.op->lists("padding_config");
      const Shape& from = body.pieces[piece.in[0]].type.shape();
      for (std::size_t axis = 0; axis < from.size(); ++axis) {
        const std::int64_t step = config[axis][2] + 1, last = std::max<std::int64_t>(from[axis] - 1, 0);
        if (std::abs(config[axis][0]) > most || step > most || (last != 0 && step > most / last)) return true;
      }
    }
    // Coordinates before an edge wrap around; those behind it must not.
    return std::any_of(piece.type.shape().begin(), piece.type.shape().end(),
                       [](std::int64_t extent) { return extent > most; });
  });
}

std::string operand_parameters(const Body& body) {
  std::string text;
  for (std::size_t i = 0; i < body.operands.size(); ++i) {
    text += (i == 0 ? "const " : ", const ") + std::string(memory_name(body.operands[i].dtype())) +
            "* __restrict__ p" + std::to_string(i);
  }
  return text;
}

std::uint32_t blocks_for(std::int64_t work, std::int64_t per_block, int multiprocessors) {
  const std::int64_t most = std::int64_t{16} * multiprocessors;
  return static_cast<std::uint32_t>(std::clamp<std::int64_t>((work + per_block - 1) / per_block, 1, most));
}

Plan plan_loop(const Body& body, int multiprocessors) {
  const std::int64_t count = body.pieces[body.results[0]].type.size();
  Writer writer(body);
  writer.pack_at(writer.by_place({count}, "i"));
  std::string stores;
  std::vector<std::uint32_t> results;
  for (std::uint32_t r = 0; r < body.results.size(); ++r) {
    const Piece& piece = body.pieces[body.results[r]];
    if (piece.type.size() != count)
      throw Error(ErrorKind::internal, "plan_loop: expected results of one size");
    const std::string value = writer.value(body.results[r], writer.by_place(piece.type.shape(), "i"));
    stores += "  store(y" + std::to_string(r) + ", " + value + ");\n";
    results.push_back(r);
  }
  Packs packs(body, writer.take_packed(), results);
  packs.widen({});
  packs.look_ahead(2, writer.text());

  std::string parameters = operand_parameters(body), one = "element(i";
  for (const Packs::Entry& read : packs.reads) one += ", p" + std::to_string(read.which) + "[i]";
  for (const Packs::Entry& write : packs.writes) {
    const std::string n = std::to_string(write.which);
    parameters +=
        (parameters.empty() ? "" : ", ") + std::string(memory_name(write.dtype)) + "* __restrict__ q" + n;
    one += ", q" + n + "[i]";
  }
  const std::string w = std::to_string(packs.width) + "u";
  std::string text = "typedef " + std::string(is_wide(body) ? "u64" : "u32") + " index_t;\n";
  text += "extern \"C\" __global__ void __launch_bounds__(256) ENTRY(" + parameters +
          writer.parameter_list() + ", const u64 elements) {\n" +
          packs.function("i", writer.text() + stores) + packs.alignment();
  text += "  const index_t count = (index_t)elements, whole = count / " + w + " * " + w +
          ", step = (index_t)grid_x() * 256u * " + w + ";\n";
  text += "  const index_t thread = (index_t)block_x() * 256u + thread_index();\n";
  text += packs.loop("thread * " + w, "whole", "step", "c", "");
  if (packs.width > 1) text += "  if (const index_t i = whole + thread; i < count) " + one + ");\n";
  text += "}\n";

  Launch launch;
  launch.kernel = make_kernel(name_of(body), std::move(text));
  launch.block = threads;
  // Looking ahead takes threads away only where there are enough.
  const std::int64_t accesses = (count + packs.width - 1) / packs.width;
  launch.grid[0] = std::max(blocks_for(accesses, threads * packs.ahead, 4 * multiprocessors),
                            std::min(blocks_for(accesses, threads, multiprocessors),
                                     static_cast<std::uint32_t>(8 * multiprocessors)));
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
