// The version of tidu. CMakeLists.txt reads these three numbers, so they are stated here and nowhere else.
#pragma once

#define TIDU_VERSION_MAJOR 0
#define TIDU_VERSION_MINOR 1
#define TIDU_VERSION_PATCH 0

#define TIDU_DETAIL_STRING2(x) #x
#define TIDU_DETAIL_STRING(x) TIDU_DETAIL_STRING2(x)

/// The version as a string literal, "MAJOR.MINOR.PATCH".
#define TIDU_VERSION_STRING              \
  TIDU_DETAIL_STRING(TIDU_VERSION_MAJOR) \
  "." TIDU_DETAIL_STRING(TIDU_VERSION_MINOR) "." TIDU_DETAIL_STRING(TIDU_VERSION_PATCH)
