// primitive.cpp - primitives of functions in Python: their records, rules and kernels. tidu/primitive.py has
// the user's interface. The record derives from Primitive, so that a rule finds the functions by its op.
// Records are never freed, since graphs refer to them.
//
// Note [Rules]: a rule in Python computes with Arrays. It is traced on Arrays without data, and the resulting
// operations are emitted where the rule was called.
#include <deque>

#include "functions.hpp"
#include "primitives.hpp"
#include "tidu/frontend/modes.hpp"
#include "tidu/frontend/trace.hpp"
#include "tidu/graph/builder.hpp"
#include "tidu/graph/infer.hpp"
#include "tidu/graph/rules.hpp"
#include "tidu/primitives/batching.hpp"

namespace tidu::python {
namespace {

struct Record : Primitive {
  std::string own_name;
  std::deque<std::string> texts;  // names and defaults of attributes
  std::vector<AttributeSpec> specs;
  Held infer_types, jvp_rule, transpose_rule, batch_rule, kernel_of;
};
const Record& own(const Op& op) { return static_cast<const Record&>(op.primitive()); }
std::string place_of(const Op& op, const char* function) { return detail::str(op.name(), ": ", function); }

// --- attributes

nb::object attribute_object(const Attribute& attribute) {
  return std::visit(
      [](const auto& value) -> nb::object {
        using T = std::decay_t<decltype(value)>;
        if constexpr (std::is_same_v<T, DType>) {
          return dtype_object(value);
        } else if constexpr (std::is_same_v<T, Ints>) {
          return shape_tuple(value);
        } else if constexpr (std::is_same_v<T, IntLists>) {
          nb::list lists;
          for (const Ints& ints : value) lists.append(shape_tuple(ints));
          return nb::steal(PyList_AsTuple(lists.ptr()));
        } else if constexpr (std::is_same_v<T, Literal>) {
          return to_python(Array(Tensor(value)));
        } else if constexpr (std::is_same_v<T, std::shared_ptr<const GraphData>>) {
          return nb::cast(Graph(value));
        } else if constexpr (std::is_same_v<T, GraphList>) {
          nb::list graphs;
          for (const auto& data : value) graphs.append(Graph(data));
          return nb::object(std::move(graphs));
        } else if constexpr (std::is_same_v<T, std::shared_ptr<const DeferredGraph>>) {
          return nb::none();
        } else {
          return nb::cast(value);
        }
      },
      attribute.variant());
}

Attribute attribute_of(nb::handle object, AttributeKind kind) {
  switch (kind) {
    case AttributeKind::boolean: return nb::cast<bool>(object);
    case AttributeKind::integer: return nb::cast<std::int64_t>(object);
    case AttributeKind::string: return nb::cast<std::string>(object);
    case AttributeKind::dtype: return to_dtype(object);
    case AttributeKind::ints: return Attribute(Ints(to_shape(object)));
    default: return Attribute(to_array(object).tensor().to_literal());
  }
}
Op op_of(const Record& record, nb::handle attributes) {
  Attributes list;
  const auto refuse = [&](const auto&... parts) {
    throw Error(ErrorKind::attribute, detail::str("[", record.name, "] ", parts...));
  };
  for (const auto& [key, value] : nb::borrow<nb::dict>(attributes)) {
    const auto name = nb::cast<std::string>(key);
    const auto spec = std::find_if(record.specs.begin(), record.specs.end(),
                                   [&](const AttributeSpec& one) { return one.name == name; });
    if (spec == record.specs.end()) refuse("expected its attributes, got \"", name, '"');
    try {
      list.emplace_back(name, attribute_of(value, spec->kind));
    } catch (const std::exception&) {
      refuse("expected attribute \"", name, "\" to be a ", to_string(spec->kind), ", got ",
             nb::cast<std::string>(nb::str(nb::repr(value))));
    }
  }
  return Op::make(record, std::move(list));
}

// --- rules

nb::list type_objects(std::span<const Type> types) {
  nb::list list;
  for (const Type type : types) list.append(type_object(type));
  return list;
}

void infer(InferContext& c) {
  const std::string place = place_of(c.op(), "infer");
  in_python(ErrorKind::type, place, [&] {
    const nb::object found =
        own(c.op()).infer_types.get()(type_objects(c.operands()), attributes_dict(c.op()));
    for (const nb::handle type : nb::iter(found)) c.result(to_type(type));
    return 0;
  });
}

nb::object optional_array(bool there, const std::vector<Array>& arrays, std::size_t& next) {
  return there ? nb::object(to_python(arrays[next++])) : nb::object(nb::none());
}

// See Note [Rules]. `call` is given an Array for each value, with the lock, and returns a list of Arrays and
// Nones.
template <class Call>
Derivatives emit_rule(Emitter& emitter, const Op& op, const char* rule, std::span<const Value> values,
                      const Call& call) {
  const std::string place = place_of(op, rule);
  std::vector<bool> there;
  const frontend_detail::FlatFunction flat = [&](const std::vector<Array>& arrays) {
    return in_python(ErrorKind::ad_rule, place, [&] {
      std::vector<Array> made;
      there.clear();
      for (const nb::handle item : nb::iter(call(arrays))) {
        there.push_back(!item.is_none());
        if (!item.is_none()) made.push_back(to_array(item));
      }
      return made;
    });
  };
  std::vector<Array> like;
  for (const Value& value : values) like.push_back(frontend_detail::placeholder(value.type()));
  const Graph graph =
      frontend_detail::closed(frontend_detail::trace_flat(flat, like, std::string(op.name()), {}), {});
  const std::vector<Value> emitted = inline_graph(emitter, graph, values);
  Derivatives found;
  std::size_t next = 0;
  for (const bool is_there : there)
    found.push_back(is_there ? std::optional(emitted[graph.outputs()[next++]]) : std::nullopt);
  return found;
}

Derivatives jvp(JvpContext& c) {
  std::vector<Value> values(c.primals().begin(), c.primals().end());
  for (std::size_t i = 0; i < c.num_operands(); ++i) {
    if (c.active(i)) values.push_back(*c.tangent(i));
  }
  return emit_rule(c.emitter(), c.op(), "jvp", values, [&](const std::vector<Array>& arrays) {
    nb::list primals, tangents;
    std::size_t next = c.num_operands();
    for (std::size_t i = 0; i < c.num_operands(); ++i) {
      primals.append(to_python(arrays[i]));
      tangents.append(optional_array(c.active(i), arrays, next));
    }
    return nb::object(own(c.op()).jvp_rule.get()(primals, tangents, attributes_dict(c.op())));
  });
}

// A linear operand has its type alone.
Derivatives transpose(TransposeContext& c) {
  std::vector<Value> values;
  for (std::size_t i = 0; i < c.num_results(); ++i) {
    if (const auto cotangent = c.cotangent(i)) values.push_back(*cotangent);
  }
  for (std::size_t i = 0; i < c.num_operands(); ++i) {
    if (!c.linear(i)) values.push_back(c.operand(i));
  }
  return emit_rule(c.emitter(), c.op(), "transpose", values, [&](const std::vector<Array>& arrays) {
    nb::list cotangents, operands, linear;
    std::size_t next = 0;
    for (std::size_t i = 0; i < c.num_results(); ++i)
      cotangents.append(optional_array(c.cotangent(i).has_value(), arrays, next));
    for (std::size_t i = 0; i < c.num_operands(); ++i) {
      operands.append(c.linear(i) ? type_object(c.operand_type(i)) : nb::object(to_python(arrays[next++])));
      linear.append(c.linear(i));
    }
    return nb::object(
        own(c.op()).transpose_rule.get()(cotangents, operands, linear, attributes_dict(c.op())));
  });
}

Values batch(BatchContext& c) {
  std::vector<Value> values;
  for (std::size_t i = 0; i < c.num_operands(); ++i) values.push_back(c.operand(i));
  const Derivatives found =
      emit_rule(c.emitter(), c.op(), "batch", values, [&](const std::vector<Array>& arrays) {
        nb::list operands, batched;
        for (std::size_t i = 0; i < c.num_operands(); ++i) {
          operands.append(to_python(arrays[i]));
          batched.append(c.batched(i));
        }
        return nb::object(own(c.op()).batch_rule.get()(operands, batched, c.size(), attributes_dict(c.op())));
      });
  Values results;
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (!found[i])
      throw Error(ErrorKind::ad_rule,
                  detail::str("[", c.op().name(), "] batch: expected each result, got None"));
    results.push_back(*found[i]);
  }
  return results;
}

void kernel(const KernelCall& c) {
  in_python(ErrorKind::execution, place_of(c.op(), "kernel"), [&] {
    nb::list operands;
    for (const Tensor& input : c.inputs()) operands.append(to_python(Array(input.clone())));
    const nb::object made = own(c.op()).kernel_of.get()(operands, attributes_dict(c.op()));
    std::size_t next = 0;
    for (const nb::handle item : nb::iter(made)) {
      if (next == c.outputs().size()) break;
      Tensor& output = c.outputs()[next++];
      const Array array = to_array(item, output.dtype());
      if (array.type() != output.type())
        throw Error(ErrorKind::execution,
                    detail::str("[", c.op().name(), "] kernel: expected result ", next - 1, " of type ",
                                output.type(), ", got ", array.type()));
      const Tensor& tensor = array.tensor();
      std::copy_n(tensor.bytes(), tensor.num_bytes(), output.mutable_bytes());
    }
    if (next != c.outputs().size())
      throw Error(ErrorKind::execution, detail::str("[", c.op().name(), "] kernel: expected ",
                                                    c.outputs().size(), " results, got ", next));
    return 0;
  });
}

// --- definitions

struct Defined {
  PrimitiveSet set = standard_primitives();
  std::deque<CpuExecutor> executors{cpu()};  // those of before may be in use
  std::deque<Record> records;
};
Defined& defined() {
  static Defined* all = nullptr;  // with the interpreter lock, and no guard of C++ to wait for
  if (all == nullptr) all = new Defined();
  return *all;
}

void add_attributes(Record& to, nb::handle attributes) {
  constexpr std::pair<std::string_view, AttributeKind> kinds[] = {
      {"bool", AttributeKind::boolean}, {"int", AttributeKind::integer}, {"str", AttributeKind::string},
      {"dtype", AttributeKind::dtype},  {"ints", AttributeKind::ints},   {"array", AttributeKind::literal}};
  for (const nb::handle one : nb::iter(attributes)) {
    const auto kind = nb::cast<std::string>(nb::object(one[nb::int_(1)]));
    const nb::object value = one[nb::int_(2)];
    const auto known =
        std::find_if(std::begin(kinds), std::end(kinds), [&](const auto& k) { return k.first == kind; });
    const std::string& name = to.texts.emplace_back(nb::cast<std::string>(nb::object(one[nb::int_(0)])));
    AttributeSpec spec{name, known->second, !value.is_none(), 0, {}};
    if (spec.has_default && spec.kind == AttributeKind::string) {
      spec.default_string = to.texts.emplace_back(nb::cast<std::string>(value));
    } else if (spec.has_default) {
      spec.default_integer = to_number(value).whole();
    }
    to.specs.push_back(spec);
  }
  to.attributes = to.specs;
}

Held held(nb::handle function) { return function.is_none() ? Held() : Held(nb::borrow(function)); }

// A second definition, as by a cell of a notebook that runs again, replaces the first one.
void enter(Record& record) {
  Defined& all = defined();
  const Primitive* const before = all.set.find(record.name);
  const bool again = before != nullptr && std::any_of(all.records.begin(), all.records.end(),
                                                      [&](const Record& one) { return &one == before; });
  all.set = again ? all.set.replacing(&record) : all.set.with({&record});
  if (record.kernel_of) {
    all.executors.push_back(all.executors.back().with_kernel(record.name, kernel));
    set_default_executor(all.executors.back());
  }
  python_runs = true;
}

struct DefinedPrimitive {
  const Record* record;
};

DefinedPrimitive define(const std::string& name, int arity, int num_results, nb::object attributes,
                        bool elementwise, int linearity, std::uint32_t linear_operands,
                        const nb::tuple& functions) {
  Record& record = defined().records.emplace_back();
  record.own_name = name;
  record.name = record.own_name;
  record.arity = arity;
  record.num_outputs = num_results;
  add_attributes(record, attributes);
  record.traits = elementwise ? Trait::elementwise : Trait::none;
  record.linearity = {static_cast<Linearity::Kind>(linearity), linear_operands};
  record.infer_types = held(functions[0]);
  record.jvp_rule = held(functions[1]);
  record.transpose_rule = held(functions[2]);
  record.batch_rule = held(functions[3]);
  record.kernel_of = held(functions[4]);
  record.infer = infer;
  if (record.jvp_rule) record.jvp = jvp;
  if (record.transpose_rule) record.transpose = transpose;
  if (record.batch_rule) {
    record.batch = batch;
  } else if (elementwise) {
    record.batch = prim::batch_elementwise;
  }
  try {
    enter(record);
  } catch (...) {
    defined().records.pop_back();
    throw;
  }
  return {&record};
}

nb::list bind(const DefinedPrimitive& self, nb::object arguments, nb::object attributes) {
  const Op op = op_of(*self.record, attributes);
  std::vector<Array> operands;
  for (const nb::handle argument : nb::iter(arguments)) operands.push_back(to_array(argument));
  const Where where = here();
  const PrimitiveSet set = primitives();
  return to_list(unlocked([&] {
    GraphBuilder builder(self.record->own_name, set);
    std::vector<Value> inputs;
    for (std::size_t i = 0; i < operands.size(); ++i)
      inputs.push_back(builder.input("x" + std::to_string(i), operands[i].type()));
    const Values results = builder.emit(op, inputs, where);
    return call_graph(builder.build(std::span<const Value>(results.begin(), results.end())), operands, where);
  }));
}

}  // namespace

const PrimitiveSet& primitives() { return defined().set; }
const CpuExecutor& executor() { return defined().executors.back(); }
nb::dict attributes_dict(const Op& op) {
  nb::dict dict;
  for (const auto& [name, value] : op.attributes()) dict[name.c_str()] = attribute_object(value);
  return dict;
}

void bind_primitives(nb::module_& m) {
  nb::class_<DefinedPrimitive>(m, "_Primitive").def("bind", bind, nb::arg("operands"), nb::arg("attributes"));
  m.def("_define", define);
}

}  // namespace tidu::python
