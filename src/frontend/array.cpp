// array.cpp - the state of an Array, its properties, and its gradients.
#include "tidu/frontend/array.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>

#include "eager/node.hpp"
#include "frontend/context.hpp"
#include "frontend/hot.hpp"
#include "tidu/frontend/explain.hpp"
#include "tidu/frontend/functions.hpp"
#include "tidu/frontend/modes.hpp"
#include "tidu/graph/pool.hpp"

namespace tidu {

using frontend_detail::Body;
using frontend_detail::body_of;
using frontend_detail::context;
using frontend_detail::Context;
using frontend_detail::Extra;
using frontend_detail::refuse;

namespace frontend_detail {

void destroy(Body* body) noexcept {
  delete body->extra;
  body->~Body();
  tidu::detail::pool_deallocate(body, sizeof(Body));
}

Array make_traced(std::shared_ptr<Tracer> tracer, Value value, std::uint32_t device) {
  Array array = make_array(Tensor());
  Body& body = array.required();
  body.extra = new Extra;
  body.traced = true;
  body.extra->tracer = std::move(tracer);
  body.extra->value = value;
  body.extra->type = value.type();
  body.extra->device = device;
  return array;
}

namespace {

void require_data(const Body& body, std::string_view function, Where where) {
  if (!is_traced(body)) return;
  refuse(
      ErrorKind::invalid_argument, function,
      detail::str("expected an Array with data, got one that is being traced, which has a type (",
                  body.extra->type,
                  ") but no elements before the graph runs: choose between values by where() or maximum(), "
                  "between computations by cond(), or compute with data outside of trace() and the "
                  "transforms that trace"),
      where);
}

eager::Leaf<Tensor>& require_leaf(const Body& body, std::string_view function, Where where) {
  if (body.extra == nullptr || !body.extra->leaf) {
    refuse(ErrorKind::invalid_argument, function,
           detail::str("expected a leaf that requires a gradient, got an Array that ",
                       body.requires_grad ? "was computed from some: see grad_of()"
                                          : "requires none: see set_requires_grad()"),
           where);
  }
  return *body.extra->leaf;
}

bool is_leaf(const Body& body) { return body.extra != nullptr && body.extra->leaf; }

// Backward with the modes and the executor of this thread.
eager::Gradients<Tensor> run_backward(std::span<const eager::Root<Tensor>> roots, BackwardOptions options,
                                      std::span<const eager::Requested> requested) {
  Context& c = context();
  options.anomaly = options.anomaly || c.recorder.options().anomaly;
  if (options.profile == nullptr) options.profile = c.recorder.options().profile;
  if (c.lazy != 0) options.workers = 0;  // there is nothing to do but to record
  const GradMode mode(options.create_graph);
  return eager::backward<Tensor>(roots, c.host, options, requested, &c.recorder);
}

// Why no gradient flows from an Array that requires none, to follow "that does not".
std::string why_no_gradient(const Body& body) {
  if (!grad_enabled()) {
    return " (recording is off on this thread, as under no_grad and in the hooks of a backward call without "
           "create_graph: GradMode(true) turns it on)";
  }
  if (body.trace) {  // kept by an ExplainGuard
    const std::string cuts =
        eager::detail::why_no_gradient({body.key, body.trace.node(), nullptr, nullptr, {}});
    if (!cuts.empty()) return ": " + cuts;
  }
  const std::string blocked = context().blocked.text();
  if (blocked.empty()) return {};
  return detail::str(". Arrays that require a gradient went into operations without derivative: ", blocked,
                     " (under an ExplainGuard it is known which of them this one comes from)");
}

eager::Root<Tensor> make_root(const Array& array, const Array* seed, std::string_view function, Where where) {
  const Body& body = body_of(array, function, where);
  require_data(body, function, where);
  if (!body.requires_grad) {
    refuse(ErrorKind::invalid_argument, function,
           detail::str("expected an Array that depends on a leaf which requires a gradient, got ",
                       body.tensor.type(), " that does not", why_no_gradient(body)),
           where);
  }
  if (seed == nullptr && body.tensor.size() != 1) {
    refuse(ErrorKind::invalid_argument, function,
           detail::str("expected a seed, or an Array of one element, got ", body.tensor.type()), where);
  }
  eager::Root<Tensor> root;
  root.key = body.key;
  root.trace = body.trace;
  if (seed != nullptr) {
    const Body& given = body_of(*seed, function, where);
    require_data(given, function, where);
    if (given.tensor.type() != body.tensor.type()) {
      refuse(ErrorKind::type, function,
             detail::str("expected a seed of type ", body.tensor.type(), ", got ", given.tensor.type()),
             where);
    }
    root.seed = given.tensor;
    root.recorded_seed = {given.key, given.trace, given.requires_grad, 0};
  } else if (is_leaf(body)) {  // its type is in no operation
    root.seed = ones_like(array.detach(), where).required().tensor;
  }
  return root;
}

}  // namespace
}  // namespace frontend_detail

Array::Array(Tensor tensor) : Array(frontend_detail::make_array(std::move(tensor))) {}

bool Array::is_traced() const { return body_ != nullptr && frontend_detail::is_traced(*body_); }

Type Array::type(Where where) const {
  const Body& body = body_of(*this, "Array::type", where);
  return frontend_detail::is_traced(body) ? body.extra->type : body.tensor.type();
}

std::int64_t Array::shape(std::int64_t axis, Where where) const {
  const std::int64_t position = frontend_detail::normal_axis(axis, *this, "Array::shape", where);
  return type().shape()[static_cast<std::size_t>(position)];
}

const Tensor& Array::tensor(Where where) const {
  const Body& body = body_of(*this, "Array::tensor", where);
  frontend_detail::require_data(body, "Array::tensor", where);
  if (auto* const pending = body.tensor.pending(); pending != nullptr) pending->settle();  // kept here
  return body.tensor;
}

const Tensor& Array::one_element(Where where, bool as_bool) const {
  const char* const function = as_bool ? "Array::operator bool" : "Array::item";
  const Body& body = body_of(*this, function, where);
  frontend_detail::require_data(body, function, where);
  if (body.tensor.size() != 1) {
    refuse(ErrorKind::invalid_argument, function,
           detail::str("expected an Array of one element, got ", body.tensor.type(),
                       as_bool ? ": all(x) is whether all of several hold, any(x) whether one does" : ""),
           where);
  }
  return body.tensor;
}

double Array::real_element(const Tensor& data, Where where) {
  const std::complex<double> value = data.at(0);
  if (value.imag() != 0.0) {
    refuse(ErrorKind::invalid_argument, "Array::item",
           detail::str("expected a real number, got ", value.real(), value.imag() < 0.0 ? "" : "+",
                       value.imag(), "i (real(x) is its real part, item<std::complex<double>>() all of it)"),
           where);
  }
  return value.real();
}

void Array::require_whole(const Tensor& data, bool is_signed, int digits, Where where) {
  const auto refuse_it = [&](auto value) {
    refuse(ErrorKind::invalid_argument, "Array::item",
           detail::str("expected a number that ", is_signed ? "a signed" : "an unsigned", " integer of ",
                       digits + (is_signed ? 1 : 0), " bits holds, got ", value),
           where);
  };
  if (data.dtype() == i64) {
    const std::int64_t value = data.data<std::int64_t>()[0];
    const std::int64_t beyond = value < 0 ? ~value : value;  // -1 - value: it has as many digits
    if ((value < 0 && !is_signed) || (digits < 63 && beyond >> digits != 0)) refuse_it(value);
    return;
  }
  const double value = real_element(data, where), limit = std::ldexp(1.0, digits), whole = std::trunc(value);
  if (!(whole >= (is_signed ? -limit : 0.0) && whole < limit)) refuse_it(value);
}

namespace {

// A copy of the elements, as they are now. A trace in progress must not record it: it would take copy() for
// an operation of its graph. A device's memory is never written to, so it needs no copy.
Tensor copy_of_data(const Array& value, Where where) {
  const Array copy = value.detach().copy(where);
  if (!frontend_detail::is_traced(copy.required())) return copy.required().tensor;
  const Tensor& tensor = value.required().tensor;
  return tensor.device() != 0 ? tensor : tensor.clone();
}

}  // namespace

Array& Array::assign(const Array& value, Where where) & {
  frontend_detail::require_value(*this, "Array::assign", where);
  Body& body = *body_;
  const Body& from = body_of(value, "Array::assign", where);
  frontend_detail::require_data(body, "Array::assign", where);
  if (frontend_detail::is_traced(from)) {
    refuse(ErrorKind::invalid_argument, "Array::assign",
           detail::str("expected a value with data, got one that is being traced (", from.extra->type,
                       "): a traced function cannot write to an Array outside of it: return the new value "
                       "instead, and assign it where the function is called"),
           where);
  }
  if (body.tensor.type() != from.tensor.type()) {
    refuse(ErrorKind::type, "Array::assign",
           detail::str("expected ", body.tensor.type(), ", got ", from.tensor.type()), where);
  }
  if (body.requires_grad && (body.extra == nullptr || !body.extra->leaf)) {
    refuse(ErrorKind::invalid_argument, "Array::assign",
           "expected a leaf or an Array without a gradient, got the result of a recorded operation", where);
  }
  if (const std::uint32_t device = body.tensor.device(); context().lazy != 0 || device != 0) {
    // Nothing is written: results computed from this Array keep their operand.
    body.tensor = from.tensor.device() == device
                      ? copy_of_data(value, where)
                      : frontend_detail::moved(from.tensor, device, *context().host.executor());
    if (body.extra != nullptr) body.extra->lazy_storage = nullptr;
    return *this;
  }
  if (!body.tensor.writable()) {
    if (body.tensor.borrowed()) {
      refuse(ErrorKind::invalid_argument, "Array::assign",
             detail::str("expected memory that may be written to, got ", body.tensor.type(),
                         " over read-only memory of somebody else's: copy() has elements of its own"),
             where);
    }
    // A literal, whose elements others share.
    body.tensor = body.tensor.clone();
    if (body.extra != nullptr) body.extra->lazy_storage = nullptr;
  }
  std::memmove(body.tensor.mutable_bytes(), from.tensor.bytes(), from.tensor.num_bytes());
  return *this;
}

Array& Array::set_requires_grad(bool wanted, std::string name, Where where) {
  frontend_detail::require_value(*this, "Array::set_requires_grad", where);
  Body& body = *body_;
  frontend_detail::require_data(body, "Array::set_requires_grad", where);
  const bool is_a_leaf = body.extra != nullptr && body.extra->leaf;
  if (body.requires_grad && !is_a_leaf) {
    if (wanted) return name.empty() ? *this : set_name(std::move(name), where);
    refuse(ErrorKind::invalid_argument, "Array::set_requires_grad",
           "expected a leaf, got the result of a recorded operation: detach() gives its value", where);
  }
  if (wanted == body.requires_grad) return name.empty() || !wanted ? *this : set_name(std::move(name), where);
  if (!wanted) {
    delete std::exchange(body.extra, nullptr);
    body.trace = {};
    body.key = {};
    body.requires_grad = false;
    return *this;
  }
  if (!is_inexact(body.tensor.dtype())) {
    refuse(ErrorKind::invalid_argument, "Array::set_requires_grad",
           detail::str("expected a floating or complex dtype, got ", body.tensor.type()), where);
  }
  auto extra = std::make_unique<Extra>();
  extra->leaf.emplace(context().recorder.keys(), std::move(name));
  body.key = extra->leaf->key();
  body.trace = extra->leaf->trace().hold();
  body.extra = extra.release();
  body.requires_grad = true;
  return *this;
}

bool Array::is_leaf(Where where) const {
  const Body& body = body_of(*this, "Array::is_leaf", where);
  return !body.requires_grad || frontend_detail::is_leaf(body);
}

void Array::backward(BackwardOptions options, Where where) const {
  options.accumulate = true;
  eager::Root<Tensor> root = frontend_detail::make_root(*this, nullptr, "Array::backward", where);
  const auto run = [&] { frontend_detail::run_backward(std::span(&root, 1), std::move(options), {}); };
  if (root.seed || !frontend_detail::may_repeat_backward(context(), options)) return run();
  frontend_detail::backward_hot(context(), root, run);
}

void Array::backward(const Array& seed, BackwardOptions options, Where where) const {
  options.accumulate = true;
  eager::Root<Tensor> root = frontend_detail::make_root(*this, &seed, "Array::backward", where);
  // The cotangent of a leaf is accumulated in it, so it must not be shared.
  if (frontend_detail::is_leaf(*body_)) root.seed = copy_of_data(seed, where);
  frontend_detail::run_backward(std::span(&root, 1), std::move(options), {});
}

std::vector<std::optional<Array>> grad_of(std::span<const Array> roots, std::span<const Array> inputs,
                                          std::span<const Array> seeds, BackwardOptions options,
                                          Where where) {
  if (!seeds.empty() && seeds.size() != roots.size()) {
    refuse(ErrorKind::invalid_argument, "grad_of",
           detail::str("expected no seeds or one for each of ", roots.size(), " roots, got ", seeds.size()),
           where);
  }
  std::vector<eager::Root<Tensor>> made;
  for (std::size_t i = 0; i < roots.size(); ++i)
    made.push_back(
        frontend_detail::make_root(roots[i], seeds.empty() ? nullptr : &seeds[i], "grad_of", where));
  std::vector<eager::Requested> requested;
  std::map<eager::Key, std::size_t> positions;
  std::vector<std::size_t> of_input;  // one for all inputs that are one value
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const Body& body = body_of(inputs[i], "grad_of", where);
    if (!body.requires_grad) {
      refuse(ErrorKind::invalid_argument, "grad_of",
             detail::str("expected inputs that require a gradient, got ", inputs[i].type(), " as input ", i),
             where);
    }
    const auto [found, is_new] = positions.emplace(body.key, requested.size());
    if (is_new) requested.emplace_back(body.key, body.trace);
    of_input.push_back(found->second);
  }
  options.accumulate = false;
  const auto gradients = frontend_detail::run_backward(made, std::move(options), requested);
  std::vector<std::optional<Array>> results;
  for (const eager::Gradient<Tensor>& gradient : gradients.requested()) {
    if (!gradient.value) {
      results.emplace_back();
      continue;
    }
    const Tensor& value = *gradient.value;
    results.emplace_back(frontend_detail::make_array(Tensor(value), gradient.recorded));
    // The cotangent of a root is its seed, which belongs to the caller.
    const auto is_seed = [&](const eager::Root<Tensor>& root) {
      return root.seed->shares_storage_with(value);
    };
    if (!seeds.empty() && std::any_of(made.begin(), made.end(), is_seed))
      results.back() = frontend_detail::make_array(copy_of_data(*results.back(), where), gradient.recorded);
  }
  if (results.size() == inputs.size()) return results;
  std::vector<std::optional<Array>> all;
  for (const std::size_t position : of_input) all.push_back(results[position]);
  return all;
}

