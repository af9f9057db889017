// executor_kit.cpp - check_executor: the reference and the CPU executor pass, and each of the faults planted
// in the results, the memory or the side effects of methods is found, by the check that is meant to find it.
#include "check/planted_faults.hpp"

#include <atomic>
#include <cstring>
#include <map>
#include <mutex>
#include <thread>

#include "tidu/primitives/elementwise.hpp"
#include "tidu/primitives/structural.hpp"

namespace tidu::test {
namespace {

/// A fault in results, by a function that changes them.
template <class Change>
class Changed : public Sound {
 public:
  explicit Changed(Change change) : change_(std::move(change)) {}
  Result<Values> run(const eager::GraphCall& call, Inputs inputs) const override {
    Result<Values> values = reference().execute_forward(call, inputs);
    if (values) change_(call, *values);
    return values;
  }

 private:
  Change change_;
};

bool has(const Graph& graph, const Primitive& primitive) {
  for (std::size_t i = 0; i < graph.num_operations(); ++i)
    if (&graph.operation(i).primitive() == &primitive) return true;
  return false;
}

void negate(Tensor& tensor) {
  tensor = tensor.clone();
  if (tensor.dtype() == f64)
    for (double& x : tensor.mutable_elements<double>()) x = -x;
  if (tensor.dtype() == f32)
    for (float& x : tensor.mutable_elements<float>()) x = -x;
}

TEST_CASE("the reference and the CPU executor pass") {
  for (const eager::BackwardExecutor<Tensor>* executor :
       {static_cast<const eager::BackwardExecutor<Tensor>*>(&reference()),
        static_cast<const eager::BackwardExecutor<Tensor>*>(&cpu())}) {
    ExecutorKitOptions options;
    options.graphs = scaled(60);
    const ExecutorReport report = report_of(*executor, options);
    CHECK_MESSAGE(report.ok, text_of(report));
    for (std::size_t i = 0; i < num_executor_checks; ++i) {
      INFO(to_string(static_cast<Check>(i)));
      CHECK(report.tested[i] > 0);
    }
    // Notes on untested parts are there all the same.
    CHECK(report.notes.size() == 3);
    const std::string text = to_text(report);
    CHECK(text.substr(0, 20) == "the executor passes:");
    CHECK(text.find("note: dtypes: not tested, as values of no graph: i64, f16, bf16, c64, c128\n") !=
          std::string::npos);
    CHECK(text.find(" not tested, which stand in no graph: abs, acos, ") != std::string::npos);
    CHECK(text.find("note: statistics, placements, streams and thread states, and what calls cost: never "
                    "tested\n") != std::string::npos);
  }
  CHECK(report_of(Sound(), few()).ok);
}

TEST_CASE("half precision and complex numbers pass") {
  ExecutorKitOptions options = few();
  options.dtypes = {f16, bf16, c64, c128};
  ExecutorReport report = report_of(reference(), options);
  CHECK_MESSAGE(report.ok, text_of(report));
  options.supports = [](const Primitive& primitive, DType dtype) { return cpu().supports(primitive, dtype); };
  report = report_of(cpu(), options);
  CHECK_MESSAGE(report.ok, text_of(report));
}

TEST_CASE("fault: two outputs are swapped") {
  const Changed executor([](const eager::GraphCall&, Results& values) {
    if (values.size() > 1) std::swap(values[0], values[1]);
  });
  const ExecutorReport report = report_of(executor, few());
  CHECK(report.found(Check::results, "execute_forward"));
  CHECK(report.found(Check::results, "run_transposed_linear"));
  CHECK_FALSE(report.found(Check::results, "add_operands"));
  CHECK_FALSE(report.found(Check::ownership));
  const std::string text = to_text(report);
  CHECK(text.find("results, execute_forward: routing of f64: expected ") != std::string::npos);
  CHECK(text.find("\n  graph:") != std::string::npos);
  CHECK(text.find("\n  input 0: f64[3] ") != std::string::npos);
  CHECK(text.find("more of results, execute_forward") != std::string::npos);
}

TEST_CASE("fault: an output is dropped") {
  const Changed executor([](const eager::GraphCall&, Results& values) {
    Results fewer;
    for (std::size_t i = 0; i + 1 < std::max<std::size_t>(values.size(), 2); ++i) fewer.push_back(values[i]);
    values = std::move(fewer);
  });
  const ExecutorReport report = report_of(executor, few());
  CHECK(report.found(Check::results, "execute_forward"));
  CHECK(to_text(report).find("expected 3 results, got 2") != std::string::npos);
}

TEST_CASE("fault: a wrong dtype, a wrong shape") {
  const Changed dtype([](const eager::GraphCall&, Results& values) {
    for (Tensor& value : values)
      if (value.dtype() == f32) value = Tensor::zeros(value.type().with_dtype(f64));
  });
  CHECK(report_of(dtype, few()).found(Check::results, "execute_forward"));
  const Changed shape([](const eager::GraphCall&, Results& values) {
    for (Tensor& value : values)
      if (value.rank() == 0) value = value.reshaped({1});
  });
  const ExecutorReport report = report_of(shape, few());
  CHECK(report.found(Check::results, "execute_forward"));
  CHECK(to_text(report).find("got f64[1] ") != std::string::npos);
}

TEST_CASE("fault: one primitive has the wrong sign, and only where it is transposed") {
  class Wrong final : public Sound {
    Result<Values> run_transposed_linear(const eager::GraphCall& call, Inputs inputs) const override {
      Result<Values> values = reference().run_transposed_linear(call, inputs);
      if (values && has(call.graph, prim::dot_general))
        for (Tensor& value : *values) negate(value);
      return values;
    }
  };
  const ExecutorReport report = report_of(Wrong(), few());
  CHECK(report.found(Check::results, "run_transposed_linear"));
  CHECK_FALSE(report.found(Check::results, "execute_forward"));
  CHECK(report.found(Check::backward, "run_transposed_linear"));
  CHECK(report.found(Check::create_graph));
  for (const ExecutorFinding& finding : report.findings) {
    if (finding.check == Check::results) CHECK(finding.message.find("dot_general") != std::string::npos);
  }
}

TEST_CASE("fault: add_operands changes b, or writes to an a that somebody holds") {
  class ChangesB final : public Sound {
    Result<Tensor> add_operands(const eager::AddCall& call, Tensor a, const Tensor& b) const override {
      Tensor sum = reference().add_operands(call, std::move(a), b).value();
      if (sum.num_bytes() == 0) return sum;
      Tensor writable = b;
      std::memcpy(writable.mutable_bytes(), sum.bytes(), sum.num_bytes());
      return writable;
    }
  };
  ExecutorReport report = report_of(ChangesB(), few());
  CHECK(report.found(Check::ownership, "add_operands"));

  class WritesToA final : public Sound {
    Result<Tensor> add_operands(const eager::AddCall& call, Tensor a, const Tensor& b) const override {
      const Tensor sum = reference().add_operands(call, a, b).value();
      if (sum.num_bytes() != 0) std::memcpy(a.mutable_bytes(), sum.bytes(), sum.num_bytes());
      return a;
    }
  };
  report = report_of(WritesToA(), few());
  CHECK(report.found(Check::ownership, "add_operands"));
  CHECK(report.found(Check::lifetime));
  CHECK_FALSE(report.found(Check::results));

  class ReusesItsOwn final : public Sound {  // this is allowed
    Result<Tensor> add_operands(const eager::AddCall& call, Tensor a, const Tensor& b) const override {
      const Tensor sum = reference().add_operands(call, a, b).value();
      if (!a.exclusive()) return sum;
      if (sum.num_bytes() != 0) std::memcpy(a.mutable_bytes(), sum.bytes(), sum.num_bytes());
      return a;
    }
  };
  report = report_of(ReusesItsOwn(), few());
  CHECK_MESSAGE(report.ok, text_of(report));
}

TEST_CASE("fault: the second occurrence of an operand is overlooked") {
  class Wrong final : public Sound {
    Result<Values> run(const eager::GraphCall& call, Inputs inputs) const override {
      std::vector<Tensor> copies;
      copies.reserve(inputs.size());
      for (std::size_t i = 0; i < inputs.size(); ++i) {
        copies.push_back(*inputs[i]);
        for (std::size_t j = 0; j < i; ++j)
          if (inputs[j] == inputs[i]) copies.back() = Tensor::zeros(inputs[i]->type());
      }
      std::vector<const Tensor*> pointers;
      for (const Tensor& copy : copies) pointers.push_back(&copy);
      return reference().execute_forward(call, pointers);
    }
  };
  const ExecutorReport report = report_of(Wrong(), few());
  CHECK(report.found(Check::aliasing, "execute_forward"));
  CHECK(report.found(Check::aliasing, "run_transposed_linear"));
  CHECK_FALSE(report.found(Check::results));
}

TEST_CASE("fault: the memory of an input that is given twice is reused") {
  class Wrong final : public Sound {
    Result<Values> run(const eager::GraphCall& call, Inputs inputs) const override {
      Result<Values> values = reference().execute_forward(call, inputs);
      for (std::size_t i = 1; values && i < inputs.size(); ++i) {
        if (inputs[0] != inputs[i] || inputs[i]->num_bytes() == 0) continue;
        Tensor writable = *inputs[0];
        writable.mutable_bytes()[0] ^= std::byte{1};
      }
      return values;
    }
  };
  CHECK(report_of(Wrong(), few()).found(Check::ownership, "execute_forward"));
}

TEST_CASE("fault: an input that only the tape holds is taken for the executor's own") {
  class Wrong final : public Sound {
    Result<Values> run(const eager::GraphCall& call, Inputs inputs) const override {
      Result<Values> values = reference().execute_forward(call, inputs);
      for (std::size_t i = 0; values && i < values->size(); ++i) {
        Tensor& value = (*values)[i];
        for (const Tensor* input : inputs) {
          if (!input->exclusive() || input->type() != value.type() || value.num_bytes() == 0) continue;
          std::memcpy(const_cast<std::byte*>(input->bytes()), value.bytes(), value.num_bytes());
          value = *input;
        }
      }
      return values;
    }
  };
  const ExecutorReport report = report_of(Wrong(), few());
  CHECK(report.found(Check::ownership, "execute_forward"));
  CHECK(report.found(Check::ownership, "run_transposed_linear"));
}

TEST_CASE("fault: compiled graphs are kept by the graph's address, or under one id for all executors") {
  class ByAddress final : public Sound {
    Result<Values> run(const eager::GraphCall& call, Inputs inputs) const override {
      Graph graph;
      {
        const std::lock_guard lock(mutex_);
        graph = kept_.emplace(&call.graph, call.graph).first->second;
      }
      return reference().execute_forward({graph, call.slot}, inputs);
    }
    mutable std::mutex mutex_;
    mutable std::map<const Graph*, Graph> kept_;
  };
  const ExecutorReport report = report_of(ByAddress(), few());
  CHECK(report.found(Check::slots, "execute_forward"));
  CHECK(report.found(Check::slots, "run_transposed_linear"));

  class Scaled final : public Sound {
   public:
    Scaled(int power, bool one_id) : power_(power), one_id_(one_id) {}
    Result<Values> run(const eager::GraphCall& call, Inputs inputs) const override {
      const int power = call.slot.get<int>(one_id_ ? 1 : id(), [&] { return power_; });
      Result<Values> values = reference().execute_forward(call, inputs);
      if (values && power % 2 != 0)
        for (Tensor& value : *values) negate(value);
      return values;
    }

   private:
    int power_;
    bool one_id_;
  };
  const ExecutorReport mixed = check_slots(Scaled(0, true), Scaled(1, true), tensor_conversion(), few());
  CHECK(mixed.found(Check::slots, "execute_forward"));
  CHECK(to_text(mixed).find("of the second executor, as by itself, got") != std::string::npos);
  CHECK(check_slots(Scaled(0, false), Scaled(1, false), tensor_conversion(), few()).ok);
  CHECK(check_slots(cpu(), cpu().with_options({.threads = 1}), tensor_conversion(), few()).ok);
}

TEST_CASE("fault: results are kept for the graph, whatever the inputs") {
  class Wrong final : public Sound {
    Result<Values> run(const eager::GraphCall& call, Inputs inputs) const override {
      const std::lock_guard lock(mutex_);
      auto [at, made] = kept_.try_emplace(call.graph.structural_key().low);
      if (made) {
        Result<Values> values = reference().execute_forward(call, inputs);
        if (!values) {
          kept_.erase(at);
          return values;
        }
        for (const Tensor& value : *values) at->second.push_back(value);
      }
      return Values(at->second);
    }
    mutable std::mutex mutex_;
    mutable std::map<std::uint64_t, std::vector<Tensor>> kept_;
  };
  CHECK(report_of(Wrong(), few()).found(Check::results, "execute_forward"));
}

TEST_CASE("fault: results lie in memory that the next call writes to") {
  class Wrong final : public Sound {
    Result<Values> run(const eager::GraphCall& call, Inputs inputs) const override {
      Result<Values> values = reference().execute_forward(call, inputs);
      if (!values) return values;
      const std::lock_guard lock(mutex_);
      for (std::size_t i = 0; i < values->size(); ++i) {
        Tensor& value = (*values)[i];
        if (value.num_bytes() == 0) continue;
        Tensor& scratch = scratch_.try_emplace({value.type().identity(), i}, value.type()).first->second;
        std::memcpy(scratch.mutable_bytes(), value.bytes(), value.num_bytes());
        value = scratch;
      }
      return values;
    }
    mutable std::mutex mutex_;
    mutable std::map<std::pair<const void*, std::size_t>, Tensor> scratch_;
  };
  ExecutorKitOptions options = few();
  options.threads = 0;
  const ExecutorReport report = report_of(Wrong(), options);
  CHECK(report.found(Check::lifetime, "execute_forward"));
  CHECK(report.found(Check::lifetime, "run_transposed_linear"));
  CHECK_FALSE(report.found(Check::results, "execute_forward"));
}

TEST_CASE("fault: zero elements are not provided for") {
  class Wrong final : public Sound {
    Result<Values> run(const eager::GraphCall& call, Inputs inputs) const override {
      for (const Tensor* input : inputs)
        if (input->size() == 0) throw std::runtime_error("division by zero");
      return reference().execute_forward(call, inputs);
    }
  };
  const ExecutorReport report = report_of(Wrong(), few());
  CHECK(report.found(Check::results, "execute_forward"));
  CHECK(to_text(report).find("threw division by zero") != std::string::npos);
}

TEST_CASE("fault: the last bit depends on how often it was asked") {
  class Wrong final : public Sound {
    Result<Values> run(const eager::GraphCall& call, Inputs inputs) const override {
      Result<Values> values = reference().execute_forward(call, inputs);
      if (!values || !has(call.graph, prim::sin) || calls_++ % 2 == 0) return values;
      for (Tensor& value : *values) {
        if (value.dtype() != f64 || value.size() == 0) continue;
        value = value.clone();
        value.mutable_data<double>()[0] *= 1 + 0x1p-52;
      }
      return values;
    }
    mutable std::atomic<int> calls_{0};
  };
  const ExecutorReport report = report_of(Wrong(), few());
  CHECK(report.found(Check::determinism));
  CHECK_FALSE(report.found(Check::results));
}

TEST_CASE("fault: threads share a buffer of intermediate values") {
  class Wrong final : public Sound {
    Result<Values> run(const eager::GraphCall& call, Inputs inputs) const override {
      if (running_++ > 0) {
        --running_;
        return Error(ErrorKind::execution, "the buffer is in use");
      }
      Result<Values> values = reference().execute_forward(call, inputs);
      for (int i = 0; i < 20; ++i) std::this_thread::yield();
      --running_;
      return values;
    }
    mutable std::atomic<int> running_{0};
  };
  const ExecutorReport report = report_of(Wrong(), few());
  CHECK(report.found(Check::threads));
  CHECK_FALSE(report.found(Check::results));
}

}  // namespace
}  // namespace tidu::test
