// eager.cpp - eval, jvp, vjp, grad, hvp, jac with --eager: every operation is executed and recorded by
// itself, and derivatives run the tape backward. A jvp is the backward of the backward: cotangents that are
// leaves are multiplied by the transposed Jacobian, which is linear in them, so the transpose of this map is
// the Jacobian. With --batched every floating or complex input is mapped, which keeps gradients per example.
#include <algorithm>
#include <cstring>
#include <unordered_map>

#include "cli/commands.hpp"
#include "cli/eager_run.hpp"
#include "cli/job.hpp"
#include "tidu/tensor/inspect.hpp"

namespace tidu::cli {
namespace {

using Tensors = std::vector<std::optional<Tensor>>;
using Keep = EagerRun::Keep;

void require_floating_scalar(const Job& job, std::string_view command) {
  const Graph& graph = job.graph();
  const bool one = graph.outputs().size() == 1;
  const Type type = one ? graph.type(graph.outputs()[0]) : Type();
  if (one && type.rank() == 0 && is_floating(type.dtype())) return;
  job.derive([&](const Graph&) -> int {
    throw Error(ErrorKind::invalid_argument,
                detail::str(command, ": expected ", detail::in_quotes(graph.name()),
                            " to have one floating scalar output, got ",
                            one ? detail::str(type) : detail::str(graph.outputs().size(), " outputs")));
  });
}

EagerValues as_values(const std::vector<Tensor>& tensors, std::size_t from, std::size_t count) {
  EagerValues values(count);
  for (std::size_t i = 0; i < count; ++i) values[i].tensor = tensors[from + i];
  return values;
}

// The cotangents that the command line gives in addition to the inputs, aligned with the inexact outputs.
EagerValues cotangents_of(const Job& job, const EagerRun& run, const std::vector<Tensor>& tensors) {
  EagerValues seeds(run.outputs().size());
  std::size_t next = job.graph().inputs().size();
  for (std::size_t k = 0; k < seeds.size(); ++k) {
    if (is_inexact(run.outputs()[k].tensor->dtype())) seeds[k].tensor = tensors[next++];
  }
  return seeds;
}

JsonObject with_outputs_of(const EagerRun& run) {
  Tensors tensors;
  for (const EagerValue& output : run.outputs()) tensors.push_back(output.tensor);
  JsonObject object;
  object.list("outputs", tensors);
  return object;
}

bool profiled(const Session& session) { return session.arguments.profile_file.has_value(); }

// Writes the profile, if one is requested, then the result.
int finish(const Session& session, const Job& job, const EagerRun& run, const JsonObject& object) {
  if (run.profile() != nullptr) write_file(*session.arguments.profile_file, run.profile()->to_chrome_trace());
  return job.print(object);
}

JsonObject::Named named(const Job& job, const std::vector<std::size_t>& wrt, const EagerValues& values) {
  JsonObject::Named object;
  for (std::size_t i = 0; i < wrt.size(); ++i) object.emplace_back(job.names()[wrt[i]], values[i].tensor);
  return object;
}

// Tangents by `body`: if a transpose rule is missing, forward mode may not need it.
template <class Body>
auto tangents_by_reverse_mode(Body&& body) {
  try {
    return body();
  } catch (const ADRuleError& error) {
    if (error.rule() != ADRuleError::Rule::transpose) throw;
    error
        .with_message(
            detail::str(error.what(),
                        "\n  with --eager, tangents are computed in reverse mode, from two backward "
                        "runs of the tape; without --eager in forward mode"))
        ->raise();
    throw;  // not reached
  }
}

// The transposed Jacobian as a tape of its own, ready to be run backward any number of times.
class Pushforward {
 public:
  explicit Pushforward(EagerRun& run) : run_(run) {
    std::vector<EagerValue> roots;
    std::unordered_map<eager::Key, std::size_t> root_of;
    for (const EagerValue& output : run.outputs()) {
      probe_of_output_.emplace_back();
      if (!output.who.trace) continue;
      // An output that stands there twice is one root.
      const auto [at, added] = root_of.emplace(output.who.key, roots.size());
      if (added) {
        roots.push_back(output);
        probes_.push_back(run.leaf(Tensor::zeros(output.tensor->type())));
      }
      probe_of_output_.back() = at->second;
    }
    pulled_ = run.backward(roots, probes_, run.leaves(), {.graph = true, .record = true});
  }
  /// By output, from tangents of the leaves.
  Tensors operator()(const EagerValues& tangents) const {
    const EagerValues pushed = run_.backward(pulled_, tangents, probes_, {.graph = true});
    Tensors by_output;
    for (const auto& probe : probe_of_output_)
      by_output.push_back(probe ? pushed[*probe].tensor : std::nullopt);
    return by_output;
  }

