# embed_texts(OUTPUT INCLUDED DECLARATION PREFIX FILE...): writes the C file OUTPUT, which includes INCLUDED and defines the
# array DECLARATION of {name, text} rows, ended by {0, 0}: what a program needs of FILE... without the files. A name is
# PREFIX and the file's own.
function(embed_texts output included declaration prefix)
  set(arrays "")
  set(rows "")
  foreach(text IN LISTS ARGN)
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${text})
    get_filename_component(name ${text} NAME)
    string(MAKE_C_IDENTIFIER ${name} symbol)
    file(READ ${text} bytes HEX)
    string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${bytes}")
    string(APPEND arrays "static const char ${symbol}[] = {${bytes}0};\n")
    string(APPEND rows "    {\"${prefix}${name}\", ${symbol}},\n")
  endforeach()
  file(CONFIGURE OUTPUT ${output} @ONLY CONTENT
"#include \"@included@\"
@arrays@
const @declaration@[] = {
@rows@    {0, 0}};
")
endfunction()
