# Settings for building tidu itself; none of them is made when tidu is part of another project.
if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Build type" FORCE)
endif()
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/bin")
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

if(NOT CMAKE_CXX_COMPILER_LAUNCHER)
  find_program(TIDU_CCACHE ccache)
  if(TIDU_CCACHE)
    set(CMAKE_CXX_COMPILER_LAUNCHER "${TIDU_CCACHE}")
  endif()
endif()

if(TIDU_SANITIZE)
  add_compile_options(-fsanitize=${TIDU_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${TIDU_SANITIZE})
endif()

# The code that fuzzing is to reach, instrumented to report the branches that an input takes; see tests/fuzz/tests.cmake.
# Counters alone: comparisons that report their operands would slow the tests of the same build.
set(TIDU_COVERED_LIBRARIES)
set(TIDU_COVERAGE -fsanitize-coverage=inline-8bit-counters,pc-table)
if(TIDU_FUZZ AND CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  set(TIDU_COVERED_LIBRARIES core primitives)
elseif(TIDU_FUZZ)
  message(STATUS "tidu: fuzz_load and fuzz_transform are left out: they need clang++, this is ${CMAKE_CXX_COMPILER_ID}")
endif()
