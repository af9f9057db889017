// loop_blocks.cpp - the length of the blocks of a loop, and an estimate of the memory traffic that it saves.
#include <algorithm>
#include <memory>
#include <string_view>
#include <unordered_set>

#include "cpu/cpu_target.hpp"
#include "cpu/is_any_of.hpp"
#include "cpu/schedule/chunks.hpp"
#include "cpu/schedule/fusion_limits.hpp"
#include "cpu/schedule/loops.hpp"
#include "cpu/schedule/multiplications.hpp"
#include "tidu/primitives/elementwise.hpp"
#include "tidu/primitives/structural.hpp"

namespace tidu::passes {
namespace {

// Elements for one point from which on blocks of one point are worth the steps between them.
constexpr std::int64_t longest_point = 256;
// Points of a block whose rows one row fusion processes.
constexpr std::int64_t rows_of_block = 32;

// What is cut, by bytes for each point of the axis, and what is not.
struct Traffic {
  std::size_t within = 0;    // made and read in the loop, of all points
  std::size_t boundary = 0;  // read from memory or left there, of all points
  std::size_t sums = 0;      // read and written for each block
  std::size_t whole = 0;     // of what is read whole, and so in each block
  std::size_t packed = 0;    // of `boundary`, what is copied because its parts are not contiguous
  std::size_t line = std::size_t{1} << 32;  // bytes of one point that lie side by side there, at least
  std::int64_t longest = 0;                 // elements for one point, of what is made
  double work = 0;                          // of matmuls: bytes that could be moved in their time
  bool matmuls = false;
  std::int64_t thinnest = std::int64_t{1} << 32;  // fewest rows or terms of a matmul for one point
  bool structure = false;                         // is there an operation that a fusion cannot contain?
};

// The work of matmuls, by operation of a graph whose axes are classified.
class MatmulCosts {
 public:
  MatmulCosts(const Graph& graph, const AxisClasses& classes) : graph_(graph), classes_(classes) {}

  double terms_of(std::uint32_t operation) const {
    const auto made = static_cast<double>(graph_.type(graph_.operation(operation).output()).size());
    return multiplications_of(operation) / std::max(made, 1.0);
  }
  // A core multiplies and adds some 25 times in f64, and 50 times in f32, while it moves 10 bytes.
  double work_of(std::uint32_t operation) const {
    const DType dtype = graph_.type(graph_.operation(operation).output()).dtype();
    return multiplications_of(operation) * (size_of(dtype) >= 8 ? 0.4 : 0.2);
  }
  // The number of rows, columns or terms of a matmul that belong to one point of the loop: the product of the
  // extents of the factors that occur in the same operands as the chosen one, and are summed like it. A
  // matmul for each point counts as 2^32.
  std::int64_t rows_of_point(std::uint32_t operation, std::uint32_t chosen) const {
    const OperationRecord& record = graph_.data().operations[operation];
    const AxisClasses::Factor point = classes_.factor(operation, chosen);
    const auto sum = [](const AxisClasses::Factor& factor) {
      return factor.of_result() == BlockedLoop::none;
    };
    bool everywhere = !sum(point);
    for (std::uint32_t k = 0; k < record.num_inputs; ++k)
      everywhere = everywhere && point.of_operand(k) != BlockedLoop::none;
    if (everywhere) return std::int64_t{1} << 32;
    std::int64_t rows = 1;
    for (std::uint32_t f = 0; f < classes_.num_factors(operation); ++f) {
      const AxisClasses::Factor factor = classes_.factor(operation, f);
      bool same = f != chosen && sum(factor) == sum(point);
      std::int64_t extent = 1;
      for (std::uint32_t k = 0; k < record.num_inputs; ++k) {
        const int axis = factor.of_operand(k);
        same = same && (axis == BlockedLoop::none) == (point.of_operand(k) == BlockedLoop::none);
        if (axis != BlockedLoop::none)
          extent =
              graph_.type(graph_.data().operands[record.first_input + k]).dim(static_cast<std::size_t>(axis));
      }
      if (same) rows *= extent;
    }
    return rows;
  }

 private:
  double multiplications_of(std::uint32_t operation) const {
    const Operation matmul = graph_.operation(operation);
    std::vector<Type> operands;
    for (const ValueId id : matmul.inputs()) operands.push_back(graph_.type(id));
    return multiplications(matmul.op(), operands, graph_.type(matmul.output()));
  }

