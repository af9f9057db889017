// literal_json_impl.hpp - reads tensors from JSON that is parsed already, for the loaders of dumps and of
// tensors; throws Error (dump). Also writes tensors cut to their first elements.
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
/// Checks the members of a tensor object and that `data` has as many elements as the shape, so that later
/// allocations are proportional to the text.
TensorJson tensor_json(const JsonTape& tape, JsonTape::Index tensor);
/// Writes the elements to `out`, type.bytes() bytes.
void tensor_data_from_json(const JsonTape& tape, const TensorJson& tensor, std::byte* out);
/// A whole tensor.
Literal literal_from_json(const JsonTape& tape, JsonTape::Index tensor);
/// A scalar of `dtype` from one element as it stands in the data of a tensor.
Literal scalar_from_json(const JsonTape& tape, JsonTape::Index element, DType dtype);

/// Appends the first `max_elements` elements of a tensor as append_json does; "elided" has the number of the
/// others, if there are any.
void append_json(std::string& out, Type type, const std::byte* bytes, std::int64_t max_elements);

}  // namespace tidu::detail
