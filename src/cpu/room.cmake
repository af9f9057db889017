# What only the CPU executor needs: Eigen, which is headers, and OpenBLAS where it is found (TIDU_CPU_OPENBLAS is 1).
find_package(Eigen3 3.4 REQUIRED NO_MODULE)
target_link_libraries(${target} PRIVATE $<BUILD_INTERFACE:Eigen3::Eigen>)

find_package(OpenBLAS CONFIG QUIET)
if(OpenBLAS_FOUND)
  target_include_directories(${target} SYSTEM PRIVATE ${OpenBLAS_INCLUDE_DIRS})
  target_link_libraries(${target} PRIVATE ${OpenBLAS_LIBRARIES})
  target_compile_definitions(${target} PRIVATE TIDU_CPU_OPENBLAS=1)
else()
  message(STATUS "tidu: no OpenBLAS here, so products run on Eigen alone")
endif()
