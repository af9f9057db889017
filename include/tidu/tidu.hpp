// All of tidu but the headers that name someone else's types: eigen.hpp, boost_graph.hpp, cuda.hpp.
// Written by scripts/umbrella.py; a test compares.
#pragma once

#include <tidu/version.hpp>
