// A project that uses tidu. It is compiled without warning options, and its narrowing conversion and its
// unused variable would stop the build if tidu's own options reached it.
#include <cstdio>
#include <cstring>

#include <tidu/tidu.hpp>

int main() {
  int unused = 0;
  float narrowed = 1.0 / 3.0;
  const bool right = std::strcmp(TIDU_VERSION_STRING, EXPECTED_VERSION) == 0 && narrowed > 0;
  std::printf("tidu %s, expected %s\n", TIDU_VERSION_STRING, EXPECTED_VERSION);
  return right ? 0 : 1;
}
