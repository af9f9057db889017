# Install rules: libraries, public headers, the licence, and the package files for find_package(tidu) and pkg-config.
include(CMakePackageConfigHelpers)

get_property(libraries GLOBAL PROPERTY TIDU_LIBRARIES)
set(package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/tidu")
install(TARGETS ${libraries} EXPORT tiduTargets
        LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(EXPORT tiduTargets NAMESPACE tidu:: DESTINATION ${package_dir})
install(DIRECTORY include/tidu DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.hpp" PATTERN "*.h")
# All that is installed, for builds that make nothing else.
add_custom_target(tidu_installed DEPENDS ${libraries})
if(TARGET tidu_command)
  install(TARGETS tidu_command)
  add_dependencies(tidu_installed tidu_command)
endif()

get_property(TIDU_DEPENDENCIES GLOBAL PROPERTY TIDU_DEPENDENCIES)
list(REMOVE_DUPLICATES TIDU_DEPENDENCIES)
list(TRANSFORM TIDU_DEPENDENCIES REPLACE "(.+)" "find_dependency(\\1)")
list(JOIN TIDU_DEPENDENCIES "\n" TIDU_DEPENDENCIES)
configure_package_config_file(cmake/tiduConfig.cmake.in tiduConfig.cmake INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(tiduConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/tiduConfig.cmake" "${PROJECT_BINARY_DIR}/tiduConfigVersion.cmake"
        DESTINATION ${package_dir})
install(FILES LICENSE DESTINATION "${CMAKE_INSTALL_DATAROOTDIR}/doc/libtidu-dev" RENAME copyright)
include(cmake/TiduPkgConfig.cmake)
if(PROJECT_IS_TOP_LEVEL)
  include(cmake/TiduPackage.cmake)
endif()
