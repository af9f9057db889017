// strands.hpp - deprecated, for one version: include <tidu/graph/region_bindings.hpp>.
#pragma once

#include "tidu/graph/region_bindings.hpp"

namespace tidu {

/// The former name of RegionBinding.
using Strand [[deprecated("use RegionBinding")]] = RegionBinding;

}  // namespace tidu
