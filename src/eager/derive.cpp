// derive.cpp - from a cached graph and a mask of active inputs to the saved operands of a node and its
// backward programs: linearize, transpose, and divide the residuals into saved operands, rematerialized
// values, and constants.
#include <algorithm>
#include <optional>
#include <unordered_map>

#include "eager/cached_graph.hpp"
#include "eager/forward_slice.hpp"
#include "graph/defect.hpp"
#include "graph/in_all.hpp"
#include "graph/kept_bytes.hpp"
#include "tidu/graph/builder.hpp"
#include "tidu/graph/error.hpp"
#include "tidu/linearize/transpose.hpp"

namespace tidu::eager::detail {
namespace {

using tidu::detail::printable;
using tidu::detail::str;

// In the graph or in one that its operations hold.
bool has_16_bits(const Graph& graph) {
  const auto narrow = [](const Graph& each) {
    const FlatArray<Type>& types = each.data().types;
    return static_cast<std::size_t>(std::any_of(types.begin(), types.end(), [](Type type) {
      return accumulation_dtype(type.dtype()) != type.dtype();
    }));
  };
  return tidu::detail::InAll(narrow).of(graph) != 0;
}

// Makes one BackwardProgram.
class BackwardProgramBuilder {
 public:
  BackwardProgramBuilder(const Specialization& specialization,
                         std::shared_ptr<const Linearization> linearization)
      : specialization_(specialization),
        graph_(specialization.owner->graph),
        linearization_(std::move(linearization)),
        augmented_(linearization_->augmented),
        base_(augmented_.num_values(), no_index) {
    offer();
  }

  std::unique_ptr<BackwardProgram> make(const Mask& seeded, const Mask& wanted, bool wide_accumulation,
                                        ADContext* context, std::vector<SavedSource>* plan) {
    auto program = std::make_unique<BackwardProgram>();
    program_ = program.get();
    program->seeded = seeded;
    program->wanted = wanted;
    program->wide_accumulation = wide_accumulation;
    program->has_16_bits = has_16_bits(linearization_->linear);
    program->linearization = linearization_;
    transpose(context);
    const std::vector<bool> needed = reachable(program->open, program->open_outputs);
    sort_residuals(needed);
    slice_forward(plan != nullptr);
    name_saved(plan);
    tidu::detail::own_step(str("putting together backward of ", printable(graph_.name())), [&] {
      build_forward();
      build_transposed(needed);
    });
    return program;
  }

 private:
  // The values whose operands the tape may keep: inputs first, then values that the frontend retains.
  void offer() {
    const auto enter = [&](SavedSource::Kind kind, std::size_t index, ValueId value) {
      const ValueId id = linearization_->in_augmented(value);
      if (id == no_index || base_[id] != no_index) return;
      base_[id] = static_cast<std::uint32_t>(sources_.size());
      sources_.push_back({kind, static_cast<std::uint32_t>(index), value});
      source_ids_.push_back(id);
    };
    for (std::size_t i = 0; i < graph_.inputs().size(); ++i)
      enter(SavedSource::Kind::input, i, graph_.inputs()[i]);
    if (specialization_.outputs_given) {
      for (std::size_t i = 0; i < graph_.outputs().size(); ++i)
        enter(SavedSource::Kind::output, i, graph_.outputs()[i]);
    }
    for (std::size_t i = 0; i < specialization_.retained.size(); ++i)
      enter(SavedSource::Kind::retained, i, specialization_.retained[i]);
  }

  void transpose(ADContext* context) {
    TransposeOptions options;
    options.context = context;
    options.wide_accumulation = program_->wide_accumulation;
    std::vector<bool> seeds;
    for (std::size_t slot = 0; slot < graph_.outputs().size(); ++slot) {
      if (!linearization_->tangent_of_output[slot]) continue;
      const bool seeded = test(program_->seeded, slot);
      seeds.push_back(seeded);
      if (seeded) program_->seeded_outputs.push_back(static_cast<std::uint32_t>(slot));
    }
    options.seeded = std::move(seeds);
    count_transposition();
    Transposition transposition = linear_transpose(linearization_->linear, options);
    for (std::uint32_t edge = 0; edge < specialization_.edges.size(); ++edge) {
      if (!test(program_->wanted, edge) || !transposition.cotangent_of_input[edge]) continue;
      program_->output_edge.push_back(edge);
      program_->open_outputs.push_back(
          transposition.graph.outputs()[*transposition.cotangent_of_input[edge]]);
    }
    program_->open = std::move(transposition.graph);
    std::unordered_map<ValueKey, ValueId> residuals;
    const Graph& linear = linearization_->linear;
    for (std::size_t j = 0; j < linear.externals().size(); ++j)
      residuals.emplace(linear.key(linear.externals()[j]), linearization_->residuals[j]);
    for (const ValueId id : program_->open.externals())
      program_->open_externals.push_back(residuals.at(program_->open.key(id)));
  }

