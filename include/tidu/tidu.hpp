// All of tidu but the headers that name someone else's types: eigen.hpp, boost_graph.hpp, cuda.hpp.
// Written by scripts/umbrella.py; a test compares.
#pragma once

#include <tidu/check/check_gradients.hpp>
#include <tidu/graph/attribute.hpp>
#include <tidu/graph/builder.hpp>
#include <tidu/graph/dot.hpp>
#include <tidu/graph/dtype.hpp>
#include <tidu/graph/error.hpp>
#include <tidu/graph/graph.hpp>
#include <tidu/graph/infer.hpp>
#include <tidu/graph/json.hpp>
#include <tidu/graph/key.hpp>
#include <tidu/graph/literal.hpp>
#include <tidu/graph/literal_json.hpp>
#include <tidu/graph/memory.hpp>
#include <tidu/graph/merge.hpp>
#include <tidu/graph/op.hpp>
#include <tidu/graph/primitive.hpp>
#include <tidu/graph/primitive_set.hpp>
#include <tidu/graph/rules.hpp>
#include <tidu/graph/type.hpp>
#include <tidu/graph/value.hpp>
#include <tidu/linearize/batch.hpp>
#include <tidu/linearize/linearize.hpp>
#include <tidu/linearize/transforms.hpp>
#include <tidu/linearize/transpose.hpp>
#include <tidu/primitives/elementwise.hpp>
#include <tidu/primitives/structural.hpp>
#include <tidu/program/passes.hpp>
#include <tidu/program/program.hpp>
#include <tidu/program/schedule.hpp>
#include <tidu/reference/executor.hpp>
#include <tidu/tensor/executor.hpp>
#include <tidu/tensor/json.hpp>
#include <tidu/tensor/tensor.hpp>
#include <tidu/version.hpp>
