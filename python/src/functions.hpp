// functions.hpp - binds functions of the frontend as functions of Python, by their signatures.
#pragma once

#include "core.hpp"
#include "tidu/frontend/functions.hpp"

namespace tidu::python {

using Unary = Array (*)(const Array&, Where);
using Binary = Array (*)(const ArrayLike&, const ArrayLike&);
using OfArrays = Array (*)(const Array&, const Array&, Where);

void def_unary(nb::module_& m, const char* name, Unary f, const char* doc);
void def_binary(nb::module_& m, const char* name, Binary f, const char* doc);
void def_arrays(nb::module_& m, const char* name, OfArrays f, const char* doc);

/// Parts of a list as Python's list.
inline nb::list to_list(std::vector<Array> arrays) {
  nb::list list;
  for (Array& array : arrays) list.append(to_python(std::move(array)));
  return list;
}

}  // namespace tidu::python
