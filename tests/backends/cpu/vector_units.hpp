// vector_units.hpp - which vectors code can be generated for here.
#pragma once

#include <doctest/doctest.h>

#include <vector>

#include "cpu/fusion/vector_ir.hpp"

namespace tidu::test {

// The kinds of vectors that this machine and build have; says so where there are none.
inline std::vector<VectorUnits> units() {
  std::vector<VectorUnits> found;
  for (const VectorUnits each : {VectorUnits::avx2, VectorUnits::avx512}) {
    if (cpu_detail::VectorJit::get(each) != nullptr) found.push_back(each);
  }
  if (found.empty()) MESSAGE("SKIPPED: no code for vectors can be generated here");
  return found;
}

}  // namespace tidu::test
