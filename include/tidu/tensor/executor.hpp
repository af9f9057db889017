// executor.hpp - Executor: the interface of executors, which run graphs on tensors; and functions that all
// executors share: runs by the names of inputs, and checks of inputs before a run.
#pragma once

#include <initializer_list>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "tidu/graph/error.hpp"
#include "tidu/graph/graph.hpp"
#include "tidu/tensor/tensor.hpp"

namespace tidu {

/// A tensor for the input of that name.
using NamedTensor = std::pair<std::string_view, Tensor>;

/// Runs graphs. Executors are immutable while they run: any thread may use one.
class Executor {
 public:
  Executor() = default;
  Executor(const Executor&) = default;
  Executor& operator=(const Executor&) = default;
  virtual ~Executor();

  /// "reference", "cpu", …
  virtual std::string_view name() const = 0;
  /// The outputs of `graph` on `inputs`, which are aligned with the graph's inputs. Outputs may share storage
  /// with inputs, with one another and with literals. Errors: invalid_argument for another number of inputs,
  /// or a graph with externals; type for an input of another type; execution for a kernel that is missing or
  /// failed; out_of_memory.
  virtual Result<std::vector<Tensor>> try_run(const Graph& graph, std::span<const Tensor> inputs) const = 0;
  /// Is there a kernel for operations of `primitive` on `dtype`? The dtype is that of the data operands: the
  /// cases of select_n, the array of the indexing primitives, the operand of convert_element_type. For
  /// primitives without operands it is that of the result.
  virtual bool supports(const Primitive& primitive, DType dtype) const = 0;

  /// A graph without inputs.
  std::vector<Tensor> run(const Graph& graph) const { return run(graph, std::span<const Tensor>()); }
  /// As try_run, but throws.
  std::vector<Tensor> run(const Graph& graph, std::span<const Tensor> inputs) const;
  std::vector<Tensor> run(const Graph& graph, std::initializer_list<Tensor> inputs) const;
  /// One tensor for every input, by name, in any order. Throws Error (invalid_argument) when a name is
  /// unknown, missing or given twice; else as try_run.
  std::vector<Tensor> run(const Graph& graph, std::initializer_list<NamedTensor> inputs) const;
  /// As run with names; try_run_named with an error as a Result.
  std::vector<Tensor> run_named(const Graph& graph, std::span<const NamedTensor> inputs) const;
  /// As run_named, with an error as a Result.
  Result<std::vector<Tensor>> try_run_named(const Graph& graph, std::span<const NamedTensor> inputs) const;
};

/// Checks that there is one tensor of the right type for every input, and that the graph has no externals.
/// Throws Error (invalid_argument, type) that names graph and input.
void check_inputs(const Graph& graph, std::span<const Tensor> inputs);

/// The tensors in the order of the graph's inputs. Throws Error (invalid_argument) when a name is unknown,
/// missing or given twice.
std::vector<Tensor> arrange_inputs(const Graph& graph, std::span<const NamedTensor> inputs);

}  // namespace tidu
