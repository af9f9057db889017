# What only the CPU executor needs: Eigen, which is headers, and for the matmuls, code that keeps tiles in registers: loops over a
# tile unrolled, multiply and add fused where the instruction set can, in every type of build but Debug. Functions of inner loops begin at cache
# lines: where a change elsewhere in the program moves their loops across lines, they take up to a tenth longer.
find_package(Eigen3 3.4 REQUIRED NO_MODULE)
target_link_libraries(${target} PRIVATE $<BUILD_INTERFACE:Eigen3::Eigen>)

file(GLOB gemm_sources CONFIGURE_DEPENDS "${CMAKE_CURRENT_LIST_DIR}/matmul/gemm_*.cpp")
set_property(SOURCE ${gemm_sources} APPEND PROPERTY COMPILE_OPTIONS "$<$<NOT:$<CONFIG:Debug>>:-O3>" -ffp-contract=fast -falign-functions=64)
# g++ keeps addresses in registers of vectors and, with AVX-512 BW, of masks, from where they come back only when all multiplications
# before have begun: it is told that numbers do not move there, and has no BW, which the matmuls do not need.
include(CheckCXXCompilerFlag)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64|amd64)$")
  check_cxx_compiler_flag(-mtune-ctrl=^inter_unit_moves_to_vec TIDU_CAN_KEEP_ADDRESSES)
  if(TIDU_CAN_KEEP_ADDRESSES)
    set_property(SOURCE ${gemm_sources} APPEND PROPERTY COMPILE_OPTIONS -mtune-ctrl=^inter_unit_moves_to_vec)
  endif()
  set_property(SOURCE "${CMAKE_CURRENT_LIST_DIR}/matmul/gemm_avx512.cpp" APPEND PROPERTY COMPILE_OPTIONS -mno-avx512bw)
endif()
# Decompositions of Eigen are much code to compile, in which g++ 12 takes for uninitialised what is not.
set(decompositions "${CMAKE_CURRENT_LIST_DIR}/kernels/spectral.cpp" "${CMAKE_CURRENT_LIST_DIR}/kernels/svd_jacobi.cpp"
    "${CMAKE_CURRENT_LIST_DIR}/kernels/svd_lapack.cpp")
foreach(isa baseline avx2)
  list(APPEND decompositions "${CMAKE_CURRENT_LIST_DIR}/kernels/decompositions_${isa}.cpp")
endforeach()
set_property(SOURCE ${decompositions} APPEND PROPERTY COMPILE_OPTIONS $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>
  $<$<CXX_COMPILER_ID:GNU>:-Wno-uninitialized>)
# g++ 12 takes a third longer for -O3 than for what makes it as fast.
set_property(SOURCE "${CMAKE_CURRENT_LIST_DIR}/kernels/spectral.cpp" APPEND PROPERTY COMPILE_OPTIONS
             $<$<AND:$<CXX_COMPILER_ID:GNU>,$<CONFIG:Release>>:-O2>
             $<$<AND:$<CXX_COMPILER_ID:GNU>,$<CONFIG:Release>>:-fvect-cost-model=dynamic>
             $<$<AND:$<CXX_COMPILER_ID:GNU>,$<CONFIG:Release>>:-fpeel-loops>)
# Eigen's templates differ with the instruction set and alignment that a program is compiled for, not in their names. Under a
# name of their own those made here are never taken for the ones of a program that links tidu::cpu statically and uses Eigen too.
foreach(source IN LISTS decompositions)
  string(REGEX MATCH "avx[0-9]+" isa "${source}")
  set_property(SOURCE "${source}" APPEND PROPERTY COMPILE_DEFINITIONS "Eigen=tidu_eigen$<$<BOOL:${isa}>:::${isa}>")
endforeach()

