// fuse.cpp - planning of nodes: which operations share a kernel.
//
// Note [Fusions]: an operation that only moves elements or makes constants is written into every kernel that
// reads it (it is `inlined`). An operation whose elements are computed one by one is a member of one fusion
// of operations on as many elements. A reduction joins the fusion that computes its operand. Everything else
// is a node by itself. Nodes run in the order in which they were begun, so an operation joins a fusion only
// if earlier nodes, or the fusion itself at the same element, compute all its operands. A matmul that absorbs
// an addition (epilogues.hpp) runs at the position of the addition. Values that are cheap to compute again
// from memory (rematerialized.hpp) are computed in every kernel that reads them, and never written to memory.
#include "cuda/fuse.hpp"

#include <algorithm>
#include <optional>
#include <unordered_map>

#include "cuda/inlined.hpp"
#include "cuda/kernels/kernels.hpp"
#include "cuda/kernels/reductions.hpp"
#include "cuda/kernels/rematerialized.hpp"
#include "cuda/rules.hpp"
#include "cuda/rules/epilogues.hpp"
#include "tidu/graph/builder.hpp"
#include "tidu/optimizer/passes.hpp"
#include "tidu/primitives/control_flow.hpp"
#include "tidu/primitives/structural.hpp"

namespace tidu::cuda_detail {
namespace {

// Limits: members of a fusion, operands that it reads from memory, nodes between a fusion and an operation
// that joins it, and operations that are inlined for one operand.
constexpr std::size_t max_members = 48, max_operands = 20, farthest = 64, max_inlined = 12;
// What one operation reads from memory, if it is to be a member: choices among many read more.
constexpr std::size_t max_sources_of_one = 96;

enum class Role { nowhere, inlined, member, reduction, standalone };

// The source that a value is read from: memory or a fusion's member. Element p of the value is element p /
// repeat of the source; `repeat` is 0 if it is a different one.
struct Source {
  ValueId value;
  std::int64_t repeat;
};

struct Fusion {
  std::vector<std::uint32_t> operations;
  std::vector<ValueId> operands;  // read so far
  std::int64_t size = 0;          // elements of its members
  std::optional<ReductionShape> reduction;
  bool open = false;
  bool comes_back = false;  // do members read results of its reductions?

  // May members read results of reductions? Yes, if threads can stay with a row.
  bool may_come_back(int multiprocessors) const {
    constexpr std::int64_t longest = 16384;
    return reduction && reduction->rows && reduction->runs.size() <= 2 && reduction->reduced > 1 &&
           (reduction->reduced <= longest || reduction->kept >= 2 * multiprocessors);
  }
};

class Fuser {
 public:
  Fuser(const Graph& graph, const NodeOptions& options)
      : graph_(graph),
        options_(options),
        roots_(passes::alias_roots(graph)),
        roles_(graph.num_operations(), Role::nowhere),
        sources_(graph.num_values()),
        inlined_(graph.num_values(), 0),
        made_by_(graph.num_values(), 0),
        of_row_(graph.num_values(), false) {
    fusions_.emplace_back();  // before all others: inputs
  }

  std::vector<Node> run() {
    find_roles();
    for (std::uint32_t i = 0; i < graph_.num_operations(); ++i) {
      if (roles_[i] == Role::nowhere) continue;
      const Operation operation = graph_.operation(i);
      if (operation.primitive().has_trait(Trait::barrier)) first_open_ = fusions_.size();
      if (roles_[i] == Role::inlined) {
        if (!operation.primitive().has_trait(Trait::view) && in_memory_[operation.output()])
          begin_standalone(i);
        continue;
      }
      if (roles_[i] == Role::standalone) {
        begin_standalone(i);
      } else {
        join(i);
      }
    }
    return nodes();
  }

 private:
  Type type(ValueId id) const { return graph_.type(id); }

  // --- what becomes of operations

