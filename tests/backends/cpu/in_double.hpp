// in_double.hpp - tensors of f32 as tensors of f64.
#pragma once

#include <vector>

#include "tidu/tensor/tensor.hpp"

namespace tidu::test {

inline std::vector<Tensor> in_double(const std::vector<Tensor>& tensors) {
  std::vector<Tensor> result;
  for (const Tensor& t : tensors) {
    const std::vector<double> elements(t.data<float>(), t.data<float>() + t.size());
    result.push_back(Tensor::from<double>(t.type().shape(), elements));
  }
  return result;
}

}  // namespace tidu::test
