# test_mpi runs as several ranks on this machine, as root and on fewer cores than ranks if need be. Its cases hold for
# any number of ranks. A rank that fails must end the others: the time limit ends a run that hangs.
if(NOT TARGET tidu_mpi)
  return()
endif()

file(GLOB rank_sources CONFIGURE_DEPENDS "${CMAKE_CURRENT_LIST_DIR}/ranks/*.cpp")
set_property(SOURCE "${CMAKE_CURRENT_LIST_DIR}/ranks/large_requests.cpp" PROPERTY SKIP_UNITY_BUILD_INCLUSION ON)
tidu_add_test_program(test_mpi SOURCES ${rank_sources})
target_link_libraries(test_mpi PRIVATE tidu_mpi)
foreach(name IN ITEMS failing_rank sessions crossing_threads)
  add_executable(mpi_${name} "${CMAKE_CURRENT_LIST_DIR}/${name}/main.cpp")
  target_link_libraries(mpi_${name} PRIVATE tidu_mpi)
  set_target_properties(mpi_${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${TIDU_BIN_DIR}")
  tidu_test_options(mpi_${name})
endforeach()

# Open MPI needs options for root and for too few cores; other implementations do not read these.
set(mpi_environment OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
    OMPI_MCA_plm_rsh_agent= OMPI_MCA_btl_base_warn_component_unused=0 OMPI_MCA_mpi_yield_when_idle=1
    ASAN_OPTIONS=detect_leaks=0)  # those of MPI
function(tidu_add_mpi_test name ranks)
  add_test(NAME ${name} COMMAND ${MPIEXEC_EXECUTABLE} ${MPIEXEC_NUMPROC_FLAG} ${ranks} ${ARGN})
  set_tests_properties(${name} PROPERTIES ENVIRONMENT "${mpi_environment}" TIMEOUT 120 PROCESSORS 2)
endfunction()

tidu_add_mpi_test(test_mpi_2_ranks 2 $<TARGET_FILE:test_mpi>)
tidu_add_mpi_test(test_mpi_4_ranks 4 $<TARGET_FILE:test_mpi>)
add_test(NAME test_mpi_1_rank COMMAND test_mpi)
set_tests_properties(test_mpi_1_rank PROPERTIES ENVIRONMENT "${mpi_environment}" TIMEOUT 120)
tidu_add_mpi_test(test_mpi_failing_rank 4 $<TARGET_FILE:mpi_failing_rank>)
set_tests_properties(test_mpi_failing_rank PROPERTIES WILL_FAIL ON TIMEOUT 60)
tidu_add_mpi_test(test_mpi_sessions 2 $<TARGET_FILE:mpi_sessions> after_another)
tidu_add_mpi_test(test_mpi_plain_init 2 $<TARGET_FILE:mpi_sessions> after_plain_init)
tidu_add_mpi_test(test_mpi_crossing_threads 2 $<TARGET_FILE:mpi_crossing_threads>)