namespace {

eager::EagerOutput output_of(const Array& array, const char* function, Where where) {
  const Body& body = body_of(array, function, where);
  frontend_detail::require_data(body, function, where);
  return {body.key, body.trace, body.requires_grad, 0};
}

}  // namespace

eager::Explanation explain(const Array& target, const Array& root, std::string_view name, Where where) {
  const Context& c = context();
  return eager::explain<Tensor>(output_of(target, "explain", where), output_of(root, "explain", where),
                                c.host, &c.recorder, name);
}

eager::EagerOutput tape_output(const Array& root, Where where) {
  return output_of(root, "tape_output", where);
}

std::optional<Array> Array::grad(Where where) const {
  const Body& body = body_of(*this, "Array::grad", where);
  frontend_detail::require_leaf(body, "Array::grad", where);
  eager::detail::Accumulator& slot = *eager::detail::node_of(body.trace.node())->accumulator();
  const std::lock_guard lock(slot.mutex);
  if (slot.gradient == nullptr) return std::nullopt;
  Body* const gradient = frontend_detail::make_body(*static_cast<const Tensor*>(slot.gradient->operand()));
  if (slot.gradient->trace != nullptr) {
    gradient->key = slot.gradient->key;
    gradient->trace = eager::Trace::share(slot.gradient->trace);
    gradient->requires_grad = true;
  }
  return Array(Adopt{}, gradient);
}