  Role role_of(const Operation& operation) {
    if (operation.primitive().has_trait(Trait::view)) return Role::inlined;
    if (operation.num_outputs() != 1 || operation.primitive().has_trait(Trait::impure | Trait::barrier))
      return Role::standalone;
    const Op op = operation.op();
    const Type result = type(operation.output());
    if (result.size() == 0 || !options_.fuse) return Role::standalone;
    if (moves_cheaply(operation) && gather_sources(operation)) return Role::inlined;
    if (operation.num_inputs() == 0 && !is_expression(op)) return Role::standalone;
    if (is_reduction(op, type(operation.inputs()[0])))
      return type(operation.input(0)).size() > 0 ? Role::reduction : Role::standalone;
    if (op.name() == "transpose" || op.name() == "concatenate" || op.name() == "constant")
      return Role::standalone;
    return is_expression(op) && num_sources(operation) <= max_sources_of_one ? Role::member
                                                                             : Role::standalone;
  }
  std::size_t num_sources(const Operation& operation) const {
    std::size_t count = 0;
    for (const ValueId id : operation.inputs()) count += sources_of(id).size();
    return count;
  }
  // Collects the values that an inlined operation reads; false if they are too many.
  bool gather_sources(const Operation& operation) {
    const ValueId result = operation.output();
    std::vector<Source> all;
    std::size_t count = 1;
    for (const ValueId id : operation.inputs()) {
      count += inlined_[id];
      const std::int64_t repeat =
          operation.name() == "broadcast_in_dim" ? repeats(operation.op(), type(id), type(result)) : 0;
      for (const Source& source : sources_of(id)) all.push_back({source.value, source.repeat * repeat});
    }
    if (count > max_inlined || all.size() > max_inlined) return false;
    inlined_[result] = static_cast<std::uint32_t>(count);
    sources_[result] = std::move(all);
    return true;
  }
  std::vector<Source> sources_of(ValueId id) const {
    const ValueId root = roots_[id];
    if (inlined_[root] != 0) return sources_[root];
    return {{root, 1}};
  }

  // Which operations are needed, what becomes of them, which results others read from memory.
  void find_roles() {
    const std::vector<bool> reached = reachable(graph_, graph_.outputs());
    for (std::uint32_t i = 0; i < graph_.num_operations(); ++i) {
      const Operation operation = graph_.operation(i);
      bool needed = operation.is_impure();
      for (std::size_t slot = 0; slot < operation.num_outputs(); ++slot)
        needed = needed || reached[operation.output(slot)];
      if (needed) roles_[i] = role_of(operation);
      if (operation.num_outputs() > 0 && operation.primitive().has_trait(Trait::view))
        inlined_[operation.output()] = inlined_[operation.input(0)];
    }
    if (options_.fuse) take_biases();
    in_memory_.assign(graph_.num_values(), false);
    for (const ValueId id : graph_.outputs()) in_memory_[roots_[id]] = true;
    for (std::uint32_t i = 0; i < graph_.num_operations(); ++i) {
      if (roles_[i] != Role::standalone) continue;
      for (const ValueId id : read_standalone(i)) in_memory_[id] = true;
    }
  }
  void take_biases() {
    std::vector<bool> needed;
    for (const Role role : roles_) needed.push_back(role != Role::nowhere);
    biased_ = find_biased_matmuls(graph_, roots_, needed, options_);
    for (auto it = biased_.begin(); it != biased_.end();) {
      const bool in_memory = inlined_[it->second.bias] == 0;  // else one kernel more
      if (in_memory) {
        roles_[it->first] = Role::standalone;
        roles_[it->second.matmul] = Role::nowhere;
      }
      it = in_memory ? std::next(it) : biased_.erase(it);
    }
  }
  // The values that a standalone operation reads from memory.
  std::vector<ValueId> read_standalone(std::uint32_t i) const {
    const auto biased = biased_.find(i);
    std::vector<ValueId> all;
    for (const ValueId id : graph_.operation(biased == biased_.end() ? i : biased->second.matmul).inputs())
      all.push_back(roots_[id]);
    if (biased != biased_.end()) all.push_back(biased->second.bias);
    return all;
  }

  // --- fusions

  std::uint32_t begin() {
    fusions_.emplace_back();
    return static_cast<std::uint32_t>(fusions_.size() - 1);
  }
  void begin_standalone(std::uint32_t i) {
    const std::uint32_t fusion = begin();
    fusions_[fusion].operations.push_back(i);
    const Operation operation = graph_.operation(i);
    if (roles_[i] == Role::inlined) return;  // read as what it is made of
    for (std::size_t slot = 0; slot < operation.num_outputs(); ++slot)
      made_by_[operation.output(slot)] = fusion;
  }

