# Tests of the project itself: layers, headers, documentation, and tidu as other projects consume it.
set(scripts "${PROJECT_SOURCE_DIR}/scripts")
add_test(NAME layers COMMAND Python3::Interpreter -B "${scripts}/check_layers.py")
add_test(NAME layers_self_test COMMAND Python3::Interpreter -B "${scripts}/check_layers.py" --self-test)
add_test(NAME planted_faults_fit COMMAND Python3::Interpreter -B "${PROJECT_SOURCE_DIR}/scripts/mutations.py" --check)
add_test(NAME umbrella_header COMMAND Python3::Interpreter -B "${scripts}/umbrella.py")
add_test(NAME documented_commands COMMAND Python3::Interpreter -B "${scripts}/check_commands.py")
add_test(NAME documented_commands_self_test COMMAND Python3::Interpreter -B "${scripts}/check_commands.py" --self-test)
add_test(NAME house COMMAND Python3::Interpreter -B "${scripts}/house.py")
add_test(NAME house_self_test COMMAND Python3::Interpreter -B "${scripts}/house.py" --self-test)
add_test(NAME advised_functions COMMAND Python3::Interpreter -B "${scripts}/check_messages.py")
add_test(NAME advised_functions_self_test COMMAND Python3::Interpreter -B "${scripts}/check_messages.py" --self-test)
add_test(NAME documentation_text COMMAND Python3::Interpreter -B "${scripts}/docs.py" check)

# What follows takes seconds, and says the same in every kind of build: one kind is enough.
if(TIDU_SANITIZE)
  return()
endif()

add_test(NAME gpu_script COMMAND "${CMAKE_CURRENT_SOURCE_DIR}/project/gpu_script.sh" "${PROJECT_BINARY_DIR}/gpu_script")
add_test(NAME bench_script COMMAND "${CMAKE_CURRENT_SOURCE_DIR}/project/bench_script.sh" "${PROJECT_BINARY_DIR}/bench_script")
add_test(NAME cmake_options COMMAND "${CMAKE_CURRENT_SOURCE_DIR}/project/options.sh" "${PROJECT_BINARY_DIR}/cmake_options")
add_test(NAME reference_without_warnings COMMAND "${PROJECT_SOURCE_DIR}/scripts/reference.sh" "${PROJECT_BINARY_DIR}/reference")
set_tests_properties(reference_without_warnings PROPERTIES SKIP_RETURN_CODE 77)

