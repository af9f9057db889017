// simplify.cpp - one sweep over a graph that replaces operations by the results of their simplify rules.
//
// Note [Simplifying]: operations are emitted again in their order, so that a rule sees simplified operands,
// and chains of any length collapse in one sweep. The operations that a rule emits are simplified in turn, to
// a depth that no useful rule reaches. Beyond, operations are emitted unchanged, which bounds the cost of
// rules that form a cycle.
#include <cstring>
#include <numeric>
#include <optional>

#include "graph/foreign_exception.hpp"
#include "optimizer/rewrite.hpp"
#include "tidu/graph/builder.hpp"
#include "tidu/graph/error.hpp"
#include "tidu/graph/infer.hpp"
#include "tidu/graph/simplify.hpp"
#include "tidu/optimizer/passes.hpp"

namespace tidu::passes {
namespace {

constexpr int deepest = 8;     // rules at work at once
constexpr int max_rules = 64;  // that one operation may call for
constexpr std::size_t max_readers = 64;

const Literal* only_literal(const OpRecord& op) {
  const Literal* found = nullptr;
  for (const auto& [name, value] : op.attributes) {
    const auto* literal = value.get_if<Literal>();
    if (literal == nullptr) continue;
    if (found != nullptr) return nullptr;
    found = literal;
  }
  return found;
}

// The element that all elements are.
std::optional<Literal> repeated_element(const Literal& tensor) {
  const std::size_t size = size_of(tensor.type().dtype()), bytes = tensor.type().bytes();
  if (bytes == 0 || std::memcmp(tensor.bytes(), tensor.bytes() + size, bytes - size) != 0)
    return std::nullopt;
  if (tensor.type().rank() == 0) return tensor;
  return Literal(Type(tensor.type().dtype(), {}), std::span(tensor.bytes(), size));
}

class Simplifier final : public Emitter, private SimplifyServices {
 public:
  Simplifier(const Graph& graph, const RewriteOptions& options)
      : graph_(graph), g_(graph.data()), builder_(graph.name(), graph.primitives()), options_(options) {}

  Graph run() {
    builder_.reserve(graph_.num_values(), graph_.num_operations(), g_.operands.size());
    values_.resize(graph_.num_values());
    bound_before_.resize(graph_.num_values(), no_index);
    live_ = reachable(graph_, graph_.outputs());
    count_reads();
    for (std::size_t i = 0; i < graph_.inputs().size(); ++i) {
      const ValueId id = graph_.inputs()[i];
      bind(id, builder_.input(graph_.input_key(i), graph_.type(id), graph_.label(id)).id());
    }
    for (const ValueId id : graph_.externals()) {
      if (live_[id]) bind(id, builder_.external(graph_.key(id), graph_.type(id)).id());
    }
    wheres_.assign(g_.where_table.size(), no_index);
    moved_.assign(g_.origins.empty() ? 0 : g_.operations.size(), no_index);
    for (std::uint32_t i = 0; i < g_.operations.size(); ++i) {
      if (is_live(g_.operations[i])) operation(i);
    }
    std::vector<ValueId> outputs;
    for (const ValueId id : graph_.outputs()) outputs.push_back(values_[id]);
    const Graph result = builder_.build_ids(std::move(outputs));
    return changed_ ? prune(result) : result;
  }

  // Emitter, of rules
  Type type_of(ValueId id) const override { return builder_.type_of(id); }
  const PrimitiveSet& primitives() const override { return builder_.primitives(); }
  Values emit(const Op& op, std::span<const Value> operands, Where) override {
    std::vector<ValueId> ids;
    ids.reserve(operands.size());
    for (const Value& operand : operands) {
      if (!operand.is_of(*this)) {
        throw Error(ErrorKind::internal,
                    detail::str('[', op.name(), "] a simplify rule used a value of another graph"));
      }
      ids.push_back(operand.id());
    }
    changed_ = true;
    GraphBuilder::Extra extra;
    extra.where = where_;
    return put(builder_.resolve(op).record(), ids, nullptr, 0, extra);
  }

