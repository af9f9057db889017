// frontend.cpp - the primitives with their rules, the executor with its kernels, and recording.
#include "frontend.hpp"

#include <cstring>
#include <map>
#include <tidu/graph/builder.hpp>
#include <tidu/graph/infer.hpp>
#include <tidu/graph/rules.hpp>

namespace mini {
namespace {

using namespace tidu;

// --- primitives. Every value has one and the same type: shapes are Eigen's business.

void infer(InferContext& c) { c.result(c.operand(0)); }

extern const Primitive add, mul, scale, matmul_p, transpose, tanh_p;

template <const Primitive& P>
Value emit(Value x, Value y) {
  return emit1(plain_op<P>(), {x, y});
}
Value t(Value x) { return emit1(plain_op<transpose>(), {x}); }
Op scaled_by(double factor) { return Op::make(scale, {{"factor", Literal::scalar(f64, factor)}}); }

constinit const Primitive add{
    .name = "mini.add",
    .arity = 2,
    .linearity = linearity::linear,
    .infer = infer,
    .jvp = [](JvpContext& c) -> Derivatives {
      if (!c.active(0) || !c.active(1)) return c.active(0) ? c.tangent(0) : c.tangent(1);
      return emit<add>(*c.tangent(0), *c.tangent(1));
    },
    .transpose = [](TransposeContext& c) -> Derivatives {
      Derivatives cotangents = Derivatives::absent(2);
      for (std::size_t i = 0; i < 2; ++i)
        if (c.linear(i)) cotangents.set(i, c.cotangent());
      return cotangents;
    },
};

// A primitive that is bilinear, or linear in a single operand, needs no JVP of its own; one that is neither
// needs no transpose.
constinit const Primitive mul{
    .name = "mini.mul",
    .arity = 2,
    .linearity = linearity::bilinear,
    .infer = infer,
    .transpose = [](TransposeContext& c) -> Derivatives {
      if (c.linear(0)) return {emit<mul>(*c.cotangent(), c.operand(1)), std::nullopt};
      return {std::nullopt, emit<mul>(c.operand(0), *c.cotangent())};
    },
};

// z = x y:   ct_x = ct yᵀ, ct_y = xᵀ ct
constinit const Primitive matmul_p{
    .name = "mini.matmul",
    .arity = 2,
    .linearity = linearity::bilinear,
    .infer = infer,
    .transpose = [](TransposeContext& c) -> Derivatives {
      if (c.linear(0)) return {emit<matmul_p>(*c.cotangent(), t(c.operand(1))), std::nullopt};
      return {std::nullopt, emit<matmul_p>(t(c.operand(0)), *c.cotangent())};
    },
};

constexpr AttributeSpec scale_attributes[] = {{"factor", AttributeKind::literal}};
constinit const Primitive scale{
    .name = "mini.scale",
    .attributes = scale_attributes,
    .linearity = linearity::linear,
    .infer = infer,
    .transpose = [](TransposeContext& c) -> Derivatives { return emit1(c.op(), {*c.cotangent()}); },
};

constinit const Primitive transpose{
    .name = "mini.transpose",
    .linearity = linearity::linear,
    .infer = infer,
    .transpose = [](TransposeContext& c) -> Derivatives { return t(*c.cotangent()); },
};

// y = tanh x:   dy = dx - y² dx
constinit const Primitive tanh_p{
    .name = "mini.tanh",
    .infer = infer,
    .jvp = [](JvpContext& c) -> Derivatives {
      const Value y = c.result(), dx = *c.tangent(0);
      return emit<add>(dx, emit1(scaled_by(-1), {emit<mul>(emit<mul>(y, y), dx)}));
    },
};

// --- kernels

using Operands = std::span<const Matrix* const>;
using Kernel = Matrix (*)(const Op&, Operands);

// A release build of Eigen does not look at shapes.
void check_shapes(const Op& op, Operands x) {
  const bool fit = &op.primitive() == &matmul_p
                       ? x[0]->cols() == x[1]->rows()
                       : x[0]->rows() == x.back()->rows() && x[0]->cols() == x.back()->cols();
  if (!fit) throw Error(ErrorKind::type, std::string(op.name()) + ": shapes do not fit");
}

Matrix scale_kernel(const Op& op, Operands x) {
  double factor = 0;
  std::memcpy(&factor, op.literal("factor").bytes(), sizeof factor);
  return factor * *x[0];
}

const std::map<const Primitive*, Kernel> kernels = {
    {&add, [](const Op&, Operands x) -> Matrix { return *x[0] + *x[1]; }},
    {&mul, [](const Op&, Operands x) -> Matrix { return x[0]->cwiseProduct(*x[1]); }},
    {&matmul_p, [](const Op&, Operands x) -> Matrix { return *x[0] * *x[1]; }},
    {&scale, scale_kernel},
    {&transpose, [](const Op&, Operands x) -> Matrix { return x[0]->transpose(); }},
    {&tanh_p, [](const Op&, Operands x) -> Matrix { return x[0]->array().tanh(); }},
};

eager::Root<Mat> root_of(const Var& y) {
  eager::Root<Mat> root;
  root.key = y.who.key;
  root.trace = y.who.trace;
  root.seed = std::make_shared<const Matrix>(Matrix::Ones(1, 1));
  return root;
}

}  // namespace

const PrimitiveSet& primitives() {
  static const PrimitiveSet set({&add, &mul, &scale, &matmul_p, &transpose, &tanh_p}, &add, nullptr);
  return set;
}

// --- the executor

Result<Executor::Values> Executor::execute_forward(const eager::GraphCall& call, Inputs inputs) const {
  const Graph& graph = call.graph;
  if (inputs.size() != graph.inputs().size())
    return Error(ErrorKind::invalid_argument, "mini: another number of inputs than the graph has");
  // The plan of a graph is made once and kept with the graph, under this executor's id.
  const auto& plan = call.slot.get<std::vector<Kernel>>(id(), [&] {
    std::vector<Kernel> steps;
    for (std::size_t i = 0; i < graph.num_operations(); ++i)
      steps.push_back(kernels.at(&graph.operation(i).primitive()));
    return steps;
  });
  try {
    std::vector<Mat> values(graph.num_values());
    for (std::size_t i = 0; i < inputs.size(); ++i) values[graph.inputs()[i]] = *inputs[i];
    std::vector<const Matrix*> operands;
    for (std::size_t i = 0; i < plan.size(); ++i) {
      const Operation operation = graph.operation(i);
      operands.clear();
      for (const ValueId operand : operation.inputs()) operands.push_back(values[operand].get());
      check_shapes(operation.op(), operands);
      values[operation.output()] = std::make_shared<const Matrix>(plan[i](operation.op(), operands));
    }
    Values results;
    for (const ValueId output : graph.outputs()) results.push_back(values[output]);
    return results;
  } catch (const Error& error) {
    return error;
  }
}

Result<Executor::Values> Executor::run_transposed_linear(const eager::GraphCall& call, Inputs inputs) const {
  return execute_forward(call, inputs);  // a graph like any other
}

Result<Mat> Executor::add_operands(const eager::AddCall&, Mat a, const Mat& b) const {
  return std::make_shared<const Matrix>(*a + *b);
}

// --- recording

Var apply(const Op& op, const std::vector<Var>& operands) {
  Frontend& frontend = *operands[0].frontend;
  const std::vector<Type> types(operands.size(), Type(f64));
  const auto graph = eager::RecordedGraph::of(op, types, primitives());
  std::vector<const Mat*> values;
  std::vector<eager::EagerInput<Mat>> inputs;
  for (const Var& operand : operands) {
    values.push_back(&operand.data);
    inputs.emplace_back(operand.who, operand.data);
  }
  const Executor::Values results =
      frontend.executor_.execute_forward({graph.graph(), graph.slot()}, values).value();
  const auto recorded = frontend.recorder_.record_graph(graph, inputs, {results.begin(), results.size()});
  return {&frontend, results[0], recorded[0]};
}

Var operator+(const Var& x, const Var& y) { return apply(plain_op<add>(), {x, y}); }
Var operator*(const Var& x, const Var& y) { return apply(plain_op<mul>(), {x, y}); }
Var operator*(double factor, const Var& x) { return apply(scaled_by(factor), {x}); }
Var matmul(const Var& x, const Var& y) { return apply(plain_op<matmul_p>(), {x, y}); }
Var tanh(const Var& x) { return apply(plain_op<tanh_p>(), {x}); }
Var sum(const Var& x) {
  const auto ones = [&x](Eigen::Index rows, Eigen::Index cols) {
    return x.frontend->constant(Matrix::Ones(rows, cols));
  };
  return matmul(matmul(ones(1, x.value().rows()), x), ones(x.value().cols(), 1));
}

Var Frontend::constant(Matrix value) { return {this, std::make_shared<const Matrix>(std::move(value)), {}}; }

Var Frontend::variable(Matrix value) {
  Var made = constant(std::move(value));
  made.who.key = keys().fresh();
  made.who.requires_grad = true;
  return made;
}

Var Frontend::parameter(const eager::Leaf<Mat>& leaf, Mat value) {
  return {this, std::move(value), {leaf.key(), leaf.trace().hold(), true, 0}};
}

void Frontend::backward(const Var& loss) {
  const eager::Root<Mat> root = root_of(loss);
  eager::BackwardOptions options;
  options.accumulate = true;
  eager::backward<Mat>({&root, 1}, executor_, options);
}

std::vector<Var> Frontend::grad(const Var& y, const std::vector<Var>& xs, bool create_graph) {
  const eager::Root<Mat> root = root_of(y);
  std::vector<eager::Requested> requested;
  for (const Var& x : xs) requested.emplace_back(x.who);
  eager::BackwardOptions options;
  options.create_graph = create_graph;
  const auto gradients = eager::backward<Mat>({&root, 1}, executor_, options, requested, &recorder_);
  std::vector<Var> result;
  for (std::size_t i = 0; i < xs.size(); ++i) {
    const eager::Gradient<Mat>& one = gradients.requested()[i];
    result.push_back(one.value ? Var{this, *one.value, one.recorded}
                               : constant(Matrix::Zero(xs[i].value().rows(), xs[i].value().cols())));
  }
  return result;
}

}  // namespace mini
