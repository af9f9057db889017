# The page in which a browser shows a graph: the files of view/, put together and made a source at build time.
set(view "${CMAKE_CURRENT_LIST_DIR}/view")
set(view_scripts)
foreach(part IN ITEMS model parts fold scene layout draw panel search interact main)
  list(APPEND view_scripts "${view}/${part}.js")
endforeach()
list(JOIN view_scripts "," view_script_list)
set(view_source "${PROJECT_BINARY_DIR}/generated/view_page_bytes.cpp")
add_custom_command(
  OUTPUT "${view_source}"
  COMMAND ${CMAKE_COMMAND} -DNAMESPACE=tidu::detail -DNAMES=view_page "-DFILES=${view}/page.html" "-DSTYLE=${view}/style.css"
          "-DSCRIPTS=${view_script_list}" "-DOUTPUT=${view_source}" -P "${PROJECT_SOURCE_DIR}/cmake/TiduEmbed.cmake"
  DEPENDS "${view}/page.html" "${view}/style.css" ${view_scripts} "${PROJECT_SOURCE_DIR}/cmake/TiduEmbed.cmake"
  COMMENT "Embedding the page of src/graph/view" VERBATIM)
set_property(SOURCE "${view_source}" PROPERTY SKIP_UNITY_BUILD_INCLUSION ON)
target_sources(${target} PRIVATE "${view_source}")
