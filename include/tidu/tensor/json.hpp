// json.hpp - tensors as JSON text, in the form of literal_json.hpp.
#pragma once

#include <string>
#include <string_view>

#include "tidu/graph/literal_json.hpp"
#include "tidu/tensor/tensor.hpp"

namespace tidu {

/// {"dtype": "f64", "shape": [2], "data": [1.5, "nan"]}, on one line.
std::string to_json(const Tensor& tensor);
/// Reads JSON of this form, in any layout. Errors as those of literal_from_json.
Tensor tensor_from_json(std::string_view text);
Result<Tensor> try_tensor_from_json(std::string_view text);

}  // namespace tidu
