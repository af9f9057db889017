// threads_of_process.hpp - how many threads this process has, and whether a sanitizer has some of its own.
#pragma once

#include <cstdlib>
#include <fstream>
#include <string>

namespace tidu::test {

#if defined(TIDU_ASAN) || defined(TIDU_TSAN)
constexpr bool instrumented = true;
#else
constexpr bool instrumented = false;
#endif

/// -1 where the system does not say.
inline int threads_of_this_process() {
  std::ifstream status("/proc/self/status");
  std::string line;
  while (std::getline(status, line))
    if (line.starts_with("Threads:")) return std::atoi(line.c_str() + 8);
  return -1;
}

}  // namespace tidu::test
