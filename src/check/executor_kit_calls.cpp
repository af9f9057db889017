// executor_kit_calls.cpp - the log, and Kit: trials, calls of methods, and verdicts on their outcomes.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstring>

#include "check/derived.hpp"
#include "check/executor_kit.hpp"
#include "primitives/inner_graphs.hpp"
#include "tidu/primitives/elementwise.hpp"
#include "tidu/reference/executor.hpp"

namespace tidu::check {

using detail::str;

std::string_view to_string(Hook hook) {
  return hook == Hook::execute_forward ? "execute_forward" : "run_transposed_linear";
}

namespace {

constexpr std::int64_t max_shown = 8;  // elements

std::string show_element(const Tensor& tensor, std::int64_t i, int digits) {
  std::ostringstream number;
  number.precision(digits);
  const std::complex<double> z = tensor.at(i);
  is_complex(tensor.dtype()) ? number << z : number << z.real();
  return number.str();
}

std::string show_digits(const Tensor& tensor, int digits) {
  std::string text = to_string(tensor.type());
  for (std::int64_t i = 0; i < std::min(tensor.size(), max_shown); ++i)
    text += ' ' + show_element(tensor, i, digits);
  return text + (tensor.size() > max_shown ? " …" : "");
}

std::string show_bytes(const Tensor& tensor, std::int64_t i) {
  const std::size_t width = size_of(tensor.dtype());
  std::string text = " (bytes";
  for (std::size_t k = 0; k < width; ++k) {
    constexpr std::string_view digits = "0123456789abcdef";
    const auto byte = static_cast<unsigned>(tensor.bytes()[static_cast<std::size_t>(i) * width + k]);
    text += {' ', digits[byte >> 4U], digits[byte & 15U]};
  }
  return text + ')';
}

// The first element whose bytes differ; -1 for none.
std::int64_t first_difference(const Tensor& a, const Tensor& b) {
  const std::size_t width = size_of(a.dtype());
  for (std::int64_t i = 0; i < a.size(); ++i) {
    const std::size_t at = static_cast<std::size_t>(i) * width;
    if (std::memcmp(a.bytes() + at, b.bytes() + at, width) != 0) return i;
  }
  return -1;
}

}  // namespace

std::string show(const Tensor& tensor) { return show_digits(tensor, 9); }

ShownPair show_pair(const Tensor& expected, const Tensor& got) {
  for (const int digits : {9, 17}) {
    ShownPair shown{show_digits(expected, digits), show_digits(got, digits)};
    if (shown.expected != shown.got) return shown;
  }
  ShownPair shown{show(expected), show(got)};
  const std::int64_t at = first_difference(expected, got);
  if (at < 0) return shown;
  std::string a = show_element(expected, at, 17), b = show_element(got, at, 17);
  if (a == b) {  // NaNs, say
    a += show_bytes(expected, at);
    b += show_bytes(got, at);
  }
  shown.expected += str(" with ", a, " as element ", at);
  shown.got += str(" with ", b, " as element ", at);
  return shown;
}

std::string show(const Graph& graph, const Tensors& inputs) {
  std::string text = "\n  graph:";
  std::istringstream lines(to_text(graph));
  for (std::string line; std::getline(lines, line);) text += "\n    " + line;
  for (std::size_t i = 0; i < inputs.size(); ++i) text += str("\n  input ", i, ": ", show(inputs[i]));
  return text;
}

bool same_bits(const Tensor& a, const Tensor& b) {
  return a.type() == b.type() &&
         (a.num_bytes() == 0 || std::memcmp(a.bytes(), b.bytes(), a.num_bytes()) == 0);
}

Tensor random_input(Random& random, Type type, bool exact) {
  if (is_inexact(type.dtype()) && !exact) return random_tensor(random, type);
  Numbers numbers(static_cast<std::size_t>(type.size()));
  for (std::complex<double>& number : numbers) {
    number = is_bool(type.dtype())
                 ? static_cast<double>(random.below(2))
                 : static_cast<double>(random.below(5)) - (is_inexact(type.dtype()) ? 2.0 : 0.0);
  }
  return tensor_of(type, numbers);
}

DType data_dtype(const Graph& graph, const Operation& operation) {
  if (operation.num_inputs() == 0) return graph.type(operation.output()).dtype();
  const bool selects = operation.num_inputs() > 1 && !is_inexact(graph.type(operation.input(0)).dtype());
  return graph.type(operation.input(selects ? 1 : 0)).dtype();
}

void Log::tested(ExecutorCheck check) {
  const std::lock_guard lock(mutex_);
  ++report_.tested[static_cast<std::size_t>(check)];
}

void Log::finding(ExecutorCheck check, std::string_view hook, const std::string& message) {
  const std::lock_guard lock(mutex_);
  report_.ok = false;
  std::size_t shown = 0;
  ExecutorFinding* last = nullptr;
  for (ExecutorFinding& finding : report_.findings) {
    if (finding.check != check || finding.hook != hook) continue;
    ++shown;
    last = &finding;
  }
  if (last != nullptr && shown >= shown_) {
    ++last->more;
  } else {
    report_.findings.push_back({check, std::string(hook), message, 0});
  }
}

void Log::note(const std::string& text) {
  const std::lock_guard lock(mutex_);
  if (std::find(report_.notes.begin(), report_.notes.end(), text) == report_.notes.end())
    report_.notes.push_back(text);
}

Kit::Kit(const AnyExecutor& tested_executor, const ExecutorKitOptions& kit_options, ExecutorReport& report)
    : executor(tested_executor),
      options(kit_options),
      oracle(kit_options.oracle != nullptr ? *kit_options.oracle : static_cast<const Executor&>(reference())),
      log(report, std::max<std::size_t>(kit_options.shown, 1)),
      random(kit_options.seed) {
  for (const DType dtype : options.dtypes) {
    if (!is_inexact(dtype))
      throw Error(ErrorKind::invalid_argument,
                  str("check_executor: expected floating or complex dtypes, got ", dtype));
  }
}

void Kit::announce(ExecutorCheck check, std::string_view hook) const {
  if (!options.announce) return;
  const std::string line = str("check_executor: ", to_string(check), ", ", hook, '\n');
  std::fputs(line.c_str(), stderr);
  std::fflush(stderr);
}

bool Kit::usable(const Primitive& primitive, DType dtype) const {
  return oracle.supports(primitive, dtype) && (!options.supports || options.supports(primitive, dtype));
}

bool Kit::usable(const Graph& graph) const {
  bool all = true;
  prim::visit_operations(graph, [&](const Operation& operation, const Graph& at) {
    all = all && usable(operation.primitive(), data_dtype(at, operation));
  });
  return all;
}

Trial Kit::trial(std::string what, const Graph& graph, Tensors inputs, bool exact) const {
  Trial made{std::move(what), eager::RecordedGraph::of(graph), std::move(inputs), {}, exact, 0.0};
  made.expected = oracle.run(graph, made.inputs);
  for (const Tensor& value : all_values(graph, made.inputs, oracle)) {
    for (std::int64_t i = 0; i < value.size(); ++i) {
      const double magnitude = std::abs(value.at(i));
      if (std::isfinite(magnitude)) made.scale = std::max(made.scale, magnitude);
    }
  }
  return made;
}

Trial Kit::trial(std::string what, const Graph& graph, bool exact) {
  Tensors inputs;
  for (const ValueId input : graph.inputs()) inputs.push_back(random_input(random, graph.type(input), exact));
  return trial(std::move(what), graph, std::move(inputs), exact);
}

Trial Kit::elsewhere(const Trial& other) { return trial(other.what, other.graph.graph(), other.exact); }

double Kit::tolerance(const Type& type, bool exact, double scale) const {
  const double epsilon = epsilon_of(type.dtype());
  if (epsilon == 0.0 || (exact && 16.0 * scale * epsilon < 1.0)) return 0.0;
  return options.tolerance != 0.0 ? options.tolerance : std::min(0x1p14 * epsilon, 0.1);
}

bool Kit::agrees(const Tensor& expected, const Tensor& got, bool exact, double scale) const {
  if (expected.type() != got.type()) return false;
  if (expected.dtype() == i64)
    return std::ranges::equal(expected.elements<std::int64_t>(), got.elements<std::int64_t>());
  const double most = tolerance(expected.type(), exact, scale) * std::max(1.0, scale);
  for (std::int64_t i = 0; i < expected.size(); ++i) {
    const std::complex<double> a = expected.at(i), b = got.at(i);
    const bool a_finite = std::isfinite(std::abs(a)), b_finite = std::isfinite(std::abs(b));
    if (a_finite != b_finite || (a_finite && !(std::abs(a - b) <= most))) return false;
    // Which parts of an infinite complex number are NaN is up to its arithmetic.
    if (!a_finite && !is_complex(expected.dtype()) && a.real() != b.real() &&
        !(std::isnan(a.real()) && std::isnan(b.real())))
      return false;
  }
  return true;
}

AnyOperands Kit::operands(const Tensors& tensors_in) const {
  AnyOperands made;
  made.reserve(tensors_in.size());
  for (const Tensor& tensor : tensors_in) made.push_back(executor.from_tensor(tensor));
  return made;
}

namespace {

template <class Call>
Outcome outcome_of(Call call) {
  Outcome outcome;
  try {
    Result<AnyValues> result = call();
    if (result) {
      outcome.values.emplace(std::move(*result));
    } else {
      outcome.failure = result.error().what();
    }
  } catch (const std::exception& error) {
    outcome.failure = str("threw ", error.what());
    outcome.thrown = true;
  } catch (...) {
    outcome.failure = "threw something that is no std::exception";
    outcome.thrown = outcome.no_exception = true;
  }
  return outcome;
}

}  // namespace

Outcome Kit::call(const AnyExecutor& executor, Hook hook, const eager::GraphCall& call,
                  std::span<const AnyOperand> inputs) {
  std::vector<const AnyOperand*> pointers;
  for (const AnyOperand& input : inputs) pointers.push_back(&input);
  return Kit::call(executor, hook, call, std::span<const AnyOperand* const>(pointers));
}

Outcome Kit::call(const AnyExecutor& executor, Hook hook, const eager::GraphCall& call,
                  std::span<const AnyOperand* const> inputs) {
  return outcome_of([&] {
    return hook == Hook::execute_forward ? executor.execute_forward(call, inputs)
                                         : executor.run_transposed_linear(call, inputs);
  });
}

Outcome Kit::call_in_place(const AnyExecutor& executor, Hook hook, const eager::GraphCall& call,
                           std::span<const AnyOperand* const> inputs) {
  return outcome_of([&]() -> Result<AnyValues> {
    try {
      return executor.run_in_place(call, hook == Hook::run_transposed_linear, inputs);
    } catch (const Error& error) {  // the exception that it throws for the method that returns it
      return error;
    }
  });
}

Outcome Kit::add(const AnyExecutor& executor, const eager::AddCall& call, AnyOperand a, const AnyOperand& b) {
  return outcome_of([&]() -> Result<AnyValues> {
    Result<AnyOperand> sum = executor.add_operands(call, std::move(a), b);
    if (!sum) return sum.error();
    AnyValues values;
    values.push_back(std::move(*sum));
    return values;
  });
}

std::optional<Tensors> Kit::tensors(ExecutorCheck check, std::string_view hook, const Trial& trial,
                                    const Outcome& outcome) {
  const auto report = [&](const std::string& message) {
    log.finding(check, hook, trial.what + ": " + message + show(trial.graph.graph(), trial.inputs));
  };
  if (!outcome.values) {
    report("expected results, got an error: " + outcome.failure);
    return std::nullopt;
  }
  if (outcome.values->size() != trial.expected.size()) {
    report(str("expected ", trial.expected.size(), " results, got ", outcome.values->size()));
    return std::nullopt;
  }
  Tensors results;
  const std::string failure = failure_of([&] {
    for (const AnyOperand& value : *outcome.values) results.push_back(executor.to_tensor(value));
  });
  if (failure.empty()) return results;
  report(str("expected to read result ", results.size(), ", got ", failure));
  return std::nullopt;
}

bool Kit::is_right(const Trial& trial, const Outcome& outcome) const {
  if (!outcome.values || outcome.values->size() != trial.expected.size()) return false;
  bool right = true;
  const std::string failure = failure_of([&] {
    for (std::size_t i = 0; i < trial.expected.size(); ++i)
      right = right &&
              agrees(trial.expected[i], executor.to_tensor((*outcome.values)[i]), trial.exact, trial.scale);
  });
  return right && failure.empty();
}

bool Kit::judge(ExecutorCheck check, std::string_view hook, const Trial& trial, const Outcome& outcome) {
  log.tested(check);
  const std::optional<Tensors> results = tensors(check, hook, trial, outcome);
  if (!results) return false;
  for (std::size_t i = 0; i < results->size(); ++i) {
    const Tensor &expected = trial.expected[i], &got = (*results)[i];
    if (agrees(expected, got, trial.exact, trial.scale)) continue;
    const ShownPair shown = show_pair(expected, got);
    log.finding(check, hook,
                str(trial.what, ": expected ", shown.expected, " for result ", i, ", got ", shown.got,
                    show(trial.graph.graph(), trial.inputs)));
    return false;
  }
  return true;
}

Kit::Snapshot Kit::snapshot(std::span<const AnyOperand> inputs) const {
  Snapshot taken;
  for (const AnyOperand& input : inputs) {
    taken.tensors.push_back(executor.to_tensor(input));
    taken.versions.push_back(executor.version(input));
  }
  return taken;
}

void Kit::judge_ownership(std::string_view hook, const std::string& what, const Snapshot& before,
                          std::span<const AnyOperand> inputs) {
  log.tested(ExecutorCheck::ownership);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const Tensor now = executor.to_tensor(inputs[i]);
    const std::optional<std::uint64_t> version = executor.version(inputs[i]);
    if (!same_bits(before.tensors[i], now)) {
      const ShownPair shown = show_pair(before.tensors[i], now);
      log.finding(ExecutorCheck::ownership, hook,
                  str(what, ": expected operand ", i, " to stay ", shown.expected, ", got ", shown.got));
    } else if (version != before.versions[i]) {
      log.finding(ExecutorCheck::ownership, hook,
                  str(what, ": expected version ", before.versions[i].value_or(0), " of operand ", i,
                      " to stay, got ", version.value_or(0)));
    }
  }
}

eager::RecordedGraph Kit::sum_of(Type type, const PrimitiveSet& set) {
  return eager::RecordedGraph::of(Op::make(*set.add()), std::array{type, type}, set);
}

}  // namespace tidu::check
