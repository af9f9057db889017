// The version of tidu. CMakeLists.txt reads these three numbers, so they are stated here and nowhere else.
#pragma once

/// Incompatible changes.
#define TIDU_VERSION_MAJOR 0
/// Additions; below 1.0 also incompatible changes.
#define TIDU_VERSION_MINOR 1
/// Repairs.
#define TIDU_VERSION_PATCH 0

/// \cond
#define TIDU_DETAIL_STRING2(x) #x
#define TIDU_DETAIL_STRING(x) TIDU_DETAIL_STRING2(x)
/// \endcond

/// The version as a string literal, "MAJOR.MINOR.PATCH".
#define TIDU_VERSION_STRING              \
  TIDU_DETAIL_STRING(TIDU_VERSION_MAJOR) \
  "." TIDU_DETAIL_STRING(TIDU_VERSION_MINOR) "." TIDU_DETAIL_STRING(TIDU_VERSION_PATCH)
