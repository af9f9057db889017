// folders.cpp - the folders that a build is of: in one source, so that a compiler cache has all others for
// every build.
#include "support/support.hpp"

namespace tidu::test {

std::filesystem::path source_dir() { return TIDU_SOURCE_DIR; }
std::filesystem::path bin_dir() { return TIDU_BIN_DIR; }

}  // namespace tidu::test