# The programs and commands of README.md and docs/: one generated file for each page, in one program.
set(pages "${CMAKE_CURRENT_BINARY_DIR}/docs_pages")
execute_process(COMMAND "${Python3_EXECUTABLE}" -B "${scripts}/docs.py" generate "${pages}" COMMAND_ERROR_IS_FATAL ANY)
file(GLOB page_texts CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/docs/*.md")
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS
             ${page_texts} "${PROJECT_SOURCE_DIR}/README.md" "${scripts}/docs.py")
file(GLOB page_sources "${pages}/*.cpp")
add_executable(docs_pages ${page_sources})
target_link_libraries(docs_pages PRIVATE tidu::tidu)
add_dependencies(docs_pages tidu_c)
tidu_private_options(docs_pages)
target_compile_options(docs_pages PRIVATE -O0)
set_target_properties(docs_pages PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${TIDU_BIN_DIR}")
add_test(NAME documentation COMMAND Python3::Interpreter -B "${scripts}/docs.py" run "$<TARGET_FILE:docs_pages>")

# Random programs on the compiled executor and the slow one; with JAX in its place this is run by hand.
add_test(NAME random_programs
         COMMAND Python3::Interpreter -B "${scripts}/compare_jax.py" --oracle reference --tidu "$<TARGET_FILE:tidu_command>" --seeds 0:25
                 --kinds single,chain --out "${CMAKE_CURRENT_BINARY_DIR}/differences")
set_tests_properties(random_programs PROPERTIES SKIP_RETURN_CODE 77)
add_test(NAME comparison_script COMMAND Python3::Interpreter -B "${CMAKE_CURRENT_SOURCE_DIR}/project/comparison.py"
                                        "${PROJECT_BINARY_DIR}/comparison_script")
set_tests_properties(comparison_script PROPERTIES SKIP_RETURN_CODE 77)

# A generated file, which includes that header and nothing else, for each public header that no source includes before all others.
file(GLOB_RECURSE headers CONFIGURE_DEPENDS RELATIVE "${PROJECT_SOURCE_DIR}/include"
     "${PROJECT_SOURCE_DIR}/include/tidu/*.hpp")
if(NOT TIDU_WITH_CUDA)
  list(REMOVE_ITEM headers tidu/cuda.hpp)
endif()
if(NOT TIDU_WITH_MPI)
  list(REMOVE_ITEM headers tidu/mpi.hpp)
endif()
file(GLOB_RECURSE sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/src/*.cpp" "${PROJECT_SOURCE_DIR}/backends/*.cpp")
set(included_first)
foreach(source IN LISTS sources)
  file(STRINGS "${source}" first REGEX "^#include" LIMIT_COUNT 1)
  string(REGEX REPLACE "^#include [<\"](.*)[>\"].*" "\\1" first "${first}")
  list(APPEND included_first "${first}")
endforeach()
list(REMOVE_ITEM headers ${included_first})
set(header_sources)
foreach(header IN LISTS headers)
  string(REGEX REPLACE "[/.]" "_" name "${header}")
  set(file "${CMAKE_CURRENT_BINARY_DIR}/headers/${name}.cpp")
  file(CONFIGURE OUTPUT "${file}" CONTENT "#include <${header}>\n" @ONLY)
  list(APPEND header_sources "${file}")
endforeach()
add_library(headers_alone OBJECT EXCLUDE_FROM_ALL ${header_sources})
target_link_libraries(headers_alone PRIVATE tidu::tidu $<TARGET_NAME_IF_EXISTS:tidu::mpi> Eigen3::Eigen Boost::headers)
target_compile_options(headers_alone PRIVATE -O0)
tidu_private_options(headers_alone)
add_test(NAME headers_compile_alone
         COMMAND ${CMAKE_COMMAND} --build "${PROJECT_BINARY_DIR}" --target headers_alone)

# The library, the command and the examples want nothing of what the tests do, as README.md says.
add_test(NAME configure_without_tests
         COMMAND ${CMAKE_COMMAND} -S "${PROJECT_SOURCE_DIR}" -B "${PROJECT_BINARY_DIR}/without_tests" -G "${CMAKE_GENERATOR}"
                 -DCMAKE_CXX_COMPILER=${CMAKE_CXX_COMPILER} -DTIDU_BUILD_TESTS=OFF -DCMAKE_DISABLE_FIND_PACKAGE_doctest=ON
                 -DCMAKE_DISABLE_FIND_PACKAGE_Python3=ON -DCMAKE_DISABLE_FIND_PACKAGE_benchmark=ON)

# What is installed, labelled package: it is also run for shared libraries, of which only the target tidu_installed is built.
get_property(libraries GLOBAL PROPERTY TIDU_LIBRARIES)
set(library_files)
foreach(library IN LISTS libraries)
  get_target_property(type ${library} TYPE)
  if(NOT type STREQUAL "INTERFACE_LIBRARY")
    list(APPEND library_files $<TARGET_FILE:${library}>)
  endif()
endforeach()
add_test(NAME symbols COMMAND Python3::Interpreter -B "${scripts}/check_symbols.py" ${library_files})
add_test(NAME symbols_self_test COMMAND Python3::Interpreter -B "${scripts}/check_symbols.py" --self-test)

# The ways in which other projects use tidu, each with g++ and with clang++: an installed tidu by find_package and pkg-config, and the
# Debian package (all with the optional dependencies of this build); its sources by FetchContent from this repository's last commit and
# by add_subdirectory of what was fetched (both without optional dependencies, in one build folder, so that it is compiled once).
set(consumer "${PROJECT_SOURCE_DIR}/tests/consumer")
set(consumer_build "${PROJECT_BINARY_DIR}/consumer")
list(TRANSFORM libraries REPLACE "^tidu_" "" OUTPUT_VARIABLE components)
list(JOIN components "," components)
set(common -G "${CMAKE_GENERATOR}" -DEXPECTED_COMPONENTS=${components} -DCMAKE_CXX_COMPILER_LAUNCHER=${CMAKE_CXX_COMPILER_LAUNCHER}
    -DEXPECTED_VERSION=${PROJECT_VERSION})
add_test(NAME consumer_install
         COMMAND ${CMAKE_COMMAND} --install "${PROJECT_BINARY_DIR}" --prefix "${consumer_build}/prefix")
set_tests_properties(consumer_install PROPERTIES FIXTURES_SETUP installed)
find_program(TIDU_CONSUMER_GCC g++)
find_program(TIDU_CONSUMER_CLANG NAMES clang++ clang++-14)
mark_as_advanced(TIDU_CONSUMER_GCC TIDU_CONSUMER_CLANG)

# consumer_WAY_COMPILER: the project tests/consumer/PROJECT, its target all_consumers, and its program consumer.
function(tidu_add_consumer_test way project compiler)
  add_test(NAME consumer_${way}_${compiler}
    COMMAND ${CMAKE_CTEST_COMMAND} --build-and-test "${consumer}/${project}" "${consumer_build}/${project}_${compiler}"
            --build-noclean --build-generator "${CMAKE_GENERATOR}" --build-target all_consumers --build-options ${common}
            "-DCMAKE_CXX_COMPILER=${TIDU_CONSUMER_${compiler}}" "-DCMAKE_PREFIX_PATH=${consumer_build}/prefix"
            -DTIDU_REPOSITORY=${PROJECT_SOURCE_DIR} -DWAY=${way} -DCMAKE_UNITY_BUILD=ON
            -DCMAKE_UNITY_BUILD_BATCH_SIZE=20 ${ARGN} --test-command consumer)
endfunction()

set(consumer_tests)
foreach(compiler IN ITEMS GCC CLANG)
  if(NOT TIDU_CONSUMER_${compiler})
    message(STATUS "tidu: no ${compiler} here, so tests of projects that are compiled by it are left out")
    continue()
  endif()
  tidu_add_consumer_test(find_package find_package ${compiler})
  set_tests_properties(consumer_find_package_${compiler} PROPERTIES FIXTURES_REQUIRED installed)
  add_test(NAME consumer_pkg_config_${compiler}
           COMMAND "${consumer}/pkg_config.sh" "${consumer_build}/prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig"
                   "${consumer_build}/pkg_config_${compiler}" ${PROJECT_VERSION} ${CMAKE_CXX_COMPILER_LAUNCHER} ${TIDU_CONSUMER_${compiler}})
  set_tests_properties(consumer_pkg_config_${compiler} PROPERTIES FIXTURES_REQUIRED installed SKIP_RETURN_CODE 77)
  list(APPEND consumer_tests consumer_find_package_${compiler} consumer_pkg_config_${compiler})
  set(bare -DTIDU_ONEDNN=OFF -DTIDU_LAPACK=OFF -DTIDU_LANES=OFF -DTIDU_MPI=OFF -DTIDU_CUDA=OFF)
  tidu_add_consumer_test(fetch_content sources ${compiler} ${bare})
  tidu_add_consumer_test(subdirectory sources ${compiler} ${bare})
  set_tests_properties(consumer_fetch_content_${compiler} PROPERTIES FIXTURES_SETUP fetched_${compiler} LABELS extended)
  set_tests_properties(consumer_subdirectory_${compiler} PROPERTIES FIXTURES_REQUIRED fetched_${compiler} LABELS extended)
endforeach()
if(PROJECT_IS_TOP_LEVEL)
  add_test(NAME debian_package COMMAND "${consumer}/debian_package.sh" "${PROJECT_BINARY_DIR}" "${consumer_build}/debian"
                                       ${PROJECT_VERSION} ${common})
  set_tests_properties(debian_package PROPERTIES SKIP_RETURN_CODE 77)
  list(APPEND consumer_tests debian_package)
endif()
set_tests_properties(symbols symbols_self_test PROPERTIES LABELS package)
set_tests_properties(consumer_install ${consumer_tests} PROPERTIES LABELS "package;extended")
add_test(NAME documentation_cmake COMMAND Python3::Interpreter -B "${scripts}/docs.py" configure "${consumer_build}/prefix")
set_tests_properties(documentation_cmake PROPERTIES FIXTURES_REQUIRED installed)

# What scripts/test.sh runs with --all alone: it takes long, or says nothing about the build.
foreach(test IN ITEMS gpu_script bench_script cmake_options reference_without_warnings documentation documentation_cmake random_programs
        comparison_script headers_compile_alone configure_without_tests)
  set_property(TEST ${test} PROPERTY LABELS extended)
endforeach()
