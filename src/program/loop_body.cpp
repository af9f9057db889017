// loop_body.cpp - the program of a blocked loop: its operations again, on one block of the axis.
#include <algorithm>
#include <array>
#include <span>
#include <unordered_map>
#include <unordered_set>

#include "program/chunks.hpp"
#include "program/groups.hpp"
#include "program/loops.hpp"
#include "tidu/graph/builder.hpp"
#include "tidu/graph/factors.hpp"

namespace tidu::passes {
namespace {

constexpr int none = BlockedLoop::none;
// Elements for one point from which on blocks of one point are worth the steps between them.
constexpr std::int64_t longest_point = 256;
// Points of a block that one group of rows can do.
constexpr std::int64_t rows_of_block = 32;

// What is cut, by bytes for each point of the axis, and what is not.
struct Traffic {
  std::size_t within = 0;    // made and read in the loop, of all points
  std::size_t boundary = 0;  // read from memory or left there, of all points
  std::size_t sums = 0;      // read and written for each block
  std::size_t packed = 0;    // of `boundary`, what is copied because its parts are not contiguous
  std::int64_t longest = 0;  // elements for one point, of what is made
  double work = 0;           // of products: bytes that are moved in the time that they take
  bool products = false;
  std::int64_t thinnest = std::int64_t{1} << 32;  // rows, or terms, of a product that are of one point
  bool structure = false;                         // something that a fused group cannot do
};

class BodyBuilder {
 public:
  BodyBuilder(const LoopContext& context, const std::vector<std::uint32_t>& operations, std::int64_t block)
      : c_(context),
        g_(context.graph.data()),
        operations_(operations),
        block_(block),
        builder_(context.graph.name().empty() ? "block" : context.graph.name(), context.graph.primitives()) {}

  Graph build(const std::vector<BlockedLoop::Value>& results) {
    for (const std::uint32_t index : operations_) {
      const Role& role = c_.roles.of[index];
      made_[key(g_.operations[index].first_output, role.kind == Role::Kind::sum ? none : role.axis)] =
          emit(index, c_.classes.factor(index, role.factor));
    }
    std::vector<Value> outputs;
    for (const BlockedLoop::Value& result : results) {
      Value made = made_.at(key(result.id, result.axis));
      if (result.axis == none) {
        const Value so_far = input(c_.graph.type(result.id));
        made = builder_.emit_one(Op::make(*c_.graph.primitives().add()), std::array{so_far, made});
      }
      outputs.push_back(made);
    }
    return builder_.build(outputs);
  }
  const std::vector<BlockedLoop::Value>& operands() const { return read_; }

 private:
  static std::uint64_t key(ValueId id, int axis) {
    return (std::uint64_t{id} << 8) | static_cast<std::uint64_t>(axis + 1);
  }
  Type of_block(Type type, int axis) const {
    Shape shape = type.shape();
    shape[static_cast<std::size_t>(axis)] = block_;
    return type.with_shape(shape);
  }
  Value input(Type type) { return builder_.input(detail::str('x', inputs_++), type); }

