// executor_kit_statement.cpp - check_executor: operands and graphs of the caller without dtypes; kernels that
// are wrong for batches of matrices; a report's notes on untested parts; the output before a crash; and the
// text for numbers that differ in their last digits.
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstring>

#include "check/executor_kit.hpp"
#include "check/planted_faults.hpp"
#include "tidu/graph/builder.hpp"
#include "tidu/primitives/elementwise.hpp"
#include "tidu/primitives/linalg.hpp"
#include "tidu/primitives/structural.hpp"

namespace tidu::test {
namespace {

bool contains(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

ExecutorKitOptions without_dtypes() {
  GraphBuilder g("f");
  const Value x = g.input("x", {f64, {2}});
  ExecutorKitOptions options = few();
  options.dtypes = {};
  options.more_graphs = {g.build({ops::sin(x) * x})};
  return options;
}

TEST_CASE("faults of operands are found without dtypes, by the types of the caller's graphs") {
  class Wrong final : public Sound {
    std::optional<Type> describe(const Tensor&) const override { return Type(f32, {7}); }
    Result<std::optional<Tensor>> ones_like(Type type) const override {
      return std::optional<Tensor>(Tensor::zeros(type));
    }
    std::optional<bool> is_finite(const Tensor&) const override { return true; }
    std::optional<bool> is_zero(const Tensor&) const override { return false; }
    std::optional<std::uint64_t> version(const Tensor&) const override { return 7; }
    std::size_t bytes(const Tensor&) const override { return 1; }
  };
  const ExecutorReport report = report_of(Wrong(), without_dtypes());
  for (const std::string_view method :
       {"describe", "ones_like", "is_finite", "is_zero", "version", "bytes"}) {
    INFO(method);
    CHECK(report.found(Check::operands, method));
  }
}

TEST_CASE("a right executor passes without dtypes, and the report lists the tests that need them") {
  const ExecutorReport report = report_of(Sound(), without_dtypes());
  CHECK_MESSAGE(report.ok, text_of(report));
  CHECK(report.tested[static_cast<std::size_t>(Check::operands)] > 0);
  CHECK(report.tested[static_cast<std::size_t>(Check::backward)] > 0);
  const std::string text = to_text(report);
  CHECK(
      contains(text, "note: random graphs and those of the kit: not tested, for options.dtypes is empty\n"));
  CHECK(contains(text,
                 "note: dtypes: not tested, as values of no graph: bool, i32, i64, f16, bf16, f32, c64, "));
  CHECK(contains(text, "abs, "));
  CHECK(contains(text, ", tanh, "));
  CHECK_FALSE(contains(text, " sin, "));
}

TEST_CASE("a report of nothing says so") {
  ExecutorKitOptions options = few();
  options.dtypes = {};
  options.threads = 0;
  const std::string text = to_text(report_of(Sound(), options));
  CHECK(contains(text, "nothing was tested\n"));
  for (std::size_t i = 0; i < num_executor_checks; ++i) {
    const std::string_view name = to_string(static_cast<Check>(i));
    INFO(name);
    CHECK(contains(text, "note: " + std::string(name) + ": not tested"));
  }
}

// A kernel that computes the first matrix of a stack and repeats it for the others.
Kernel first_alone(const Primitive& primitive) {
  return [&primitive](const KernelCall& call) {
    std::vector<Tensor> inputs;
    GraphBuilder g("one");
    std::vector<Value> values;
    for (std::size_t i = 0; i < call.num_inputs(); ++i) {
      inputs.push_back(call.input(i));
      values.push_back(g.input(std::to_string(i), call.input(i).type()));
    }
    const Values results = emit(call.op(), values);
    const std::vector<Tensor> right =
        reference().run(g.build(std::span<const Value>(results.data(), results.size())), inputs);
    for (std::size_t slot = 0; slot < right.size(); ++slot) {
      Tensor& out = call.output(slot);
      const std::size_t bytes = right[slot].num_bytes();
      std::byte* const to = out.mutable_bytes();
      if (bytes == 0) continue;
      std::memcpy(to, right[slot].bytes(), bytes);
      if (right[slot].rank() < 3 || !is_inexact(out.dtype())) continue;
      const std::size_t matrix = bytes / static_cast<std::size_t>(right[slot].dim(0));
      for (std::size_t at = matrix; at < bytes; at += matrix) std::memcpy(to + at, to, matrix);
    }
    (void)primitive;
  };
}

TEST_CASE("a kernel that is wrong for all but the first matrix of a stack is found") {
  for (const Primitive* primitive : {&prim::dot_general, &prim::transpose, &prim::cholesky,
                                     &prim::triangular_solve, &prim::lu, &prim::qr}) {
    CAPTURE(primitive->name);
    const ReferenceExecutor wrong = reference().with_kernel(primitive->name, first_alone(*primitive));
    ExecutorKitOptions options = few();
    options.graphs = 2;
    options.dtypes = {f64};
    const ExecutorReport report = report_of(wrong, options);
    CHECK(report.found(Check::results, "execute_forward"));
    CHECK(contains(to_text(report), "stack"));
  }
}

TEST_CASE(
    "numbers that print alike are shown with 17 digits, and elements that are not shown by their place") {
  const auto f64s = [](std::initializer_list<double> elements) {
    return Tensor::from<double>({static_cast<std::int64_t>(elements.size())}, elements);
  };
  const auto pair = [](const Tensor& a, const Tensor& b) {
    const check::ShownPair shown = check::show_pair(a, b);
    return std::pair(shown.expected, shown.got);
  };
  using Pair = std::pair<std::string, std::string>;
  CHECK(pair(f64s({0.1}), f64s({0.2})) == Pair("f64[1] 0.1", "f64[1] 0.2"));
  CHECK(pair(f64s({0.1}), f64s({0.1 + 0x1p-56})) ==
        Pair("f64[1] 0.10000000000000001", "f64[1] 0.10000000000000002"));
  CHECK(pair(f64s({1, 2, 3, 4, 5, 6, 7, 8, 9, 10}), f64s({1, 2, 3, 4, 5, 6, 7, 8, 9, 11})) ==
        Pair("f64[10] 1 2 3 4 5 6 7 8 … with 10 as element 9",
             "f64[10] 1 2 3 4 5 6 7 8 … with 11 as element 9"));
  const double quiet = std::bit_cast<double>(std::uint64_t{0x7ff8000000000000});
  const double other = std::bit_cast<double>(std::uint64_t{0x7ff8000000000001});
  const auto nans = pair(f64s({quiet}), f64s({other}));
  CHECK(nans.first != nans.second);
  CHECK(contains(nans.second, "(bytes 01 00 00 00 00 00 f8 7f) as element 0"));
}

TEST_CASE("a finding of a difference in the last bit shows it") {
  class Wrong final : public Sound {
    Result<Values> run(const eager::GraphCall& call, Inputs inputs) const override {
      Result<Values> values = reference().execute_forward(call, inputs);
      if (!values || calls_++ % 2 == 0) return values;
      for (Tensor& value : *values) {
        if (value.dtype() != f64 || value.size() == 0) continue;
        value = value.clone();
        value.mutable_data<double>()[value.size() - 1] *= 1 + 0x1p-52;
      }
      return values;
    }
    mutable std::atomic<int> calls_{0};
  };
  ExecutorKitOptions options = few();
  options.shown = 1000;
  const ExecutorReport report = report_of(Wrong(), options);
  std::size_t seen = 0;
  for (const ExecutorFinding& finding : report.findings) {
    const std::string& text = finding.message;
    const std::size_t got = text.find(", got "), between = text.find(" and ", got);
    if (finding.check != Check::determinism || got == std::string::npos || between == std::string::npos)
      continue;
    const std::string first = text.substr(got + 6, between - got - 6);
    const std::string second = text.substr(between + 5, text.find('\n', between) - between - 5);
    CHECK(first != second);
    ++seen;
  }
  CHECK(seen > 5);
}

// The output to stderr of a child process that tests `executor`, before it dies.
std::string written_before_death(const eager::BackwardExecutor<Tensor>& executor) {
  std::array<int, 2> ends{};
  REQUIRE(::pipe(ends.data()) == 0);
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    ::dup2(ends[1], STDERR_FILENO);
    std::signal(SIGABRT, SIG_DFL);
    ExecutorKitOptions options = few();
    options.announce = true;
    options.threads = 0;
    (void)report_of(executor, options);
    ::_exit(0);
  }
  ::close(ends[1]);
  std::string text;
  std::array<char, 256> buffer{};
  for (ssize_t n = 0; (n = ::read(ends[0], buffer.data(), buffer.size())) > 0;)
    text.append(buffer.data(), static_cast<std::size_t>(n));
  ::close(ends[0]);
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(WIFSIGNALED(status));
  return text;
}

TEST_CASE("the check that runs is named before the executor crashes") {
  class Aborts : public Sound {
   public:
    explicit Aborts(bool added) : added_(added) {}
    Result<Values> run_transposed_linear(const eager::GraphCall& call, Inputs inputs) const override {
      if (!added_) ::kill(::getpid(), SIGKILL);
      return Sound::run_transposed_linear(call, inputs);
    }
    std::optional<std::uint64_t> version(const Tensor& x) const override {
      if (added_ && !x.exclusive()) return std::nullopt;
      return Sound::version(x);
    }
    Result<std::optional<Tensor>> ones_like(Type type) const override {
      if (added_) ::kill(::getpid(), SIGKILL);
      return Sound::ones_like(type);
    }

   private:
    bool added_;
  };
  const auto last_line = [](const std::string& text) {
    const std::size_t end = text.rfind('\n'), begin = text.rfind('\n', end - 1);
    return text.substr(begin + 1, end - begin - 1);
  };
  CHECK(last_line(written_before_death(Aborts(false))) == "check_executor: results, run_transposed_linear");
  CHECK(last_line(written_before_death(Aborts(true))) == "check_executor: operands, ones_like");
}

}  // namespace
}  // namespace tidu::test
