// check_gradients.hpp - check_gradients: is the derivative of this graph right, and if not, which rule of
// which primitive is wrong? For authors of new primitives; the command `tidu check` prints its report.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tidu/graph/error.hpp"
#include "tidu/graph/graph.hpp"
#include "tidu/tensor/executor.hpp"

namespace tidu {

/// The two sides of a comparison.
enum class CheckKind : std::uint8_t {
  linearity,         ///< L(a u + b w) against a L u + b L w, L being the linear graph
  differences,       ///< J u against central differences
  transpose,         ///< <J u, v> against <u, J^T v>, with <a, b> the sum of Re(conj(a) b)
  twice_transposed,  ///< the transpose of the transpose against the linear graph
  batch              ///< the batched graph against a loop
};
/// Number of enumerators of CheckKind.
inline constexpr std::size_t num_check_kinds = 5;
/// "vjp disagrees with jvp" and the like.
std::string_view describe(CheckKind kind);

/// The tests and tolerances of check_gradients.
struct CheckOptions {
  /// Random tangents and cotangents that each test is made with: 1 or more.
  std::size_t directions = 3;
  std::uint64_t seed = 1;  ///< of the random directions
  /// 1, or 2: the same tests on the graphs of jvp and vjp too.
  int order = 2;
  /// Tolerated relative errors. 0 stands for a default by the least precise dtype of the graph: 1e-7 and
  /// 1e-10 with f64, 2e-3 and 1e-3 with f32, 0.1 for rounding with f16 and bf16. An error is relative to the
  /// larger of two sides; if both are small because terms cancel, to the size of these terms.
  double difference_tolerance = 0.0;
  double rounding_tolerance = 0.0;  ///< of the checks that are exact except for rounding
  /// Extent of the leading axis with which batch is tested; 0 leaves the test out.
  std::int64_t batch = 3;
};

/// One disagreement.
struct CheckFinding {
  CheckKind kind = CheckKind::differences;  ///< the comparison that failed
  /// Order of the derivative that is wrong; 0 if a custom rule returns other outputs than its graph.
  int order = 1;
  /// The operation of the checked graph, and its primitive; nothing when no single operation disagrees.
  std::optional<std::uint32_t> operation;
  std::string operation_primitive;  ///< empty without `operation`
  /// The rule at fault and the primitive whose rule it is: not always the operation's, for a JVP rule is made
  /// of other primitives, and the body of a loop too.
  std::string primitive;
  std::optional<ADRuleError::Rule> rule;  ///< the rule at fault
  /// For a rule of the user, or the graph of an equation: the graphs of its operation, in the order of its
  /// attributes.
  std::vector<Graph> custom_rule;
  double relative_error = 0.0;  ///< of the two sides that disagree
  std::size_t direction = 0;    ///< which random direction shows it
  /// Name of the input whose direction shows it, or "operand 1 of operation 5" where only an operation by
  /// itself does; empty when all together do.
  std::string input;
  std::string message;  ///< all of this in words
};

/// The result of check_gradients.
struct CheckReport {
  bool ok = true;                      ///< are there no findings?
  std::vector<CheckFinding> findings;  ///< each a disagreement
  /// Tests that could not run, with the reason, for instance a missing batch rule.
  std::vector<std::string> notes;
  /// By CheckKind: the largest finite relative error that was met in the graph, and in how many comparisons
  /// of finite sides.
  std::array<double, num_check_kinds> worst{};
  std::array<std::size_t, num_check_kinds> comparisons{};  ///< by CheckKind
};

/// Findings and notes, or the tests and how well they agree. Ends in a newline.
std::string to_text(const CheckReport& report);

/// Differentiates `graph` at `inputs` by all its floating and complex inputs, and runs the tests of CheckKind
/// with seeded random directions. If one fails, each operation is tested by itself on its operands, and
/// within an operation that holds graphs the parts that run: the branch taken, the first steps of a loop.
///
/// An element whose differences are unreliable (a kink, a pole, digits lost to rounding) is not judged by
/// them, or only as far as they are reliable. Notes list operations that are not finite, or whose derivatives
/// are not, by operand and index. They also list operations without a derivative at the point, through which
/// the chain rule does not hold. Results of primitives without tangent (stop_gradient, floor) and of integer
/// dtype are kept fixed in differences, at every order.
///
/// A custom rule that is not the derivative of its graph by each operand (a solve with a factor after
/// stop_gradient, a root by bisection) is compared with differences in which all of its operands change, and
/// a note says so; one that holds a while, which ends at its own tolerance, within 1e-3. For a
/// custom_linear_solve or custom_root that fails, a finding names the graph that does not solve, or the wrong
/// rule in the equation.
///
/// If a transpose rule throws (a while without a bound), only forward mode is tested, and a note gives the
/// reason. Differences of f16 and bf16 are meaningless: such a graph is tested without them, and with all
/// tests once more in f32, if the executor supports that. Errors: invalid_argument and type as Executor::run;
/// ADRuleError for a missing jvp or transpose rule; execution.
CheckReport check_gradients(const Graph& graph, std::span<const Tensor> inputs, const Executor& executor,
                            const CheckOptions& options = {});
Result<CheckReport> try_check_gradients(const Graph& graph, std::span<const Tensor> inputs,
                                        const Executor& executor, const CheckOptions& options = {});

}  // namespace tidu
