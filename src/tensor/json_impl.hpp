// json_impl.hpp - tensors from JSON that is parsed already.
#pragma once

#include <nlohmann/json.hpp>

#include "tidu/tensor/tensor.hpp"

namespace tidu::detail {

/// Throws Error (dump) for what does not fit.
Tensor tensor_from_json(const nlohmann::json& tensor);

}  // namespace tidu::detail
