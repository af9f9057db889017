# Matmuls are held against plain loops, for which sanitized builds wait long where they are not optimised.
if(TIDU_SANITIZE)
  set_source_files_properties("${CMAKE_CURRENT_LIST_DIR}/gemm_test.cpp" PROPERTIES COMPILE_OPTIONS -O1
                              SKIP_PRECOMPILE_HEADERS ON)
endif()
# allocations.cpp counts.
target_sources(test_cpu PRIVATE "${CMAKE_CURRENT_SOURCE_DIR}/graph/counting_allocator.cpp")
