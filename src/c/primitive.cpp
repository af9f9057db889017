// primitive.cpp - primitives of functions in C. The record derives from Primitive, so that a rule finds the
// functions by its op. Records are never freed, since graphs refer to them.
#include <algorithm>
#include <deque>

#include "c/support.hpp"
#include "tidu/graph/infer.hpp"
#include "tidu/graph/rules.hpp"
#include "tidu/primitives/batching.hpp"
#include "tidu/tensor/kernel.hpp"

using namespace tidu;
using namespace tidu::c_detail;
using tidu::detail::str;

struct tidu_primitive : Primitive {
  std::string own_name;
  std::vector<std::string> attribute_names;
  std::vector<AttributeSpec> specs;
  tidu_primitive_functions functions{};
};
struct tidu_results {
  InferContext& context;
};

namespace {

const tidu_primitive& own(const Op& op) { return static_cast<const tidu_primitive&>(op.primitive()); }

template <class... Args>
void run(const Op& op, const char* what, tidu_status (*function)(void*, Args...),
         std::type_identity_t<Args>... args) {
  const Callback callback(what);
  callback.check(function(own(op).functions.user, args...), op.name());
}

// Values of a rule's emitter as ids, and back.
std::uint32_t entered(tidu_emitter& emitter, const Value& value, bool there = true) {
  return there && value.emitter() != nullptr ? emitter.add(value) : TIDU_ABSENT;
}
Derivatives derivatives_of(const tidu_emitter& emitter, std::span<const std::uint32_t> ids,
                           const char* what) {
  Derivatives all;
  for (const std::uint32_t id : ids) {
    all.push_back(id == TIDU_ABSENT ? std::nullopt : std::optional(emitter.value({what}, id, "results")));
  }
  return all;
}

void infer(InferContext& c) {
  const std::vector<tidu_type> types = shown(c.operands());
  tidu_results results{c};
  run(c.op(), "infer", own(c.op()).functions.infer, handle_of(c.op()), types.data(), types.size(), &results);
}

Derivatives jvp(JvpContext& c) {
  tidu_emitter emitter{&c.emitter(), nullptr};
  std::vector<std::uint32_t> operands, tangents, results, made(c.results().size(), TIDU_ABSENT);
  for (std::size_t i = 0; i < c.num_operands(); ++i) {
    operands.push_back(entered(emitter, c.primal(i)));
    tangents.push_back(c.active(i) ? entered(emitter, *c.tangent(i)) : TIDU_ABSENT);
  }
  for (const Value& result : c.results()) results.push_back(entered(emitter, result));
  const tidu_jvp_call call{handle_of(c.op()), &emitter,       operands.size(), operands.data(),
                           tangents.data(),   results.size(), results.data()};
  run(c.op(), "jvp", own(c.op()).functions.jvp, &call, made.data());
  return derivatives_of(emitter, made, "jvp");
}

Derivatives transpose(TransposeContext& c) {
  tidu_emitter emitter{&c.emitter(), nullptr};
  std::vector<std::uint32_t> operands, cotangents, made(c.num_operands(), TIDU_ABSENT);
  std::vector<tidu_type> types;
  for (std::size_t i = 0; i < c.num_operands(); ++i) {
    operands.push_back(c.linear(i) ? TIDU_ABSENT : entered(emitter, c.operand(i)));
    types.push_back(shown(c.operand_type(i)));
  }
  for (std::size_t i = 0; i < c.num_results(); ++i) {
    const std::optional<Value> cotangent = c.cotangent(i);
    cotangents.push_back(cotangent ? entered(emitter, *cotangent) : TIDU_ABSENT);
  }
  const tidu_transpose_call call{handle_of(c.op()), &emitter,          operands.size(),  operands.data(),
                                 types.data(),      cotangents.size(), cotangents.data()};
  run(c.op(), "transpose", own(c.op()).functions.transpose, &call, made.data());
  return derivatives_of(emitter, made, "transpose");
}

std::size_t num_results(const BatchContext& c) {
  const int fixed = c.op().primitive().num_outputs;
  if (fixed != variadic) return static_cast<std::size_t>(fixed);
  std::vector<Type> types;
  for (std::size_t i = 0; i < c.num_operands(); ++i) types.push_back(c.operand_type(i));
  return infer_types(c.op(), types).size();
}

Values batch(BatchContext& c) {
  tidu_emitter emitter{&c.emitter(), nullptr};
  std::vector<std::uint32_t> operands, made(num_results(c), TIDU_ABSENT);
  std::vector<std::uint8_t> batched;
  std::vector<tidu_type> types;
  for (std::size_t i = 0; i < c.num_operands(); ++i) {
    operands.push_back(entered(emitter, c.operand(i)));
    batched.push_back(c.batched(i) ? 1 : 0);
    types.push_back(shown(c.operand_type(i)));
  }
  const tidu_batch_call call{handle_of(c.op()), &emitter,     operands.size(), operands.data(),
                             batched.data(),    types.data(), made.size(),     c.size()};
  run(c.op(), "batch", own(c.op()).functions.batch, &call, made.data());
  Values results;
  for (const std::uint32_t id : made) results.push_back(emitter.value({"batch"}, id, "results"));
  return results;
}

void kernel(const KernelCall& c) {
  std::vector<const void*> operands;
  std::vector<void*> results;
  std::vector<tidu_type> operand_types, result_types;
  for (const Tensor& input : c.inputs()) {
    operands.push_back(input.bytes());
    operand_types.push_back(shown(input.type()));
  }
  for (Tensor& output : c.outputs()) {
    results.push_back(output.mutable_bytes());
    result_types.push_back(shown(output.type()));
  }
  const tidu_kernel_call call{handle_of(c.op()), operands.size(), operands.data(),    operand_types.data(),
                              results.size(),    results.data(),  result_types.data()};
  run(c.op(), "kernel", own(c.op()).functions.kernel, &call);
}

AttributeKind kind_of(const Call& call, tidu_attribute_kind kind) {
  constexpr AttributeKind kinds[] = {AttributeKind::boolean, AttributeKind::integer, AttributeKind::number,
                                     AttributeKind::string,  AttributeKind::dtype,   AttributeKind::ints,
                                     AttributeKind::literal};
  if (kind < 0 || kind > TIDU_ATTRIBUTE_TENSOR)
    call.refuse(ErrorKind::invalid_argument, str("expected an attribute kind of 0 to 6, got ", kind));
  return kinds[kind];
}

void add_attributes(const Call& call, const tidu_primitive_functions& given, tidu_primitive& to) {
  const auto attributes = call.list(given.attributes, given.num_attributes, "functions->attributes");
  to.attribute_names.reserve(attributes.size());
  for (const tidu_attribute& attribute : attributes) {
    const AttributeKind kind = kind_of(call, attribute.kind);
    to.attribute_names.emplace_back(&call.need(attribute.name, "functions->attributes->name"));
    if (attribute.optional != 0 && attribute.kind != TIDU_ATTRIBUTE_BOOL &&
        attribute.kind != TIDU_ATTRIBUTE_INTEGER && attribute.kind != TIDU_ATTRIBUTE_TEXT) {
      call.refuse(ErrorKind::invalid_argument,
                  str("expected attribute ", tidu::detail::in_quotes(attribute.name),
                      " to be required, or of kind bool, integer or text"));
    }
    to.specs.push_back({to.attribute_names.back(), kind, attribute.optional != 0, attribute.default_value});
  }
  to.attributes = to.specs;
}

Trait traits_of(const Call& call, std::uint32_t bits) {
  if (bits > (TIDU_TRAIT_ELEMENTWISE | TIDU_TRAIT_IMPURE | TIDU_TRAIT_NO_TANGENT))
    call.refuse(ErrorKind::invalid_argument, str("expected traits of TIDU_TRAIT_..., got ", bits));
  Trait traits = Trait::none;
  if ((bits & TIDU_TRAIT_ELEMENTWISE) != 0) traits = traits | Trait::elementwise;
  if ((bits & TIDU_TRAIT_IMPURE) != 0) traits = traits | Trait::impure;
  if ((bits & TIDU_TRAIT_NO_TANGENT) != 0) traits = traits | Trait::no_tangent;
  return traits;
}

Linearity linearity_of(const Call& call, const tidu_primitive_functions& given) {
  if (given.linearity < TIDU_NOT_LINEAR || given.linearity > TIDU_BILINEAR)
    call.refuse(ErrorKind::invalid_argument, str("expected a linearity of 0 to 2, got ", given.linearity));
  if (given.linearity == TIDU_NOT_LINEAR) return {};
  return {static_cast<Linearity::Kind>(given.linearity),
          given.linear_operands != 0 ? given.linear_operands : ~0U};
}

int number_of(const Call& call, std::int32_t number, const char* what) {
  if (number < TIDU_VARIADIC)
    call.refuse(ErrorKind::invalid_argument, str("expected ", what, " from -1 on, got ", number));
  return number;
}

void fill(const Call& call, const tidu_primitive_functions& given, tidu_primitive& to) {
  to.own_name = &call.need(given.name, "functions->name");
  to.name = to.own_name;
  to.version = given.version != 0 ? given.version : 1;
  to.arity = number_of(call, given.num_operands, "functions->num_operands");
  to.num_outputs = number_of(call, given.num_results, "functions->num_results");
  add_attributes(call, given, to);
  to.traits = traits_of(call, given.traits);
  to.linearity = linearity_of(call, given);
  call.need(given.infer, "functions->infer");
  to.functions = given;
  to.infer = infer;
  if (given.jvp != nullptr) to.jvp = jvp;
  if (given.transpose != nullptr) to.transpose = transpose;
  if (given.batch != nullptr) {
    to.batch = batch;
  } else if (to.has_trait(Trait::elementwise)) {
    to.batch = prim::batch_elementwise;
  }
}

}  // namespace

