# The tests here count allocations. If TIDU_FUZZ instruments libraries for coverage, fuzz_load and fuzz_transform are
# libFuzzer's programs of the same checks, linked to no more than these need; scripts/fuzz.sh builds and runs them.
target_sources(test_fuzz PRIVATE "${CMAKE_CURRENT_SOURCE_DIR}/graph/counting_allocator.cpp")

if(TIDU_COVERED_LIBRARIES)
  set(here "${CMAKE_CURRENT_LIST_DIR}")
  file(GLOB kinds CONFIGURE_DEPENDS "${here}/kinds_*.cpp")
  set(sources_load "${here}/load.cpp" "${CMAKE_CURRENT_SOURCE_DIR}/graph/counting_allocator.cpp")
  set(sources_transform "${here}/transform.cpp" "${here}/generator.cpp" ${kinds}
      "${PROJECT_SOURCE_DIR}/src/check/derived.cpp" "${PROJECT_SOURCE_DIR}/src/check/numeric.cpp")
  foreach(name IN ITEMS load transform)
    add_executable(fuzz_${name} EXCLUDE_FROM_ALL "${here}/targets/fuzz_${name}.cpp" ${sources_${name}})
    target_include_directories(fuzz_${name} PRIVATE "${CMAKE_CURRENT_SOURCE_DIR}" "${PROJECT_SOURCE_DIR}/src" "${PROJECT_SOURCE_DIR}/backends")
    target_compile_options(fuzz_${name} PRIVATE ${TIDU_COVERAGE})
    target_link_libraries(fuzz_${name} PRIVATE tidu_core tidu_primitives tidu_tensor)
    target_link_options(fuzz_${name} PRIVATE -fsanitize=fuzzer)
    set_target_properties(fuzz_${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${TIDU_BIN_DIR}" UNITY_BUILD ${in_groups})
    tidu_private_options(fuzz_${name})
  endforeach()
  target_link_libraries(fuzz_transform PRIVATE tidu_reference)
endif()