 private:
  // SimplifyServices
  Emitter& emitter() override { return *this; }
  std::optional<Operation> producer(ValueId value) const override {
    const std::uint32_t producer = builder_.data().producers[value];
    if (producer == GraphData::from_input || producer == GraphData::from_external) return std::nullopt;
    return Operation(builder_.data(), producer);
  }
  std::optional<Literal> splat(ValueId value) const override {
    if (value >= splat_of_.size() || splat_of_[value] == no_index) return std::nullopt;
    return splats_[splat_of_[value]];
  }
  bool fast_math() const override { return options_.fast_math; }
  std::optional<std::vector<ValueReader>> readers(ValueId value) const override {
    if (first_reader_.empty()) find_readers();
    std::vector<ValueReader> result;
    for (ValueId old = value < last_bound_.size() ? last_bound_[value] : no_index; old != no_index;
         old = bound_before_[old]) {
      if (is_output_[old]) return std::nullopt;
      if (result.size() + first_reader_[old + 1] - first_reader_[old] > max_readers) return std::nullopt;
      for (std::uint32_t i = first_reader_[old]; i < first_reader_[old + 1]; ++i)
        result.push_back(reader(readers_[i]));
    }
    return result;
  }

  void count_reads() {
    reads_.assign(graph_.num_values(), 0);
    for (const OperationRecord& record : g_.operations) {
      if (!is_live(record)) continue;
      for (std::uint32_t i = 0; i < record.num_inputs; ++i) ++reads_[g_.operands[record.first_input + i]];
    }
    for (const ValueId id : graph_.outputs()) reads_[id] += 2;
  }
  ValueReader reader(std::uint32_t operation) const {
    const OperationRecord& record = g_.operations[operation];
    return {Op::of(record.op), record.num_outputs == 0 ? Type() : g_.types[record.first_output]};
  }
  void find_readers() const {
    is_output_.assign(graph_.num_values(), false);
    for (const ValueId id : graph_.outputs()) is_output_[id] = true;
    std::vector<std::uint32_t>& first =
        first_reader_;  // by old value: the end of its readers, then their begin
    first.assign(graph_.num_values() + 1, 0);
    const auto for_each = [&](const auto& body) {
      for (std::uint32_t i = static_cast<std::uint32_t>(g_.operations.size()); i-- > 0;) {
        const OperationRecord& record = g_.operations[i];
        if (!is_live(record)) continue;
        for (std::uint32_t k = 0; k < record.num_inputs; ++k) body(g_.operands[record.first_input + k], i);
      }
    };
    for_each([&](ValueId id, std::uint32_t) { ++first[id]; });
    std::partial_sum(first.begin(), first.end(), first.begin());
    readers_.resize(first.back());
    for_each([&](ValueId id, std::uint32_t operation) { readers_[--first[id]] = operation; });
  }
  bool is_live(const OperationRecord& record) const {
    if (record.op->impure) return true;
    for (std::uint32_t slot = 0; slot < record.num_outputs; ++slot) {
      if (live_[record.first_output + slot]) return true;
    }
    return false;
  }
  // `value` of the old graph is `id` of the new one.
  void bind(ValueId value, ValueId id) {
    values_[value] = id;
    if (new_reads_.size() <= id) new_reads_.resize(id + 1, 0);
    new_reads_[id] += reads_[value];
    if (last_bound_.size() <= id) last_bound_.resize(id + 1, no_index);
    bound_before_[value] = last_bound_[id];
    last_bound_[id] = value;
  }