# clang needs minutes for unrolled tiles of matmuls and for decompositions when each step is checked: none checks for undefined
# behaviour, and neither code that is mostly Eigen's nor the widest tiles, like those of AVX2 but for their width, addresses. Tiles
# are unrolled by -O2, too, which takes it two thirds of -O3's time; ThreadSanitizer's tests are small enough to do without.
if(TIDU_SANITIZE AND CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  set_property(SOURCE ${gemm_sources} ${decompositions} APPEND PROPERTY COMPILE_OPTIONS -fno-sanitize=undefined -g0)
  if(TIDU_SANITIZE MATCHES "address")  # checked by calls, which are half the work of checks in line
    set_property(SOURCE ${gemm_sources} APPEND PROPERTY COMPILE_OPTIONS -O2 -fsanitize-address-outline-instrumentation)
  else()
    set_property(SOURCE ${gemm_sources} APPEND PROPERTY COMPILE_OPTIONS -O0)
  endif()
  set_property(SOURCE ${decompositions} "${CMAKE_CURRENT_LIST_DIR}/matmul/gemm_avx512.cpp" APPEND PROPERTY COMPILE_OPTIONS
               -fno-sanitize=all)
endif()

# Loops over elements are vectorised from -O3 on; nobody reads errno or floating-point flags here, and results do not depend on either.
# That a loop may be vectorised is said of all of them; clang need not report those that call functions. Under sanitizers, which see
# more of loops as they are written, it would take a multiple of the time.
set(loops_level "$<$<NOT:$<CONFIG:Debug>>:-O3>")
if(TIDU_SANITIZE)
  set(loops_level)
endif()
foreach(loops kernels/unary kernels/binary kernels/comparison kernels/ternary kernels/convert kernels/transcendental
        kernels/constants kernels/shape kernels/strided kernels/scan kernels/indexing kernels/windows kernels/random fusion/reduce
        fusion/vector_complex fusion/vector_special
        convolution/convolution)
  set_property(SOURCE "${CMAKE_CURRENT_LIST_DIR}/${loops}.cpp" APPEND PROPERTY COMPILE_OPTIONS
               ${loops_level} -fno-math-errno -fno-trapping-math -falign-functions=64 -falign-loops=64 "$<$<CXX_COMPILER_ID:Clang>:-Wno-pass-failed>")
endforeach()

# Sources that an option concerns are compiled alone, so that the groups in which the others are do not depend on options, and a
# compiler cache has them for every build.
foreach(source convolution/convolution_onednn convolution/convolution_primitives matmul/gemm_onednn kernels/svd_jacobi kernels/svd_lapack
        fusion/vector_x86 fusion/vector_mvec fusion/rows_x86 fusion/straight_line_x86)
  set_property(SOURCE "${CMAKE_CURRENT_LIST_DIR}/${source}.cpp" PROPERTY SKIP_UNITY_BUILD_INCLUSION ON)
endforeach()

# Larger matmuls in f32 are oneDNN's where it is found. tidu sets its number of OpenMP threads, so it has to be a build of oneDNN for
# OpenMP whose runtime, GNU's, is linked beside it.
set(onednn OFF)
if(NOT TIDU_ONEDNN STREQUAL "OFF")
  find_path(TIDU_ONEDNN_INCLUDE_DIR oneapi/dnnl/dnnl.h)
  find_library(TIDU_ONEDNN_LIBRARY dnnl)
  mark_as_advanced(TIDU_ONEDNN_INCLUDE_DIR TIDU_ONEDNN_LIBRARY)
  if(TIDU_ONEDNN_INCLUDE_DIR AND TIDU_ONEDNN_LIBRARY)
    include(CheckCXXSourceCompiles)
    set(CMAKE_REQUIRED_INCLUDES "${TIDU_ONEDNN_INCLUDE_DIR}")
    set(CMAKE_REQUIRED_LIBRARIES "${TIDU_ONEDNN_LIBRARY}" gomp)
    check_cxx_source_compiles("
      #include <oneapi/dnnl/dnnl.h>
      static_assert(DNNL_CPU_THREADING_RUNTIME == DNNL_RUNTIME_OMP, \"\");
      extern \"C\" void omp_set_num_threads(int);
      int main() {
        float x = 1;
        omp_set_num_threads(1);
        return dnnl_sgemm('N', 'N', 1, 1, 1, 1, &x, 1, &x, 1, 0, &x, 1);
      }" TIDU_ONEDNN_WORKS)
    unset(CMAKE_REQUIRED_INCLUDES)
    unset(CMAKE_REQUIRED_LIBRARIES)
    set(onednn "${TIDU_ONEDNN_WORKS}")
  endif()
endif()
if(onednn)
  # For the sources that call it alone, so that a compiler cache has all others for builds with and without it.
  set_property(SOURCE "${CMAKE_CURRENT_LIST_DIR}/convolution/convolution_onednn.cpp"
               "${CMAKE_CURRENT_LIST_DIR}/convolution/convolution_primitives.cpp"
               "${CMAKE_CURRENT_LIST_DIR}/matmul/gemm_onednn.cpp" APPEND PROPERTY COMPILE_DEFINITIONS TIDU_WITH_ONEDNN)
  target_include_directories(${target} SYSTEM PRIVATE "${TIDU_ONEDNN_INCLUDE_DIR}")
  target_link_libraries(${target} PRIVATE "${TIDU_ONEDNN_LIBRARY}" gomp)
elseif(TIDU_ONEDNN STREQUAL "ON")
  message(FATAL_ERROR "tidu: expected oneDNN (libdnnl-dev) built for GNU OpenMP, as TIDU_ONEDNN is ON; found none that links")
elseif(NOT TIDU_ONEDNN STREQUAL "OFF")
  message(STATUS "tidu: no oneDNN for GNU OpenMP here, so all matmuls are by tidu's own kernels")
endif()

# Singular values by LAPACK where it is found, any build of it with integers of 32 bits; else by Jacobi rotations.
set(lapack OFF)
if(NOT TIDU_LAPACK STREQUAL "OFF")
  find_library(TIDU_LAPACK_LIBRARY lapack)
  mark_as_advanced(TIDU_LAPACK_LIBRARY)
  if(TIDU_LAPACK_LIBRARY)
    include(CheckCXXSourceCompiles)
    set(CMAKE_REQUIRED_LIBRARIES "${TIDU_LAPACK_LIBRARY}")
    check_cxx_source_compiles("
      extern \"C\" void dgesdd_();
      extern \"C\" void zgesvd_();
      int main() { return reinterpret_cast<void*>(&dgesdd_) != reinterpret_cast<void*>(&zgesvd_) ? 0 : 1; }" TIDU_LAPACK_LINKS)
    unset(CMAKE_REQUIRED_LIBRARIES)
    set(lapack "${TIDU_LAPACK_LINKS}")
  endif()
endif()
if(lapack)
  set_property(SOURCE "${CMAKE_CURRENT_LIST_DIR}/kernels/svd_jacobi.cpp" PROPERTY HEADER_FILE_ONLY ON)
  target_link_libraries(${target} PRIVATE "${TIDU_LAPACK_LIBRARY}")
elseif(TIDU_LAPACK STREQUAL "ON")
  message(FATAL_ERROR "tidu: expected LAPACK (liblapack-dev), as TIDU_LAPACK is ON; found none that links")
else()
  set_property(SOURCE "${CMAKE_CURRENT_LIST_DIR}/kernels/svd_lapack.cpp" PROPERTY HEADER_FILE_ONLY ON)
  if(NOT TIDU_LAPACK STREQUAL "OFF")
    message(STATUS "tidu: no LAPACK here, so singular values are by Jacobi rotations, which take long for large matrices")
  endif()
endif()

# Code for element-wise work is generated while the program runs where there is an assembler for it, Xbyak, which is one header, and
# glibc's vector functions.
set(lanes OFF)
if(NOT TIDU_LANES STREQUAL "OFF")
  find_path(TIDU_XBYAK_INCLUDE_DIR xbyak/xbyak.h)
  mark_as_advanced(TIDU_XBYAK_INCLUDE_DIR)
  if(TIDU_XBYAK_INCLUDE_DIR)
    include(CheckCXXSourceCompiles)
    set(CMAKE_REQUIRED_INCLUDES "${TIDU_XBYAK_INCLUDE_DIR}")
    set(CMAKE_REQUIRED_LIBRARIES mvec)
    check_cxx_source_compiles("
      #include <immintrin.h>
      #include <xbyak/xbyak.h>
      extern \"C\" __m256 _ZGVdN8v_erff(__m256);
      int main() {
        Xbyak::CodeGenerator generator;
        return generator.getVersion() != 0 && reinterpret_cast<void*>(&_ZGVdN8v_erff) != nullptr ? 0 : 1;
      }" TIDU_LANES_WORK)
    unset(CMAKE_REQUIRED_INCLUDES)
    unset(CMAKE_REQUIRED_LIBRARIES)
    set(lanes "${TIDU_LANES_WORK}")
  endif()
endif()
if(lanes)
  set_property(SOURCE "${CMAKE_CURRENT_LIST_DIR}/fusion/vector_x86.cpp" "${CMAKE_CURRENT_LIST_DIR}/fusion/vector_mvec.cpp"
               "${CMAKE_CURRENT_LIST_DIR}/fusion/rows_x86.cpp" "${CMAKE_CURRENT_LIST_DIR}/fusion/straight_line_x86.cpp" APPEND PROPERTY COMPILE_DEFINITIONS TIDU_WITH_LANES)
  target_include_directories(${target} SYSTEM PRIVATE "${TIDU_XBYAK_INCLUDE_DIR}")
  target_link_libraries(${target} PRIVATE mvec)
elseif(TIDU_LANES STREQUAL "ON")
  message(FATAL_ERROR "tidu: expected Xbyak (libxbyak-dev) and glibc's libmvec, as TIDU_LANES is ON; found none that compile and link")
elseif(NOT TIDU_LANES STREQUAL "OFF")
  message(STATUS "tidu: no Xbyak or no libmvec here, so element-wise work runs in loops compiled for every CPU of this architecture")
endif()