  // Can the fusion read all operands in time? Adds those that it would read from memory to `fresh`, and sets
  // `back` if the operation reads results of its reductions.
  bool can_read(std::uint32_t at, const Operation& operation, std::vector<ValueId>& fresh, bool& back) const {
    const Fusion& fusion = fusions_[at];
    const bool reduces = roles_[operation.index()] == Role::reduction;
    const bool by_element = reduces || operation.primitive().has_trait(Trait::elementwise);
    const std::int64_t size = reduces ? type(operation.input(0)).size() : type(operation.output()).size();
    const bool rows = fusion.may_come_back(options_.multiprocessors);
    const bool of_row = size != fusion.size;
    if (of_row && !(rows && size == fusion.reduction->kept)) return false;
    for (const ValueId id : operation.inputs()) {
      const bool same = by_element && type(id).size() == size;
      for (const Source& source : sources_of(id)) {
        const std::uint32_t made = made_by_[source.value];
        if (made > at) return false;
        if (made == at) {
          if (!same) return false;
          const bool from_row = of_row_[source.value];
          if (from_row && !rows) return false;
          if (of_row && !from_row) return false;
          if (source.repeat != (from_row && !of_row ? fusion.reduction->reduced : 1)) return false;
          back = back || from_row;
          continue;
        }
        if (std::find(fusion.operands.begin(), fusion.operands.end(), source.value) ==
                fusion.operands.end() &&
            std::find(fresh.begin(), fresh.end(), source.value) == fresh.end()) {
          fresh.push_back(source.value);
        }
      }
    }
    return fusion.operands.size() + fresh.size() <= max_operands;
  }
  bool is_open(std::uint32_t at) const {
    return fusions_[at].open && at >= first_open_ && fusions_.size() - at <= farthest &&
           fusions_[at].operations.size() < max_members;
  }
  // Open fusions that may accept the operation: the last one that computes an operand, and the last one of
  // its size.
  std::vector<std::uint32_t> candidates(const Operation& operation, std::int64_t size) const {
    std::uint32_t producer = 0;
    for (const ValueId id : operation.inputs()) {
      for (const Source& source : sources_of(id)) producer = std::max(producer, made_by_[source.value]);
    }
    std::vector<std::uint32_t> all;
    if (producer != 0 && is_open(producer)) all.push_back(producer);
    const auto last = last_fusion_.find(size);
    if (last != last_fusion_.end() && is_open(last->second) && last->second != producer)
      all.push_back(last->second);
    return all;
  }
  void join(std::uint32_t i) {
    const Operation operation = graph_.operation(i);
    const bool reduces = roles_[i] == Role::reduction;
    const std::int64_t size = reduces ? type(operation.input(0)).size() : type(operation.output()).size();
    std::optional<ReductionShape> shape;
    if (reduces) shape.emplace(type(operation.input(0)).shape(), reduced_axes(operation.op()));
    std::vector<ValueId> fresh;
    bool back = false;
    std::uint32_t at = 0;
    for (const std::uint32_t candidate : candidates(operation, size)) {
      const Fusion& fusion = fusions_[candidate];
      const bool fits =
          !reduces || !fusion.reduction ||
          (fusion.reduction->runs == shape->runs && fusion.reduction->is_reduced == shape->is_reduced);
      fresh.clear();
      back = false;
      if (fits && can_read(candidate, operation, fresh, back)) {
        at = candidate;
        break;
      }
    }
    if (at == 0) {
      at = begin();
      fusions_[at].open = true;
      fusions_[at].size = size;
      last_fusion_[size] = at;
      fresh.clear();
      back = false;
      can_read(at, operation, fresh, back);
    }
    Fusion& fusion = fusions_[at];
    fusion.operations.push_back(i);
    fusion.operands.insert(fusion.operands.end(), fresh.begin(), fresh.end());
    if (reduces && !fusion.reduction) fusion.reduction = std::move(shape);
    fusion.comes_back = fusion.comes_back || back;
    made_by_[operation.output()] = at;
    of_row_[operation.output()] = reduces || size != fusion.size;
  }

  // --- nodes

