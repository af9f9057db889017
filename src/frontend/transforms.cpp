// transforms.cpp - grad, value_and_grad, vjp and hvp on the tape. Each argument that is differentiated
// becomes a separate value (a fresh leaf, or an identity node on a recorded one), so that nested transforms
// never confuse their tangents.
//
// Note [Outside]: keys show whether a function used a recorded value from outside: those made before the
// transform began are smaller. Only then is the backward pass itself recorded.
#include <algorithm>

#include "frontend/broadcast.hpp"
#include "frontend/transforms.hpp"
#include "tidu/frontend/functions.hpp"
#include "tidu/frontend/modes.hpp"

namespace tidu::frontend_detail {
namespace {

// Observes, while it lives, whether a value from outside was recorded as an operand.
class Watch {
 public:
  Watch() : context_(context()), before_(std::exchange(context_.lowest, ~std::uint64_t{0})) {
    floor_ = context_.recorder.keys().fresh();
  }
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;
  ~Watch() { context_.lowest = std::min(before_, context_.lowest); }
  bool outside() const { return context_.lowest <= floor_.counter; }
  /// Was the Array, which requires a gradient, there before?
  bool is_outside(const Array& array) const {
    const eager::Key& key = array.required().key;
    return key.source != floor_.source || key.counter <= floor_.counter;
  }

 private:
  Context& context_;
  std::uint64_t before_;
  eager::Key floor_{};
};

// The argument as the function sees it.
Array own_argument(const Array& argument, bool records) {
  if (records && argument.requires_grad()) {
    const Input operands[] = {argument};
    return invoke({"argument"}, operands, [](Emitter&, std::span<const Value> v) { return v[0]; }, {});
  }
  Array leaf(argument.required().tensor);
  leaf.set_requires_grad();
  return leaf;
}

void require_scalar(const std::vector<Array>& outputs, const char* name, Where where) {
  if (outputs.empty())
    refuse(ErrorKind::invalid_argument, name, "expected a function that returns an Array, got none", where);
  const Type type = outputs[0].type();
  if (type.rank() != 0 || !is_floating(type.dtype())) {
    refuse(ErrorKind::invalid_argument, name,
           detail::str("expected a function whose (first) result is a floating scalar, got ", type), where);
  }
}

void require_inexact(const Array& argument, std::size_t position, const char* name, Where where) {
  if (!is_inexact(argument.dtype())) {
    refuse(ErrorKind::invalid_argument, name,
           detail::str("expected floating or complex arguments to differentiate by, got ", argument.type(),
                       " as Array ", position, " of the arguments"),
           where);
  }
}

// Except for values that existed before, which the function returns unchanged.
std::vector<Array> detached(const std::vector<Array>& arrays, const Watch& watch, bool records) {
  std::vector<Array> results;
  for (const Array& array : arrays) {
    const bool made_within = array.requires_grad() && !(records && watch.is_outside(array));
    results.push_back(made_within ? array.detach() : array);
  }
  return results;
}

// The arguments as they are now, whatever is assigned to them.
std::vector<Array> snapshots(const std::vector<Array>& arguments, bool records) {
  std::vector<Array> results;
  for (const Array& argument : arguments) {
    const Body& body = argument.required();
    results.push_back(records ? make_array(Tensor(body.tensor), {body.key, body.trace, body.requires_grad, 0})
                              : argument.detach());
  }
  return results;
}

// How often their elements have been written to.
std::vector<std::uint64_t> versions_of(const std::vector<Array>& arrays) {
  std::vector<std::uint64_t> versions;
  for (const Array& array : arrays) versions.push_back(array.required().tensor.version());
  return versions;
}

// May f, the pullback's function, be traced on the arguments, as it was run on them?
void require_traceable(const FlatFunction& f, const std::vector<Array>& arguments,
                       const std::vector<std::uint64_t>& versions, Where where) {
  if (f == nullptr) {
    refuse(ErrorKind::invalid_argument, "vjp",
           "expected cotangents with data, since the function cannot be copied to be traced, got traced ones",
           where);
  }
  const std::vector<std::uint64_t> now = versions_of(arguments);
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    if (now[i] == versions[i]) continue;
    refuse(ErrorKind::tape, "vjp",
           detail::str("expected Array ", i, " of the arguments (", arguments[i].type(),
                       ") as it was when vjp was called, at version ", versions[i], ", got version ", now[i],
                       ": it was changed in place (change a copy() of it instead)"),
           where);
  }
}

Array or_zeros(std::optional<Array>&& gradient, const Array& like) {
  return gradient ? std::move(*gradient) : zeros_like(like);
}

}  // namespace

