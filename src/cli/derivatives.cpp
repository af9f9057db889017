// derivatives.cpp - eval, jvp, vjp, grad, hvp, jac: make the graph that is asked for, map it over an axis
// when that is asked for too, run it, and say which output is what.
#include <algorithm>

#include "cli/commands.hpp"
#include "cli/io.hpp"
#include "tidu/graph/error.hpp"
#include "tidu/linearize/transforms.hpp"

namespace tidu::cli {
namespace {

[[noreturn]] void refuse(const std::string& message) { throw Error(ErrorKind::invalid_argument, message); }

Type with_axis(Type type, std::int64_t size) {
  Shape shape{size};
  shape.insert(shape.end(), type.shape().begin(), type.shape().end());
  return type.with_shape(shape);
}

Names input_names(const Graph& graph) {
  Names names;
  for (std::size_t i = 0; i < graph.inputs().size(); ++i) names.push_back(graph.input_name(i));
  return names;
}

// The graph of a command line with what it runs on. Every tensor is checked here, so that messages speak of
// files and names.
class Job {
 public:
  explicit Job(const Session& session)
      : session_(session),
        graph_(read_graph(session.arguments.graph_file, session.set)),
        executor_(make_executor(session)) {
    if (!graph_.externals().empty()) {
      refuse(detail::str(session.arguments.graph_file, ": expected a graph without externals, got ",
                         graph_.externals().size()));
    }
    batched_.assign(graph_.inputs().size(), false);
    NamedTensors given = read_named_tensors(*session.arguments.inputs_file);
    std::vector<std::optional<Tensor>> by_input = by_position(given, *session.arguments.inputs_file);
    find_batch(by_input);
    for (std::size_t i = 0; i < by_input.size(); ++i) {
      if (!by_input[i]) {
        refuse(detail::str(*session.arguments.inputs_file, ": expected a tensor for input \"",
                           graph_.input_name(i), "\" (", graph_.type(graph_.inputs()[i]), "), got none"));
      }
      require_type(*by_input[i], input_type(i),
                   detail::str(*session.arguments.inputs_file, ": input \"", graph_.input_name(i), '"'));
      tensors_.push_back(*by_input[i]);
    }
  }

  const Graph& graph() const { return graph_; }
  const Arguments& arguments() const { return session_.arguments; }
  Names wrt() const { return arguments().wrt.value_or(Names{}); }

  // Tangents of the floating and complex inputs, zero where T.json has none.
  void add_tangents() {
    const std::string& file = *arguments().tangents_file;
    const auto given = by_position(read_named_tensors(file), file);
    for (std::size_t i = 0; i < given.size(); ++i) {
      const Type type = graph_.type(graph_.inputs()[i]);
      if (!is_inexact(type.dtype())) {
        if (given[i])
          refuse(detail::str(file, ": expected tangents of floating and complex inputs, got one of \"",
                             graph_.input_name(i), "\" (", type, ')'));
        continue;
      }
      if (given[i])
        require_type(*given[i], input_type(i),
                     detail::str(file, ": tangent of \"", graph_.input_name(i), '"'));
      tensors_.push_back(given[i] ? *given[i] : Tensor::zeros(input_type(i)));
      carried_.push_back(batched_[i]);
    }
  }

  void add_cotangents() {
    const std::string& file = *arguments().cotangents_file;
    const auto given = read_tensor_list(file);
    if (given.size() != graph_.outputs().size()) {
      refuse(detail::str(file, ": expected ", graph_.outputs().size(),
                         " cotangents, one per output (null: none), got ", given.size()));
    }
    for (std::size_t i = 0; i < given.size(); ++i) {
      const Type type = graph_.type(graph_.outputs()[i]);
      if (!is_inexact(type.dtype())) {
        if (given[i])
          refuse(detail::str(file, ": expected null for output ", i, " of type ", type,
                             ", which is not differentiable, got a tensor"));
        continue;
      }
      const Type expected = is_batched() ? with_axis(type, size_) : type;
      if (given[i]) require_type(*given[i], expected, detail::str(file, ": cotangent ", i));
      tensors_.push_back(given[i] ? *given[i] : Tensor::zeros(expected));
      carried_.push_back(is_batched());
    }
  }

  /// Runs a graph whose inputs are those of the dump, then what was added.
  std::vector<Tensor> run(const Graph& graph) const {
    if (!is_batched()) return executor_->run(graph, std::span<const Tensor>(tensors_));
    BatchOptions options;
    options.inputs = batched_;
    options.inputs->insert(options.inputs->end(), carried_.begin(), carried_.end());
    return executor_->run(batch(graph, size_, options).graph, std::span<const Tensor>(tensors_));
  }

  JsonObject outputs_of(const std::vector<Tensor>& results) const {
    JsonObject object;
    std::vector<std::optional<Tensor>> outputs(
        results.begin(), results.begin() + static_cast<std::ptrdiff_t>(graph_.outputs().size()));
    object.list("outputs", outputs);
    return object;
  }

  int print(const JsonObject& object) const {
    session_.out << object.text();
    return 0;
  }

 private:
  bool is_batched() const { return arguments().batched.has_value(); }
  Type input_type(std::size_t i) const {
    const Type type = graph_.type(graph_.inputs()[i]);
    return batched_[i] ? with_axis(type, size_) : type;
  }

  void require_type(const Tensor& tensor, Type type, const std::string& what) const {
    if (tensor.type() != type)
      throw Error(ErrorKind::type, detail::str(what, ": expected ", type, ", got ", tensor.type()));
  }

