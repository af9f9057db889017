// derivatives.cpp - eval, jvp, vjp, grad, hvp, jac: make the requested graph, run it, and label its outputs.
#include "cli/commands.hpp"
#include "cli/job.hpp"

namespace tidu::cli {
namespace {

// The derivatives of `count` inputs from position `from` on, by input name; null where absent.
JsonObject::Named named(const Job& job, const Derivative& derivative, const std::vector<Tensor>& results,
                        std::size_t from) {
  JsonObject::Named object;
  for (std::size_t i = 0; i < derivative.wrt.size(); ++i) {
    const bool present = derivative.present[from - derivative.first + i];
    object.emplace_back(job.names()[derivative.wrt[i]],
                        present ? std::optional<Tensor>(results[from + i]) : std::nullopt);
  }
  return object;
}

}  // namespace

int run_eval(const Session& session) {
  const Job job(session);
  return job.print(job.outputs_of(job.run(job.graph())));
}

int run_jvp(const Session& session) {
  Job job(session);
  job.add_tangents();
  const Derivative derivative = job.derive([](const Graph& graph) { return jvp_parts(graph); });
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
  const Derivative derivative = job.derive([](const Graph& graph) { return vjp_parts(graph); });
  const std::vector<Tensor> results = job.run(derivative.graph);
  JsonObject object = job.outputs_of(results);
  object.object("gradients", named(job, derivative, results, derivative.first));
  return job.print(object);
}

int run_grad(const Session& session) {
  const Job job(session);
  const Derivative derivative =
      job.derive([&job](const Graph& graph) { return value_and_grad_parts(graph, job.wrt()); });
  const std::vector<Tensor> results = job.run(derivative.graph);
  JsonObject object = job.outputs_of(results);
  object.object("gradients", named(job, derivative, results, derivative.first));
  return job.print(object);
}

int run_hvp(const Session& session) {
  Job job(session);
  job.add_tangents();
  const Derivative derivative = job.derive([](const Graph& graph) { return hvp_parts(graph); });
  const std::vector<Tensor> results = job.run(derivative.graph);
  JsonObject object = job.outputs_of(results);
  object.object("gradients", named(job, derivative, results, derivative.first));
  object.object("hvp", named(job, derivative, results, derivative.first + derivative.wrt.size()));
  return job.print(object);
}

void note_left_out(const Session& session, const Job& job) {
  if (session.arguments.wrt) return;
  const Graph& graph = job.graph();
  std::vector<std::string> complex;
  bool any_floating = false;
  for (std::size_t i = 0; i < graph.inputs().size(); ++i) {
    const DType dtype = graph.type(graph.inputs()[i]).dtype();
    any_floating = any_floating || is_floating(dtype);
    if (is_complex(dtype)) complex.push_back(job.names()[i]);
  }
  if (!any_floating || complex.empty()) return;  // with complex inputs alone all are errors
  session.err << session.program << ": note: expected real inputs, left out " << detail::list(complex)
              << ", which " << (complex.size() == 1 ? "is" : "are")
              << " complex (split what is with real and imag, or use jvp and vjp)\n";
}

int run_jac(const Session& session) {
  const Job job(session);
  note_left_out(session, job);
  const bool forward = session.arguments.mode == "forward";
  const Derivative derivative = job.derive([&](const Graph& graph) {
    // Jacobians are by floating inputs. A complex one is left out unless it is named or there is no other:
    // then it is an error.
    Names wrt = job.wrt();
    for (std::size_t i = 0; i < graph.inputs().size() && !session.arguments.wrt; ++i) {
      if (is_floating(graph.type(graph.inputs()[i]).dtype())) wrt.push_back(job.names()[i]);
    }
    return forward ? jacfwd_parts(graph, wrt) : jacrev_parts(graph, wrt);
  });
  const std::vector<Tensor> results = job.run(derivative.graph);
  std::vector<JsonObject::Named> jacobians(job.graph().outputs().size());
  std::size_t from = derivative.first;
  auto next = derivative.outputs.begin();  // they ascend
  for (std::size_t k = 0; k < jacobians.size(); ++k) {
    if (next != derivative.outputs.end() && *next == k) {
      jacobians[k] = named(job, derivative, results, from);
      from += derivative.wrt.size();
      ++next;
    } else {
      for (const std::size_t i : derivative.wrt) jacobians[k].emplace_back(job.names()[i], std::nullopt);
    }
  }
  JsonObject object = job.outputs_of(results);
  object.list_of_objects("jacobians", jacobians);
  return job.print(object);
}

}  // namespace tidu::cli
