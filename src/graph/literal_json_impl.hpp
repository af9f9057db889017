// literal_json_impl.hpp - reading tensors from JSON that is parsed already, for the loaders of dumps and of
// tensors: these throw Error (dump). And writing the beginning of one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "graph/json_tape.hpp"
#include "tidu/graph/literal.hpp"

namespace tidu::detail {

/// The type of a tensor, and the node of its data.
struct TensorJson {
  Type type;
  JsonTape::Index data;
};
/// Checks the members of a tensor object and that `data` has as many elements as the shape, so that whoever
/// allocates afterwards allocates in proportion to the text.
TensorJson tensor_json(const JsonTape& tape, JsonTape::Index tensor);
/// Writes the elements to `out`, type.bytes() bytes.
void tensor_data_from_json(const JsonTape& tape, const TensorJson& tensor, std::byte* out);
/// A whole tensor.
Literal literal_from_json(const JsonTape& tape, JsonTape::Index tensor);
/// A scalar of `dtype` from one element as it stands in the data of a tensor.
Literal scalar_from_json(const JsonTape& tape, JsonTape::Index element, DType dtype);

/// Appends a tensor as append_json does, of its elements the first `max_elements`; "elided" tells how many
/// are left out, where some are.
void append_json(std::string& out, Type type, const std::byte* bytes, std::int64_t max_elements);

}  // namespace tidu::detail
