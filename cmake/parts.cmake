# External libraries. The names of their Debian packages are in cmake/packages.txt.
find_package(PkgConfig REQUIRED)
find_package(Threads REQUIRED)
find_package(ZLIB REQUIRED)
pkg_check_modules(PCRE2 REQUIRED IMPORTED_TARGET libpcre2-8)
pkg_check_modules(UTF8PROC REQUIRED IMPORTED_TARGET libutf8proc)
pkg_check_modules(MICROHTTPD REQUIRED IMPORTED_TARGET libmicrohttpd) # of the server; only the program links it
find_path(RANDOM123_INCLUDE_DIR Random123/philox.h REQUIRED) # headers only

add_library(bochner_parts INTERFACE)
target_include_directories(bochner_parts SYSTEM INTERFACE ${RANDOM123_INCLUDE_DIR})

set(BOCHNER_HAVE_XSMM FALSE)
if(BOCHNER_XSMM)
  pkg_check_modules(XSMM IMPORTED_TARGET libxsmm)
  find_library(XSMM_NO_BLAS xsmmnoblas HINTS ${XSMM_LIBRARY_DIRS}) # replaces the BLAS required by LIBXSMM
  mark_as_advanced(XSMM_NO_BLAS)
  if(XSMM_FOUND AND XSMM_NO_BLAS)
    set(BOCHNER_HAVE_XSMM TRUE)
  endif()
endif()
target_link_libraries(bochner_parts INTERFACE PkgConfig::PCRE2 PkgConfig::UTF8PROC ZLIB::ZLIB
                      Threads::Threads m)

set(BOCHNER_HAVE_MPI FALSE)
if(BOCHNER_MPI)
  find_package(MPI COMPONENTS C QUIET)
  set(BOCHNER_HAVE_MPI ${MPI_C_FOUND})
endif()

# nvcc, for the plugin for GPUs. Machine code for Ampere (80) and Hopper (90a), and PTX for later ones.
set(BOCHNER_HAVE_CUDA FALSE)
if(BOCHNER_CUDA AND NOT BOCHNER_SANITIZE)
  include(CheckLanguage)
  find_program(BOCHNER_NVCC nvcc HINTS /usr/local/cuda/bin)
  if(BOCHNER_NVCC)
    set(CMAKE_CUDA_COMPILER ${BOCHNER_NVCC})
    if(NOT CMAKE_CUDA_ARCHITECTURES)
      set(CMAKE_CUDA_ARCHITECTURES 80-real 90a-real 90-virtual)
    endif()
    enable_language(CUDA)
    find_package(CUDAToolkit REQUIRED)
    set(BOCHNER_HAVE_CUDA TRUE)
  endif()
endif()

# The same libraries as plain names, for programs that link the installed static library: they need the packages, but
# not these CMake targets.
set(BOCHNER_PART_NAMES pcre2-8 utf8proc z pthread m)
