// program.hpp - deprecated, for one version: include <tidu/cpu/program.hpp>.
#pragma once

#include "tidu/cpu/program.hpp"
