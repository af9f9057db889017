// passes.hpp - deprecated, for one version: include <tidu/optimizer/passes.hpp> for passes of the optimizer
// and <tidu/cpu/schedule_passes.hpp> for those of the scheduler.
#pragma once

#include "tidu/cpu/schedule_passes.hpp"
#include "tidu/optimizer/passes.hpp"
