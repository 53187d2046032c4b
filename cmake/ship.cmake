# The shipped database: made by the tool itself from the reviewable text in tuning_db/winners and from the templates.
# Without NVRTC the tool leaves out the CUDA machine code and says so; the build goes on.
set(shipped_database ${CMAKE_BINARY_DIR}/share/mlpbwd/mlpbwd.sqlite)
if(MLPBWD_SHIP_DATABASE)
  file(GLOB winners CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tuning_db/winners/*.json)
  file(GLOB_RECURSE template_files CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/templates/*)
  add_custom_command(OUTPUT ${shipped_database}
    COMMAND ${CMAKE_COMMAND} -E make_directory ${CMAKE_BINARY_DIR}/share/mlpbwd
    COMMAND ${CMAKE_COMMAND} -E env MLPBWD_COMPILE_CACHE=${MLPBWD_COMPILE_CACHE}
      $<TARGET_FILE:mlpbwd_tool> db ship --templates ${PROJECT_SOURCE_DIR}/templates --output ${shipped_database} ${winners}
    DEPENDS mlpbwd_tool ${winners} ${template_files}
    COMMENT "Building the shipped database" VERBATIM)
  add_custom_target(mlpbwd_database ALL DEPENDS ${shipped_database})
endif()