  const Graph& graph_;
  const AxisClasses& classes_;
};

class LoopBuilder {
 public:
  LoopBuilder(const LoopContext& context, const std::vector<std::uint32_t>& operations)
      : c_(context),
        g_(context.graph.data()),
        costs_(context.graph, context.classes),
        operations_(operations) {}

  /// Bytes spared, estimated; 0 where there is no gain.
  double estimate() {
    if (c_.options.loop_bytes > 0 && is_update()) return 0;
    find_heavy();
    find_results(loop_);
    if (!traffic_.structure || traffic_.within == 0 || traffic_.within < c_.options.loop_bytes ||
        loop_.results.empty())
      return 0;
    loop_.block = choose_block();
    if (loop_.block == 0) return 0;
    return c_.options.loop_bytes == 0 ? std::max(gain_, 1.0) : gain_;
  }
  BlockedLoop make() {
    if (estimate() == 0) return {};
    BlockedLoop loop = std::move(loop_);
    loop.extent = c_.roles.extent;
    loop.num_operations = static_cast<std::uint32_t>(operations_.size());
    if (loop.block == 1 && target_ == 0 && c_.options.fuse && make_of_rows(loop))
      return spares_nothing(loop) ? BlockedLoop() : loop;
    const std::int64_t first = loop.block;
    loop.body = program(loop, first);
    if (spares_nothing(loop)) return {};
    if (target_ == 0) {
      lengthen(loop);
      return loop;
    }
    // The plan of a block tells what is alive at once; the first choice took it to be a part of everything.
    const double ends = static_cast<double>(traffic_.boundary) * static_cast<double>(loop.block) /
                        static_cast<double>(loop.extent);
    const std::int64_t better =
        fitted(loop.block, loop.body->workspace_bytes() + static_cast<std::size_t>(ends));
    if (better >= loop.extent) {
      if (c_.options.loop_bytes > 0) return {};  // there is little to spare
    } else if (better * 4 < loop.block * 3 || better * 3 > loop.block * 4) {
      loop.block = better;
    }
    loop.block = shared(loop.block);
    if (loop.block != first) loop.body = program(loop, loop.block);
    if (loop.extent % loop.block != 0) loop.rest = program(loop, loop.extent % loop.block);
    return loop;
  }

