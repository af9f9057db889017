// executor_kit_threads.cpp - the kit's own checks with threads, on executors that are sound.
#include "check/planted_faults.hpp"

namespace tidu::test {

TEST_CASE("executors pass when several threads call them at once") {
  ExecutorKitOptions options = few();
  options.threads = 6;
  for (const auto* executor : {static_cast<const eager::BackwardExecutor<Tensor>*>(&reference()),
                               static_cast<const eager::BackwardExecutor<Tensor>*>(&cpu())}) {
    const ExecutorReport report = report_of(*executor, options);
    CHECK_MESSAGE(report.ok, text_of(report));
    CHECK(report.tested[static_cast<std::size_t>(Check::threads)] > 0);
  }
}

}  // namespace tidu::test
