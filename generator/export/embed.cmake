# The fixed texts of an exported solution become C arrays, so that the tool needs no file for them.
file(GLOB texts CONFIGURE_DEPENDS ${CMAKE_CURRENT_LIST_DIR}/text/*.cpp ${CMAKE_CURRENT_LIST_DIR}/text/*.hpp)
list(SORT texts)
set(export_texts ${CMAKE_CURRENT_BINARY_DIR}/export_texts.c)
embed_texts(${export_texts} export_private.h "export_text export_texts" "" ${texts})