  std::vector<std::optional<Tensor>> by_position(const NamedTensors& given, const std::string& file) const {
    std::vector<std::optional<Tensor>> tensors(graph_.inputs().size());
    for (const auto& [name, tensor] : given) {
      const auto position = graph_.find_input(name);
      if (!position) {
        refuse(detail::str(file, ": expected names of inputs, ", detail::list(input_names(graph_)),
                           ", got \"", name, '"'));
      }
      tensors[*position] = tensor;
    }
    return tensors;
  }

  void find_batch(const std::vector<std::optional<Tensor>>& by_input) {
    if (!is_batched()) return;
    std::optional<std::int64_t> size;
    for (const std::string& name : *arguments().batched) {
      const auto position = graph_.find_input(name);
      if (!position)
        refuse(detail::str("--batched: expected names of inputs, ", detail::list(input_names(graph_)),
                           ", got \"", name, '"'));
      if (batched_[*position])
        refuse(detail::str("--batched: expected each input once, got \"", name, "\" twice"));
      batched_[*position] = true;
      const auto& tensor = by_input[*position];
      if (!tensor) continue;  // refused later, by name
      if (tensor->rank() == 0 || (size && tensor->dim(0) != *size)) {
        throw Error(ErrorKind::type,
                    detail::str("--batched: expected input \"", name, "\" with a leading axis",
                                size ? detail::str(" of ", *size) : std::string(), ", got ", tensor->type()));
      }
      size = tensor->dim(0);
    }
    size_ = size.value_or(0);
  }

  const Session& session_;
  Graph graph_;
  std::shared_ptr<const Executor> executor_;
  std::vector<Tensor> tensors_;  // for the inputs of the graph that runs
  std::vector<bool> batched_;    // by input of graph_
  std::vector<bool> carried_;    // by input that was added
  std::int64_t size_ = 0;
};

// The derivatives of `count` inputs from position `from` on, by input name; null where absent.
JsonObject::Named named(const Job& job, const Derivative& derivative, const std::vector<Tensor>& results,
                        std::size_t from) {
  JsonObject::Named object;
  for (std::size_t i = 0; i < derivative.wrt.size(); ++i) {
    const bool present = derivative.present[from - derivative.first + i];
    object.emplace_back(job.graph().input_name(derivative.wrt[i]),
                        present ? std::optional<Tensor>(results[from + i]) : std::nullopt);
  }
  return object;
}

}  // namespace

int run_eval(const Session& session) {
  Job job(session);
  return job.print(job.outputs_of(job.run(job.graph())));
}

int run_jvp(const Session& session) {
  Job job(session);
  job.add_tangents();
  const Derivative derivative = jvp_parts(job.graph());
  const std::vector<Tensor> results = job.run(derivative.graph);
  std::vector<std::optional<Tensor>> tangents(job.graph().outputs().size());
  for (std::size_t i = 0; i < derivative.outputs.size(); ++i) {
    if (derivative.present[i]) tangents[derivative.outputs[i]] = results[derivative.first + i];
  }
  JsonObject object = job.outputs_of(results);
  object.list("tangents", tangents);
  return job.print(object);
}

int run_vjp(const Session& session) {
  Job job(session);
  job.add_cotangents();
  const Derivative derivative = vjp_parts(job.graph());
  const std::vector<Tensor> results = job.run(derivative.graph);
  JsonObject object = job.outputs_of(results);
  object.object("gradients", named(job, derivative, results, derivative.first));
  return job.print(object);
}

int run_grad(const Session& session) {
  Job job(session);
  const Derivative derivative = value_and_grad_parts(job.graph(), job.wrt());
  const std::vector<Tensor> results = job.run(derivative.graph);
  JsonObject object = job.outputs_of(results);
  object.object("gradients", named(job, derivative, results, derivative.first));
  return job.print(object);
}

int run_hvp(const Session& session) {
  Job job(session);
  job.add_tangents();
  const Derivative derivative = hvp_parts(job.graph());
  const std::vector<Tensor> results = job.run(derivative.graph);
  JsonObject object = job.outputs_of(results);
  object.object("gradients", named(job, derivative, results, derivative.first));
  object.object("hvp", named(job, derivative, results, derivative.first + derivative.wrt.size()));
  return job.print(object);
}

int run_jac(const Session& session) {
  Job job(session);
  // Jacobians are of real inputs; a complex one is refused where it is named, and has null where it is not.
  Names wrt = job.wrt();
  if (wrt.empty()) {
    for (std::size_t i = 0; i < job.graph().inputs().size(); ++i) {
      if (is_floating(job.graph().type(job.graph().inputs()[i]).dtype()))
        wrt.push_back(job.graph().input_name(i));
    }
  }
  const bool forward = session.arguments.mode == "forward";
  const Derivative derivative = forward ? jacfwd_parts(job.graph(), wrt) : jacrev_parts(job.graph(), wrt);
  const std::vector<Tensor> results = job.run(derivative.graph);
  std::vector<JsonObject::Named> jacobians(job.graph().outputs().size());
  std::size_t from = derivative.first;
  for (std::size_t k = 0; k < jacobians.size(); ++k) {
    if (std::find(derivative.outputs.begin(), derivative.outputs.end(), k) != derivative.outputs.end()) {
      jacobians[k] = named(job, derivative, results, from);
      from += derivative.wrt.size();
    } else {
      for (const std::size_t i : derivative.wrt)
        jacobians[k].emplace_back(job.graph().input_name(i), std::nullopt);
    }
  }
  JsonObject object = job.outputs_of(results);
  object.list_of_objects("jacobians", jacobians);
  return job.print(object);
}

}  // namespace tidu::cli
