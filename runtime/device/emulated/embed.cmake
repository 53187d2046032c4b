# Header texts of emulated kernels become C arrays, so that the library needs no file for them.
set(folder ${CMAKE_CURRENT_LIST_DIR})
file(GLOB others CONFIGURE_DEPENDS ${folder}/kernel/*.hpp)
set(first api.h kernel/cuda.hpp kernel/math.hpp kernel/hooks.hpp)
list(TRANSFORM first PREPEND ${folder}/)
set(last ${folder}/kernel/entry.hpp)
list(REMOVE_ITEM others ${first} ${last})
list(SORT others)
set(emulated_headers ${CMAKE_CURRENT_BINARY_DIR}/emulated_headers.c)
embed_texts(${emulated_headers} device/emulated/kernel_source.h "emulated_header emulated_headers" mlpbwd_ ${first} ${others}
  ${last})
