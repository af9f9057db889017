// The environment of test programs: the source tree, the built programs, and the number of repetitions of a
// test.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <filesystem>

namespace tidu::test {

/// The root of the source tree; data lie in its tests/data.
std::filesystem::path source_dir();

/// The folder of the programs of this build, for instance of `tidu`.
std::filesystem::path bin_dir();

/// `count` times the environment's TIDU_TEST_SCALE (1 when unset), at least 1: sanitizer builds run a tenth.
inline std::size_t scaled(std::size_t count) {
  const char* text = std::getenv("TIDU_TEST_SCALE");
  const double scale = text != nullptr ? std::strtod(text, nullptr) : 1.0;
  const double wanted = static_cast<double>(count) * scale;
  return wanted > 1.0 ? static_cast<std::size_t>(wanted) : 1;
}

/// Whether the environment asks for less than the full counts, as where a sanitizer watches: then a case that
/// goes through sizes or kinds may leave out those that take the same ways through the code as others.
inline bool shortened() { return scaled(100) < 100; }

/// Does case `index` of a test run? At full counts every case does, at a tenth of them one in ten.
inline bool sampled(std::size_t index) { return index % (100 / scaled(100)) == 0; }

}  // namespace tidu::test
