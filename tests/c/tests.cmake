# The C interface: from C99 (test_c_interface, under sanitizers too), from Python by ctypes, and from Rust where there is a cargo.
set(c_tests "${CMAKE_CURRENT_SOURCE_DIR}/c")
file(GLOB c_sources CONFIGURE_DEPENDS "${c_tests}/*.c")
add_executable(test_c_interface ${c_sources} "${c_tests}/faults/allocations.cpp")
target_compile_features(test_c_interface PRIVATE cxx_std_20)
target_link_libraries(test_c_interface PRIVATE tidu::c m)
target_include_directories(test_c_interface PRIVATE "${c_tests}")
set_target_properties(test_c_interface PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${TIDU_BIN_DIR}" C_STANDARD 99 C_EXTENSIONS OFF
                      LINKER_LANGUAGE CXX)
target_compile_options(test_c_interface PRIVATE
  "$<$<COMPILE_LANGUAGE:C>:-Wall;-Wextra;-Wconversion;-Wshadow;-Wstrict-prototypes;-pedantic;-Werror>")
tidu_private_options(test_c_interface)
add_test(NAME test_c_interface COMMAND test_c_interface)

if(NOT TIDU_SANITIZE)
  add_test(NAME c_interface_python
           COMMAND Python3::Interpreter -B "${c_tests}/python/interface.py" "$<TARGET_FILE:tidu_c>" "${PROJECT_SOURCE_DIR}/include")
  find_program(TIDU_CARGO cargo HINTS "$ENV{HOME}/.cargo/bin")
  mark_as_advanced(TIDU_CARGO)
  add_test(NAME c_interface_rust
           COMMAND "${c_tests}/rust/run.sh" "$<TARGET_FILE_DIR:tidu_c>" "${PROJECT_BINARY_DIR}/c_interface_rust" "${TIDU_CARGO}")
  set_tests_properties(c_interface_rust PROPERTIES SKIP_RETURN_CODE 77)
endif()
