// cache.hpp - deprecated, for one version: include <tidu/optimizer/cache.hpp>.
#pragma once

#include "tidu/optimizer/cache.hpp"
