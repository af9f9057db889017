# What only the CUDA executor needs. The runtime is linked statically: it works without a driver, and says that there is none. Other
# libraries of the toolkit are loaded when they are first needed (dynamic_library.hpp), by name or from where they were found here.
target_include_directories(${target} SYSTEM PRIVATE "${CUDAToolkit_INCLUDE_DIRS}")
target_compile_definitions(${target} PRIVATE TIDU_CUDA_LIBRARY_DIR="${CUDAToolkit_LIBRARY_DIR}" TIDU_CUDA_INCLUDE_DIR="${CUDAToolkit_TARGET_DIR}/include")
target_link_libraries(${target} PRIVATE ${CMAKE_DL_LIBS})
# g++ 12 takes concatenated strings for copies that overlap or go too far (GCC bug 105651 and its like).
target_compile_options(${target} PRIVATE
  "$<$<AND:$<COMPILE_LANGUAGE:CXX>,$<CXX_COMPILER_ID:GNU>,$<VERSION_LESS:$<CXX_COMPILER_VERSION>,13>>:-Wno-restrict;-Wno-array-bounds;-Wno-stringop-overflow>")
# By CMake's name for it, so that an installed tidu has no path of this machine's toolkit.
target_link_libraries(${target} PRIVATE CUDA::cudart_static)
# Rules of each family, and calls of each library, use the same short names: they are never compiled together.
file(GLOB families CONFIGURE_DEPENDS "${CMAKE_CURRENT_LIST_DIR}/rules/*.cpp" "${CMAKE_CURRENT_LIST_DIR}/libraries/*.cpp")
set_property(SOURCE ${families} PROPERTY SKIP_UNITY_BUILD_INCLUSION ON)

# The text before every kernel: the files of kernels/prelude/, made a source at build time.
set(prelude_names)
set(prelude_files)
foreach(part IN ITEMS types functions monoids complex special)
  list(APPEND prelude_names prelude_${part})
  list(APPEND prelude_files "${CMAKE_CURRENT_LIST_DIR}/kernels/prelude/${part}.cuh")
endforeach()
list(JOIN prelude_names "," prelude_name_list)
list(JOIN prelude_files "," prelude_file_list)
set(prelude_source "${PROJECT_BINARY_DIR}/generated/cuda_prelude_bytes.cpp")
add_custom_command(
  OUTPUT "${prelude_source}"
  COMMAND ${CMAKE_COMMAND} -DNAMESPACE=tidu::cuda_detail "-DNAMES=${prelude_name_list}" "-DFILES=${prelude_file_list}"
          "-DOUTPUT=${prelude_source}" -P "${PROJECT_SOURCE_DIR}/cmake/TiduEmbed.cmake"
  DEPENDS ${prelude_files} "${PROJECT_SOURCE_DIR}/cmake/TiduEmbed.cmake"
  COMMENT "Embedding the prelude of CUDA kernels" VERBATIM)
set_property(SOURCE "${prelude_source}" PROPERTY SKIP_UNITY_BUILD_INCLUSION ON)
target_sources(${target} PRIVATE "${prelude_source}")

# CUB is templates for NVIDIA's compiler, which gets C++20 by name, as CMake 3.25 does not know that this compiler has it, and none of
# the flags for C++ of a build, which it would not understand.
set(sorting "${CMAKE_CURRENT_LIST_DIR}/libraries/library_sorting.cu")
set(sorting_object "${CMAKE_CURRENT_BINARY_DIR}/library_sorting.cu.o")
set(TIDU_CUDA_ARCHITECTURE "sm_80;sm_90" CACHE STRING
    "GPUs that sorting is compiled for: of these architectures, ascending, with later ones of each generation, and newer ones by their driver")
set(sorting_code "")
foreach(architecture IN LISTS TIDU_CUDA_ARCHITECTURE)
  string(REPLACE sm_ compute_ virtual_architecture "${architecture}")
  list(APPEND sorting_code "-gencode=arch=${virtual_architecture},code=${architecture}")
endforeach()
list(APPEND sorting_code "-gencode=arch=${virtual_architecture},code=${virtual_architecture}")
add_custom_command(OUTPUT "${sorting_object}"
  COMMAND ${CMAKE_CXX_COMPILER_LAUNCHER} "${CUDAToolkit_NVCC_EXECUTABLE}" -std=c++20 -O2 -Xcompiler=-fPIC ${sorting_code}
          "-I${PROJECT_SOURCE_DIR}/backends" -c "${sorting}" -o "${sorting_object}"
  DEPENDS "${sorting}" "${CMAKE_CURRENT_LIST_DIR}/libraries/library_sorting.hpp" VERBATIM)
set_property(SOURCE "${sorting_object}" PROPERTY EXTERNAL_OBJECT ON)
target_sources(${target} PRIVATE "${sorting_object}")
