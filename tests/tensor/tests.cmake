# DLPack with NumPy and PyTorch, as far as they are here: a module that Python loads, which has to be without sanitizers.
if(NOT TIDU_SANITIZE)
  add_library(dlpack_module MODULE "${CMAKE_CURRENT_LIST_DIR}/dlpack/module.cpp")
  target_link_libraries(dlpack_module PRIVATE tidu::tensor)
  tidu_test_options(dlpack_module)
  add_test(NAME dlpack_exchange
           COMMAND Python3::Interpreter -B "${CMAKE_CURRENT_LIST_DIR}/dlpack/exchange.py" $<TARGET_FILE:dlpack_module>)
  set_tests_properties(dlpack_exchange PROPERTIES SKIP_RETURN_CODE 77)
endif()
