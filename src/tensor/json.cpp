// json.cpp - tensors as JSON: the writing and reading of elements is that of literals.
#include "tidu/tensor/json.hpp"

#include "graph/literal_json_impl.hpp"
#include "tensor/json_impl.hpp"

namespace tidu {

Tensor detail::tensor_from_json(const JsonTape& tape, JsonTape::Index tensor) {
  const TensorJson read = tensor_json(tape, tensor);
  Tensor result(read.type);
  tensor_data_from_json(tape, read, result.mutable_bytes());
  return result;
}

std::string to_json(const Tensor& tensor) {
  std::string out;
  append_json(out, tensor.type(), tensor.bytes());
  return out;
}

Tensor tensor_from_json(std::string_view text) {
  return detail::tensor_from_json(detail::JsonTape(text), detail::JsonTape::root);
}

Result<Tensor> try_tensor_from_json(std::string_view text) {
  return detail::capture([&] { return tensor_from_json(text); });
}

}  // namespace tidu
