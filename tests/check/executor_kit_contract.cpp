// executor_kit_contract.cpp - check_executor: faults in the reports of an executor, in the time of its
// computation, and in the optional methods; graphs and primitives of the caller.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <functional>
#include <memory>

#include "check/planted_faults.hpp"
#include "tidu/graph/builder.hpp"
#include "tidu/graph/infer.hpp"
#include "tidu/graph/rules.hpp"
#include "tidu/primitives/elementwise.hpp"

namespace tidu::test {
namespace {

TEST_CASE("fault: errors are not reported, reported badly, or break later calls") {
  class TakesAnything final : public Sound {
    Result<Values> run(const eager::GraphCall& call, Inputs inputs) const override {
      std::vector<Tensor> right;
      for (std::size_t i = 0; i < call.graph.inputs().size(); ++i) {
        const Type type = call.graph.type(call.graph.inputs()[i]);
        right.push_back(i < inputs.size() && inputs[i]->type() == type ? *inputs[i] : Tensor::zeros(type));
      }
      std::vector<const Tensor*> pointers;
      for (const Tensor& tensor : right) pointers.push_back(&tensor);
      return reference().execute_forward(call, pointers);
    }
  };
  ExecutorReport report = report_of(TakesAnything(), few());
  CHECK(report.found(Check::errors, "execute_forward"));
  CHECK_FALSE(report.found(Check::results));
  CHECK_FALSE(report.found(Check::recovery));
  ExecutorKitOptions untyped = few();
  untyped.typed = false;
  CHECK(report_of(TakesAnything(), untyped).found(Check::errors));  // the number of inputs

  class ThrowsInts final : public Sound {
    Result<Values> run(const eager::GraphCall& call, Inputs inputs) const override {
      Result<Values> values = reference().execute_forward(call, inputs);
      if (!values) throw 7;
      return values;
    }
  };
  report = report_of(ThrowsInts(), few());
  CHECK(report.found(Check::errors, "run_transposed_linear"));
  CHECK(to_text(report).find("threw something that is no std::exception") != std::string::npos);

  class Throws final : public Sound {  // this is allowed, and noted
    Result<Values> run(const eager::GraphCall& call, Inputs inputs) const override {
      return std::move(reference().execute_forward(call, inputs).value());
    }
  };
  report = report_of(Throws(), few());
  CHECK_MESSAGE(report.ok, text_of(report));
  CHECK(to_text(report).find("note: execute_forward throws its errors") != std::string::npos);

  class Broken final : public Sound {
    Result<Values> run(const eager::GraphCall& call, Inputs inputs) const override {
      if (broken_.exchange(false)) return Error(ErrorKind::execution, "still broken");
      Result<Values> values = reference().execute_forward(call, inputs);
      broken_ = !values;
      return values;
    }
    mutable std::atomic<bool> broken_{false};
  };
  report = report_of(Broken(), few());
  CHECK(report.found(Check::recovery, "execute_forward"));
  CHECK_FALSE(report.found(Check::errors));
  CHECK_FALSE(report.found(Check::results));
}

/// An operand whose elements are computed when they are looked at.
struct Late {
  std::shared_ptr<Tensor> value;
  std::function<Tensor()> later;
  Tensor get() const { return later ? later() : *value; }
};

class LateExecutor final : public eager::BackwardExecutor<Late> {
 public:
  using LateInputs = std::span<const Late* const>;
  Result<Values> execute_forward(const eager::GraphCall& call, LateInputs inputs) const override {
    std::vector<Late> held;
    std::vector<Tensor> now;
    for (const Late* input : inputs) {
      held.push_back(*input);
      now.push_back(input->get());
    }
    const Result<std::vector<Tensor>> checked = reference().try_run(call.graph, now);
    if (!checked) return checked.error();
    Values values;
    for (std::size_t i = 0; i < call.graph.outputs().size(); ++i) {
      values.push_back({nullptr, [held, graph = call.graph, i] {
                          std::vector<Tensor> tensors;
                          for (const Late& one : held) tensors.push_back(one.get());
                          return reference().run(graph, tensors)[i];
                        }});
    }
    return values;
  }
  Result<Values> run_transposed_linear(const eager::GraphCall& call, LateInputs inputs) const override {
    return execute_forward(call, inputs);
  }
  Result<Late> add_operands(const eager::AddCall& call, Late a, const Late& b) const override {
    const Result<Tensor> sum = reference().add_operands(call, a.get(), b.get());
    if (!sum) return sum.error();
    return Late{std::make_shared<Tensor>(*sum), nullptr};
  }
};

TEST_CASE("fault: inputs are read when results are looked at") {
  const OperandConversion<Late> conversion{
      [](const Tensor& tensor) {
        return Late{std::make_shared<Tensor>(tensor.clone()), nullptr};
      },
      [](const Late& late) { return late.get(); },
      [](Late& late) { *late.value = Tensor::zeros(late.value->type()); }};
  const ExecutorReport report = check_executor(LateExecutor(), conversion, few());
  CHECK(report.found(Check::lifetime, "execute_forward"));
  CHECK(report.found(Check::lifetime, "run_transposed_linear"));
  CHECK_FALSE(report.found(Check::results));
  CHECK_FALSE(report.found(Check::aliasing));
  const std::string text = to_text(report);
  CHECK(text.find("note: describe gives no type") != std::string::npos);
  CHECK(text.find("note: version is unknown") != std::string::npos);
}

TEST_CASE("fault: the optional methods report false values") {
  class Wrong final : public Sound {
    std::optional<Type> describe(const Tensor& tensor) const override {
      return tensor.rank() == 2 ? Type(tensor.dtype(), {tensor.dim(1), tensor.dim(0)}) : tensor.type();
    }
    Result<std::optional<Tensor>> ones_like(Type type) const override {
      return std::optional<Tensor>(Tensor::zeros(type));
    }
    std::optional<bool> is_finite(const Tensor& tensor) const override {
      return tensor.size() == 0 || std::isfinite(tensor.at(0).real());
    }
    std::optional<bool> is_zero(const Tensor& tensor) const override {
      return tensor.size() != 0 && all_zero(tensor);
    }
    std::optional<std::uint64_t> version(const Tensor&) const override { return 3; }
    std::size_t bytes(const Tensor&) const override { return 1; }
  };
  const ExecutorReport report = report_of(Wrong(), few());
  for (const std::string_view method :
       {"describe", "ones_like", "is_finite", "is_zero", "version", "bytes"}) {
    INFO(method);
    CHECK(report.found(Check::operands, method));
  }
  CHECK_FALSE(report.found(Check::results));
}

TEST_CASE("graphs of a set of the caller's, and primitives that are not there") {
  // y = 3 x: linear.
  static constinit const Primitive triple{
      .name = "mine.triple",
      .linearity = linearity::linear,
      .infer = [](InferContext& c) { c.result(c.operand(0)); },
      .transpose = [](TransposeContext& c) -> Derivatives { return emit1(c.op(), {*c.cotangent()}); }};
  const PrimitiveSet set = standard_primitives().with({&triple});
  GraphBuilder builder("f", set);
  const Value x = builder.input("x", {f64, {2}});
  const Value y = emit1(plain_op<triple>(), {x});
  const auto with = [](double factor) {
    return reference().with_kernel("mine.triple", [factor](const KernelCall& call) {
      const auto in = call.input(0).elements<double>();
      const auto out = call.output().mutable_elements<double>();
      std::transform(in.begin(), in.end(), out.begin(), [factor](double v) { return factor * v; });
    });
  };
  const ReferenceExecutor right = with(3.0), wrong = with(-3.0);
  ExecutorKitOptions options = few();
  options.more_graphs = {builder.build({y * x})};
  options.oracle = &right;
  options.supports = [](const Primitive& primitive, DType dtype) {
    return primitive.name != "sin" && reference().supports(primitive, dtype);
  };
  ExecutorReport report = report_of(right, options);
  CHECK_MESSAGE(report.ok, text_of(report));
  const std::string left_out = "graph 0 of the caller's: left out for want of primitives";
  CHECK(to_text(report).find(left_out) != std::string::npos);  // supports() says no of mine.triple
  options.supports = [](const Primitive& primitive, DType) { return primitive.name != "sin"; };
  report = report_of(right, options);
  CHECK_MESSAGE(report.ok, text_of(report));
  CHECK(to_text(report).find(left_out) == std::string::npos);
  report = report_of(wrong, options);
  CHECK(report.found(Check::results, "execute_forward"));
  CHECK(to_text(report).find("graph 0 of the caller's: expected f64[2]") != std::string::npos);

  options.dtypes = {i32};
  CHECK_THROWS_AS(report_of(right, options), Error);
  CHECK_THROWS_AS(check_executor(right, OperandConversion<Tensor>{}, few()), Error);
}

}  // namespace
}  // namespace tidu::test