 private:
  EagerRun& run_;
  EagerValues probes_;  // seeds that are leaves; their values do not matter
  std::vector<std::optional<std::size_t>> probe_of_output_;
  EagerValues pulled_;
};

}  // namespace

int run_eager_eval(const Session& session) {
  const Job job(session);
  const EagerRun run(job, {}, profiled(session));
  return finish(session, job, run, with_outputs_of(run));
}

int run_eager_jvp(const Session& session) {
  Job job(session);
  job.add_tangents();
  const std::vector<std::size_t> wrt = wrt_positions(job.graph(), {});
  EagerRun run(job, wrt, profiled(session));
  const EagerValues tangents = as_values(job.mapped().tensors, job.graph().inputs().size(), wrt.size());
  JsonObject object = with_outputs_of(run);
  object.list("tangents", tangents_by_reverse_mode([&] { return Pushforward(run)(tangents); }));
  return finish(session, job, run, object);
}

int run_eager_vjp(const Session& session) {
  Job job(session);
  job.add_cotangents();
  const std::vector<std::size_t> wrt = wrt_positions(job.graph(), {});
  EagerRun run(job, wrt, profiled(session));
  const EagerValues seeds = cotangents_of(job, run, job.mapped().tensors);
  JsonObject object = with_outputs_of(run);
  object.object("gradients", named(job, wrt, run.backward(run.outputs(), seeds, run.leaves(), {})));
  return finish(session, job, run, object);
}

int run_eager_grad(const Session& session) {
  const Job job(session);
  require_floating_scalar(job, "grad");
  const std::vector<std::size_t> wrt = wrt_positions(job.graph(), job.wrt());
  EagerRun run(job, wrt, profiled(session));
  const EagerValue seed{{}, ones(run.outputs()[0].tensor->type())};
  JsonObject object = with_outputs_of(run);
  object.object("gradients", named(job, wrt, run.backward(run.outputs(), {&seed, 1}, run.leaves(), {})));
  return finish(session, job, run, object);
}

int run_eager_hvp(const Session& session) {
  Job job(session);
  job.add_tangents();
  require_floating_scalar(job, "hvp");
  const std::vector<std::size_t> wrt = wrt_positions(job.graph(), {});
  EagerRun run(job, wrt, profiled(session));
  const EagerValue seed{{}, ones(run.outputs()[0].tensor->type())};
  const EagerValues gradients = run.backward(run.outputs(), {&seed, 1}, run.leaves(), {.record = true});
  const EagerValues tangents = as_values(job.tensors(), job.graph().inputs().size(), wrt.size());
  const EagerValues products = run.backward(gradients, tangents, run.leaves(), {});
  JsonObject object = with_outputs_of(run);
  object.object("gradients", named(job, wrt, gradients));
  object.object("hvp", named(job, wrt, products));
  return finish(session, job, run, object);
}

namespace {

// The inputs to differentiate by: as for grad, but without --wrt only the floating ones; and neither they nor
// the outputs may be complex.
std::vector<std::size_t> jacobian_inputs(const Job& job) {
  const Graph& graph = job.graph();
  std::vector<std::size_t> wrt = wrt_positions(graph, job.wrt());
  const auto type_of = [&](std::size_t position) { return graph.type(graph.inputs()[position]); };
  if (job.wrt().empty()) {
    std::vector<std::size_t> floating;
    for (const std::size_t i : wrt)
      if (is_floating(type_of(i).dtype())) floating.push_back(i);
    if (!floating.empty()) wrt = floating;
  }
  const auto refuse_complex = [&](Type type, const std::string& what) {
    if (!is_complex(type.dtype())) return;
    job.derive([&](const Graph&) -> int {
      throw Error(ErrorKind::invalid_argument,
                  detail::str("jacobian: expected real inputs and outputs of ",
                              detail::in_quotes(graph.name()), ", got ", what, " of type ", type,
                              "; split it with real and imag (and join inputs with complex), and "
                              "differentiate the parts"));
    });
  };
  for (const std::size_t i : wrt)
    refuse_complex(type_of(i), detail::str("input ", detail::printable(graph.input_name(i))));
  for (std::size_t k = 0; k < graph.outputs().size(); ++k)
    refuse_complex(graph.type(graph.outputs()[k]), detail::str("output ", k));
  return wrt;
}

// The number of unit vectors of a type; for no elements one empty vector, which shows the dependences.
std::int64_t num_unit_vectors(Type type) { return std::max<std::int64_t>(type.size(), 1); }

Tensor unit_vector(Type type, std::int64_t at) {
  Tensor tensor = Tensor::zeros(type);
  if (type.size() == 0) return tensor;
  const Tensor one = Tensor::scalar(type.dtype(), 1.0);
  std::memcpy(tensor.mutable_bytes() + static_cast<std::size_t>(at) * one.num_bytes(), one.bytes(),
              one.num_bytes());
  return tensor;
}

/// The Jacobian of one output by one input, made of rows or columns, of whose dtype it is: the input's or the
/// output's. Absent until one of them is there.
class Block {
 public:
  Block(Type output, Type input) : rows_(output.size()), columns_(input.size()), shape_(output.shape()) {
    shape_.insert(shape_.end(), input.shape().begin(), input.shape().end());
  }
  void set_row(std::int64_t row, const std::optional<Tensor>& gradient) {
    if (gradient) put(row * columns_, 1, columns_, *gradient);
  }
  void set_column(std::int64_t column, const std::optional<Tensor>& tangent) {
    if (tangent) put(column, columns_, rows_, *tangent);
  }
  const std::optional<Tensor>& tensor() const { return tensor_; }

