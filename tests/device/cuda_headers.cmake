# test_cuda_api compares the library's own declarations with NVIDIA's headers, where a toolkit is installed.
find_path(MLPBWD_CUDA_INCLUDE cuda.h PATHS /usr/local/cuda/include /opt/cuda/include
  PATH_SUFFIXES include HINTS ENV CUDA_HOME ENV CUDA_PATH)
mark_as_advanced(MLPBWD_CUDA_INCLUDE)
if(MLPBWD_CUDA_INCLUDE AND TARGET test_cuda_api)
  target_include_directories(test_cuda_api SYSTEM PRIVATE ${MLPBWD_CUDA_INCLUDE})
endif()