  // Is the value made of constants alone? Such a residual is made where it is needed.
  bool is_constant(ValueId id) {
    if (constant_.empty()) {
      constant_.assign(augmented_.num_values(), 0);
      const GraphData& g = augmented_.data();
      for (const OperationRecord& record : g.operations) {
        bool constant = !record.op->impure;
        for (std::uint32_t k = 0; k < record.num_inputs; ++k)
          constant = constant && constant_[g.operands[record.first_input + k]] != 0;
        for (std::uint32_t slot = 0; slot < record.num_outputs; ++slot)
          constant_[record.first_output + slot] = constant ? 1 : 0;
      }
    }
    return base_[id] == no_index && constant_[id] != 0;
  }

  // Does the operation read constants alone, and is any of its results among the wanted values? `wanted` also
  // holds the operands of impure operations, which need not be constants. After a call of is_constant.
  bool gives_constant(std::uint32_t i, const std::vector<bool>& wanted) const {
    const OperationRecord& record = augmented_.data().operations[i];
    if (constant_[record.first_output] == 0) return false;
    for (std::uint32_t slot = 0; slot < record.num_outputs; ++slot)
      if (wanted[record.first_output + slot]) return true;
    return false;
  }

  void sort_residuals(const std::vector<bool>& needed) {
    const auto externals = program_->open.externals();
    needed_external_.assign(externals.size(), 0);
    for (std::size_t i = 0; i < externals.size(); ++i) {
      if (!needed[externals[i]]) continue;
      needed_external_[i] = 1;
      const ValueId id = program_->open_externals[i];
      if (base_[id] != no_index) {
        use(base_[id]);
      } else if (!is_constant(id)) {
        program_->computed.push_back(id);
      }
    }
  }
  void use(std::uint32_t source) {
    if (used_.empty()) used_.assign(sources_.size(), 0);
    used_[source] = 1;
  }

  // The operations that compute `computed` from saved operands. Results that the specialization's plan did
  // not save are recomputed, although this program alone would read them.
  void slice_forward(bool plans) {
    if (program_->computed.empty()) return;
    std::vector<Saved> saved(augmented_.num_values(), Saved::no);
    for (std::uint32_t s = 0; s < sources_.size(); ++s) {
      const bool input = sources_[s].kind == SavedSource::Kind::input;
      if (input || plans) saved[source_ids_[s]] = input ? Saved::as_input : Saved::as_result;
    }
    if (!plans) {
      for (const SavedSource& each : specialization_.saved)
        if (each.kind != SavedSource::Kind::input)
          saved[linearization_->in_augmented(each.value)] = Saved::as_result;
    }
    slice_.emplace(augmented_, std::move(saved));
    slice_->compute(program_->computed);
    for (const ValueId id : slice_->reads()) use(base_[id]);
  }

