// executor.cpp - the interpreter: operations in their order, every value freed after its last use.
#include "tidu/reference/executor.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "graph/foreign_exception.hpp"
#include "reference/kernels.hpp"
#include "tidu/primitives/elementwise.hpp"

namespace tidu {
namespace {

constexpr int deepest = 64;

// Index of the last operation that reads each value; no_index where none does.
std::vector<std::uint32_t> last_uses(const Graph& graph) {
  std::vector<std::uint32_t> last(graph.num_values(), no_index);
  for (std::uint32_t i = 0; i < graph.num_operations(); ++i) {
    for (const ValueId operand : graph.operation(i).inputs()) last[operand] = i;
  }
  return last;
}

}  // namespace

ReferenceExecutor::ReferenceExecutor() : table_(std::make_shared<const Table>()) {}

ReferenceExecutor ReferenceExecutor::with_kernel(std::string_view primitive, Kernel kernel,
                                                 DTypes supported) const {
  if (!kernel) {
    throw Error(
        ErrorKind::invalid_argument,
        detail::str("ReferenceExecutor::with_kernel: expected a kernel for ", primitive, ", got none"));
  }
  Table table = *table_;
  const auto at =
      std::lower_bound(table.begin(), table.end(), primitive,
                       [](const Entry& entry, std::string_view name) { return entry.primitive < name; });
  Entry entry{std::string(primitive), std::move(kernel), supported};
  if (at != table.end() && at->primitive == primitive) {
    *at = std::move(entry);
  } else {
    table.insert(at, std::move(entry));
  }
  ReferenceExecutor result;
  result.table_ = std::make_shared<const Table>(std::move(table));
  return result;
}

const ReferenceExecutor::Entry* ReferenceExecutor::find(std::string_view primitive) const {
  const auto at =
      std::lower_bound(table_->begin(), table_->end(), primitive,
                       [](const Entry& entry, std::string_view name) { return entry.primitive < name; });
  return at != table_->end() && at->primitive == primitive ? &*at : nullptr;
}

bool ReferenceExecutor::supports(const Primitive& primitive, DType dtype) const {
  const Entry* entry = find(primitive.name);
  return entry != nullptr && entry->supported.contains(dtype);
}

std::vector<std::string> ReferenceExecutor::kernels() const {
  std::vector<std::string> names;
  for (const Entry& entry : *table_) names.push_back(entry.primitive);
  return names;
}

Result<std::vector<Tensor>> ReferenceExecutor::try_run(const Graph& graph,
                                                       std::span<const Tensor> inputs) const {
  return detail::capture([&] { return execute(graph, inputs, 0); });
}

std::vector<Tensor> ReferenceExecutor::execute(const Graph& graph, std::span<const Tensor> inputs,
                                               int depth) const {
  if (depth > deepest) {
    throw Error(ErrorKind::execution,
                detail::str("run: expected graphs that nest at most ", deepest, " deep, got ",
                            detail::in_quotes(graph.name()), " at depth ", depth));
  }
  check_inputs(graph, inputs);
  const std::vector<std::uint32_t> last = last_uses(graph);
  std::vector<bool> is_output(graph.num_values(), false);
  for (const ValueId output : graph.outputs()) is_output[output] = true;

  std::vector<std::optional<Tensor>> values(graph.num_values());
  for (std::size_t i = 0; i < inputs.size(); ++i) values[graph.inputs()[i]] = inputs[i];

  std::vector<Tensor> operands, results;
  for (std::uint32_t i = 0; i < graph.num_operations(); ++i) {
    const Operation operation = graph.operation(i);
    const auto fail = [&](const std::string& message) {
      throw Error(ErrorKind::execution, message + "\n  " + describe_operation(graph, i));
    };
    const Entry* entry = find(operation.name());
    if (entry == nullptr)
      fail(detail::str("[", operation.name(), "] expected a kernel in the reference executor, got none",
                       table_->empty() ? ": it has no kernels at all, those of the standard primitives are in"
                                         " reference()"
                                       : ""));

    operands.clear();
    for (const ValueId operand : operation.inputs()) operands.push_back(*values[operand]);
    const Op op = operation.op();
    try {
      results.clear();
      for (std::size_t slot = 0; slot < operation.num_outputs(); ++slot) {
        results.emplace_back(graph.type(operation.output(slot)));
      }
      entry->kernel(KernelCall(op, operands, results, *this, depth));
    } catch (const Error& error) {
      error.with_message(std::string(error.what()) + "\n  " + describe_operation(graph, i))->raise();
    } catch (...) {
      fail(detail::str("[", operation.name(), "] expected the kernel to run, got ",
                       detail::foreign_exception()));
    }
    for (std::size_t slot = 0; slot < operation.num_outputs(); ++slot) {
      const ValueId value = operation.output(slot);
      if (results[slot].type() != graph.type(value)) {
        fail(detail::str("[", operation.name(), "] expected the kernel to give ", graph.type(value),
                         " for result ", slot, ", got ", results[slot].type()));
      }
      if (is_output[value] || last[value] != no_index) values[value] = std::move(results[slot]);
    }
    for (const ValueId operand : operation.inputs()) {
      if (last[operand] == i && !is_output[operand]) values[operand].reset();
    }
  }

  std::vector<Tensor> outputs;
  outputs.reserve(graph.outputs().size());
  for (const ValueId output : graph.outputs()) {
    const Tensor& value = *values[output];
    const auto shares = [&value](const Tensor& other) { return other.shares_storage_with(value); };
    // Kernels may return operands unchanged, but the owner of a result may write to it.
    const bool own = std::none_of(inputs.begin(), inputs.end(), shares) &&
                     std::none_of(outputs.begin(), outputs.end(), shares);
    outputs.push_back(own ? value : value.clone());
  }
  return outputs;
}

namespace {

std::vector<Tensor> copies(std::span<const Tensor* const> inputs) {
  std::vector<Tensor> tensors;
  tensors.reserve(inputs.size());
  for (const Tensor* input : inputs) tensors.push_back(*input);
  return tensors;
}

}  // namespace

Result<ReferenceExecutor::Values> ReferenceExecutor::execute_forward(
    const eager::GraphCall& call, std::span<const Tensor* const> inputs) const {
  return detail::capture([&] { return Values(execute(call.graph, copies(inputs), 0)); });
}

Result<ReferenceExecutor::Values> ReferenceExecutor::run_transposed_linear(
    const eager::GraphCall& call, std::span<const Tensor* const> inputs) const {
  return execute_forward(call, inputs);
}

Result<Tensor> ReferenceExecutor::add_operands(const eager::AddCall& call, Tensor a, const Tensor& b) const {
  return detail::capture([&] {
    const eager::RecordedGraph sum =
        call.graph != nullptr
            ? *call.graph
            : eager::RecordedGraph::of(plain_op<prim::add>(), std::array{a.type(), a.type()});
    return std::move(execute(sum.graph(), std::array{a, b}, 0)[0]);
  });
}

const ReferenceExecutor& reference() {
  static const ReferenceExecutor& standard = *[] {
    auto table = std::make_shared<ReferenceExecutor::Table>();
    for (auto* family :
         {ref::constant_kernels, ref::unary_kernels, ref::binary_kernels, ref::shape_kernels,
          ref::dynamic_kernels, ref::indexing_kernels, ref::reduction_kernels, ref::cumulative_kernels,
          ref::sorting_kernels, ref::product_kernels, ref::control_flow_kernels, ref::random_kernels,
          ref::window_kernels, ref::linalg_kernels, ref::collective_kernels}) {
      for (ref::NamedKernel& row : family()) {
        table->push_back({std::string(row.primitive), std::move(row.kernel), row.supported});
      }
    }
    std::sort(table->begin(), table->end(),
              [](const auto& a, const auto& b) { return a.primitive < b.primitive; });
    auto* executor = new ReferenceExecutor;  // outlives every static that runs a graph
    executor->table_ = std::move(table);
    return executor;
  }();
  return standard;
}

}  // namespace tidu
