# What only the CPU executor needs: Eigen, which is headers, and for the products code that keeps tiles in registers: loops over a
# tile unrolled, multiply and add fused where the instruction set can, in every type of build.
find_package(Eigen3 3.4 REQUIRED NO_MODULE)
target_link_libraries(${target} PRIVATE $<BUILD_INTERFACE:Eigen3::Eigen>)

file(GLOB gemm_sources CONFIGURE_DEPENDS "${CMAKE_CURRENT_LIST_DIR}/gemm_*.cpp")
set_property(SOURCE ${gemm_sources} APPEND PROPERTY COMPILE_OPTIONS -O3 -ffp-contract=fast)

# Loops over elements are vectorised from -O3 on; nobody reads errno or floating-point flags here, and results do not depend on either.
foreach(kernels unary binary comparison ternary convert transcendental constants strided reduce scan indexing)
  set_property(SOURCE "${CMAKE_CURRENT_LIST_DIR}/${kernels}.cpp" APPEND PROPERTY COMPILE_OPTIONS
               "$<$<NOT:$<CONFIG:Debug>>:-O3>" -fno-math-errno -fno-trapping-math)
endforeach()