  void operation(std::uint32_t i) {
    const OperationRecord& record = g_.operations[i];
    const Operation operation = graph_.operation(i);
    if (is_replaced(record)) return;
    operands_.clear();
    for (const ValueId id : operation.inputs()) operands_.push_back(values_[id]);
    GraphBuilder::Extra extra;
    if (operation.is_linear()) extra.role = role(operation);
    if (!g_.wheres.empty() && g_.wheres[i] != no_index) {
      std::uint32_t& where = wheres_[g_.wheres[i]];
      if (where == no_index) where = builder_.intern_where(g_.where_table[g_.wheres[i]]);
      extra.where = where;
    }
    if (operation.origin() != no_index && operation.origin() < i) extra.origin = moved_[operation.origin()];
    where_ = extra.where;
    fuel_ = max_rules;
    if (record.op->primitive->simplify == nullptr) {
      const ValueId first =
          add(record.op, operands_, g_.types.data() + record.first_output, record.num_outputs, extra);
      if (!moved_.empty()) moved_[i] = builder_.data().producers[first];
      for (std::uint32_t slot = 0; slot < record.num_outputs; ++slot)
        bind(record.first_output + slot, first + slot);
      return;
    }
    const Values results =
        put(record.op, operands_, g_.types.data() + record.first_output, record.num_outputs, extra);
    if (!moved_.empty()) {
      const std::uint32_t producer = builder_.data().producers[results[0].id()];
      moved_[i] = producer >= GraphData::from_external ? no_index : producer;
    }
    for (std::uint32_t slot = 0; slot < record.num_outputs; ++slot)
      bind(record.first_output + slot, results[slot].id());
  }
  // Binds the results to tensors, if they are known.
  bool is_replaced(const OperationRecord& record) {
    if (options_.tensors == nullptr) return false;
    bool any = false;
    for (std::uint32_t slot = 0; slot < record.num_outputs; ++slot) {
      const auto it = options_.tensors->find(record.first_output + slot);
      if (it == options_.tensors->end()) continue;
      any = true;
      bind(it->first, builder_.primitives().transform_ops().constant(*this, it->second).id());
    }
    return any;
  }
  std::uint32_t role(const Operation& operation) {
    const std::uint32_t role = g_.roles[operation.index()];
    if ((role & 0x80000000U) != 0) return role;
    const auto linear = std::make_unique<bool[]>(operation.num_inputs());
    for (std::size_t k = 0; k < operation.num_inputs(); ++k) linear[k] = operation.is_linear_in(k);
    return builder_.make_role(std::span<const bool>(linear.get(), operation.num_inputs()));
  }

  // The operation, or its replacement by the rule. Types of results may be null.
  Values put(const OpRecord* record, std::span<const ValueId> ids, const Type* types, std::uint32_t count,
             const GraphBuilder::Extra& extra) {
    const Primitive& primitive = *record->primitive;
    std::vector<Type> inferred;
    if (types == nullptr) {
      std::vector<Type> from;
      for (const ValueId id : ids) from.push_back(builder_.data().types[id]);
      infer_types(Op::of(record), from, inferred);
      types = inferred.data();
      count = static_cast<std::uint32_t>(inferred.size());
    }
    const bool may = options_.rules && primitive.simplify != nullptr && depth_ < deepest && fuel_ > 0 &&
                     !primitive.has_trait(Trait::impure) && !primitive.has_trait(Trait::barrier);
    if (may) {
      Values results = simplified(record, ids, {types, count});
      if (!results.empty()) return results;
    }
    const ValueId first = add(record, ids, types, count, extra);
    Values results;
    results.resize(count);
    for (std::uint32_t slot = 0; slot < count; ++slot) results[slot] = Value(this, first + slot);
    return results;
  }

  Values simplified(const OpRecord* record, std::span<const ValueId> ids, std::span<const Type> types) {
    constexpr std::size_t few = 4;
    if (ids.size() > few) {
      std::vector<Value> operands;
      const auto shared = std::make_unique<bool[]>(ids.size());
      for (std::size_t i = 0; i < ids.size(); ++i) {
        operands.emplace_back(this, ids[i]);
        shared[i] = is_shared(ids[i]);
      }
      return apply(record, operands, types, {shared.get(), ids.size()});
    }
    Value operands[few];
    bool shared[few]{};
    for (std::size_t i = 0; i < ids.size(); ++i) {
      operands[i] = Value(this, ids[i]);
      shared[i] = is_shared(ids[i]);
    }
    return apply(record, {operands, ids.size()}, types, {shared, ids.size()});
  }
  Values apply(const OpRecord* record, std::span<const Value> operands, std::span<const Type> types,
               std::span<const bool> shared) {
    const Op op = Op::of(record);
    SimplifyContext context(*this, op, operands, types, shared);
    ++depth_;
    --fuel_;
    Values results = ask(*record->primitive, context);
    --depth_;
    if (results.empty()) return results;
    changed_ = true;
    bool fits = results.size() == types.size();
    for (std::size_t i = 0; fits && i < types.size(); ++i)
      fits = results[i].is_of(*this) && type_of(results[i].id()) == types[i];
    if (!fits) {
      throw Error(ErrorKind::internal,
                  detail::str('[', op.name(), "] the simplify rule gave ", results.size(), " values for ",
                              types.size(), " results, or other types"));
    }
    return results;
  }
  // A rule may emit primitives that a user's set lacks: then it has no effect.
  static Values ask(const Primitive& primitive, SimplifyContext& context) {
    try {
      return primitive.simplify(context);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::unknown_primitive) throw;
      return Values();
    } catch (...) {
      const std::string got = detail::foreign_exception();
      throw Error(ErrorKind::internal,
                  detail::str('[', primitive.name, "] expected its simplify rule to run, got ", got));
    }
  }
  bool is_shared(ValueId id) const { return id < new_reads_.size() && new_reads_[id] > 1; }