  // The body of a fusion's operations, with what they read inlined; `operands` are its memory.
  struct Built {
    Body body;
    std::vector<ValueId> operands;
    std::unordered_map<ValueId, std::uint32_t> pieces;
  };
  // Adds the value's piece and what it is inlined from, at most `max_inlined` deep.
  std::uint32_t add_value(Built& built, std::uint32_t fusion, ValueId id) {
    const auto known = built.pieces.find(id);
    if (known != built.pieces.end()) return known->second;
    const ValueId root = roots_[id];
    std::uint32_t piece = 0;
    if (root != id) {
      const std::uint32_t from = add_value(built, fusion, root);
      piece = built.body.add(view_op(), {from}, type(id));
    } else if (inlined_[id] != 0 || rematerialized_[id]) {
      const Operation operation = graph_.operation(*graph_.producer(id));
      std::vector<std::uint32_t> in;
      for (const ValueId operand : operation.inputs()) in.push_back(add_value(built, fusion, operand));
      piece = built.body.add(operation.op(), std::move(in), type(id));
    } else {
      piece = built.body.add_operand(type(id));
      built.operands.push_back(id);
      read_.at(id) = true;
    }
    built.pieces.emplace(id, piece);
    return piece;
  }
  // Any operation that names the same elements by another shape: the shape is that of the piece.
  static const Op& view_op() {
    static const Op op = Op::make(prim::reshape, {{"new_sizes", Ints{}}});
    return op;
  }

  Built build(std::uint32_t at) {
    Built built;
    for (const std::uint32_t i : fusions_[at].operations) {
      const Operation operation = graph_.operation(i);
      std::vector<std::uint32_t> in;
      for (const ValueId id : operation.inputs()) in.push_back(add_value(built, at, id));
      const std::uint32_t piece = built.body.add(operation.op(), std::move(in), type(operation.output()));
      built.pieces[operation.output()] = piece;
    }
    return built;
  }

