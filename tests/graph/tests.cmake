# The page in which a browser shows a graph: its scripts where node is, all of it where Chromium is.
find_program(TIDU_NODE NAMES node nodejs)
find_program(TIDU_CHROMIUM NAMES chromium chromium-browser google-chrome)
mark_as_advanced(TIDU_NODE TIDU_CHROMIUM)
if(TARGET tidu_command AND NOT TIDU_SANITIZE)
  set(page "${PROJECT_BINARY_DIR}/view_page.html")
  add_test(NAME view_page COMMAND sh -c "\"$<TARGET_FILE:tidu_command>\" dump \"${PROJECT_SOURCE_DIR}/examples/data/readme/f.json\" \
--stage transposed --format html > \"${page}\"")
  set_tests_properties(view_page PROPERTIES FIXTURES_SETUP view_page)
  if(TIDU_NODE)
    add_test(NAME view_scripts COMMAND ${TIDU_NODE} "${CMAKE_CURRENT_LIST_DIR}/view.js" "${PROJECT_SOURCE_DIR}/src/graph/view" "${page}")
    set_tests_properties(view_scripts PROPERTIES FIXTURES_REQUIRED view_page)
  endif()
  if(TIDU_CHROMIUM)
    # 77: the browser itself does not run here
    add_test(NAME view_in_browser COMMAND sh -c "timeout 100 \"${TIDU_CHROMIUM}\" --headless --no-sandbox --disable-gpu --virtual-time-budget=20000 \
--user-data-dir=\"${PROJECT_BINARY_DIR}/view_profile\" --dump-dom \"file://${page}\" > \"${page}.dom\" 2>/dev/null; \
grep -q '<canvas' \"${page}.dom\" || exit 77; grep -q 'data-view=.10 operations, 17 nodes' \"${page}.dom\"")
    set_tests_properties(view_in_browser PROPERTIES FIXTURES_REQUIRED view_page SKIP_RETURN_CODE 77 TIMEOUT 120)
  endif()
endif()
