// mode_agreement.cpp - see mode_agreement.hpp. A way is a form of the function (one recorded graph, operation
// by operation, checkpointed, compiled, mapped), a quantity (value, jvp, vjp, second derivatives by each
// nesting), and the mode that this is computed in (on the tape, compiled, lazily, on a hot path, mapped).
// Equal quantities are equal in all of them, or the library refuses.
#include "fuzz/mode_agreement.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <map>

#include "tidu/frontend/hot_paths.hpp"
#include "tidu/tidu.hpp"

namespace tidu::test {
namespace {

using check::Tensors;
using Arrays = std::vector<Array>;
using ArrayFunction = std::function<Arrays(const Arrays&)>;

enum class Quantity { value, jvp, vjp, jvp_of_vjp, vjp_of_jvp, vjp_of_vjp, jvp_of_jvp };
constexpr std::array quantities{Quantity::value,      Quantity::jvp,        Quantity::vjp,
                                Quantity::jvp_of_vjp, Quantity::vjp_of_jvp, Quantity::vjp_of_vjp,
                                Quantity::jvp_of_jvp};
constexpr const char* quantity_names[] = {"value",      "jvp",        "vjp",       "jvp of vjp",
                                          "vjp of jvp", "vjp of vjp", "jvp of jvp"};
enum class Form { one_node, by_operations, checkpointed, compiled, mapped };
constexpr std::array forms{Form::one_node, Form::by_operations, Form::checkpointed, Form::compiled,
                           Form::mapped};
constexpr const char* form_names[] = {"one node", "operation by operation", "checkpoint", "compile", "vmap"};
enum class Mode { tape, compiled, lazy, hot, mapped };
constexpr std::array modes{Mode::tape, Mode::compiled, Mode::lazy, Mode::hot, Mode::mapped};
constexpr const char* mode_names[] = {"on the tape", "compiled", "lazily", "on a hot path", "mapped"};

// The second derivative <v, D2 f [w]> is one number for three nestings; jvp of jvp has its own.
int kind_of(Quantity q) {
  switch (q) {
    case Quantity::value: return 0;
    case Quantity::jvp: return 1;
    case Quantity::vjp: return 2;
    case Quantity::jvp_of_jvp: return 4;
    default: return 3;
  }
}

Arrays arrays_of(const Tensors& tensors) {
  Arrays arrays;
  for (const Tensor& tensor : tensors) arrays.emplace_back(tensor);
  return arrays;
}
Tensors tensors_of(const Arrays& arrays) {
  Tensors tensors;
  for (const Array& array : arrays) tensors.push_back(array.tensor());
  return tensors;
}

class Comparison {
 public:
  Comparison(const ModeCase& c, check::Random& random) : case_(c), random_(random) {
    for (const std::size_t i : c.wrt) {
      const Type type = c.graph.type(c.graph.inputs()[i]);
      x_.push_back(c.inputs[i]);
      u_.push_back(check::random_tensor(random, type));
      w_.push_back(check::random_tensor(random, type));
    }
    for (const ValueId id : c.graph.outputs()) v_.push_back(check::random_tensor(random, c.graph.type(id)));
  }

  ModeReport run(std::size_t draws, bool all) {
    for (const Quantity q : quantities)
      for (const Executor* executor : std::initializer_list<const Executor*>{&reference(), &cpu()})
        attempt(q, executor == &cpu() ? "graph, on the CPU" : "graph, by the reference",
                [&] { return by_graph(q, *executor); });
    compare_directions();
    const auto try_way = [&](Form form, Quantity q, Mode mode) {
      const auto name = [](const char* const* names, auto item) {
        return names[static_cast<std::size_t>(item)];
      };
      attempt(q, detail::str(name(form_names, form), ", ", name(mode_names, mode)),
              [&] { return tensors_of(in_mode(mode, quantity(function(form), q))); });
    };
    if (all) {
      for (const Form form : forms)
        for (const Quantity q : quantities)
          for (const Mode mode : modes) try_way(form, q, mode);
    } else {
      for (std::size_t i = 0; i < draws; ++i)
        try_way(forms[random_.below(forms.size())], quantities[random_.below(quantities.size())],
                modes[random_.below(modes.size())]);
    }
    return std::move(report_);
  }

 private:
  // --- the ways