void Array::zero_grad(Where where) const {
  constexpr auto name = "Array::zero_grad";
  frontend_detail::require_leaf(body_of(*this, name, where), name, where).clear_gradient();
}

void Array::set_grad(const Array& gradient, Where where) const {
  const Body& body = body_of(*this, "Array::set_grad", where);
  eager::Leaf<Tensor>& leaf = frontend_detail::require_leaf(body, "Array::set_grad", where);
  const Body& from = body_of(gradient, "Array::set_grad", where);
  frontend_detail::require_data(from, "Array::set_grad", where);
  const Type type = body.tensor.type();
  if (from.tensor.type() != type && from.tensor.type() != type.with_dtype(accumulation_dtype(type.dtype()))) {
    refuse(ErrorKind::type, "Array::set_grad", detail::str("expected ", type, ", got ", from.tensor.type()),
           where);
  }
  leaf.set_gradient(from.tensor, {from.key, from.trace, from.requires_grad, 0});
}

Array Array::detach(Where where) const {
  const Body& body = body_of(*this, "Array::detach", where);
  if (is_traced() || is_parameter(context(), body)) return tidu::stop_gradient(*this, where);
  Array value(body.tensor);
  if (context().recorder.options().keep_blocked && body.trace) {  // for explain(): a constant made of it
    value.body_->key = body.key;
    value.body_->trace = body.trace;
  }
  return value;
}

