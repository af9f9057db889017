# Makes find_package find the headers of Boost, nlohmann-json and Eigen in the packages that tidu_backend.py asks pip for, if they are
# installed; if not, CMake looks for them in its usual way.
execute_process(COMMAND "${Python_EXECUTABLE}" "${CMAKE_CURRENT_LIST_DIR}/tidu_backend.py" OUTPUT_STRIP_TRAILING_WHITESPACE
                OUTPUT_VARIABLE found ERROR_QUIET)
set(target_of_Boost Boost::headers)
set(target_of_nlohmann_json nlohmann_json::nlohmann_json)
set(target_of_Eigen3 Eigen3::Eigen)
string(REPLACE "\n" ";" found "${found}")
foreach(line IN LISTS found)
  string(REGEX MATCH "^([^ ]+) ([^ ]+) (.+)$" matched "${line}")
  set(name ${CMAKE_MATCH_1})
  set(target ${target_of_${name}})
  message(STATUS "tidu: ${name} ${CMAKE_MATCH_2} of the environment of the build")
  file(WRITE "${CMAKE_FIND_PACKAGE_REDIRECTS_DIR}/${name}Config.cmake"
       "if(NOT TARGET ${target})\n  add_library(${target} INTERFACE IMPORTED GLOBAL)\n"
       "  target_include_directories(${target} SYSTEM INTERFACE [[${CMAKE_MATCH_3}]])\nendif()\n")
  file(WRITE "${CMAKE_FIND_PACKAGE_REDIRECTS_DIR}/${name}ConfigVersion.cmake" "set(PACKAGE_VERSION ${CMAKE_MATCH_2})\nset(PACKAGE_VERSION_COMPATIBLE TRUE)\n")
endforeach()
