// json_impl.hpp - tensors from JSON that is parsed already.
#pragma once

#include "graph/json_tape.hpp"
#include "tidu/tensor/tensor.hpp"

namespace tidu::detail {

/// Throws Error (dump) for JSON that does not fit.
Tensor tensor_from_json(const JsonTape& tape, JsonTape::Index tensor);

}  // namespace tidu::detail
