# `cmake --install`: library, header, tool, templates, shipped database, CMake package config, pkg-config file.
# Nothing installed names the prefix, so that the tree may be moved.
include(CMakePackageConfigHelpers)
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/mlpbwd)
set(data_dir ${CMAKE_INSTALL_DATADIR}/mlpbwd)

# Where the library and the tool look for what ships, seen from their own folders.
foreach(folder LIBDIR BINDIR)
  if(IS_ABSOLUTE "${CMAKE_INSTALL_DATADIR}" OR IS_ABSOLUTE "${CMAKE_INSTALL_${folder}}")
    set(path "${CMAKE_INSTALL_FULL_DATADIR}/mlpbwd")
  else()
    file(RELATIVE_PATH path "/prefix/${CMAKE_INSTALL_${folder}}" "/prefix/${data_dir}")
  endif()
  target_compile_definitions(mlpbwd_runtime PRIVATE MLPBWD_DATA_FROM_${folder}="${path}")
  target_compile_definitions(mlpbwd_generator PRIVATE MLPBWD_DATA_FROM_${folder}="${path}")
endforeach()

add_library(mlpbwd::mlpbwd ALIAS mlpbwd)
target_include_directories(mlpbwd INTERFACE $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
install(TARGETS mlpbwd EXPORT mlpbwd-targets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(TARGETS mlpbwd_tool RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(FILES runtime/include/mlpbwd.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(DIRECTORY templates/ DESTINATION ${data_dir}/templates)
install(FILES bench/peers_torch.py DESTINATION ${data_dir}/bench) # `mlpbwd bench --peers` looks beside the templates
if(MLPBWD_SHIP_DATABASE)
  install(FILES ${shipped_database} DESTINATION ${data_dir})
endif()

install(EXPORT mlpbwd-targets NAMESPACE mlpbwd:: DESTINATION ${package_dir})
configure_package_config_file(cmake/mlpbwdConfig.cmake.in ${CMAKE_BINARY_DIR}/cmake/mlpbwdConfig.cmake
  INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(${CMAKE_BINARY_DIR}/cmake/mlpbwdConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/cmake/mlpbwdConfig.cmake ${CMAKE_BINARY_DIR}/cmake/mlpbwdConfigVersion.cmake
  DESTINATION ${package_dir})

# Folders in the .pc file are relative to the file itself, unless the packager gave absolute ones.
if(IS_ABSOLUTE "${CMAKE_INSTALL_LIBDIR}")
  set(pc_prefix "${CMAKE_INSTALL_PREFIX}")
  set(pc_libdir "${CMAKE_INSTALL_LIBDIR}")
else()
  file(RELATIVE_PATH pc_up "/prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig" "/prefix")
  string(REGEX REPLACE "/$" "" pc_up "${pc_up}")
  set(pc_prefix "\${pcfiledir}/${pc_up}")
  set(pc_libdir "\${prefix}/${CMAKE_INSTALL_LIBDIR}")
endif()
if(IS_ABSOLUTE "${CMAKE_INSTALL_INCLUDEDIR}")
  set(pc_includedir "${CMAKE_INSTALL_INCLUDEDIR}")
else()
  set(pc_includedir "\${prefix}/${CMAKE_INSTALL_INCLUDEDIR}")
endif()
configure_file(cmake/mlpbwd.pc.in ${CMAKE_BINARY_DIR}/cmake/mlpbwd.pc @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/cmake/mlpbwd.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
