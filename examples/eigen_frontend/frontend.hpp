// frontend.hpp - an eager frontend for Eigen's matrices, differentiated through tidu::core alone. Its
// operands are handles to immutable matrices, whose shapes are unknown to tidu.
#pragma once

#include <Eigen/Core>
#include <memory>
#include <span>
#include <tidu/eager/backward.hpp>
#include <vector>

namespace mini {

using Matrix = Eigen::MatrixXd;
/// The operand, which the tape keeps and the executor receives.
using Mat = std::shared_ptr<const Matrix>;

/// add, mul, scale, matmul, transpose and tanh, each with its rules.
const tidu::PrimitiveSet& primitives();

/// Runs graphs of this frontend's primitives.
class Executor final : public tidu::eager::BackwardExecutor<Mat> {
 public:
  using Inputs = std::span<const Mat* const>;
  tidu::Result<Values> execute_forward(const tidu::eager::GraphCall& call, Inputs inputs) const override;
  tidu::Result<Values> run_transposed_linear(const tidu::eager::GraphCall& call,
                                             Inputs inputs) const override;
  tidu::Result<Mat> add_operands(const tidu::eager::AddCall& call, Mat a, const Mat& b) const override;
};

class Frontend;

/// A matrix, and who it is on the tape.
struct Var {
  Frontend* frontend = nullptr;
  Mat data;
  tidu::eager::EagerOutput who;
  const Matrix& value() const { return *data; }
  double item() const { return (*data)(0, 0); }
};

Var operator+(const Var& x, const Var& y);
Var operator*(const Var& x, const Var& y);  ///< element by element
Var operator*(double factor, const Var& x);
Var matmul(const Var& x, const Var& y);
Var tanh(const Var& x);
Var sum(const Var& x);  ///< of all elements: 1 x 1

/// Owns the recorder and the executor. For one thread.
class Frontend {
 public:
  Frontend() : recorder_(&executor_) {}
  Var constant(Matrix value);
  /// A value to differentiate by, known by a key alone.
  Var variable(Matrix value);
  /// A parameter that lives on: backward() adds its gradient to the leaf's slot.
  Var parameter(const tidu::eager::Leaf<Mat>& leaf, Mat value);
  tidu::eager::KeySource& keys() { return recorder_.keys(); }

  /// Adds the gradients of a 1 x 1 `loss` to the slots of the leaves that it depends on.
  void backward(const Var& loss);
  /// The gradients of a 1 x 1 `y` by the variables xs (absent ones are zero matrices); with create_graph they
  /// can be differentiated again.
  std::vector<Var> grad(const Var& y, const std::vector<Var>& xs, bool create_graph = false);

 private:
  friend Var apply(const tidu::Op& op, const std::vector<Var>& operands);
  Executor executor_;
  tidu::eager::Recorder<Mat> recorder_;
};

}  // namespace mini
