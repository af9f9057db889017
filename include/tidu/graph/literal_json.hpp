// literal_json.hpp - tensors as JSON text: {"dtype": "f64", "shape": [2], "data": [1.5, "nan"]}. Data is flat
// in row-major order. Floating numbers are the shortest that read back exactly, laid out as Python's repr
// lays them out (1.0, 1e-05, 1e+16, -0.0); non-finite ones are "nan", "inf", "-inf"; complex numbers [re,
// im]; bool true and false.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "tidu/graph/error.hpp"
#include "tidu/graph/literal.hpp"

namespace tidu {

/// The tensor as JSON, on one line.
std::string to_json(const Literal& literal);
/// Appends a tensor of `type` whose elements lie at `bytes` in row-major order.
void append_json(std::string& out, Type type, const std::byte* bytes);
/// Appends one element of `dtype` that lies at `bytes`, as it stands in the data of a tensor.
void append_json_element(std::string& out, DType dtype, const std::byte* bytes);

/// Reads JSON of this form, in any layout. Throws Error (dump) for text that is malformed or does not fit: a
/// member that is missing or unknown, an unknown dtype, a bad extent, another number of elements than the
/// shape has, an element of another kind than the dtype's, a number out of the dtype's range.
Literal literal_from_json(std::string_view text);
Result<Literal> try_literal_from_json(std::string_view text);

}  // namespace tidu
