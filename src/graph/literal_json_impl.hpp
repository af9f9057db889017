// literal_json_impl.hpp - reading tensors from JSON that is parsed already, for the loaders of dumps and of
// tensors: these throw Error (dump). And writing the beginning of one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "tidu/graph/literal.hpp"

namespace tidu::detail {

/// Parses text; the error tells line and column of what is malformed.
nlohmann::json parse_json(std::string_view text);
/// The type of a tensor object. Checks its members and that `data` has as many elements as the shape, so that
/// whoever allocates afterwards allocates in proportion to the text.
Type tensor_type_from_json(const nlohmann::json& tensor);
/// Writes the elements of an array of type.size() elements to `out`, type.bytes() bytes.
void tensor_data_from_json(const nlohmann::json& data, Type type, std::byte* out);
/// A whole tensor.
Literal literal_from_json(const nlohmann::json& tensor);
/// A scalar of `dtype` from one element as it stands in the data of a tensor.
Literal scalar_from_json(const nlohmann::json& element, DType dtype);

/// Appends a tensor as append_json does, of its elements the first `max_elements`; "elided" tells how many
/// are left out, where some are.
void append_json(std::string& out, Type type, const std::byte* bytes, std::int64_t max_elements);

}  // namespace tidu::detail