namespace {

// Functions that need a value on a tape, which a traced Array is not. `what`: the function with its verb.
void require_recorded(const Array& array, const Body& body, bool is_recorded, std::string_view function,
                      std::string_view what, Where where) {
  if (is_recorded) return;
  if (array.is_traced()) {
    refuse(ErrorKind::invalid_argument, function,
           detail::str("expected an Array on a tape, got one that is being traced (", body.extra->type, "): ",
                       what, " to the tape, so do this outside of trace() and the transforms that trace"),
           where);
  }
  refuse(ErrorKind::invalid_argument, function,
         "expected an Array that requires a gradient, got one that does not", where);
}

}  // namespace

HookHandle Array::add_hook(std::function<std::optional<Array>(const Array&)> hook, Where where) const {
  const Body& body = body_of(*this, "Array::register_hook", where);
  require_recorded(*this, body, body.requires_grad, "Array::register_hook", "hooks belong", where);
  return eager::on_value<Tensor>(
      body.trace, body.key, [hook = std::move(hook)](eager::HookContext<Tensor>& frame) {
        auto incoming = frame.incoming();
        if (!incoming) return;
        const Array cotangent = frontend_detail::make_array(Tensor(*incoming), incoming.recorded());
        const std::optional<Array> replacement = hook(cotangent);
        if (!replacement) return;
        const Body& made = body_of(*replacement, "hook", {});
        frontend_detail::require_data(made, "hook", {});
        incoming.replace(made.tensor, {made.key, made.trace, made.requires_grad, 0});
      });
}

Array& Array::set_name(std::string name, Where where) {
  const Body& body = body_of(*this, "Array::set_name", where);
  const bool recorded =
      body.trace && (body.requires_grad || !eager::detail::gives_gradient(body.trace, body.key));
  require_recorded(*this, body, recorded, "Array::set_name", "names belong", where);
  eager::set_name(body.trace, body.key, std::move(name));
  return *this;
}

}  // namespace tidu
