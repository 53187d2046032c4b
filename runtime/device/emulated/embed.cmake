# Header texts of emulated kernels become C arrays, so that the library needs no file for them.
set(folder ${CMAKE_CURRENT_LIST_DIR})
file(GLOB others CONFIGURE_DEPENDS ${folder}/kernel/*.hpp)
set(first api.h kernel/cuda.hpp kernel/math.hpp kernel/hooks.hpp)
list(TRANSFORM first PREPEND ${folder}/)
set(last ${folder}/kernel/entry.hpp)
list(REMOVE_ITEM others ${first} ${last})
list(SORT others)
set(arrays "")
set(rows "")
foreach(header IN LISTS first others last)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${header})
  get_filename_component(name ${header} NAME)
  string(MAKE_C_IDENTIFIER ${name} symbol)
  file(READ ${header} bytes HEX)
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${bytes}")
  string(APPEND arrays "static const char ${symbol}[] = {${bytes}0};\n")
  string(APPEND rows "    {\"mlpbwd_${name}\", ${symbol}},\n")
endforeach()
set(emulated_headers ${CMAKE_CURRENT_BINARY_DIR}/emulated_headers.c)
file(CONFIGURE OUTPUT ${emulated_headers} @ONLY CONTENT
"#include \"device/emulated/kernel_source.h\"
@arrays@
const emulated_header emulated_headers[] = {
@rows@    {0, 0}};
")