void require_as_many_arrays(std::size_t expected, std::size_t got, std::size_t i) {
  if (expected == got) return;
  refuse(ErrorKind::invalid_argument, "tree_map",
         detail::str("expected structures of as many Arrays: the first has ", expected, ", the one ", i,
                     " after it has ", got),
         {});
}

std::vector<std::size_t> Argnums::in(const std::vector<std::size_t>& offsets, const char* name,
                                     Where where) const {
  const auto count = static_cast<std::int64_t>(offsets.size()) - 1;
  std::vector<std::size_t> result;
  for (const int position : positions) {
    const auto argument = static_cast<std::size_t>(position < 0 ? position + count : position);
    const bool is_there = position >= -count && position < count;
    if (!is_there || offsets[argument] == offsets[argument + 1]) {
      refuse(ErrorKind::invalid_argument, name,
             detail::str("expected the position of an argument that holds Arrays, of ", count,
                         " arguments, got ", position,
                         is_there ? ", whose argument holds none (a whole number is passed on as it is: make "
                                    "the argument an Array of it)"
                                  : ""),
             where);
    }
    for (std::size_t i = offsets[argument]; i < offsets[argument + 1]; ++i) {
      if (std::find(result.begin(), result.end(), i) != result.end())
        refuse(ErrorKind::invalid_argument, name,
               detail::str("expected each argument once, got ", position, " twice"), where);
      result.push_back(i);
    }
  }
  return result;
}

ValueAndGradients value_and_gradients(const FlatFunction& f, const std::vector<Array>& arguments,
                                      const std::vector<std::size_t>& wrt, const char* name, Where where) {
  require_arrays(arguments, name, where);
  for (const std::size_t position : wrt) require_inexact(arguments[position], position, name, where);
  if (any_traced(arguments)) return traced_value_and_gradients(f, arguments, wrt, name, where);
  const Watch watch;
  const bool records = grad_enabled();
  std::vector<Array> inner = arguments;
  std::vector<Array> outputs;
  {
    const GradMode on(true);
    for (const std::size_t position : wrt) inner[position] = own_argument(arguments[position], records);
    outputs = f(inner);
  }
  require_arrays(outputs, name, where, "results");
  require_scalar(outputs, name, where);
  if (any_traced(outputs)) return traced_value_and_gradients(f, arguments, wrt, name, where);
  ValueAndGradients result;
  BackwardOptions options;
  options.create_graph = records && watch.outside();
  std::vector<Array> wanted;
  for (const std::size_t position : wrt) wanted.push_back(inner[position]);
  std::vector<std::optional<Array>> gradients(wrt.size());
  if (outputs[0].requires_grad()) gradients = grad_of(std::span(&outputs[0], 1), wanted, {}, options, where);
  for (std::size_t i = 0; i < wrt.size(); ++i)
    result.gradients.push_back(or_zeros(std::move(gradients[i]), arguments[wrt[i]]));
  result.outputs = options.create_graph ? std::move(outputs) : detached(outputs, watch, records);
  return result;
}

