# The tests of the CPU executor's kernels once more, for the kernels of a device, run on the host (deferred.cpp).
# Their short names of primitives are the frontend's, too: they are compiled apart from tests that see that.
foreach(source IN ITEMS elementwise structural windows)
  target_sources(test_cuda PRIVATE "${CMAKE_CURRENT_SOURCE_DIR}/backends/cpu/${source}.cpp")
  set_property(SOURCE "${CMAKE_CURRENT_SOURCE_DIR}/backends/cpu/${source}.cpp" TARGET_DIRECTORY test_cuda PROPERTY SKIP_UNITY_BUILD_INCLUSION ON)
endforeach()
target_compile_definitions(test_cuda PRIVATE TIDU_TEST_EMULATED)
target_link_libraries(test_cuda PRIVATE ${CMAKE_DL_LIBS})
# Random graphs are those of the fuzz tests.
file(GLOB kinds CONFIGURE_DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/fuzz/kinds_*.cpp")
target_sources(test_cuda PRIVATE "${CMAKE_CURRENT_SOURCE_DIR}/fuzz/generator.cpp" ${kinds})
if(TARGET adbench_problems)
  target_link_libraries(test_cuda PRIVATE adbench_problems)
  target_include_directories(test_cuda PRIVATE "${PROJECT_SOURCE_DIR}/examples")
  target_compile_definitions(test_cuda PRIVATE TIDU_WITH_ADBENCH)
endif()
# Decompositions of Eigen are much code to compile, and run on small matrices only.
set_property(SOURCE "${CMAKE_CURRENT_LIST_DIR}/library_emulation.cpp" APPEND PROPERTY COMPILE_OPTIONS
             -O0 $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>)
# Blocks of kernels change stacks a million times, and the strict emulator checks each access of memory: half of the
# emulation without optimisation.
if(NOT TIDU_SANITIZE)
  set_property(SOURCE "${CMAKE_CURRENT_LIST_DIR}/fibers.cpp" "${CMAKE_CURRENT_LIST_DIR}/strict.cpp" APPEND PROPERTY COMPILE_OPTIONS -O2)
endif()
# Below the executor as it is stands a CUDA platform in host memory: not where its libraries are shared, which have the CUDA runtime in
# them, nor where sanitizers watch, which know nothing of kernels compiled meanwhile.
if(NOT TIDU_SANITIZE AND NOT BUILD_SHARED_LIBS)
  include("${CMAKE_CURRENT_LIST_DIR}/platform/platform.cmake")
endif()
add_test(NAME cuda_architectures COMMAND Python3::Interpreter -B "${CMAKE_CURRENT_LIST_DIR}/architectures.py"
         "${PROJECT_BINARY_DIR}/library_sorting.cu.o" ${TIDU_CUDA_ARCHITECTURE})
