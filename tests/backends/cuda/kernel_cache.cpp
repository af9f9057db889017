// Kernels as machine code by NVRTC, and the folder of what was compiled before.
#include <doctest/doctest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "cuda/dynamic_library.hpp"
#include "cuda/kernels/kernel_compiler.hpp"
#include "cuda/nvrtc.hpp"
#include "tidu/cuda.hpp"
#include "tidu/graph/error.hpp"

namespace tidu::test {

using cuda_detail::KernelCompiler;
using cuda_detail::KernelSource;

TEST_CASE("a kernel is compiled once and kept, and compiled anew where its file is damaged") {
  if (!has_nvrtc()) {
    MESSAGE("no NVRTC here");
    return;
  }
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / ("tidu-kernels-" + std::to_string(::getpid()));
  const KernelSource source{"twice",
                            "extern \"C\" __global__ void twice(f16* x) { store(x[thread_index()], 2 * "
                            "value(x[thread_index()])); }\n"};
  const std::uint64_t bytes = CudaOptions().kernel_cache_bytes;
  const KernelCompiler compiler(9, 0, folder.string(), bytes);
  CHECK(compiler.architecture() == "sm_90");
  bool compiled = false;
  const std::vector<char> code = compiler.compile(source, &compiled);
  CHECK(compiled);
  REQUIRE(code.size() > 4);
  CHECK(std::string(code.begin() + 1, code.begin() + 4) == "ELF");
  CHECK(compiler.compile(source, &compiled) == code);
  CHECK_FALSE(compiled);
  // Half a file is none.
  const std::string path = compiler.path_of(source);
  std::filesystem::resize_file(path, std::filesystem::file_size(path) / 2);
  CHECK(compiler.compile(source, &compiled) == code);
  CHECK(compiled);
  // Another architecture, another file.
  CHECK(KernelCompiler(10, 0, folder.string(), bytes).path_of(source) != path);
  const KernelSource wrong{"wrong", "extern \"C\" __global__ void wrong() { nothing(); }\n"};
  try {
    (void)compiler.compile(wrong);
    FAIL("expected an error");
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::internal);
    CHECK(std::string(error.what()).find("nothing") != std::string::npos);
  }
  std::filesystem::remove_all(folder);
}

TEST_CASE("a GPU that is newer than NVRTC gets PTX, which its driver compiles") {
  if (!has_nvrtc()) {
    MESSAGE("no NVRTC here");
    return;
  }
  const KernelSource source{"thrice",
                            "extern \"C\" __global__ void thrice(f32* x) { x[thread_index()] *= 3; }\n"};
  const KernelCompiler newer(99, 0, {}, 0);
  CHECK(newer.architecture().rfind("compute_", 0) == 0);
  const std::vector<char> code = newer.compile(source);
  REQUIRE(!code.empty());
  CHECK(code.back() == '\0');
  const std::string text(code.begin(), code.end());
  CHECK(text.find(".target sm_" + newer.architecture().substr(8)) != std::string::npos);
  CHECK(text.find(".entry thrice") != std::string::npos);
}

TEST_CASE("of several versions of a library the one that tidu was built with comes first") {
  using Names = std::vector<std::string>;
  CHECK(cuda_detail::versions_of("lib.so", 12, {13, 12}) == Names{"lib.so.12", "lib.so.13", "lib.so"});
  CHECK(cuda_detail::versions_of("lib.so", 13, {13, 12}) == Names{"lib.so.13", "lib.so.12", "lib.so"});
  CHECK(cuda_detail::versions_of("lib.so", 14, {13, 12}) == Names{"lib.so.13", "lib.so.12", "lib.so"});
}

TEST_CASE("a sum of a product has the same bits wherever it is computed") {
  if (!has_nvrtc()) {
    MESSAGE("no NVRTC here");
    return;
  }
  const KernelCompiler compiler(9, 0, {}, 0);
  for (const std::string type : {"f32", "f64"}) {
    const auto code = [&](const std::string& sum) {
      const KernelSource source{"sum", "extern \"C\" __global__ void sum(const " + type + "* x, " + type +
                                           "* y) {\n  const u32 i = thread_index();\n  y[i] = " + sum +
                                           ";\n}\n"};
      return compiler.compile(source);
    };
    // As where the product is rounded because it is a result, too.
    CHECK(code("op::add(op::mul(x[i], x[i + 1]), x[i + 2])") ==
          code("op::add(product(x[i], x[i + 1]), x[i + 2])"));
    CHECK(code("op::add(op::exp(x[i]) * x[i + 1], x[i + 2])") ==
          code("op::add(product(op::exp(x[i]), x[i + 1]), x[i + 2])"));
    // Sums of products that are one operation are rounded once for each.
    CHECK(code("op::add_product(x[i + 2], x[i], x[i + 1])") !=
          code("op::add(op::mul(x[i], x[i + 1]), x[i + 2])"));
  }
}

}  // namespace tidu::test