  Value emit(std::uint32_t index, const AxisClasses::Factor& factor) {
    const OperationRecord& record = g_.operations[index];
    std::vector<Value> operands;
    for (std::uint32_t k = 0; k < record.num_inputs; ++k)
      operands.push_back(read(g_.operands[record.first_input + k], factor.of_operand(k)));
    Op op = Op::of(record.op);
    const int axis = factor.of_result();
    if (axis != none && op.primitive().resize != nullptr)
      op = op.primitive().resize(op, static_cast<std::size_t>(axis), block_);
    const Value made = builder_.emit_one(op, operands);
    const Type type = c_.graph.type(record.first_output);
    const Type expected = axis == none ? type : of_block(type, axis);
    if (made.type() != expected) {
      throw Error(ErrorKind::internal,
                  detail::str("blocked loop: expected ", expected, " for a block of ", block_, ", got ",
                              made.type(), "\n  ", describe_operation(c_.graph, index)));
    }
    return made;
  }
  Value read(ValueId id, int axis) {
    const auto [at, fresh] = made_.try_emplace(key(id, axis));
    if (!fresh) return at->second;
    const Value value = axis == none ? whole(id) : cut(id, axis);
    return made_[key(id, axis)] = value;
  }
  // What floats is made anew; its chains are short.
  Value cut(ValueId id, int axis) {
    const std::uint32_t producer = g_.producers[id];
    if (producer < g_.operations.size() && c_.roles.of[producer].kind == Role::Kind::floating) {
      for (std::uint32_t f = 0; f < c_.classes.num_factors(producer); ++f) {
        const AxisClasses::Factor factor = c_.classes.factor(producer, f);
        if (factor.of_result() == axis && floats(producer, factor)) return emit(producer, factor);
      }
    }
    read_.push_back({id, axis});
    return input(of_block(c_.graph.type(id), axis));
  }
  bool floats(std::uint32_t operation, const AxisClasses::Factor& factor) const {
    const OperationRecord& record = g_.operations[operation];
    for (std::uint32_t k = 0; k < record.num_inputs; ++k) {
      if (factor.of_operand(k) == none) continue;
      const std::uint32_t producer = g_.producers[g_.operands[record.first_input + k]];
      if (producer >= g_.operations.size() || c_.roles.of[producer].kind != Role::Kind::floating)
        return false;
    }
    return true;
  }
  // Repeated elements are repeated anew, so that groups see that they are.
  Value whole(ValueId id) {
    std::vector<std::uint32_t> chain;
    ValueId at = id;
    while (c_.splats[id] != no_index) {
      const std::uint32_t producer = g_.producers[at];
      if (producer >= g_.operations.size()) break;
      const OperationRecord& record = g_.operations[producer];
      const Primitive& primitive = *record.op->primitive;
      const bool repeats = primitive.has_trait(Trait::view) || primitive.has_trait(Trait::repeats);
      if (record.num_outputs != 1 || record.num_inputs > 1 ||
          (record.num_inputs == 1 ? !repeats : !primitive.has_trait(Trait::constant)))
        break;
      chain.push_back(producer);
      if (record.num_inputs == 0) break;
      at = g_.operands[record.first_input];
    }
    std::vector<Value> value;
    if (chain.empty() || g_.operations[chain.back()].num_inputs == 1) {
      read_.push_back({at, none});
      value = {input(c_.graph.type(at))};
    }
    for (std::size_t i = chain.size(); i-- > 0;)
      value = {builder_.emit_one(Op::of(g_.operations[chain[i]].op), value)};
    return value[0];
  }

  const LoopContext& c_;
  const GraphData& g_;
  const std::vector<std::uint32_t>& operations_;
  const std::int64_t block_;
  GraphBuilder builder_;
  std::unordered_map<std::uint64_t, Value> made_;
  std::vector<BlockedLoop::Value> read_;
  std::size_t inputs_ = 0;
};

class LoopMaker {
 public:
  LoopMaker(const LoopContext& context, const std::vector<std::uint32_t>& operations)
      : c_(context), g_(context.graph.data()), operations_(operations) {}

