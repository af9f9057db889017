// batch.cpp - one forward sweep: an operation that a batched value reaches goes through its batch rule,
// others are copied. The Batcher is the emitter that rules see; it keeps the roles of a linear graph.
#include "tidu/linearize/batch.hpp"

#include "linearize/rule_call.hpp"
#include "tidu/graph/builder.hpp"
#include "tidu/graph/error.hpp"

namespace tidu {
namespace {

using detail::RuleKind;

Type with_axis(Type type, std::int64_t size) {
  Shape shape{size};
  shape.insert(shape.end(), type.shape().begin(), type.shape().end());
  return type.with_shape(shape);
}

class Batcher final : public Emitter, public detail::InnerServices {
 public:
  Batcher(const Graph& graph, std::int64_t size, const BatchOptions& options, detail::InnerGraphs* inner)
      : InnerServices(options.context, inner),
        graph_(graph),
        size_(size),
        options_(options),
        builder_(graph.name(), graph.primitives(), {.deduplicate = true, .record_where = false}) {
    if (size < 0)
      throw Error(ErrorKind::invalid_argument, detail::str("batch: expected a size >= 0, got ", size));
    const std::vector<bool> batched = options.inputs.value_or(std::vector<bool>(graph.inputs().size(), true));
    if (batched.size() != graph.inputs().size()) {
      throw Error(ErrorKind::invalid_argument,
                  detail::str("batch: expected ", graph.inputs().size(), " flags for the inputs of ",
                              detail::in_quotes(graph.name()), ", got ", batched.size()));
    }
    values_.assign(graph.num_values(), Value());
    batched_.assign(graph.num_values(), 0);
    find_linear_inputs();
    for (std::size_t i = 0; i < graph.inputs().size(); ++i) {
      const ValueId id = graph.inputs()[i];
      const Type type = batched[i] ? with_axis(graph.type(id), size) : graph.type(id);
      values_[id] = Value(this, builder_.input(graph.input_key(i), type, graph.label(id)).id());
      batched_[id] = batched[i] ? 1 : 0;
      mark(values_[id].id(), linear_source_[id] != 0);
    }
    for (const ValueId id : graph.externals()) {
      values_[id] = Value(this, builder_.add_external(graph.key(id), graph.type(id)));
    }
  }

  Batching run() {
    for (std::uint32_t i = 0; i < graph_.num_operations(); ++i) {
      current_ = i;
      apply(i);
    }
    Batching result;
    std::vector<ValueId> outputs;
    for (const ValueId id : graph_.outputs()) {
      Value value = values_[id];
      bool carried = batched_[id] != 0;
      if (!carried && options_.all_outputs) {
        current_ = no_index;
        const auto broadcast = graph_.primitives().transform_ops().broadcast;
        if (broadcast == nullptr) {
          throw Error(ErrorKind::unknown_primitive,
                      detail::str("batch: expected a primitive set that can broadcast output %", id,
                                  ", which no batched input reaches"));
        }
        value = broadcast(value, size_);
        carried = true;
      }
      outputs.push_back(value.id());
      result.batched_outputs.push_back(carried);
    }
    result.graph = builder_.build_ids(std::move(outputs));
    return result;
  }

  Type type_of(ValueId id) const override { return builder_.type_of(id); }
  const PrimitiveSet& primitives() const override { return builder_.primitives(); }
  Values emit(const Op& op, std::span<const Value> operands, Where) override {
    if (!primitives().contains(&op.primitive())) return emit(builder_.resolve(op), operands, {});
    ids_.clear();
    flags_.clear();
    bool any_linear = false;
    for (std::size_t i = 0; i < operands.size(); ++i) {
      if (!operands[i].is_of(*this)) {
        throw Error(ErrorKind::invalid_argument, detail::str('[', op.name(), "] expected operand ", i,
                                                             " to be a value of the rule that runs, got ",
                                                             detail::foreign_value(operands[i])));
      }
      ids_.push_back(operands[i].id());
      flags_.push_back(ids_.back() < linear_.size() ? linear_[ids_.back()] : 0);
      any_linear = any_linear || flags_.back() != 0;
    }
    GraphBuilder::Extra extra;
    if (any_linear)
      extra.role = builder_.make_role(std::span(reinterpret_cast<const bool*>(flags_.data()), flags_.size()));
    if (current_ != no_index) {
      extra.origin = graph_.operation(current_).origin();
      if (!graph_.operation(current_).where().empty())
        extra.where = builder_.intern_where(graph_.operation(current_).where());
    }
    const ValueId first = builder_.add(op.record(), ids_, extra);
    const std::uint32_t count = builder_.data().operations[builder_.data().producers[first]].num_outputs;
    Values results;
    results.resize(count);
    for (std::uint32_t slot = 0; slot < count; ++slot) {
      mark(first + slot, any_linear);
      results[slot] = Value(this, first + slot);
    }
    return results;
  }

