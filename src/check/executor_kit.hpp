// executor_kit.hpp - parts that the checks of the executor kit share: a log that several threads may write
// to, graphs at a point with their expected results, and calls of methods that observe all their effects.
#pragma once

#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "check/numeric.hpp"
#include "tidu/check/executor_kit.hpp"
#include "tidu/eager/recorded_graph.hpp"
#include "tidu/graph/builder.hpp"

namespace tidu::check {

/// Source locations in the kit's own files would not help the reader of a report.
inline constexpr GraphBuilder::Options unplaced{.deduplicate = true, .record_where = false};

using AnyValues = eager::Operands<AnyOperand>;
using AnyOperands = std::vector<AnyOperand>;

/// The two hooks that run a graph.
enum class Hook : std::uint8_t { execute_forward, run_transposed_linear };
std::string_view to_string(Hook hook);

/// "f64[2,2] 0.5 -1 …", at most 8 elements.
std::string show(const Tensor& tensor);
/// Two different tensors as different texts: with 17 digits, the element that differs, or its bytes if fewer
/// digits do not distinguish them.
struct ShownPair {
  std::string expected, got;
};
ShownPair show_pair(const Tensor& expected, const Tensor& got);
/// "\n  graph:\n…\n  input 0: …".
std::string show(const Graph& graph, const Tensors& inputs);
/// Same type, same bits.
bool same_bits(const Tensor& a, const Tensor& b);
/// A random tensor of any dtype; small integers if `exact`.
Tensor random_input(Random& random, Type type, bool exact);
/// The dtype that Executor::supports means for this operation.
DType data_dtype(const Graph& graph, const Operation& operation);
/// Runs `body` and returns the text of its exception, "" for none.
template <class Body>
std::string failure_of(Body&& body) {
  try {
    body();
    return {};
  } catch (const std::exception& error) {
    return error.what();
  } catch (...) {
    return "something that is no std::exception";
  }
}

/// The report, to which any thread may add.
class Log {
 public:
  Log(ExecutorReport& report, std::size_t shown) : report_(report), shown_(shown) {}
  void tested(ExecutorCheck check);
  void finding(ExecutorCheck check, std::string_view hook, const std::string& message);
  void note(const std::string& text);  ///< once for each text

 private:
  std::mutex mutex_;
  ExecutorReport& report_;
  std::size_t shown_;
};

/// A closed graph, inputs, and the oracle's results.
struct Trial {
  std::string what;  ///< "random graph 17 of f64"
  eager::RecordedGraph graph;
  Tensors inputs;
  Tensors expected;
  bool exact = false;  ///< computes on small integers alone
  double scale = 0.0;  ///< the largest magnitude of any value in it
};

/// The outcome of a method.
struct Outcome {
  std::optional<AnyValues> values;
  std::string failure;        ///< when there are no values
  bool thrown = false;        ///< it threw instead of returning an error
  bool no_exception = false;  ///< and its exception is no std::exception
};

/// A random graph of that dtype; all of its inputs except one are inexact; exact arithmetic if `exact`.
/// `usable` selects the primitives.
Graph random_graph(std::uint64_t seed, DType dtype, bool exact,
                   const std::function<bool(const Primitive&, DType)>& usable);

class Kit {
 public:
  Kit(const AnyExecutor& executor, const ExecutorKitOptions& options, ExecutorReport& report);

  const AnyExecutor& executor;
  const ExecutorKitOptions& options;
  const Executor& oracle;
  Log log;
  Random random;

  /// Writes the next test to stderr, before the executor may crash.
  void announce(ExecutorCheck check, std::string_view hook) const;
  bool usable(const Primitive& primitive, DType dtype) const;
  bool usable(const Graph& graph) const;  ///< and all that it holds
  /// Are the derivatives there that a tape runs of this graph, recorded as one node or operation by
  /// operation, and with `twice` those of these?
  bool usable_on_tape(const Graph& graph, bool by_operations, bool twice) const;
  Trial trial(std::string what, const Graph& graph, Tensors inputs, bool exact) const;
  /// At random inputs.
  Trial trial(std::string what, const Graph& graph, bool exact);
  Trial elsewhere(const Trial& trial);  ///< the same graph at other inputs
  double tolerance(const Type& type, bool exact, double scale) const;
  bool agrees(const Tensor& expected, const Tensor& got, bool exact, double scale) const;

  AnyOperands operands(const Tensors& tensors) const;
  static Outcome call(const AnyExecutor& executor, Hook hook, const eager::GraphCall& call,
                      std::span<const AnyOperand> inputs);
  static Outcome call(const AnyExecutor& executor, Hook hook, const eager::GraphCall& call,
                      std::span<const AnyOperand* const> inputs);
  /// The same by run_at, which the engine calls.
  static Outcome call_in_place(const AnyExecutor& executor, Hook hook, const eager::GraphCall& call,
                               std::span<const AnyOperand* const> inputs);
  Outcome call(Hook hook, const Trial& trial, std::span<const AnyOperand> inputs) const {
    return call(executor, hook, {trial.graph.graph(), trial.graph.slot()}, inputs);
  }
  static Outcome add(const AnyExecutor& executor, const eager::AddCall& call, AnyOperand a,
                     const AnyOperand& b);
  /// The results as tensors; nothing, and a finding, when the hook failed or gave another number.
  std::optional<Tensors> tensors(ExecutorCheck check, std::string_view hook, const Trial& trial,
                                 const Outcome& outcome);
  /// Are the results as expected?
  bool is_right(const Trial& trial, const Outcome& outcome) const;
  /// The same, with a finding otherwise.
  bool judge(ExecutorCheck check, std::string_view hook, const Trial& trial, const Outcome& outcome);
  /// Elements and versions before a call, to be compared after it.
  struct Snapshot {
    Tensors tensors;
    std::vector<std::optional<std::uint64_t>> versions;
  };
  Snapshot snapshot(std::span<const AnyOperand> inputs) const;
  void judge_ownership(std::string_view hook, const std::string& what, const Snapshot& before,
                       std::span<const AnyOperand> inputs);
  /// The sum of the set's `add` (which it has), for AddCall.
  static eager::RecordedGraph sum_of(Type type, const PrimitiveSet& set = standard_primitives());

  std::vector<Trial> forward;     ///< for execute_forward
  std::vector<Trial> transposed;  ///< for run_transposed_linear
  /// Graphs that can be differentiated, with names, for whole backward calls.
  struct Function {
    std::string what;
    Graph graph;
    bool exact;
    bool by_operations;  ///< are the derivatives of each of its operations there?
  };
  std::vector<Function> functions;
  void make_trials();

 private:
  void make_odd_trials(DType dtype);
  void make_stacks(DType dtype);
  void make_factorizations_of_stacks(DType dtype);
  void make_random_trials(DType dtype);
  void add_function(const std::string& what, const Graph& graph, bool exact, bool always);
  bool add_transposed(const std::string& what, const Graph& graph, bool exact);
};

// Each tests one or a few ExecutorChecks.
void check_results(Kit& kit);
void check_addition(Kit& kit);
void check_aliasing(Kit& kit);
void check_lifetime(Kit& kit);
void check_errors(Kit& kit);
void check_threads(Kit& kit);
void check_foreign_slots(Kit& kit);
void check_operands(Kit& kit);
void check_backward(Kit& kit);
/// Adds notes on the parts that none of these tested.
void note_untested(Kit& kit, const ExecutorReport& report);

}  // namespace tidu::check