namespace tidu::c_detail {

Kernel kernel_of(const tidu_primitive* primitive, std::string_view& name) {
  name = primitive->name;
  return primitive->functions.kernel != nullptr ? Kernel(kernel) : Kernel();
}

const PrimitiveSet& set_of(const tidu_primitive_set* set) {
  return set != nullptr ? set->set : standard_primitives();
}

}  // namespace tidu::c_detail

tidu_status tidu_primitive_create(const tidu_primitive_functions* functions,
                                  const tidu_primitive** primitive) {
  clear(primitive);
  return guarded(__func__, [&](const Call& call) {
    call.need(functions, "functions");
    call.need(primitive, "primitive");
    auto made = std::make_unique<tidu_primitive>();
    fill(call, options_of(call, functions, "functions"), *made);
    static std::mutex mutex;
    static std::deque<std::unique_ptr<const tidu_primitive>>& all =
        *new std::deque<std::unique_ptr<const tidu_primitive>>();  // reachable for leak checkers, since it is
                                                                   // never freed
    const std::lock_guard lock(mutex);
    all.push_back(std::move(made));
    *primitive = all.back().get();
  });
}

tidu_status tidu_results_add(tidu_results* results, const tidu_type* type) {
  return guarded(__func__, [&](const Call& call) {
    call.need(results, "results").context.result(call.type(type, "type"));
  });
}

tidu_status tidu_primitive_set_create(const tidu_primitive* const* primitives, size_t num_primitives,
                                      tidu_primitive_set** set) {
  clear(set);
  return guarded(__func__, [&](const Call& call) {
    const auto given = call.handles(primitives, num_primitives, "primitives");
    call.need(set, "set");
    std::vector<const Primitive*> records(given.begin(), given.end());
    *set = new tidu_primitive_set(standard_primitives().with(records), {given.begin(), given.end()});
  });
}
tidu_primitive_set* tidu_primitive_set_retain(const tidu_primitive_set* set) { return retain(set); }
void tidu_primitive_set_release(tidu_primitive_set* set) { release(set); }
