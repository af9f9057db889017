# What only the CUDA executor needs. The runtime is linked statically: it works without a driver, and says that there is none. Other
# libraries of the toolkit are loaded when they are first needed (dynamic_library.hpp), by name or from where they were found here.
target_include_directories(${target} SYSTEM PRIVATE "${CUDAToolkit_INCLUDE_DIRS}")
target_compile_definitions(${target} PRIVATE TIDU_CUDA_LIBRARY_DIR="${CUDAToolkit_LIBRARY_DIR}" TIDU_CUDA_INCLUDE_DIR="${CUDAToolkit_TARGET_DIR}/include")
target_link_libraries(${target} PRIVATE ${CMAKE_DL_LIBS})
# g++ 12 takes concatenated strings for copies that overlap or go too far (GCC bug 105651 and its like).
target_compile_options(${target} PRIVATE
  "$<$<AND:$<COMPILE_LANGUAGE:CXX>,$<CXX_COMPILER_ID:GNU>,$<VERSION_LESS:$<CXX_COMPILER_VERSION>,13>>:-Wno-restrict;-Wno-array-bounds;-Wno-stringop-overflow>")
target_link_libraries(${target} PRIVATE "${CUDA_cudart_static_LIBRARY}" rt)