  bool is_body(const Fusion& fusion) const {
    return fusion.open || roles_[fusion.operations[0]] == Role::inlined;
  }
  Node single(std::uint32_t i) {
    const Operation operation = graph_.operation(i);
    Node node;
    node.operands = read_standalone(i);
    if (const auto biased = biased_.find(i); biased != biased_.end()) {
      node.operations = {biased->second.matmul, i};
      node.results.push_back(operation.output());
      node.plan = std::move(biased->second.plan);
      return node;
    }
    node.operations.push_back(i);
    std::vector<Type> in, out;
    for (const ValueId id : operation.inputs()) in.push_back(type(id));
    for (std::size_t slot = 0; slot < operation.num_outputs(); ++slot) {
      node.results.push_back(operation.output(slot));
      out.push_back(type(operation.output(slot)));
    }
    const Op op = operation.op();
    node.plan = plan_operation({op, in, out, options_.multiprocessors, options_.tf32, options_.cudnn});
    if (!node.plan.supported) {
      // Loops with a bound were written out before.
      const bool is_loop = op.name() == prim::while_loop.name;
      throw Error(
          ErrorKind::execution,
          detail::str("[", op.name(), "] expected a kernel for the device, got none for ", detail::list(in),
                      is_loop ? ": a device's program has no loops. Give this one max_steps, with which it "
                                "is written out, or run it on the CPU"
                              : "",
                      "\n  ", describe_operation(graph_, i)));
    }
    return node;
  }
  void find_rematerialized() {
    KnownValues known;
    for (const Role role : roles_) known.by_element.push_back(role == Role::member);
    known.given.assign(graph_.num_values(), false);
    for (const ValueId id : graph_.inputs()) known.given[id] = true;
    for (const Fusion& fusion : fusions_) {
      for (const std::uint32_t i : fusion.operations) {
        if (roles_[i] != Role::standalone) continue;
        const Operation operation = graph_.operation(i);
        for (std::size_t slot = 0; slot < operation.num_outputs(); ++slot)
          known.given[operation.output(slot)] = true;
      }
    }
    for (ValueId id = 0; id < graph_.num_values(); ++id)
      if (of_row_[id]) known.given[id] = true;
    known.asked_for = in_memory_;
    known.read_elsewhere.assign(graph_.num_values(), false);
    for (const Fusion& fusion : fusions_) {
      for (const std::uint32_t i : fusion.operations) {
        const Operation operation = graph_.operation(i);
        for (const ValueId id : operation.inputs()) {
          for (const Source& source : sources_of(id)) {
            if (made_by_[source.value] != made_by_[operation.output()])
              known.read_elsewhere[source.value] = true;
          }
        }
      }
    }
    known.sources = [this](ValueId id) {
      std::vector<ValueId> all;
      for (const Source& source : sources_of(id)) all.push_back(source.value);
      return all;
    };
    rematerialized_ = rematerialized_values(graph_, known);
  }
  std::vector<Node> nodes() {
    find_rematerialized();
    read_.assign(graph_.num_values(), false);
    for (const ValueId id : graph_.outputs()) read_[roots_[id]] = true;
    std::vector<Built> built(fusions_.size());
    for (std::uint32_t at = 1; at < fusions_.size(); ++at) {
      const Fusion& fusion = fusions_[at];
      if (is_body(fusion)) {
        built[at] = build(at);
        continue;
      }
      for (const ValueId id : read_standalone(fusion.operations[0])) read_[id] = true;
    }
    std::vector<Node> nodes;
    for (std::uint32_t at = 1; at < fusions_.size(); ++at) {
      const Fusion& fusion = fusions_[at];
      if (fusion.open &&
          std::none_of(fusion.operations.begin(), fusion.operations.end(),
                       [this](std::uint32_t i) { return read_[graph_.operation(i).output()]; })) {
        continue;  // others make again what they need of it
      }
      const bool direct = fusion.operations.size() == 1 && reads_only_memory(built[at], fusion.operations[0]);
      if (!is_body(fusion) || direct) {
        nodes.push_back(single(fusion.operations[0]));
        continue;
      }
      Node node;
      node.operations = fusion.operations;
      node.operands = built[at].operands;
      for (const std::uint32_t i : fusion.operations) {
        const ValueId id = graph_.operation(i).output();
        if (!read_[id]) continue;
        built[at].body.results.push_back(built[at].pieces.at(id));
        node.results.push_back(id);
      }
      if (fusion.comes_back) {
        std::vector<bool> of_rows(built[at].body.pieces.size(), false);
        for (const auto& [id, piece] : built[at].pieces)
          of_rows[piece] = made_by_[id] == at && roots_[id] == id && of_row_[id];
        node.plan = plan_rows(built[at].body, of_rows, options_.multiprocessors);
        nodes.push_back(std::move(node));
        continue;
      }
      node.plan = fusion.reduction && reduces_any(built[at].body)
                      ? plan_reduction(built[at].body, options_.multiprocessors)
                      : plan_loop(built[at].body, options_.multiprocessors);
      nodes.push_back(std::move(node));
    }
    return nodes;
  }
  // The only operation's operands are all memory, so that a rule for it by itself knows better.
  bool reads_only_memory(const Built& built, std::uint32_t i) const {
    return built.body.pieces.size() == built.body.operands.size() + 1 &&
           built.operands.size() == built.body.pieces.size() - 1 &&
           graph_.operation(i).num_inputs() == built.operands.size();
  }
  static bool reduces_any(const Body& body) {
    return std::any_of(body.results.begin(), body.results.end(), [&body](std::uint32_t piece) {
      const Piece& p = body.pieces[piece];
      return p.op && is_reduction(*p.op, body.pieces[p.in[0]].type);
    });
  }

  const Graph& graph_;
  const NodeOptions& options_;
  std::vector<ValueId> roots_;
  std::vector<Role> roles_;                   // by operation
  std::vector<std::vector<Source>> sources_;  // of inlined values
  std::vector<std::uint32_t> inlined_;        // by value: operations that it stands for, 0 where it is none
  std::vector<std::uint32_t> made_by_;        // by value: fusion
  std::vector<bool> of_row_;                  // by value: one for each row of its fusion
  std::map<std::uint32_t, BiasedMatmul> biased_;  // by addition
  std::vector<bool> in_memory_, read_, rematerialized_;
  std::vector<Fusion> fusions_;
  std::unordered_map<std::int64_t, std::uint32_t> last_fusion_;  // by size
  std::size_t first_open_ = 1;
};

}  // namespace

std::vector<Node> plan_nodes(const Graph& graph, const NodeOptions& options) {
  return Fuser(graph, options).run();
}

}  // namespace tidu::cuda_detail