 private:
  // Is there only one block, or only one fusion, which needs no loop?
  bool spares_nothing(const BlockedLoop& loop) const {
    const std::vector<ScheduleNode>& nodes = loop.body->schedule().nodes;
    const bool one_fusion = num_steps(*loop.body) == 1 && nodes[0].kind == NodeKind::fusion;
    return c_.options.loop_bytes > 0 && (loop.block == loop.extent || one_fusion);
  }
  // Chooses blocks of several points, if no value of the points' size remains in memory between row fusions.
  bool make_of_rows(BlockedLoop& loop) {
    constexpr std::int64_t element = 4;
    loop.block = std::min(rows_of_block, loop.extent);
    loop.body = program(loop, loop.block);
    const std::int64_t array = loop.block * traffic_.longest * element;
    if (loop.body->workspace_bytes() >= static_cast<std::size_t>(array)) {
      loop.block = 1;
      return false;
    }
    if (loop.extent % loop.block != 0) loop.rest = program(loop, loop.extent % loop.block);
    return true;
  }
  static std::size_t num_steps(const Program& program) {
    const std::vector<ScheduleNode>& nodes = program.schedule().nodes;
    std::size_t count = 0;
    for (std::size_t i = 0; i < nodes.size(); i += nodes[i].size) ++count;
    return count;
  }
  // Lengthens blocks of one point to several points, if that takes no more steps than one point.
  void lengthen(BlockedLoop& loop) {
    if (!c_.options.fuse || c_.options.loop_bytes == 0) return;
    const std::int64_t block = even(points_in(c_.options.block_bytes));
    if (block < 2 || block >= loop.extent) return;
    BlockedLoop longer = loop;
    longer.block = block;
    longer.body = program(longer, block);
    if (num_steps(*longer.body) > num_steps(*loop.body)) return;
    loop = std::move(longer);
    if (loop.extent % block != 0) loop.rest = program(loop, loop.extent % block);
  }
  // Is it a matmul whose only reader adds a multiple of it to something, or subtracts it? One step can do
  // both: it does not write the matmul, and may write the sum over its operand.
  bool is_update() const {
    constexpr double max_terms = 256;  // as in cpu/matmul/gemm.hpp
    if (operations_.size() != 3) return false;
    const auto primitive = [&](std::size_t i) -> const Primitive& {
      return *g_.operations[operations_[i]].op->primitive;
    };
    return primitive(0).has_trait(Trait::contraction) && is_any_of(primitive(1), prim::mul) &&
           is_any_of(primitive(2), prim::add, prim::sub) && costs_.terms_of(operations_[0]) <= max_terms;
  }
  void add_packed(ValueId id, int axis) {
    const Type type = c_.graph.type(id);
    std::int64_t outer = 1, inner = 1;
    for (int i = 0; i < axis; ++i) outer *= type.dim(static_cast<std::size_t>(i));
    if (outer == 1 || axis < 0) return;
    for (auto i = static_cast<std::size_t>(axis) + 1; i < type.rank(); ++i) inner *= type.dim(i);
    traffic_.packed += type.bytes();
    traffic_.line = std::min(traffic_.line, static_cast<std::size_t>(inner) * size_of(type.dtype()));
  }
  // The cost of packing, in bytes moved: short lines take as long as longer ones.
  double packing(std::int64_t block) const {
    constexpr double whole_line = 256;
    const double line = static_cast<double>(traffic_.line) * static_cast<double>(block);
    return static_cast<double>(traffic_.packed) * std::max(1.0, whole_line / std::max(line, 1.0));
  }
  // An array that operations other than matmuls read whole is read once. Rematerializable operations are
  // computed from it in each block.
  void read_whole(ValueId operand) {
    std::vector<ValueId> waiting{operand};
    while (!waiting.empty()) {
      const ValueId id = waiting.back();
      waiting.pop_back();
      const std::uint32_t producer = g_.producers[id];
      const bool made = producer < g_.operations.size();
      if (made && c_.roles.of[producer].phase == c_.phase) continue;
      if (!read_whole_.insert(c_.roots[id]).second) continue;
      if (!made || c_.roles.of[producer].kind != Role::Kind::floating) {
        traffic_.whole += c_.graph.type(id).bytes();
        continue;
      }
      const OperationRecord& record = g_.operations[producer];
      for (std::uint32_t k = 0; k < record.num_inputs; ++k)
        waiting.push_back(g_.operands[record.first_input + k]);
    }
  }
  void find_results(BlockedLoop& loop) {
    for (const std::uint32_t index : operations_) {
      const OperationRecord& record = g_.operations[index];
      const Primitive& primitive = *record.op->primitive;
      const Role& role = c_.roles.of[index];
      if (primitive.has_trait(Trait::contraction)) {
        traffic_.matmuls = true;
        traffic_.thinnest =
            std::min(traffic_.thinnest, std::max<std::int64_t>(1, costs_.rows_of_point(index, role.factor)));
        traffic_.work += costs_.work_of(index);
      }
      const bool reduces = role.kind == Role::Kind::sum && c_.graph.type(record.first_output).size() == 1;
      traffic_.structure =
          traffic_.structure || !(primitive.has_trait(Trait::elementwise) ||
                                  primitive.has_trait(Trait::view) || reduces || is_fused_load(index));
      const ValueId id = record.first_output;
      const AxisClasses::Factor factor = c_.classes.factor(index, role.factor);
      for (std::uint32_t k = 0; k < record.num_inputs; ++k) {
        const ValueId operand = g_.operands[record.first_input + k];
        const std::uint32_t producer = g_.producers[operand];
        const bool inside =
            producer < g_.operations.size() &&
            (c_.roles.of[producer].phase == c_.phase || c_.roles.of[producer].kind == Role::Kind::floating);
        if (!inside) add_packed(operand, factor.of_operand(k));
        const bool whole = factor.of_operand(k) == BlockedLoop::none;
        if (primitive.has_trait(Trait::contraction) && whole)
          traffic_.whole += c_.graph.type(operand).bytes();
        else if (whole || inside)
          read_whole(operand);
      }
      if (role.kind == Role::Kind::cut)
        traffic_.longest = std::max(traffic_.longest, c_.graph.type(id).size() / c_.roles.extent);
      const std::size_t bytes = c_.graph.type(id).bytes();
      if (c_.roots[id] != id) continue;  // a view
      if (role.kind == Role::Kind::sum) {
        traffic_.sums += bytes;
        if (c_.escapes[id]) loop.results.push_back({id, BlockedLoop::none});
      } else if (c_.escapes[id]) {
        traffic_.boundary += bytes;
        add_packed(id, role.axis);
        loop.results.push_back({id, role.axis});
      } else if (c_.options.loop_bytes == 0 ||
                 (bytes >= large_value && !(one_fusion_ && joins_fusion(index)) && !is_fused_load(index))) {
        traffic_.within += bytes;
      }
    }
  }
  // Is it element-wise, a broadcast, or a gather of rows of an array that is not tiled?
  bool is_light(std::uint32_t operation) const {
    const Primitive& primitive = *g_.operations[operation].op->primitive;
    if (primitive.has_trait(Trait::elementwise) || primitive.has_trait(Trait::repeats)) return true;
    return row_step(c_.graph, operation).kind == RowStep::Kind::gathered;
  }
  bool joins_fusion(std::uint32_t operation) const {
    return is_light(operation) && heavy_.find(g_.operations[operation].first_output) == heavy_.end();
  }
  // Is it a slice, pad or roll that only element-wise operations, or other such operations, read? Fusions may
  // read its elements at their source.
  bool is_fused_load(std::uint32_t operation) const {
    return can_be_fused_load(operation) &&
           heavy_.find(c_.roots[g_.operations[operation].first_output]) == heavy_.end();
  }
  bool can_be_fused_load(std::uint32_t operation) const {
    return c_.options.fuse &&
           (is_any_of(c_.graph.operation(operation), prim::slice, prim::pad) || roll_of(c_.graph, operation));
  }
  // Finds the values that operations other than element-wise ones read, and whether one fusion may contain
  // all light operations. In loops with matmuls, blocks are chosen as if it could not.
  void find_heavy() {
    std::size_t light = 0;
    bool matmuls = false;
    for (const std::uint32_t index : operations_) {
      const OperationRecord& record = g_.operations[index];
      if (record.op->primitive->has_trait(Trait::view)) continue;
      matmuls = matmuls || record.op->primitive->has_trait(Trait::contraction);
      if (is_light(index)) ++light;
      if (record.op->primitive->has_trait(Trait::elementwise)) continue;
      const bool is_load = can_be_fused_load(index);
      for (std::uint32_t k = 0; k < record.num_inputs; ++k) {
        const ValueId id = c_.roots[g_.operands[record.first_input + k]];
        const std::uint32_t producer = g_.producers[id];
        if (!is_load || producer >= g_.operations.size() || !can_be_fused_load(producer)) heavy_.insert(id);
      }
    }
    one_fusion_ = c_.options.fuse && !matmuls && light <= max_in_fusion;
  }