  ValueId add(const OpRecord* record, std::span<const ValueId> ids, const Type* types, std::uint32_t count,
              const GraphBuilder::Extra& extra) {
    const std::size_t before = builder_.num_values();
    const ValueId first = builder_.add_typed(record, ids, types, count, extra);
    if (builder_.num_values() != before) find_splat(*record, ids, first, count);
    return first;
  }
  void find_splat(const OpRecord& record, std::span<const ValueId> ids, ValueId first, std::uint32_t count) {
    const Primitive& primitive = *record.primitive;
    std::uint32_t found = no_index;
    if (ids.empty() && count == 1 && primitive.has_trait(Trait::constant)) {
      if (const Literal* literal = only_literal(record)) {
        const bool gives_it = primitive.has_trait(Trait::repeats) || literal->type() == type_of(first);
        const std::optional<Literal> element = gives_it ? repeated_element(*literal) : std::nullopt;
        if (element && element->type().dtype() == type_of(first).dtype()) {
          found = static_cast<std::uint32_t>(splats_.size());
          splats_.push_back(*element);
        }
      }
    } else if (ids.size() == 1 && count == 1 && !primitive.has_trait(Trait::barrier) &&
               (primitive.has_trait(Trait::repeats) || primitive.has_trait(Trait::view))) {
      if (ids[0] < splat_of_.size()) found = splat_of_[ids[0]];
    }
    if (found == no_index) return;
    splat_of_.resize(builder_.num_values(), no_index);
    splat_of_[first] = found;
  }

  const Graph& graph_;
  const GraphData& g_;
  GraphBuilder builder_;
  const RewriteOptions options_;
  std::vector<bool> live_;                // by old value: does an output depend on it?
  std::vector<ValueId> values_;           // by old value: the new one
  std::vector<std::uint32_t> reads_;      // by old value: operands that it is; an output counts twice
  std::vector<std::uint32_t> new_reads_;  // by new value: those of the old values that it stands for
  std::vector<ValueId> last_bound_;       // by new value: the last of the old ones that it stands for
  std::vector<ValueId> bound_before_;     // by old value: the one before it
  mutable std::vector<bool> is_output_;   // by old value
  mutable std::vector<std::uint32_t> first_reader_, readers_;  // by old value: index of its first reader
  std::vector<std::uint32_t> wheres_;                          // by old source location: the new one
  std::vector<std::uint32_t> moved_;                           // by old operation: the new one
  std::vector<std::uint32_t> splat_of_;  // by new value: index into splats_, or no_index
  std::vector<Literal> splats_;
  std::vector<ValueId> operands_;
  std::uint32_t where_ = no_index;  // of the operation that is being simplified
  int depth_ = 0;
  int fuel_ = 0;
  bool changed_ = false;
};

}  // namespace

Graph rewrite(const Graph& graph, const RewriteOptions& options) { return Simplifier(graph, options).run(); }

Graph simplify(const Graph& graph, bool fast_math) { return rewrite(graph, {.fast_math = fast_math}); }

}  // namespace tidu::passes
