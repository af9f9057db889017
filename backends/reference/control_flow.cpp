// control_flow.cpp - scan and while, step by step, and cond.
#include <algorithm>
#include <cstring>

#include "reference/kernels.hpp"
#include "tidu/graph/error.hpp"

namespace tidu::ref {
namespace {

void scan(const KernelCall& c) {
  const Graph body = c.op().graph("body");
  const std::int64_t length = c.op().integer("length");
  const auto num_consts = static_cast<std::size_t>(c.op().integer("num_consts"));
  const auto num_carry = static_cast<std::size_t>(c.op().integer("num_carry"));
  std::vector<Tensor> inputs(c.inputs().begin(),
                             c.inputs().begin() + static_cast<std::ptrdiff_t>(num_consts + num_carry));
  inputs.resize(body.inputs().size());
  for (std::int64_t step = 0; step < length; ++step) {
    const auto at = static_cast<std::size_t>(c.op().boolean("reverse") ? length - 1 - step : step);
    for (std::size_t i = num_consts + num_carry; i < inputs.size(); ++i) {
      const Type slice = body.type(body.inputs()[i]);
      inputs[i] = Tensor::copy_of(slice, std::span(c.input(i).bytes() + at * slice.bytes(), slice.bytes()));
    }
    std::vector<Tensor> outputs = c.run(body, inputs);
    for (std::size_t k = num_carry; k < outputs.size(); ++k) {
      const std::size_t bytes = outputs[k].num_bytes();
      if (bytes != 0) std::memcpy(c.output(k).mutable_bytes() + at * bytes, outputs[k].bytes(), bytes);
    }
    for (std::size_t k = 0; k < num_carry; ++k) inputs[num_consts + k] = std::move(outputs[k]);
  }
  for (std::size_t k = 0; k < num_carry; ++k) c.output(k) = inputs[num_consts + k];
}

void cond(const KernelCall& c) {
  const std::vector<Graph> branches = c.op().graphs("branches");
  std::int64_t index = 0;
  if (c.input(0).dtype() == DType::boolean)
    index = c.input(0).elements<bool>()[0] ? 1 : 0;
  else
    index = c.input(0).elements<std::int32_t>()[0];
  index = std::clamp<std::int64_t>(index, 0, static_cast<std::int64_t>(branches.size()) - 1);
  std::vector<Tensor> outputs = c.run(branches[static_cast<std::size_t>(index)], c.inputs().subspan(1));
  for (std::size_t k = 0; k < outputs.size(); ++k) c.output(k) = std::move(outputs[k]);
}

void while_loop(const KernelCall& c) {
  const Graph until = c.op().graph("cond"), body = c.op().graph("body");
  const std::int64_t max_steps = c.op().integer("max_steps");  // negative: no bound
  const auto num_consts = static_cast<std::size_t>(c.op().integer("num_consts"));
  std::vector<Tensor> values(c.inputs().begin(), c.inputs().end());
  for (std::int64_t step = 0; step != max_steps && c.run(until, values)[0].item<bool>(); ++step) {
    std::vector<Tensor> next = c.run(body, values);
    std::move(next.begin(), next.end(), values.begin() + static_cast<std::ptrdiff_t>(num_consts));
  }
  std::copy(values.begin() + static_cast<std::ptrdiff_t>(num_consts), values.end(), c.outputs().begin());
}

}  // namespace

std::vector<NamedKernel> control_flow_kernels() {
  return {{"scan", dtypes::all, scan}, {"cond", dtypes::all, cond}, {"while", dtypes::all, while_loop}};
}

}  // namespace tidu::ref
