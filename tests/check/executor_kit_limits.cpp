// executor_kit_limits.cpp - check_executor: what it asks of executors of few kernels, of run_at, and of the
// caller's conversions; and which values that are not finite agree.
#include <cmath>
#include <limits>
#include <memory>

#include "check/planted_faults.hpp"
#include "primitives/inner_graphs.hpp"
#include "tidu/graph/builder.hpp"
#include "tidu/primitives/elementwise.hpp"

namespace tidu::test {
namespace {

TEST_CASE("the conversions of check_slots are there, as those of check_executor are") {
  const auto error_of = [](const auto& call) {
    try {
      call();
    } catch (const Error& error) {
      return error.kind();
    }
    return ErrorKind::internal;
  };
  const OperandConversion<Tensor> none;
  CHECK(error_of([&] { (void)check_slots(cpu(), reference(), none, few()); }) == ErrorKind::invalid_argument);
  CHECK(error_of([&] { (void)check_executor(reference(), none, few()); }) == ErrorKind::invalid_argument);
}

}  // namespace
}  // namespace tidu::test
