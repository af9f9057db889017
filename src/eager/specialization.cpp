// specialization.cpp - the state of a cached graph for a mask of active inputs: the operands that nodes save,
// and linearizations and backward programs by context, which are made on demand (derive.cpp).
#include <algorithm>

#include "eager/cached_graph.hpp"
#include "graph/defect.hpp"
#include "graph/kept_bytes.hpp"
#include "tidu/graph/builder.hpp"
#include "tidu/graph/error.hpp"

namespace tidu::eager::detail {
namespace {

using tidu::detail::str;

Mask all_bits(std::size_t count) {
  Mask mask = make_mask(count);
  for (std::size_t i = 0; i < count; ++i) set(mask, i);
  return mask;
}

// Would the rules fail again? After an error with an outside cause (memory, a rule that accessed a missing
// object) the next call tries again.
bool lies_in_the_graph(const Error& error) {
  const ErrorKind kind = error.kind();
  return dynamic_cast<const tidu::detail::Defect*>(&error) != nullptr || kind == ErrorKind::ad_rule ||
         kind == ErrorKind::invalid_argument || kind == ErrorKind::type || kind == ErrorKind::attribute ||
         kind == ErrorKind::unknown_primitive;
}

// Counts the linearization towards the bytes of its cached graph.
std::unique_ptr<CachedLinearization> counted(const CachedGraph* owner,
                                             std::unique_ptr<CachedLinearization> cached) {
  const Linearization& made = *cached->linearization;
  count_bytes(owner, tidu::detail::array_bytes(made.augmented) + tidu::detail::array_bytes(made.linear));
  return cached;
}
std::unique_ptr<BackwardProgram> counted(const CachedGraph* owner, std::unique_ptr<BackwardProgram> program) {
  std::size_t bytes = 0;
  for (const Graph* graph : {&program->forward, &program->transposed, &program->open})
    bytes += tidu::detail::array_bytes(*graph);
  count_bytes(owner, bytes);
  program->forward_slot.count_for(owner);
  program->transposed_slot.count_for(owner);
  return program;
}

}  // namespace

std::unique_ptr<Specialization> CachedGraph::make_specialization(
    std::unique_ptr<Specialization> specialization, ADContext* context) const {
  specialization->owner = this;
  for (std::uint32_t i = 0; i < graph.inputs().size(); ++i)
    if (test(specialization->active, i)) specialization->edges.push_back(i);
  specialization->output_active.assign(output_types.size(), 0);
  if (specialization->saves_everything) {
    for (std::uint32_t i = 0; i < graph.inputs().size(); ++i)
      if (test(specialization->given, i))
        specialization->saved.push_back({SavedSource::Kind::input, i, graph.inputs()[i]});
    if (specialization->outputs_given) {
      for (std::uint32_t i = 0; i < graph.outputs().size(); ++i)
        specialization->saved.push_back({SavedSource::Kind::output, i, graph.outputs()[i]});
    }
    for (std::uint32_t i = 0; i < specialization->retained.size(); ++i)
      specialization->saved.push_back({SavedSource::Kind::retained, i, specialization->retained[i]});
    for (std::size_t i = 0; i < output_types.size(); ++i)
      specialization->output_active[i] = is_inexact(output_types[i].dtype()) ? 1 : 0;
  } else {
    try {
      std::unique_ptr<CachedLinearization> cached = make_linearization(*specialization, context);
      const auto& tangents = cached->linearization->tangent_of_output;
      Mask seeded = make_mask(output_types.size());
      for (std::size_t i = 0; i < output_types.size(); ++i) {
        specialization->output_active[i] = tangents[i] ? 1 : 0;
        if (tangents[i]) set(seeded, i);
      }
      std::vector<SavedSource> plan;
      std::unique_ptr<BackwardProgram> program =
          make_program(*specialization, cached->linearization, seeded, all_bits(specialization->edges.size()),
                       true, context, &plan);
      specialization->saved = std::move(plan);
      if (cached->context) {
        cached->programs.publish(counted(this, std::move(program)),
                                 [](const BackwardProgram&) { return false; });
        specialization->linearizations.publish(counted(this, std::move(cached)),
                                               [](const CachedLinearization&) { return false; });
      }
    } catch (const Error& error) {
      if (!lies_in_the_graph(error)) throw;
      specialization->failure = error.clone();
      specialization->saved.clear();
      for (std::size_t i = 0; i < output_types.size(); ++i)
        specialization->output_active[i] = is_inexact(output_types[i].dtype()) ? 1 : 0;
    }
  }
  specialization->single_output = output_types.size() == 1;
  for (const char active : specialization->output_active)
    specialization->any_active = specialization->any_active || active != 0;
  return specialization;
}

BackwardProgram& Specialization::program(const Mask& seeded, const Mask& wanted, bool wide_accumulation,
                                         ADContext* user, std::shared_ptr<CachedLinearization>& keep) const {
  if (failure != nullptr && (user == nullptr || key_of(user) == context)) failure->raise();
  const std::optional<Key128> key = key_of(user);
  CachedLinearization* cached = nullptr;
  std::size_t known = 0;
  for (CachedLinearization* at = linearizations.head(); key && at != nullptr && cached == nullptr;
       at = at->next) {
    if (at->context == key) cached = at;
    ++known;
  }
  // Contexts whose keys never come again fill no memory.
  if (cached == nullptr && key && (user == nullptr || known < max_contexts)) {
    cached = linearizations.publish(counted(owner, make_linearization(*this, user)),
                                    [&](const CachedLinearization& other) { return other.context == key; });
  } else if (cached == nullptr) {
    keep = make_linearization(*this, user);
    cached = keep.get();
  }
  const auto same = [&](const BackwardProgram& program) {
    return program.seeded == seeded && program.wanted == wanted && program.accumulates(wide_accumulation);
  };
  for (BackwardProgram* at = cached->programs.head(); at != nullptr; at = at->next)
    if (same(*at)) return *at;
  auto made = make_program(*this, cached->linearization, seeded, wanted, wide_accumulation, user, nullptr);
  if (keep == nullptr) made = counted(owner, std::move(made));
  return *cached->programs.publish(std::move(made), same);
}

const BackwardProgram::Recorded& Specialization::recorded(BackwardProgram& program) const {
  if (const BackwardProgram::Recorded* made = program.recorded.head()) return *made;
  const Graph& augmented = program.linearization->augmented;
  GraphBuilder builder("backward of " + owner->name(), augmented.primitives());
  std::vector<Value> inputs;
  for (const Type type : owner->input_types)
    inputs.push_back(builder.input(std::to_string(inputs.size()), type));
  std::vector<Value> cotangents;
  for (const std::uint32_t slot : program.seeded_outputs)
    cotangents.push_back(builder.input(str("cotangent.", slot), owner->output_types[slot]));
  const std::vector<bool> wanted = reachable(augmented, program.open_externals);
  const std::vector<Value> values = inline_graph(builder, augmented, inputs, {}, &wanted);
  std::vector<Value> externals;
  for (const ValueId id : program.open_externals) externals.push_back(values[id]);
  const std::vector<bool> needed = reachable(program.open, program.open_outputs);
  const std::vector<Value> results = inline_graph(builder, program.open, cotangents, externals, &needed);
  std::vector<Value> outputs;
  for (const ValueId id : program.open_outputs) outputs.push_back(results[id]);
  const auto places = [&](const std::vector<ValueId>& ids) {
    std::vector<ValueId> at;
    for (const ValueId id : ids)
      at.push_back(wanted[id] && values[id].emitter() != nullptr ? values[id].id() : no_index);
    return at;
  };
  std::vector<ValueId> saved_at = places(program.saved_values);
  std::vector<ValueId> computed_at = places(program.computed);
  auto made = std::make_unique<BackwardProgram::Recorded>(BackwardProgram::Recorded{
      RecordedGraph::of(builder.build(outputs)), std::move(saved_at), std::move(computed_at), nullptr});
  return *program.recorded.publish(std::move(made), [](const BackwardProgram::Recorded&) { return true; });
}

}  // namespace tidu::eager::detail
