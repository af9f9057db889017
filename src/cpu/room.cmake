# What only the CPU executor needs: Eigen, which is headers, and for the products code that keeps tiles in registers: loops over a
# tile unrolled, multiply and add fused where the instruction set can, in every type of build.
find_package(Eigen3 3.4 REQUIRED NO_MODULE)
target_link_libraries(${target} PRIVATE $<BUILD_INTERFACE:Eigen3::Eigen>)

file(GLOB gemm_sources CONFIGURE_DEPENDS "${CMAKE_CURRENT_LIST_DIR}/gemm_*.cpp")
set_property(SOURCE ${gemm_sources} APPEND PROPERTY COMPILE_OPTIONS -O3 -ffp-contract=fast)
