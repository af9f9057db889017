# How libraries and programs are made from folders. Sources are globbed, so that adding a file needs no edit here.

# tidu_add_library(NAME MODULES module... [DEPS name...] [PRIVATE_HEADERS target...] [C_INTERFACE])
# Makes tidu_NAME, alias tidu::NAME, of MODULE/*.cpp and MODULE/*/*.cpp in src/ or backends/. A library without sources is not made,
# and a dependency that was not made is not linked. Files named *_avx2.cpp and *_avx512.cpp are compiled for those
# instruction sets on x86 and left out elsewhere: their callers check the processor first. A file
# MODULE/module.cmake, if there is one, is included afterwards with the target's name in `target`.
# With C_INTERFACE it is a shared library in any build, which exports the names tidu_* alone and needs no C++ in its users.
function(tidu_add_library name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "C_INTERFACE" "" "MODULES;DEPS;PRIVATE_HEADERS")
  set(sources)
  set(public_headers)
  foreach(module IN LISTS arg_MODULES)
    file(GLOB module_sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/src/${module}/*.cpp" "${PROJECT_SOURCE_DIR}/src/${module}/*/*.cpp"
         "${PROJECT_SOURCE_DIR}/backends/${module}/*.cpp" "${PROJECT_SOURCE_DIR}/backends/${module}/*/*.cpp")
    list(APPEND sources ${module_sources})
  endforeach()
  if(NOT CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64|amd64)$")
    list(FILTER sources EXCLUDE REGEX "_avx(2|512)\\.cpp$")
  endif()
  if(NOT sources)
    return()
  endif()

  set(target tidu_${name})
  set(kind)
  set(map tidu.map)
  set(scope PUBLIC)
  if(arg_C_INTERFACE)
    set(kind SHARED)
    set(map tidu_c.map)
    set(scope PRIVATE)
  endif()
  add_library(${target} ${kind} ${sources})
  add_library(tidu::${name} ALIAS ${target})
  set_target_properties(${target} PROPERTIES EXPORT_NAME ${name} POSITION_INDEPENDENT_CODE ON
                        VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
  tidu_shared_options(${target} ${map})
  target_compile_features(${target} ${scope} cxx_std_20)
  target_include_directories(${target}
    PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>
    PRIVATE ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/backends)
  target_link_libraries(${target} ${scope} Threads::Threads)
  foreach(dep IN LISTS arg_DEPS)
    if(TARGET tidu_${dep})
      target_link_libraries(${target} ${scope} tidu_${dep})
    endif()
  endforeach()
  foreach(package IN LISTS arg_PRIVATE_HEADERS)
    target_link_libraries(${target} PRIVATE $<BUILD_INTERFACE:${package}>)
  endforeach()
  tidu_private_options(${target})
  if(name IN_LIST TIDU_GROUPED_LIBRARIES)
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON)
  endif()
  if(name IN_LIST TIDU_UNOPTIMISED_LIBRARIES)
    target_compile_options(${target} PRIVATE -O0)
  endif()
  if(name IN_LIST TIDU_COVERED_LIBRARIES)
    target_compile_options(${target} PRIVATE ${TIDU_COVERAGE})
  endif()
  foreach(source IN LISTS sources)
    if(source MATCHES "_avx2\\.cpp$")
      set_property(SOURCE ${source} APPEND PROPERTY COMPILE_OPTIONS -mavx2 -mfma)
    elseif(source MATCHES "_avx512\\.cpp$")
      set_property(SOURCE ${source} APPEND PROPERTY COMPILE_OPTIONS
                   -mavx512f -mavx512dq -mavx512bw -mavx512vl -mavx2 -mfma)
    endif()
  endforeach()
  set_property(GLOBAL APPEND PROPERTY TIDU_LIBRARIES ${target})
  foreach(module IN LISTS arg_MODULES)
    include("${PROJECT_SOURCE_DIR}/src/${module}/module.cmake" OPTIONAL)
    include("${PROJECT_SOURCE_DIR}/backends/${module}/module.cmake" OPTIONAL)
  endforeach()
endfunction()

# As a shared library: only the names of the map in cmake/ are shown, all that is used is linked, and libraries find each other in
# their folder. Objects are those of the static library (no EXPORTS definition), so a compiler cache has them for both.
function(tidu_shared_options target map_name)
  get_target_property(type ${target} TYPE)
  if(NOT type STREQUAL "SHARED_LIBRARY")
    return()
  endif()
  set_target_properties(${target} PROPERTIES DEFINE_SYMBOL "" INSTALL_RPATH "$ORIGIN")
  if(CMAKE_EXECUTABLE_FORMAT STREQUAL "ELF")
    set(map "${PROJECT_SOURCE_DIR}/cmake/${map_name}")
    target_link_options(${target} PRIVATE "LINKER:--version-script=${map}")
    set_property(TARGET ${target} APPEND PROPERTY LINK_DEPENDS "${map}")
    if(NOT TIDU_SANITIZE)
      target_link_options(${target} PRIVATE LINKER:--no-undefined)
    endif()
  endif()
endfunction()

# Options for tidu's own files, which never reach a user's build: warnings are private, and errors only on request.
function(tidu_private_options target)
  if(NOT PROJECT_IS_TOP_LEVEL)
    return()
  endif()
  # Where sources are compiled together, the names of one file are no shadows of another's: there only g++ can tell which variables
  # hide others of the same function.
  set(grouped "$<BOOL:$<TARGET_PROPERTY:${target},UNITY_BUILD>>")
  set(local_shadow "$<$<CXX_COMPILER_ID:GNU>:-Wshadow=local>")
  set(flags -Wall -Wextra -Wconversion "$<IF:${grouped},${local_shadow},-Wshadow>")
  if(TIDU_WERROR)
    list(APPEND flags -Werror)
  endif()
  target_compile_options(${target} PRIVATE "$<$<COMPILE_LANGUAGE:CXX>:${flags}>")
endfunction()

# tidu::tidu, which links every library there is.
function(tidu_add_umbrella_target)
  get_property(libraries GLOBAL PROPERTY TIDU_LIBRARIES)
  add_library(tidu INTERFACE)
  add_library(tidu::tidu ALIAS tidu)
  target_compile_features(tidu INTERFACE cxx_std_20)
  target_include_directories(tidu INTERFACE $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
                             $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  target_link_libraries(tidu INTERFACE ${libraries})
  set_property(GLOBAL APPEND PROPERTY TIDU_LIBRARIES tidu)
endfunction()

# tidu_add_program(NAME SOURCES file... DEPS target...): a program of ours, linked to the libraries that it needs and no others.
function(tidu_add_program name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;DEPS")
  add_executable(${name} ${arg_SOURCES})
  target_link_libraries(${name} PRIVATE ${arg_DEPS})
  tidu_private_options(${name})
endfunction()