 private:
  [[noreturn]] void rule_error(const std::string& message) const {
    detail::raise_rule_error(RuleKind::batch, graph_, current_, message);
  }

  void mark(ValueId id, bool is_linear) {
    if (id >= linear_.size()) linear_.resize(static_cast<std::size_t>(id) + 1 + id / 2, 0);
    if (is_linear) linear_[id] = 1;
  }

  // Inputs that some operation is linear in.
  void find_linear_inputs() {
    linear_source_.assign(graph_.num_values(), 0);
    if (graph_.data().roles.empty()) return;
    for (std::size_t i = 0; i < graph_.num_operations(); ++i) {
      const Operation operation = graph_.operation(i);
      for (std::size_t k = 0; k < operation.num_inputs() && operation.is_linear(); ++k) {
        if (operation.is_linear_in(k)) linear_source_[operation.input(k)] = 1;
      }
    }
  }

  void apply(std::uint32_t index) {
    const Operation operation = graph_.operation(index);
    operands_.clear();
    carried_.clear();
    types_.clear();
    bool any = false;
    for (const ValueId id : operation.inputs()) {
      operands_.push_back(values_[id]);
      carried_.push_back(batched_[id]);
      types_.push_back(graph_.type(id));
      any = any || batched_[id] != 0;
    }
    const Op op = operation.op();
    if (!any) {
      const Values results = emit(op, operands_, {});
      for (std::size_t slot = 0; slot < results.size(); ++slot)
        values_[operation.output(slot)] = results[slot];
      return;
    }
    const Primitive& primitive = operation.primitive();
    if (primitive.batch == nullptr) rule_error("expected a batch rule, got a record without one");
    const detail::RuleFrame frame{op, *this, *this, options_.context};
    BatchContext rule_context(frame, operands_,
                              std::span(reinterpret_cast<const bool*>(carried_.data()), carried_.size()),
                              types_, size_);
    const Values results =
        detail::in_rule(RuleKind::batch, graph_, index, [&] { return primitive.batch(rule_context); });
    if (results.size() != operation.num_outputs()) {
      rule_error(detail::str("expected ", operation.num_outputs(), " results from the batch rule, got ",
                             results.size()));
    }
    for (std::size_t slot = 0; slot < results.size(); ++slot) {
      // A barrier passes each operand on unchanged; for an operation that holds graphs, each result's type
      // shows whether a batched value reaches it.
      const Type type = graph_.type(operation.output(slot));
      const bool carried = primitive.has_trait(Trait::barrier)
                               ? batched_[operation.input(slot)] != 0
                               : !primitive.has_trait(Trait::holds_graph) || results[slot].type() != type;
      const Type expected = carried ? with_axis(type, size_) : type;
      if (!results[slot].is_of(*this) || results[slot].type() != expected) {
        rule_error(detail::str("expected result ", slot, " of type ", expected, ", got ",
                               results[slot] == Value()      ? std::string("a default-constructed Value")
                               : !results[slot].is_of(*this) ? std::string("a value of another emitter")
                                                             : to_string(results[slot].type())));
      }
      values_[operation.output(slot)] = results[slot];
      batched_[operation.output(slot)] = carried ? 1 : 0;
    }
  }

  const Graph& graph_;
  std::int64_t size_;
  const BatchOptions& options_;
  GraphBuilder builder_;
  std::uint32_t current_ = no_index;
  std::vector<Value> values_;
  std::vector<char> batched_;
  std::vector<char> linear_source_;  // by value of the graph
  std::vector<char> linear_;         // by value of the builder
  // scratch
  std::vector<Value> operands_;
  std::vector<char> carried_, flags_;
  std::vector<Type> types_;
  std::vector<ValueId> ids_;
};

}  // namespace

Batching batch(const Graph& graph, std::int64_t size, const BatchOptions& options) {
  return Batcher(graph, size, options, nullptr).run();
}

Batching detail::batch_inner(const Graph& graph, std::int64_t size, const BatchOptions& options,
                             InnerGraphs& inner) {
  return Batcher(graph, size, options, &inner).run();
}

Result<Batching> try_batch(const Graph& graph, std::int64_t size, const BatchOptions& options) {
  return detail::capture([&] { return batch(graph, size, options); });
}

}  // namespace tidu