  /// Bytes spared, estimated; 0 where there is no gain.
  double estimate() {
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
    if (loop.block == 1 && target_ == 0 && c_.options.fuse && make_of_rows(loop)) return loop;
    const std::int64_t first = loop.block;
    loop.body = program(loop, first);
    // The plan of a block tells what is alive at once; the first choice took it to be a part of everything.
    if (target_ == 0) return loop;
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
  // Blocks of several points, if groups of rows leave nothing of the points' size between them.
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
  // How many rows, columns or terms of a product one point is: the extents of factors that the same operands
  // have as have that one, and that are summed over if it is. A product for each point counts as many.
  std::int64_t rows_of_point(std::uint32_t operation, std::uint32_t chosen) const {
    const OperationRecord& record = g_.operations[operation];
    const AxisClasses::Factor point = c_.classes.factor(operation, chosen);
    const auto sum = [](const AxisClasses::Factor& factor) { return factor.of_result() == none; };
    bool everywhere = !sum(point);
    for (std::uint32_t k = 0; k < record.num_inputs; ++k)
      everywhere = everywhere && point.of_operand(k) != none;
    if (everywhere) return std::int64_t{1} << 32;
    std::int64_t rows = 1;
    for (std::uint32_t f = 0; f < c_.classes.num_factors(operation); ++f) {
      const AxisClasses::Factor factor = c_.classes.factor(operation, f);
      bool same = f != chosen && sum(factor) == sum(point);
      std::int64_t extent = 1;
      for (std::uint32_t k = 0; k < record.num_inputs; ++k) {
        const int axis = factor.of_operand(k);
        same = same && (axis == none) == (point.of_operand(k) == none);
        if (axis != none)
          extent = c_.graph.type(g_.operands[record.first_input + k]).dim(static_cast<std::size_t>(axis));
      }
      if (same) rows *= extent;
    }
    return rows;
  }
  // A core multiplies and adds some 25 times in f64, and 50 times in f32, while it moves 10 bytes.
  double work_of(std::uint32_t operation) const {
    const OperationRecord& record = g_.operations[operation];
    double terms = 1;
    for (std::uint32_t f = 0; f < c_.classes.num_factors(operation); ++f) {
      const AxisClasses::Factor factor = c_.classes.factor(operation, f);
      for (std::uint32_t k = 0; k < record.num_inputs; ++k) {
        const int axis = factor.of_operand(k);
        if (axis == none) continue;
        terms *= static_cast<double>(
            c_.graph.type(g_.operands[record.first_input + k]).dim(static_cast<std::size_t>(axis)));
        break;
      }
    }
    return terms * (size_of(c_.graph.type(record.first_output).dtype()) >= 8 ? 0.4 : 0.2);
  }
  std::size_t packed_bytes(ValueId id, int axis) const {
    for (int i = 0; i < axis; ++i) {
      if (c_.graph.type(id).dim(static_cast<std::size_t>(i)) != 1) return c_.graph.type(id).bytes();
    }
    return 0;
  }
  void find_results(BlockedLoop& loop) {
    for (const std::uint32_t index : operations_) {
      const OperationRecord& record = g_.operations[index];
      const Primitive& primitive = *record.op->primitive;
      const Role& role = c_.roles.of[index];
      if (primitive.has_trait(Trait::product)) {
        traffic_.products = true;
        traffic_.thinnest =
            std::min(traffic_.thinnest, std::max<std::int64_t>(1, rows_of_point(index, role.factor)));
        traffic_.work += work_of(index);
      }
      const bool folds = role.kind == Role::Kind::sum && c_.graph.type(record.first_output).size() == 1;
      traffic_.structure = traffic_.structure || !(primitive.has_trait(Trait::elementwise) ||
                                                   primitive.has_trait(Trait::view) || folds);
      const ValueId id = record.first_output;
      const AxisClasses::Factor factor = c_.classes.factor(index, role.factor);
      for (std::uint32_t k = 0; k < record.num_inputs; ++k) {
        const ValueId operand = g_.operands[record.first_input + k];
        const std::uint32_t producer = g_.producers[operand];
        const bool inside =
            producer < g_.operations.size() &&
            (c_.roles.of[producer].phase == c_.phase || c_.roles.of[producer].kind == Role::Kind::floating);
        if (!inside) traffic_.packed += packed_bytes(operand, factor.of_operand(k));
      }
      if (role.kind == Role::Kind::cut)
        traffic_.longest = std::max(traffic_.longest, c_.graph.type(id).size() / c_.roles.extent);
      const std::size_t bytes = c_.graph.type(id).bytes();
      if (c_.roots[id] != id) continue;  // a view
      if (role.kind == Role::Kind::sum) {
        traffic_.sums += bytes;
        if (c_.escapes[id]) loop.results.push_back({id, none});
      } else if (c_.escapes[id]) {
        traffic_.boundary += bytes;
        traffic_.packed += packed_bytes(id, role.axis);
        loop.results.push_back({id, role.axis});
      } else if (c_.options.loop_bytes == 0 ||
                 (bytes >= large_value && !(one_group_ && joins_group(index)))) {
        traffic_.within += bytes;
      }
    }
  }
  // Is it computed element by element, or repeated, or rows picked of what is not cut?
  bool is_light(std::uint32_t operation) const {
    const Primitive& primitive = *g_.operations[operation].op->primitive;
    if (primitive.has_trait(Trait::elementwise) || primitive.has_trait(Trait::repeats)) return true;
    return row_step(c_.graph, operation).kind == RowStep::Kind::picked;
  }
  bool joins_group(std::uint32_t operation) const {
    return is_light(operation) && heavy_.find(g_.operations[operation].first_output) == heavy_.end();
  }
  // What others than element-wise operations of the loop read; and may one group do all that is light? Of
  // loops with products, blocks are chosen as if it did not.
  void find_heavy() {
    std::size_t light = 0;
    bool products = false;
    for (const std::uint32_t index : operations_) {
      const OperationRecord& record = g_.operations[index];
      if (record.op->primitive->has_trait(Trait::view)) continue;
      products = products || record.op->primitive->has_trait(Trait::product);
      if (is_light(index)) ++light;
      for (std::uint32_t k = 0; k < record.num_inputs; ++k) {
        if (!record.op->primitive->has_trait(Trait::elementwise))
          heavy_.insert(c_.roots[g_.operands[record.first_input + k]]);
      }
    }
    one_group_ = c_.options.fuse && !products && light <= most_in_group;
  }

  // Bytes alive at once in a block: some of what is made, and the ends.
  double bytes_of(std::int64_t block) const {
    const std::size_t alive = traffic_.within / 2 + traffic_.boundary;
    return static_cast<double>(alive) / static_cast<double>(c_.roles.extent) * static_cast<double>(block);
  }
  std::int64_t points_in(std::size_t bytes) const {
    return std::max(least(), static_cast<std::int64_t>(static_cast<double>(bytes) / bytes_of(1)));
  }
  // Products of fewer rows take longer for each.
  std::int64_t least() const {
    constexpr std::int64_t rows = 16;
    return traffic_.products ? (rows + traffic_.thinnest - 1) / traffic_.thinnest : 1;
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
  // What is spared, less what it costs, in bytes moved: see Note [Worth a loop].
  double gain(std::int64_t block) const {
    constexpr double each_block = 1 << 12;
    const std::int64_t count = (c_.roles.extent + block - 1) / block;
    const auto blocks = static_cast<double>(count);
    const double alive = bytes_of(block) / static_cast<double>(c_.options.block_bytes);
    // By how near to the core what is alive stays.
    const double worth = alive <= 1.5 ? 1 : alive <= 3 ? 0.9 : alive <= 6 ? 0.7 : alive <= 12 ? 0.4 : 0.1;
    const auto sums = static_cast<double>(traffic_.sums);
    const double cost = 3 * sums * (sums <= 1 << 15 ? 0.1 : sums <= 1 << 19 ? 0.5 : 1);
    // Smaller products take longer by something like this.
    const double smaller = 0.1 * traffic_.work;
    return 2 * worth * static_cast<double>(traffic_.within) - smaller -
           2 * static_cast<double>(traffic_.packed) - blocks * (cost + each_block);
  }
  // 0 where whole arrays are as good.
  std::int64_t choose_block() {
    const bool always = c_.options.loop_bytes == 0;
    std::int64_t chosen = 0;
    // Where products take most of the time, smaller ones cost more than is spared.
    constexpr std::size_t large = 8;
    if (!always && traffic_.products && traffic_.within < large * (traffic_.sums + traffic_.packed)) return 0;
    // Along one point what belongs to the point is one element, and all else is one array after another.
    if (!traffic_.products && traffic_.longest >= longest_point && gain(1) > 0) {
      gain_ = gain(1);
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
    return chosen;
  }

  std::shared_ptr<const Program> program(BlockedLoop& loop, std::int64_t block) {
    BodyBuilder builder(c_, operations_, block);
    ProgramOptions options = c_.options;
    options.block = options.group_products = false;  // the threads have other blocks to do
    const Graph graph = builder.build(loop.results);
    loop.operands = builder.operands();
    return std::make_shared<const Program>(Program::make(graph, options));
  }

  const LoopContext& c_;
  const GraphData& g_;
  const std::vector<std::uint32_t>& operations_;
  BlockedLoop loop_;
  Traffic traffic_;
  std::unordered_set<ValueId> heavy_;  // that has memory, whatever groups do
  bool one_group_ = false;
  std::size_t target_ = 0;
  double gain_ = 0;
};

// Does a product sum along the innermost axis of its second operand?
bool sums_along_rows(const OperationRecord& record, std::span<const Type> operands, Type result) {
  Factors factors;
  const Op op = Op::of(record.op);
  if (op.primitive().factors == nullptr || operands.size() != 2) return false;
  factors.begin(op, operands, result);
  op.primitive().factors(factors);
  int inner = static_cast<int>(operands[1].rank()) - 1;
  while (inner >= 0 && operands[1].dim(static_cast<std::size_t>(inner)) == 1) --inner;
  for (std::size_t f = 0; f < factors.size(); ++f) {
    if (inner >= 0 && factors.result_axis(f) == none && factors.axis_of(f, 1) == inner) return true;
  }
  return false;
}

// What products of the blocks read whole, and so have in a better order.
std::size_t prepared_bytes(const BlockedLoop& loop) {
  const Graph& graph = loop.body->graph();
  const GraphData& g = graph.data();
  const std::span<const ValueId> inputs = graph.inputs();
  std::vector<ValueId> counted;
  std::size_t bytes = 0;
  for (const OperationRecord& record : g.operations) {
    if (!record.op->primitive->has_trait(Trait::product) || record.num_inputs != 2) continue;
    const ValueId* operands = g.operands.data() + record.first_input;
    const ValueId source = loop.body->roots()[operands[1]];
    const auto input =
        static_cast<std::size_t>(std::find(inputs.begin(), inputs.end(), source) - inputs.begin());
    if (input >= loop.operands.size() || loop.operands[input].axis != none ||
        std::find(counted.begin(), counted.end(), source) != counted.end())
      continue;
    const std::array types{graph.type(operands[0]), graph.type(operands[1])};
    if (!sums_along_rows(record, types, graph.type(record.first_output))) continue;
    counted.push_back(source);
    bytes += graph.type(source).bytes();
  }
  return bytes;
}

// Do elements of a block lie side by side in the whole?
bool is_stretch(Type type, int axis) {
  for (int k = 0; k < axis; ++k) {
    if (type.dim(static_cast<std::size_t>(k)) != 1) return false;
  }
  return true;
}

}  // namespace

std::size_t block_bytes(const BlockedLoop& loop) {
  const Program& body = *loop.body;
  const Graph& graph = body.graph();
  std::size_t bytes = body.workspace_bytes() + body.plan().constant_bytes + prepared_bytes(loop);
  for (std::size_t i = 0; i < loop.operands.size(); ++i) {
    const Type type = graph.type(graph.inputs()[i]);
    if (loop.operands[i].axis != none && !is_stretch(type, loop.operands[i].axis)) bytes += type.bytes();
  }
  for (std::size_t i = 0; i < loop.results.size(); ++i) {
    const Type type = graph.type(graph.outputs()[i]);
    if (loop.results[i].axis == none || !is_stretch(type, loop.results[i].axis)) bytes += type.bytes();
  }
  return bytes;
}

double loop_gain(const LoopContext& context, const std::vector<std::uint32_t>& operations) {
  return LoopMaker(context, operations).estimate();
}

BlockedLoop make_loop(const LoopContext& context, const std::vector<std::uint32_t>& operations) {
  return LoopMaker(context, operations).make();
}

}  // namespace tidu::passes
