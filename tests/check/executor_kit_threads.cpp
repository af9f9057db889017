// executor_kit_threads.cpp - the kit's own checks with threads, on executors that are sound.
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <iostream>

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

namespace {

// In a child, whose memory has space for the stacks of some threads.
int check_with_few_threads() {
  alarm(60);
  long pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  rlimit little{};
  getrlimit(RLIMIT_AS, &little);
  little.rlim_cur = static_cast<rlim_t>(pages * sysconf(_SC_PAGESIZE) + (128 << 20));
  if (setrlimit(RLIMIT_AS, &little) != 0) return 2;
  ExecutorKitOptions options = few();
  options.graphs = 2;
  options.threads = 200;
  const std::string text = text_of(report_of(reference(), options));
  if (text.find("the executor passes") == std::string::npos) return 3;
  return text.find("instead of 200, for ") != std::string::npos ? 17 : 4;
}

}  // namespace

TEST_CASE("where not all threads can be started, those that there are call") {
#if defined(TIDU_ASAN) || defined(TIDU_TSAN)
  return;
#endif
  std::cout.flush();
  std::fflush(nullptr);
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) _exit(check_with_few_threads());
  int status = 0;
  CHECK(waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 17);
}

}  // namespace tidu::test