  ArrayFunction function(Form form) const {
    const ModeCase& c = case_;
    const auto whole = [&c](const Arrays& x) {
      Arrays all = arrays_of(c.inputs);
      for (std::size_t k = 0; k < x.size(); ++k) all[c.wrt[k]] = x[k];
      return call_graph(c.graph, all);
    };
    switch (form) {
      case Form::one_node: return whole;
      case Form::by_operations: return [&c](const Arrays& x) { return by_operations(c, x); };
      case Form::checkpointed: return [whole](const Arrays& x) { return checkpoint(whole)(x); };
      case Form::compiled: return [whole](const Arrays& x) { return compile(whole)(x); };
      case Form::mapped: return mapped(whole);
    }
    return whole;
  }
  static ArrayFunction mapped(const ArrayFunction& f) {
    return [f](const Arrays& x) {
      Arrays stacks, first;
      for (const Array& array : x) stacks.push_back(stack({array, array}));
      for (const Array& array : vmap(f)(stacks)) first.push_back(array[1]);
      return first;
    };
  }
  static Arrays by_operations(const ModeCase& c, const Arrays& x) {
    const Graph& graph = c.graph;
    std::map<ValueId, Array> values;
    for (std::size_t i = 0; i < c.inputs.size(); ++i) values.emplace(graph.inputs()[i], Array(c.inputs[i]));
    for (std::size_t k = 0; k < x.size(); ++k) values.insert_or_assign(graph.inputs()[c.wrt[k]], x[k]);
    for (std::size_t i = 0; i < graph.num_operations(); ++i) {
      const Operation operation = graph.operation(i);
      GraphBuilder one(std::string(operation.op().name()), graph.primitives());
      std::vector<Value> inputs;
      Arrays operands;
      for (const ValueId id : operation.inputs()) {
        inputs.push_back(one.input(std::to_string(inputs.size()), graph.type(id)));
        operands.push_back(values.at(id));
      }
      const Values results = one.emit(operation.op(), inputs);
      const Arrays made =
          call_graph(one.build(std::span<const Value>(results.data(), results.size())), operands);
      for (std::size_t slot = 0; slot < made.size(); ++slot)
        values.insert_or_assign(operation.output(slot), made[slot]);
    }
    Arrays outputs;
    for (const ValueId id : graph.outputs()) outputs.push_back(values.at(id));
    return outputs;
  }

  ArrayFunction quantity(const ArrayFunction& f, Quantity q) const {
    const Arrays u = arrays_of(u_), w = arrays_of(w_), v = arrays_of(v_);
    const auto forward = [f](const Arrays& tangent) {
      return [f, tangent](const Arrays& x) { return jvp(f, x, tangent).second; };
    };
    const auto reverse = [f, v](const Arrays& x) { return vjp(f, x).second(v); };
    switch (q) {
      case Quantity::value: return f;
      case Quantity::jvp: return forward(u);
      case Quantity::vjp: return reverse;
      case Quantity::jvp_of_vjp: return [=](const Arrays& x) { return jvp(reverse, x, w).second; };
      case Quantity::vjp_of_jvp: return [=](const Arrays& x) { return vjp(forward(w), x).second(v); };
      case Quantity::vjp_of_vjp: return [=](const Arrays& x) { return vjp(reverse, x).second(w); };
      case Quantity::jvp_of_jvp: return [=](const Arrays& x) { return jvp(forward(u), x, w).second; };
    }
    return f;
  }

  Arrays in_mode(Mode mode, const ArrayFunction& q) const {
    const Arrays x = arrays_of(x_);
    switch (mode) {
      case Mode::tape: return q(x);
      case Mode::compiled: return compile(q)(x);
      case Mode::mapped: return mapped(q)(x);
      case Mode::lazy: {
        const Lazy lazy;
        Arrays made = q(x);
        for (Array& array : made) array = Array(array.tensor().clone());
        return made;
      }
      case Mode::hot: {
        const HotPaths hot;
        Arrays made;
        for (int round = 0; round < 5; ++round) {
          made = q(x);
          for (Array& array : made) array = Array(array.tensor().clone());
        }
        return made;
      }
    }
    return {};
  }

  // By transforms of graphs. Derivatives that are absent are zeros.
  Tensors by_graph(Quantity q, const Executor& executor) const {
    const Names wrt = names_at(case_.graph, case_.wrt);
    const Graph& f = case_.graph;
    const auto derivatives = [](const Derivative& d) {
      std::vector<std::size_t> positions;
      for (std::size_t k = d.first; k < d.graph.outputs().size(); ++k) positions.push_back(k);
      return with_outputs(d.graph, positions);
    };
    const auto forward = [&](const Graph& g) { return derivatives(jvp_parts(g, wrt)); };
    const auto reverse = [&](const Graph& g) { return derivatives(vjp_parts(g, wrt)); };
    const auto on = [&](const Graph& g, std::initializer_list<const Tensors*> more) {
      Tensors inputs = case_.inputs;
      for (const Tensors* each : more) inputs.insert(inputs.end(), each->begin(), each->end());
      return executor.run(g, inputs);
    };
    switch (q) {
      case Quantity::value: return on(f, {});
      case Quantity::jvp: return on(forward(f), {&u_});
      case Quantity::vjp: return on(reverse(f), {&v_});
      case Quantity::jvp_of_vjp: return on(forward(reverse(f)), {&v_, &w_});
      case Quantity::vjp_of_jvp: return on(reverse(forward(f)), {&w_, &v_});
      case Quantity::vjp_of_vjp: return on(reverse(reverse(f)), {&v_, &w_});
      case Quantity::jvp_of_jvp: return on(forward(forward(f)), {&u_, &w_});
    }
    return {};
  }

