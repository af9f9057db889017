// singular.cpp - see singular.hpp. Each operation is differentiated by itself at its operands: elements of
// its cotangents that are not finite are its singular elements.
#include "check/singular.hpp"

#include <algorithm>
#include <cmath>
#include <optional>

#include "check/faults.hpp"
#include "check/inside.hpp"
#include "tidu/tensor/inspect.hpp"

namespace tidu::check {
namespace {

constexpr std::size_t max_notes = 8, max_indices = 4;

bool is_finite(std::complex<double> z) { return std::isfinite(z.real()) && std::isfinite(z.imag()); }

std::string index_text(const Shape& shape, std::int64_t element) {
  std::vector<std::int64_t> places(shape.size());
  for (std::size_t axis = shape.size(); axis-- > 0; element /= shape[axis])
    places[axis] = element % shape[axis];
  std::string text;
  for (const std::int64_t place : places) text += detail::str(text.empty() ? "[" : ",", place);
  return text.empty() ? text : text + ']';
}

// "operand 1 [0] [3] and 2 more, operand 0 [1]": the elements by which derivatives are not finite.
std::string singular_operands(const Subject& one, const MaybeTensors& cotangents) {
  std::string text;
  for (std::size_t k = 0; k < cotangents.size(); ++k) {
    const std::size_t operand = one.wrt[k];
    if (!cotangents[k] || operand >= one.inputs.size()) continue;
    std::size_t count = 0;
    std::string indices;
    for (std::int64_t i = 0; i < cotangents[k]->size(); ++i) {
      if (is_finite(cotangents[k]->at(i)) || !is_finite(one.inputs[operand].at(i))) continue;
      const std::string index = index_text(cotangents[k]->shape(), i);
      if (++count <= max_indices && !index.empty()) indices += ' ' + index;
    }
    if (count == 0) continue;
    text += detail::str(text.empty() ? "" : ", ", "operand ", operand, indices);
    if (count > max_indices) text += detail::str(" and ", count - max_indices, " more");
  }
  return text;
}

class Finder {
 public:
  Finder(const Executor& executor, const CheckOptions& options) : executor_(executor), options_(options) {}

  std::vector<std::string> run(const Subject& subject, const std::string& holder) {
    std::vector<std::string> notes;
    const Tensors values = all_values(subject.graph, subject.inputs, executor_);
    const std::vector<bool> active = reached_from(subject.graph, subject.wrt);
    for (std::uint32_t i = 0; i < subject.graph.num_operations(); ++i) {
      const Subject one = standalone(subject.graph, i, values, active);
      if (one.wrt.empty() || subject.graph.operation(i).primitive().has_trait(Trait::no_tangent)) continue;
      if (!std::ranges::all_of(one.inputs, tidu::all_finite)) continue;  // it follows
      const Operation operation = subject.graph.operation(i);
      const std::string where =
          operation.where().empty() ? "" : detail::str(" (", detail::printable(operation.where()), ')');
      const std::string name = detail::str("operation ", i, ", ", operation.name(), where, holder);
      try {
        if (std::vector<std::string> inner = inside(one, name); !inner.empty()) {
          notes.insert(notes.end(), inner.begin(), inner.end());
        } else if (const std::string note = note_on(one, name); !note.empty()) {
          notes.push_back(note);
        }
      } catch (const Error&) {
        // A rule or a kernel is missing: nothing to say.
      }
    }
    return notes;
  }

 private:
  // The first run of a graph that the operation holds in which there is any.
  std::vector<std::string> inside(const Subject& one, const std::string& name) {
    for (const Execution& execution : executions(one, executor_)) {
      std::vector<std::string> notes =
          run(execution.subject, detail::str(" in ", execution.place, ", which is ", name));
      if (!notes.empty()) return notes;
    }
    return {};
  }

  std::string note_on(const Subject& one, const std::string& name) const {
    const Tensors outputs = executor_.run(one.graph, one.inputs);
    const bool finite = std::ranges::all_of(outputs, tidu::all_finite);
    if (const auto first = singular_at(one)) {
      if (!finite) return detail::str(name, ", is not finite at ", *first, " and was not compared there");
      return detail::str("the derivative of ", name, ", is not finite at ", *first,
                         " and was not compared there");
    }
    if (!finite) return detail::str(name, ", is not finite and was not compared where it is not");
    if (options_.order < 2) return {};
    std::vector<std::string> ignored;
    for (const Level& level : next_order({one, {one.graph, one.wrt, one.inputs}}, options_.seed, ignored)) {
      if (const auto second = singular_at(level.subject, one.inputs.size())) {
        return detail::str("the second derivative of ", name, ", is not finite at ", *second,
                           " and was not compared there");
      }
    }
    return {};
  }

  // Nothing where the derivatives by the first `count` inputs are finite.
  std::optional<std::string> singular_at(const Subject& subject, std::size_t count = no_index) const {
    const Derived derived(subject.graph, subject.wrt);
    if (!derived.has_reverse()) return std::nullopt;
    const Point point(derived, subject.inputs, executor_);
    Random random(options_.seed);
    MaybeTensors cotangents = point.vjp(point.random_cotangents(random));
    for (std::size_t k = 0; k < cotangents.size(); ++k)
      if (subject.wrt[k] >= count) cotangents[k].reset();
    std::string text = singular_operands(subject, cotangents);
    return text.empty() ? std::nullopt : std::optional<std::string>(std::move(text));
  }

  const Executor& executor_;
  const CheckOptions& options_;
};

}  // namespace

std::vector<std::string> notes_on_singular_operations(const Subject& subject, const Executor& executor,
                                                      const CheckOptions& options) {
  std::vector<std::string> notes = Finder(executor, options).run(subject, "");
  if (notes.size() > max_notes) {
    const std::size_t more = notes.size() - max_notes;
    notes.resize(max_notes);
    notes.push_back(detail::str(more, " more operations are not finite, or their derivatives are not"));
  }
  return notes;
}

}  // namespace tidu::check