  // Saves values that a later derivative reads and this one does not. The derivative of a value is defined by
  // the rule of its operation on the operands; it reads the inputs of the operation, if they were given. This
  // concerns three kinds of values: retained values; outputs of operations that a rule replaced
  // (custom_vjp_call, custom_jvp_call, call), which the first derivative need not examine; and one of several
  // outputs, which the derivative of another may read (that of sin x reads cos x) and which may be the only
  // one that a later derivative keeps. The derivative of a single output reads the same values in every
  // order.
  void use_what_later_derivatives_read() {
    if (used_.empty()) return;
    const bool open = !linearization_->value_map.empty() || graph_.outputs().size() > 1;
    std::vector<ValueId> roots;
    for (std::uint32_t s = 0; s < sources_.size(); ++s) {
      const SavedSource::Kind kind = sources_[s].kind;
      const bool root = kind == SavedSource::Kind::retained || (open && kind == SavedSource::Kind::output);
      if (root && used_[s] != 0) roots.push_back(source_ids_[s]);
    }
    if (roots.empty()) return;
    const std::vector<bool> reached = reachable(augmented_, roots);
    for (std::uint32_t s = 0; s < sources_.size(); ++s) {
      if (sources_[s].kind != SavedSource::Kind::input || !reached[source_ids_[s]]) continue;
      if (specialization_.retained.empty() || test(specialization_.given, sources_[s].index)) use(s);
    }
  }

  // Which saved operand is which: the plan is made here when the specialization has none yet.
  void name_saved(std::vector<SavedSource>* plan) {
    if (plan != nullptr) use_what_later_derivatives_read();
    saved_of_.assign(sources_.size(), no_index);
    if (plan != nullptr) {
      for (std::uint32_t s = 0; s < sources_.size(); ++s) {
        if (used_.empty() || used_[s] == 0) continue;
        saved_of_[s] = static_cast<std::uint32_t>(plan->size());
        plan->push_back(sources_[s]);
      }
    }
    const std::vector<SavedSource>& saved = plan != nullptr ? *plan : specialization_.saved;
    for (std::uint32_t k = 0; k < saved.size(); ++k) {
      const ValueId id = linearization_->in_augmented(saved[k].value);
      program_->saved_values.push_back(id);
      saved_of_[base_[id]] = k;
    }
    for (std::uint32_t s = 0; s < sources_.size(); ++s) {
      if (used_.empty() || used_[s] == 0 || saved_of_[s] != no_index) continue;
      constexpr const char* kinds[] = {"input ", "output ", "retained value "};
      throw Error(ErrorKind::tape,
                  str('[', printable(specialization_.owner->name()), "] expected the tape to hold ",
                      kinds[static_cast<std::size_t>(sources_[s].kind)], sources_[s].index,
                      ", which the rules read in this context but did not when it was "
                      "recorded; record with save_everything"));
    }
  }

  std::uint32_t saved_index(ValueId id) const { return saved_of_[base_[id]]; }

  // Emits the operations for which `wanted` holds; values already there are kept. `origins`: by operation of
  // the builder, which one it is.
  template <class Wanted>
  void emit_augmented(GraphBuilder& builder, std::vector<Value>& values, const Wanted& wanted,
                      std::vector<std::uint32_t>& origins) const {
    std::vector<Value> operands;
    for (std::uint32_t i = 0; i < augmented_.num_operations(); ++i) {
      if (!wanted(i)) continue;
      const Operation operation = augmented_.operation(i);
      operands.clear();
      for (const ValueId id : operation.inputs()) operands.push_back(values[id]);
      const Values results = builder.emit(operation.op(), operands);
      origins.resize(builder.num_operations(), i);
      for (std::size_t slot = 0; slot < results.size(); ++slot) {
        Value& value = values[operation.output(slot)];
        if (value.emitter() == nullptr) value = results[slot];
      }
    }
  }

  void build_forward() {
    if (program_->computed.empty()) return;
    GraphBuilder builder("residuals of " + specialization_.owner->name(), graph_.primitives());
    std::vector<Value> values(augmented_.num_values());
    for (const ValueId id : slice_->reads()) {
      values[id] = builder.input(std::to_string(program_->forward_inputs.size()), augmented_.type(id));
      program_->forward_inputs.push_back(saved_index(id));
    }
    emit_augmented(
        builder, values, [&](std::uint32_t i) { return slice_->runs(i); }, program_->forward_origins);
    std::vector<Value> outputs;
    for (const ValueId id : program_->computed) outputs.push_back(values[id]);
    program_->forward = builder.build(outputs);
  }

