# The fixed texts of an exported solution become C arrays, so that the tool needs no file for them.
set(folder ${CMAKE_CURRENT_LIST_DIR}/text)
file(GLOB texts CONFIGURE_DEPENDS ${folder}/*.cpp ${folder}/*.hpp)
list(SORT texts)
set(arrays "")
set(rows "")
foreach(text IN LISTS texts)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${text})
  get_filename_component(name ${text} NAME)
  string(MAKE_C_IDENTIFIER ${name} symbol)
  file(READ ${text} bytes HEX)
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${bytes}")
  string(APPEND arrays "static const char ${symbol}[] = {${bytes}0};\n")
  string(APPEND rows "    {\"${name}\", ${symbol}},\n")
endforeach()
set(export_texts ${CMAKE_CURRENT_BINARY_DIR}/export_texts.c)
file(CONFIGURE OUTPUT ${export_texts} @ONLY CONTENT
"#include \"export_private.h\"
@arrays@
const export_text export_texts[] = {
@rows@    {0, 0}};
")