  // Bytes alive at once in a block: some of what is made, and the ends.
  double bytes_of(std::int64_t block) const {
    const std::size_t alive = traffic_.within / 2 + traffic_.boundary;
    return static_cast<double>(alive) / static_cast<double>(c_.roles.extent) * static_cast<double>(block);
  }
  std::int64_t points_in(std::size_t bytes) const {
    return std::max(least(), static_cast<std::int64_t>(static_cast<double>(bytes) / bytes_of(1)));
  }
  // Matmuls of fewer rows take longer for each row.
  std::int64_t least() const {
    constexpr std::int64_t rows = 16;
    return traffic_.matmuls ? (rows + traffic_.thinnest - 1) / traffic_.thinnest : 1;
  }
  // Blocks of about one length.
  std::int64_t even(std::int64_t block) const {
    const std::int64_t extent = c_.roles.extent;
    block = std::clamp<std::int64_t>(block, std::min(least(), extent), extent);
    const std::int64_t blocks = (extent + block - 1) / block;
    block = (extent + blocks - 1) / blocks;
    return block > 32 ? std::min(extent, (block + 7) / 8 * 8) : block;
  }
  // An even number of blocks, and as many as the chunks in which sums are made can share, so that no thread
  // waits for a longer one.
  std::int64_t shared(std::int64_t block) const {
    const std::int64_t extent = c_.roles.extent, blocks = (extent + block - 1) / block;
    if (blocks <= 2) return block;
    const std::int64_t even = (blocks + 1) / 2 * 2;
    const std::int64_t chunks = traffic_.sums == 0 ? 2 : sum_chunks(even, traffic_.sums);
    const std::int64_t unit = traffic_.sums == 0 ? 8 : 4;
    const std::int64_t more = (even + chunks - 1) / chunks * chunks, smaller = (extent + more - 1) / more;
    return std::max(least(), smaller > 32 ? (smaller + unit - 1) / unit * unit : smaller);
  }
  std::int64_t fitted(std::int64_t block, std::size_t bytes) const {
    const double ratio = static_cast<double>(target_) / static_cast<double>(std::max<std::size_t>(bytes, 1));
    return even(static_cast<std::int64_t>(static_cast<double>(block) * ratio));
  }
  // The traffic that the loop saves, less its cost, in bytes moved: see Note [Worth a loop].
  double gain(std::int64_t block) const {
    constexpr double each_block = 1 << 12;
    const std::int64_t count = (c_.roles.extent + block - 1) / block;
    const auto blocks = static_cast<double>(count);
    const double alive = bytes_of(block) / static_cast<double>(c_.options.block_bytes);
    // The gain depends on the cache in which the live values of a block fit.
    const double worth = alive <= 1.5 ? 1 : alive <= 3 ? 0.9 : alive <= 6 ? 0.7 : alive <= 12 ? 0.4 : 0.1;
    const auto sums = static_cast<double>(traffic_.sums);
    const double cost = 3 * sums *
                        (sums <= cpu_detail::CpuTarget::first_level ? 0.1
                         : sums <= cpu_detail::CpuTarget::near      ? 0.5
                                                                    : 1);
    // Whole operands that are larger than this do not stay in the cache from one block to the next.
    const double again =
        traffic_.whole <= std::size_t{cpu_detail::CpuTarget::near} ? 0 : static_cast<double>(traffic_.whole);
    // An estimate of the additional time of smaller matmuls.
    const double smaller = 0.1 * traffic_.work;
    return 2 * worth * static_cast<double>(traffic_.within) - smaller - 2 * packing(block) -
           blocks * (cost + again + each_block);
  }
  // 0 if whole arrays are as good.
  std::int64_t choose_block() {
    const bool always = c_.options.loop_bytes == 0;
    std::int64_t chosen = 0;
    // If matmuls take most of the time, smaller ones cost more than the loop saves.
    constexpr std::size_t large = 8;
    if (!always && traffic_.matmuls && traffic_.within < large * (traffic_.sums + traffic_.packed)) return 0;
    // In a block of one point, the point's own axis has one element, and operations run on whole arrays.
    if (!traffic_.matmuls && traffic_.longest >= longest_point && gain(1) > 0) {
      // The gain of the blocks that result if row fusions do most of the work.
      gain_ = gain(c_.options.fuse ? std::min(rows_of_block, c_.roles.extent) : 1);
      return 1;
    }
    for (int doubled = 0; doubled < 5; ++doubled) {
      const std::int64_t block = even(points_in(c_.options.block_bytes << doubled));
      if (block >= c_.roles.extent) break;
      const double spared = gain(block);
      if (chosen == 0 ? !always && spared <= 0 : spared <= gain_) continue;
      gain_ = spared;
      chosen = block;
      target_ = c_.options.block_bytes << doubled;
    }
    return chosen != 0 || always ? chosen : block_of_great_arrays();
  }
  // For very large arrays a loop is made even if it loses a little: fresh memory takes longer to get than to
  // write and read, and is limited.
  std::int64_t block_of_great_arrays() {
    constexpr std::size_t great = std::size_t{1} << 30;
    constexpr int doubled = 4;
    const std::int64_t block = even(points_in(c_.options.block_bytes << doubled));
    if (traffic_.within < great || block >= c_.roles.extent) return 0;
    const double spared = gain(block) + static_cast<double>(traffic_.within);
    if (spared <= 0) return 0;
    gain_ = 0.1 * spared;
    target_ = c_.options.block_bytes << doubled;
    return block;
  }

  std::shared_ptr<const Program> program(BlockedLoop& loop, std::int64_t block) {
    ProgramOptions options = c_.options;
    options.block = false;  // no loops within blocks
    return std::make_shared<const Program>(Program::make(loop_body(c_, operations_, block, loop), options));
  }

  const LoopContext& c_;
  const GraphData& g_;
  const MatmulCosts costs_;
  const std::vector<std::uint32_t>& operations_;
  BlockedLoop loop_;
  Traffic traffic_;
  std::unordered_set<ValueId> heavy_;  // values that have memory, whatever is fused
  std::unordered_set<ValueId> read_whole_;
  bool one_fusion_ = false;
  std::size_t target_ = 0;
  double gain_ = 0;
};

}  // namespace

double loop_gain(const LoopContext& context, const std::vector<std::uint32_t>& operations) {
  return LoopBuilder(context, operations).estimate();
}

BlockedLoop make_loop(const LoopContext& context, const std::vector<std::uint32_t>& operations) {
  return LoopBuilder(context, operations).make();
}

}  // namespace tidu::passes