  void build_transposed(const std::vector<bool>& needed) {
    const Graph& open = program_->open;
    GraphBuilder builder("backward of " + specialization_.owner->name(), graph_.primitives());
    std::vector<Value> externals(open.externals().size());
    std::vector<std::size_t> constants;
    for (std::size_t i = 0; i < externals.size(); ++i) {
      if (needed_external_[i] == 0) continue;
      const ValueId id = program_->open_externals[i];
      if (is_constant(id)) {
        constants.push_back(i);
        continue;
      }
      externals[i] = builder.input(std::to_string(program_->residuals.size()), augmented_.type(id));
      if (base_[id] != no_index) {
        program_->residuals.push_back(saved_index(id));
      } else {
        const auto at = std::find(program_->computed.begin(), program_->computed.end(), id);
        program_->residuals.push_back(static_cast<std::uint32_t>(at - program_->computed.begin()) |
                                      BackwardProgram::computed_bit);
      }
    }
    std::vector<Value> cotangents;
    for (const std::uint32_t slot : program_->seeded_outputs) {
      cotangents.push_back(builder.input(str("cotangent.", slot), graph_.type(graph_.outputs()[slot])));
    }
    if (!constants.empty()) {
      std::vector<ValueId> roots;
      for (const std::size_t i : constants) roots.push_back(program_->open_externals[i]);
      const std::vector<bool> wanted = reachable(augmented_, roots);
      std::vector<Value> values(augmented_.num_values());
      std::vector<std::uint32_t> constants_alone;
      emit_augmented(
          builder, values, [&](std::uint32_t i) { return gives_constant(i, wanted); }, constants_alone);
      for (const std::size_t i : constants) externals[i] = values[program_->open_externals[i]];
    }
    const std::vector<Value> values = inline_graph(builder, open, cotangents, externals, &needed);
    std::vector<Value> outputs;
    for (const ValueId id : program_->open_outputs) outputs.push_back(values[id]);
    program_->transposed_origins = origins_of(builder, values);
    program_->transposed = builder.build(outputs);
  }

  // By operation of the builder: the one of the cached graph that it derives from. `values`: by value
  // of the open graph.
  std::vector<std::uint32_t> origins_of(const GraphBuilder& builder, const std::vector<Value>& values) const {
    std::vector<std::uint32_t> origins(builder.num_operations(), no_index);
    const Graph& open = program_->open;
    for (std::uint32_t i = 0; i < open.num_operations(); ++i) {
      const Operation operation = open.operation(i);
      const Value& value = values[operation.output()];
      if (value.emitter() != nullptr) origins[builder.data().producers[value.id()]] = operation.origin();
    }
    return origins;
  }

  const Specialization& specialization_;
  const Graph& graph_;
  std::shared_ptr<const Linearization> linearization_;
  const Graph& augmented_;
  BackwardProgram* program_ = nullptr;
  std::vector<std::uint32_t> base_;  // by value of augmented: index into sources_, or no_index
  std::vector<SavedSource> sources_;
  std::vector<ValueId> source_ids_;
  std::vector<char> used_;               // by source
  std::vector<std::uint32_t> saved_of_;  // by source: index of the saved operand
  std::vector<char> constant_, needed_external_;
  std::optional<ForwardSlice> slice_;
};

}  // namespace

std::optional<Key128> key_of(ADContext* context) {
  if (context == nullptr) return Key128{};
  const std::optional<Key128> key = context->cache_key();
  // Mixed, so that no key of a user's is that of no context.
  return key ? std::optional<Key128>(tidu::detail::mix(*key, "context")) : std::nullopt;
}

std::unique_ptr<CachedLinearization> make_linearization(const Specialization& specialization,
                                                        ADContext* context) {
  auto cached = std::make_unique<CachedLinearization>();
  cached->context = key_of(context);
  LinearizeOptions options;
  options.wrt.emplace(specialization.edges.begin(), specialization.edges.end());
  options.context = context;
  count_linearization();
  cached->linearization =
      std::make_shared<const Linearization>(linearize(specialization.owner->graph, options));
  return cached;
}

std::unique_ptr<BackwardProgram> make_program(const Specialization& specialization,
                                              std::shared_ptr<const Linearization> linearization,
                                              const Mask& seeded, const Mask& wanted, bool wide_accumulation,
                                              ADContext* context, std::vector<SavedSource>* plan) {
  return BackwardProgramBuilder(specialization, std::move(linearization))
      .make(seeded, wanted, wide_accumulation, context, plan);
}

}  // namespace tidu::eager::detail
