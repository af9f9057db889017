// run.hpp - one operation on tensors, and short ways to write tensors and compare them.
#pragma once

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "tidu/graph/builder.hpp"
#include "tidu/reference/executor.hpp"
#include "tidu/tensor/json.hpp"

namespace tidu::test {

inline constexpr double inf = std::numeric_limits<double>::infinity();
inline constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN();

template <class T>
Tensor row(std::initializer_list<T> elements) {
  return Tensor::from<T>({static_cast<std::int64_t>(elements.size())}, elements);
}

/// The outputs of a graph of one operation of the standard primitive of that name.
inline std::vector<Tensor> run_op(std::string_view primitive, const std::vector<Tensor>& inputs,
                                  Attributes attributes = {}, const Executor& executor = reference()) {
  GraphBuilder builder("one");
  std::vector<Value> operands;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    operands.push_back(builder.input("x" + std::to_string(i), inputs[i].type()));
  }
  const Primitive* record = standard_primitives().find(primitive);
  REQUIRE(record != nullptr);
  const Values results = builder.emit(Op::make(*record, std::move(attributes)), operands);
  return executor.run(builder.build(std::span(results.begin(), results.size())), inputs);
}

/// The data of the only output as JSON: "[1.0, 2.0]".
inline std::string data_of(const Tensor& tensor) {
  const std::string text = to_json(tensor);
  const std::size_t start = text.find("\"data\": ") + 8;
  return text.substr(start, text.size() - start - 1);
}
inline std::string data_of(std::string_view primitive, const std::vector<Tensor>& inputs,
                           Attributes attributes = {}) {
  const std::vector<Tensor> outputs = run_op(primitive, inputs, std::move(attributes));
  REQUIRE(outputs.size() == 1);
  return data_of(outputs[0]);
}

/// |got - want| <= relative |want|, for the modulus of complex numbers; non-finite numbers alike.
inline bool close(std::complex<double> got, std::complex<double> want, double relative = 1e-14) {
  if (std::isnan(want.real()) || std::isnan(got.real()))
    return std::isnan(want.real()) && std::isnan(got.real());
  return got == want || std::abs(got - want) <= relative * std::abs(want);
}

}  // namespace tidu::test
