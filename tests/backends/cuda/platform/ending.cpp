// An executor that is a static variable, destroyed when the process ends: handles of libraries are left alone
// then. It is made in a process of its own, before any library is loaded.
#include <doctest/doctest.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "cuda/platform/platform.hpp"
#include "tidu/cuda.hpp"
#include "tidu/graph/builder.hpp"
#include "tidu/primitives/linalg.hpp"

namespace tidu::test::platform {
namespace {

// Destroyed after the executor.
struct Witness {
  ~Witness() { std::printf("%s\n", to_string(held()).c_str()); }
};

std::string output_of(const std::string& command) {
  std::FILE* const pipe = popen(command.c_str(), "r");
  REQUIRE(pipe != nullptr);
  std::string text;
  std::array<char, 4096> part;
  while (const std::size_t got = std::fread(part.data(), 1, part.size(), pipe)) text.append(part.data(), got);
  CHECK(pclose(pipe) == 0);
  return text;
}

}  // namespace

TEST_CASE("an executor that lives as long as the process") {
  if (std::getenv("TIDU_TEST_ENDING") == nullptr) return;
  static const Witness witness;
  static const CudaExecutor executor;
  GraphBuilder builder("product");
  const Type type(f32, {4, 4});
  const Value x = builder.input("x", type);
  const Graph graph = builder.build({ops::dot_general(x, x, {{1}, {0}, {}, {}})});
  CHECK(executor.compile(graph, CudaCompileOptions{}).run({Tensor::zeros(type)})[0].at(3) == 0.0);
}

TEST_CASE("A static executor gives back all but the handles of libraries when the process ends") {
  const std::string said = output_of("TIDU_TEST_ENDING=1 /proc/" + std::to_string(getpid()) +
                                     "/exe -tc='an executor that lives as long as the process'");
  CHECK_MESSAGE(said.find("0 bytes, 0 pinned bytes, 0 streams, 0 events, 0 graphs, 0 captures, 0 kernels") !=
                    std::string::npos,
                said);
  CHECK_MESSAGE(said.find(" 0 handles") == std::string::npos, said);
}

}  // namespace tidu::test::platform
