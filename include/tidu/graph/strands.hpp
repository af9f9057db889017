// strands.hpp - deprecated, for one version: include <tidu/graph/region_bindings.hpp>.
#pragma once

#include "tidu/graph/region_bindings.hpp"

namespace tidu {

/// The name that RegionBinding had.
using Strand [[deprecated("use RegionBinding")]] = RegionBinding;

}  // namespace tidu
