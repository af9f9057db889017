# `cpack -G DEB` in the build folder makes a Debian package of what is installed, libtidu-dev: headers, libraries of the kind that was
# built, the files for CMake and pkg-config, and the command.
set(TIDU_PACKAGE_CONTACT "tidu maintainers <tidu@localhost>" CACHE STRING "Maintainer that a package names")
set(CPACK_PACKAGE_CONTACT "${TIDU_PACKAGE_CONTACT}")
set(CPACK_PACKAGE_NAME libtidu-dev)
set(CPACK_PACKAGE_VENDOR tidu)
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "automatic differentiation that tensor frontends embed")
set(CPACK_PACKAGE_DESCRIPTION
    "tidu is a C++20 library for automatic differentiation. A computation is an\nimmutable graph of primitives; its derivatives of any order are graphs again,\nwhich executors run.")
set(CPACK_RESOURCE_FILE_LICENSE "${PROJECT_SOURCE_DIR}/LICENSE")
set(CPACK_VERBATIM_VARIABLES ON)
set(CPACK_STRIP_FILES ON)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)

set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_RELEASE 1)
set(CPACK_DEBIAN_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS "${PROJECT_BINARY_DIR}")
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ${BUILD_SHARED_LIBS})
set(CPACK_DEBIAN_PACKAGE_SUGGESTS "cmake, pkgconf, libeigen3-dev, libboost-graph-dev")
# Programs link what a static library needs themselves.
if(TARGET tidu_cpu AND NOT BUILD_SHARED_LIBS)
  get_target_property(linked tidu_cpu LINK_LIBRARIES)
  if(linked MATCHES "dnnl")
    set(CPACK_DEBIAN_PACKAGE_DEPENDS libdnnl-dev)
  endif()
endif()
include(CPack)
