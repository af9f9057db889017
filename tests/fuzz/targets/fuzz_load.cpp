// fuzz_load.cpp - libFuzzer's entry for texts given to the loaders of graphs and of tensors. Half of the
// mutations are those of damaged dumps, which stay close to JSON.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include "fuzz/load.hpp"

extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t max_size);

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const std::string complaint =
      tidu::test::load_graph(text).complaint + tidu::test::load_tensor(text).complaint;
  if (complaint.empty()) return 0;
  std::fprintf(stderr, "fuzz_load: %s\n", complaint.c_str());
  std::abort();
}

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t max_size,
                                               unsigned seed) {
  std::mt19937_64 random(seed);
  if (size == 0 || random() % 2 == 0) return LLVMFuzzerMutate(data, size, max_size);
  const std::string text = tidu::test::damaged({reinterpret_cast<const char*>(data), size}, random);
  const std::size_t kept = std::min(text.size(), max_size);
  std::copy_n(text.begin(), kept, data);
  return kept;
}