 private:
  void put(std::int64_t first, std::int64_t stride, std::int64_t count, const Tensor& from) {
    if (!tensor_) tensor_ = Tensor::zeros(from.type().with_shape(shape_));
    if (tensor_->size() == 0) return;
    const std::size_t size = from.type().with_shape({}).bytes();
    std::byte* to = tensor_->mutable_bytes();
    for (std::int64_t i = 0; i < count; ++i) {
      std::memcpy(to + static_cast<std::size_t>(first + i * stride) * size,
                  from.bytes() + static_cast<std::size_t>(i) * size, size);
    }
  }
  std::int64_t rows_, columns_;
  Shape shape_;
  std::optional<Tensor> tensor_;
};

using Blocks = std::vector<std::vector<Block>>;  // by output and leaf

// The columns of all blocks, a pass for each.
void push_columns(EagerRun& run, Blocks& blocks) {
  const Pushforward push(run);
  for (std::size_t i = 0; i < run.leaves().size(); ++i) {
    const Type type = run.leaves()[i].tensor->type();
    EagerValues tangents(run.leaves().size());
    for (std::int64_t column = 0; column < num_unit_vectors(type); ++column) {
      tangents[i].tensor = unit_vector(type, column);
      const Tensors pushed = push(tangents);
      for (std::size_t k = 0; k < blocks.size(); ++k) blocks[k][i].set_column(column, pushed[k]);
    }
  }
}

}  // namespace

int run_eager_jac(const Session& session) {
  const Job job(session);
  note_left_out(session, job);
  const std::vector<std::size_t> wrt = jacobian_inputs(job);
  EagerRun run(job, wrt, profiled(session));
  const EagerValues& outputs = run.outputs();
  Blocks blocks(outputs.size());
  for (std::size_t k = 0; k < outputs.size(); ++k) {
    for (const EagerValue& leaf : run.leaves())
      blocks[k].emplace_back(outputs[k].tensor->type(), leaf.tensor->type());
  }
  if (session.arguments.mode == "forward") {
    tangents_by_reverse_mode([&] { push_columns(run, blocks); });
  } else {
    for (std::size_t k = 0; k < outputs.size(); ++k) {
      const Type type = outputs[k].tensor->type();
      EagerValues seeds(outputs.size());
      for (std::int64_t row = 0; row < num_unit_vectors(type) && outputs[k].who.trace; ++row) {
        seeds[k].tensor = unit_vector(type, row);
        const EagerValues pulled = run.backward(outputs, seeds, run.leaves(), {.graph = true});
        for (std::size_t i = 0; i < wrt.size(); ++i) blocks[k][i].set_row(row, pulled[i].tensor);
      }
    }
  }
  std::vector<JsonObject::Named> jacobians(outputs.size());
  for (std::size_t k = 0; k < outputs.size(); ++k) {
    for (std::size_t i = 0; i < wrt.size(); ++i)
      jacobians[k].emplace_back(job.names()[wrt[i]], blocks[k][i].tensor());
  }
  JsonObject object = with_outputs_of(run);
  object.list_of_objects("jacobians", jacobians);
  return finish(session, job, run, object);
}

}  // namespace tidu::cli
