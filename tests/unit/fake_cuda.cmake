# The driver that test_device_faults and test_device_sm90 load in place of NVIDIA's: the SONAME is what the library asks the
# loader for.
add_library(fake_cuda SHARED unit/fake_cuda.c)
target_link_libraries(fake_cuda PRIVATE mlpbwd_options)
target_include_directories(fake_cuda PRIVATE ${PROJECT_SOURCE_DIR}/runtime ${PROJECT_SOURCE_DIR}/runtime/include
  ${PROJECT_SOURCE_DIR}/tuning_db)
target_link_options(fake_cuda PRIVATE -Wl,-soname,libcuda.so.1)
set_target_properties(fake_cuda PROPERTIES NO_SONAME ON LIBRARY_OUTPUT_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR})
add_dependencies(test_device_faults fake_cuda)
add_dependencies(test_device_sm90 fake_cuda)
