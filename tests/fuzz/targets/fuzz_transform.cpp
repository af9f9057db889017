// fuzz_transform.cpp - libFuzzer's entry for random graphs, whose structure follows the bytes: linearized and
// transposed, twice, and forward mode compared with reverse mode.
#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include "fuzz/transform.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string complaint = tidu::test::complaint_of_bytes({reinterpret_cast<const char*>(data), size});
  if (complaint.empty()) return 0;
  std::fprintf(stderr, "fuzz_transform: %s\n", complaint.c_str());
  std::abort();
}
