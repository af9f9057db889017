# Puts a page together and writes it as a C++ source. Run by the build:
#   cmake -DPAGE=page.html -DSTYLE=style.css -DSCRIPTS=a.js,b.js -DOUTPUT=page.cpp -P TiduEmbed.cmake
# In the page, the line @STYLE@ stands for the style sheet and @SCRIPT@ for the scripts, one after another. The source
# defines tidu::detail::view_page_bytes and view_page_size. The files may contain any bytes, which are written as numbers.
cmake_minimum_required(VERSION 3.25)

file(READ "${PAGE}" page)
file(READ "${STYLE}" style)
string(REPLACE "," ";" scripts "${SCRIPTS}")
set(script "")
foreach(file IN LISTS scripts)
  file(READ "${file}" text)
  string(APPEND script "${text}\n")
endforeach()
string(REPLACE "@STYLE@" "${style}" page "${page}")
string(REPLACE "@SCRIPT@" "${script}" page "${page}")
string(HEX "${page}" bytes)
string(LENGTH "${bytes}" digits)
math(EXPR size "${digits} / 2")
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${bytes}")
string(REGEX REPLACE "((0x[0-9a-f][0-9a-f],)(0x[0-9a-f][0-9a-f],)(0x[0-9a-f][0-9a-f],)(0x[0-9a-f][0-9a-f],))" "\\1\n"
       bytes "${bytes}")
file(WRITE "${OUTPUT}" "// Generated from the files of a page by TiduEmbed.cmake.
#include <cstddef>

namespace tidu::detail {

extern const unsigned char view_page_bytes[];
extern const std::size_t view_page_size;
const unsigned char view_page_bytes[] = {
${bytes}};
const std::size_t view_page_size = ${size};

}  // namespace tidu::detail
")