std::pair<std::vector<Array>, FlatPullback> vjp_flat(const FlatFunction& f, FlatFunction kept,
                                                     const std::vector<Array>& arguments, Where where) {
  require_arrays(arguments, "vjp", where);
  if (arguments.empty()) {
    refuse(
        ErrorKind::invalid_argument, "vjp",
        "expected an argument that holds an Array, got none (whole and complex numbers are passed on as they "
        "are: make an Array of one)",
        where);
  }
  if (any_traced(arguments)) return traced_vjp(f, arguments, where);
  const Watch watch;
  const bool records = grad_enabled();
  std::vector<Array> inner = arguments;
  std::vector<Array> outputs;
  {
    const GradMode on(true);
    for (Array& argument : inner)
      if (is_inexact(argument.dtype())) argument = own_argument(argument, records);
    outputs = f(inner);
  }
  require_arrays(outputs, "vjp", where, "results");
  if (any_traced(outputs)) return traced_vjp(f, arguments, where);
  const bool outside = records && watch.outside();
  FlatPullback pullback = [outputs, inner, outside, where, kept = std::move(kept),
                           given = snapshots(arguments, records),
                           versions = versions_of(arguments)](const std::vector<Array>& cotangents) {
    require_cotangents(types_of(outputs), cotangents, where);
    const bool traced = any_traced(cotangents);
    if (traced) require_traceable(kept, given, versions, where);
    BackwardOptions options;
    options.keep_graph = true;
    options.create_graph = !traced && grad_enabled() && outside;
    std::vector<Array> roots, seeds, wanted;
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      if (!outputs[i].requires_grad()) continue;
      roots.push_back(outputs[i]);
      seeds.push_back(traced ? zeros_like(outputs[i]) : cotangents[i]);
      options.create_graph = options.create_graph || (grad_enabled() && seeds.back().requires_grad());
    }
    for (const Array& argument : inner)
      if (is_inexact(argument.dtype())) wanted.push_back(argument);
    if (traced) {
      // Only the tape detects that an operand of f was changed since then.
      if (!roots.empty()) (void)grad_of(roots, wanted, seeds, options, where);
      return traced_pullback(kept, given, where)(cotangents);
    }
    std::vector<std::optional<Array>> gradients(wanted.size());
    if (!roots.empty()) gradients = grad_of(roots, wanted, seeds, options, where);
    std::vector<Array> results;
    std::size_t next = 0;
    for (const Array& argument : inner)
      results.push_back(is_inexact(argument.dtype()) ? or_zeros(std::move(gradients[next++]), argument)
                                                     : zeros(argument.shape(), f64));
    return results;
  };
  return {outside ? outputs : detached(outputs, watch, records), std::move(pullback)};
}

std::vector<Array> hvp_flat(const FlatFunction& f, const std::vector<Array>& arguments,
                            const std::vector<Array>& tangents, Where where) {
  require_tangents(arguments, tangents, "hvp", where);
  std::vector<Array> both = arguments;
  both.insert(both.end(), tangents.begin(), tangents.end());
  if (any_traced(both)) return traced_hvp(f, arguments, tangents, where);
  const Watch watch;
  const bool records = grad_enabled();
  std::vector<Array> inner = arguments;
  std::vector<Array> roots, seeds, wanted;
  bool from_outside = false;
  {
    const GradMode on(true);
    for (Array& argument : inner) {
      argument = own_argument(argument, records);
      wanted.push_back(argument);
    }
    const std::vector<Array> outputs = f(inner);
    require_arrays(outputs, "hvp", where, "results");
    require_scalar(outputs, "hvp", where);
    if (any_traced(outputs)) return traced_hvp(f, arguments, tangents, where);
    BackwardOptions options;
    options.create_graph = true;
    if (outputs[0].requires_grad()) {
      std::vector<std::optional<Array>> gradients =
          grad_of(std::span(&outputs[0], 1), wanted, {}, options, where);
      for (std::size_t i = 0; i < gradients.size(); ++i) {
        if (!gradients[i] || !gradients[i]->requires_grad()) continue;
        roots.push_back(std::move(*gradients[i]));
        seeds.push_back(tangents[i]);
        from_outside = from_outside || tangents[i].requires_grad();
      }
    }
  }
  BackwardOptions options;
  options.create_graph = records && (watch.outside() || from_outside);
  std::vector<std::optional<Array>> products(wanted.size());
  if (!roots.empty()) products = grad_of(roots, wanted, seeds, options, where);
  std::vector<Array> results;
  for (std::size_t i = 0; i < products.size(); ++i)
    results.push_back(or_zeros(std::move(products[i]), arguments[i]));
  return results;
}

}  // namespace tidu::frontend_detail