  // --- their results

  template <class Way>
  void attempt(Quantity q, const std::string& way, const Way& run) {
    const std::string name =
        detail::str(case_.name, ", ", quantity_names[static_cast<std::size_t>(q)], ", ", way);
    try {
      compare(q, name, run());
    } catch (const Error& error) {
      std::string text = error.what();
      text = detail::str(name, ": Error (", to_string(error.kind()), "): ", text.substr(0, text.find('\n')));
      if (error.kind() == ErrorKind::ad_rule) {
        report_.refusals.push_back(text);
      } else {
        report_.complaints += text + '\n';
      }
    } catch (const std::exception& error) {
      report_.complaints += detail::str(name, ": ", error.what(), '\n');
    }
  }

  void compare(Quantity q, const std::string& name, Tensors got) {
    First& first = first_[static_cast<std::size_t>(kind_of(q))];
    if (first.name.empty()) {
      first = {name, std::move(got)};
      return;
    }
    ++report_.compared;
    const double rtol = kind_of(q) < 3 ? case_.rtol : 100 * case_.rtol;
    if (got.size() != first.tensors.size()) {
      report_.complaints += detail::str(name, ": ", got.size(), " results, and ", first.tensors.size(),
                                        " of ", first.name, '\n');
      return;
    }
    double scale = 1.0;
    for (const Tensor& tensor : first.tensors)
      for (std::int64_t i = 0; i < tensor.size(); ++i)
        if (const double size = std::abs(tensor.at(i)); std::isfinite(size)) scale = std::max(scale, size);
    for (std::size_t k = 0; k < got.size(); ++k) {
      const Tensor &a = first.tensors[k], &b = got[k];
      if (a.type() != b.type()) {
        report_.complaints +=
            detail::str(name, ": ", b.type(), " as result ", k, ", and ", a.type(), " of ", first.name, '\n');
        continue;
      }
      for (std::int64_t i = 0; i < a.size(); ++i) {
        if (agree(a.at(i), b.at(i), rtol * scale)) continue;
        report_.complaints += detail::str(name, ": ", b.at(i), " as element ", i, " of result ", k, ", and ",
                                          a.at(i), " of ", first.name, '\n');
        break;
      }
    }
  }
  // <v, J u> and <J^T v, u> are one number.
  void compare_directions() {
    const First &forward = first_[1], &reverse = first_[2];
    if (forward.name.empty() || reverse.name.empty()) return;
    const auto product = [](const Tensors& a, const Tensors& b) {
      return check::inner_product(check::MaybeTensors(a.begin(), a.end()),
                                  check::MaybeTensors(b.begin(), b.end()));
    };
    const check::InnerProduct a = product(forward.tensors, v_), b = product(reverse.tensors, u_);
    const double magnitude = std::max({1.0, a.magnitude, b.magnitude});
    if (!std::isfinite(a.value) || !std::isfinite(b.value) ||
        std::abs(a.value - b.value) <= case_.rtol * magnitude)
      return;
    report_.complaints += detail::str(case_.name, ": ", a.value, " by ", forward.name, ", and ", b.value,
                                      " by ", reverse.name, '\n');
  }
  static bool agree(std::complex<double> a, std::complex<double> b, double most) {
    const auto part = [most](double s, double t) {
      if (std::isnan(s) || std::isnan(t)) return std::isnan(s) == std::isnan(t);
      return s == t || std::abs(s - t) <= most;
    };
    return part(a.real(), b.real()) && part(a.imag(), b.imag());
  }

  struct First {
    std::string name;
    Tensors tensors;
  };
  const ModeCase& case_;
  check::Random& random_;
  Tensors x_, u_, w_, v_;
  std::array<First, 5> first_;
  ModeReport report_;
};

}  // namespace

ModeReport compare_modes(const ModeCase& c, check::Random& random, std::size_t draws, bool all) {
  return Comparison(c, random).run(draws, all);
}

}  // namespace tidu::test
