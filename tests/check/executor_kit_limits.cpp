// executor_kit_limits.cpp - check_executor: its requirements on executors with few kernels, on run_at, and on
// the caller's conversions; and which values that are not finite agree.
#include <cmath>
#include <limits>
#include <memory>

#include "check/planted_faults.hpp"
#include "primitives/inner_graphs.hpp"
#include "support/support.hpp"
#include "tidu/graph/builder.hpp"
#include "tidu/primitives/elementwise.hpp"

namespace tidu::test {
namespace {

/// Has no kernel of some primitives, and says so.
class Without final : public Sound {
 public:
  explicit Without(std::vector<std::string> names) : names_(std::move(names)) {}
  bool has(const Primitive& primitive) const {
    return std::find(names_.begin(), names_.end(), primitive.name) == names_.end();
  }
  Result<Values> run(const eager::GraphCall& call, Inputs inputs) const override {
    bool runs = true;
    prim::visit_operations(call.graph, [&](const Operation& operation, const Graph&) {
      runs = runs && has(operation.primitive());
    });
    if (!runs) return Error(ErrorKind::execution, "expected an operation that has a kernel");
    return reference().execute_forward(call, inputs);
  }

 private:
  std::vector<std::string> names_;
};

TEST_CASE("executors without a kernel pass when they say so, whatever derivatives are made of") {
  std::size_t executors = 0;
  for (const std::vector<std::string>& names : {std::vector<std::string>{"neg"},
                                                {"mul"},
                                                {"broadcast_in_dim"},
                                                {"select_n"},
                                                {"full", "cos"},
                                                {"sub"},
                                                {"add"},
                                                {"dot_general", "reduce_sum"}}) {
    if (!test::sampled(executors++)) continue;
    const Without executor(names);
    ExecutorKitOptions options;
    options.dtypes = {f64};
    options.supports = [&](const Primitive& primitive, DType) { return executor.has(primitive); };
    const ExecutorReport report = report_of(executor, options);
    CAPTURE(names[0]);
    CHECK_MESSAGE(report.ok, text_of(report));
    CHECK(report.tested[static_cast<std::size_t>(Check::results)] > 0);
    CHECK(report.tested[static_cast<std::size_t>(Check::backward)] > 0);
  }
}

/// Constructs the results of the methods, some of them wrongly.
class SwapsAt final : public Sound {
 public:
  explicit SwapsAt(bool linear) : linear_(linear) {}
  void run_at(const eager::GraphCall& call, bool linear, Inputs inputs, Tensor* out) const override {
    Sound::run_at(call, linear, inputs, out);
    if (linear == linear_ && call.graph.outputs().size() > 1) std::swap(out[0], out[1]);
  }

 private:
  bool linear_;
};

TEST_CASE("fault: run_at has other results than the methods") {
  for (const bool linear : {false, true}) {
    CAPTURE(linear);
    const ExecutorReport report = report_of(SwapsAt(linear), few());
    CHECK(report.found(Check::results, "run_at"));
    CHECK(report.found(Check::backward, "run_at"));
    for (const std::string_view hook :
         {"execute_forward", "run_transposed_linear", "add_operands", "backward"})
      CHECK_FALSE(report.found(Check::backward, hook));
    CHECK_FALSE(report.found(Check::results, "execute_forward"));
    CHECK_FALSE(report.found(Check::results, "run_transposed_linear"));
  }
}

TEST_CASE("the conversions of check_slots are there, as those of check_executor are") {
  const auto error_of = [](const auto& call) {
    try {
      call();
    } catch (const Error& error) {
      return error.kind();
    }
    return ErrorKind::internal;
  };
  const OperandConversion<Tensor> none;
  CHECK(error_of([&] { (void)check_slots(cpu(), reference(), none, few()); }) == ErrorKind::invalid_argument);
  CHECK(error_of([&] { (void)check_executor(reference(), none, few()); }) == ErrorKind::invalid_argument);
}

/// An operand that may be read so often.
struct Worn {
  Tensor value;
  std::shared_ptr<int> reads = std::make_shared<int>(1 << 20);
};
class Wearing final : public eager::BackwardExecutor<Worn> {
 public:
  using WornInputs = std::span<const Worn* const>;
  explicit Wearing(int reads) : reads_(reads) {}
  Result<Values> execute_forward(const eager::GraphCall& call, WornInputs inputs) const override {
    std::vector<Tensor> tensors;
    for (const Worn* input : inputs) tensors.push_back(input->value);
    const Result<std::vector<Tensor>> results = reference().try_run(call.graph, tensors);
    if (!results) return results.error();
    Values values;
    for (const Tensor& result : *results) values.push_back({result, std::make_shared<int>(reads_)});
    return values;
  }
  Result<Values> run_transposed_linear(const eager::GraphCall& call, WornInputs inputs) const override {
    return execute_forward(call, inputs);
  }
  Result<Worn> add_operands(const eager::AddCall& call, Worn a, const Worn& b) const override {
    const Result<Tensor> sum = reference().add_operands(call, a.value, b.value);
    if (!sum) return sum.error();
    return Worn{*sum};
  }

 private:
  int reads_;
};

TEST_CASE("fault: results can be read once only") {
  const OperandConversion<Worn> conversion{[](const Tensor& tensor) { return Worn{tensor.clone()}; },
                                           [](const Worn& worn) {
                                             if ((*worn.reads)-- <= 0) throw std::runtime_error("worn out");
                                             return worn.value.clone();
                                           }};
  ExecutorKitOptions options = few();
  options.threads = 0;
  CHECK_MESSAGE(check_executor(Wearing(1000), conversion, options).ok, "as often as one likes");
  const ExecutorReport report = check_executor(Wearing(1), conversion, options);
  CHECK(report.found(Check::results, "execute_forward"));
  CHECK(to_text(report).find("expected to read result 0, got worn out") != std::string::npos);
}

/// Gives another number where an element is infinite.
class Replaces final : public Sound {
 public:
  explicit Replaces(double (*replaced)(double)) : replaced_(replaced) {}
  Result<Values> run(const eager::GraphCall& call, Inputs inputs) const override {
    Result<Values> values = reference().execute_forward(call, inputs);
    for (std::size_t i = 0; values && i < values->size(); ++i) {
      Tensor& value = (*values)[i];
      if (value.dtype() != f64) continue;
      value = value.clone();
      for (double& x : value.mutable_elements<double>())
        if (std::isinf(x)) x = replaced_(x);
    }
    return values;
  }

 private:
  double (*replaced_)(double);
};

TEST_CASE("infinities of either sign and NaN are three results") {
  GraphBuilder g("poles");
  const Value x = g.input("x", {f64, {3}});
  const Value zero = x - x;
  ExecutorKitOptions options = few();
  options.graphs = 1;
  options.more_graphs = {g.build({x / zero, zero / zero})};
  const auto finds = [&](double (*replaced)(double)) {
    return report_of(Replaces(replaced), options).found(Check::results, "execute_forward");
  };
  CHECK_FALSE(finds([](double v) { return v; }));
  CHECK(finds([](double v) { return -v; }));
  CHECK(finds([](double) { return std::numeric_limits<double>::quiet_NaN(); }));
}

}  // namespace
}  // namespace tidu::test
