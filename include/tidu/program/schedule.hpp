// schedule.hpp - deprecated, for one version: include <tidu/cpu/schedule.hpp>.
#pragma once

#include "tidu/cpu/schedule.hpp"
