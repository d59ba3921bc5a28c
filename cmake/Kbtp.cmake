# What every room's CMakeLists.txt uses: compiler settings, kbtp_library, kbtp_test, kbtp_fuzzer.
include(GNUInstallDirs)

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()

find_program(KBTP_CCACHE ccache)
if(KBTP_CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${KBTP_CCACHE})
endif()

add_library(kbtp_flags INTERFACE)
target_include_directories(kbtp_flags INTERFACE $<BUILD_INTERFACE:${CMAKE_SOURCE_DIR}>
                                                $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}/kbtp>)
target_compile_features(kbtp_flags INTERFACE cxx_std_20)
# Warnings and sanitizers are ours, not those of a project that links the installed package.
add_compile_options(-Wall -Wextra -Wpedantic -Wshadow -Wnon-virtual-dtor)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  add_compile_options(-Wno-restrict)  # GCC bug 105651: false alarms inside std::string operator+
endif()
if(KBTP_WERROR)
  add_compile_options(-Werror)
endif()
if(KBTP_SANITIZE)
  add_compile_options(-fsanitize=${KBTP_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all -g1)
  add_link_options(-fsanitize=${KBTP_SANITIZE})
  if(KBTP_SANITIZE MATCHES "thread" AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    add_compile_options(-Wno-tsan)  # std::atomic_thread_fence inside libraries' headers
  endif()
endif()

find_package(Threads REQUIRED)
if(KBTP_TESTS)
  enable_testing()
  find_package(GTest REQUIRED)
  find_package(Python3 REQUIRED COMPONENTS Interpreter)
  include(GoogleTest)
endif()

# kbtp_library(ROOM SOURCES file... [DEPS target...] [PRIVATE_DEPS target...])
#
# The static library kbtp_ROOM. With KBTP_MUTANT its twin kbtp_ROOM_mutant is compiled with faults
# (base/fault.h) switched on; DEPS named kbtp_* are replaced by their twins there.
function(kbtp_library room)
  cmake_parse_arguments(A "" "" "SOURCES;DEPS;PRIVATE_DEPS" ${ARGN})
  add_library(kbtp_${room} STATIC ${A_SOURCES})
  add_library(kbtp::${room} ALIAS kbtp_${room})
  set_target_properties(kbtp_${room} PROPERTIES EXPORT_NAME ${room})
  target_link_libraries(kbtp_${room} PUBLIC kbtp_flags Threads::Threads ${A_DEPS} PRIVATE ${A_PRIVATE_DEPS})
  if(KBTP_MUTANT)
    add_library(kbtp_${room}_mutant STATIC EXCLUDE_FROM_ALL ${A_SOURCES})
    target_compile_definitions(kbtp_${room}_mutant PUBLIC KBTP_FAULTS=1)
    list(TRANSFORM A_DEPS REPLACE "^(kbtp_[a-z]+)$" "\\1_mutant")
    target_link_libraries(kbtp_${room}_mutant PUBLIC kbtp_flags Threads::Threads ${A_DEPS}
                                              PRIVATE ${A_PRIVATE_DEPS})
  endif()
endfunction()

# kbtp_quick_sanitized(TARGET...)
#
# Sanitizers triple what a file's optimisation costs, and most of our files are tests and subcommands that run once:
# with a sanitizer these are compiled without; what they test is optimised as ever.
function(kbtp_quick_sanitized)
  if(KBTP_SANITIZE)
    foreach(target ${ARGN})
      target_compile_options(${target} PRIVATE -O0)
    endforeach()
  endif()
endfunction()

# kbtp_test(NAME LABEL label SOURCES file... DEPS target... [TIMEOUT s] [ONE_THREAD])
#
# One GoogleTest executable; each of its tests is a ctest with that label (unit, wire, sim, fuzz, interop, e2e).
# ONE_THREAD: codecs and state machines, nothing that ThreadSanitizer could find, so it is not built for it.
function(kbtp_test name)
  cmake_parse_arguments(A "ONE_THREAD" "LABEL;TIMEOUT" "SOURCES;DEPS" ${ARGN})
  if(NOT KBTP_TESTS OR (A_ONE_THREAD AND KBTP_SANITIZE MATCHES "thread"))
    return()
  endif()
  if(NOT A_TIMEOUT)
    set(A_TIMEOUT 120)
  endif()
  add_executable(${name} ${A_SOURCES})
  target_link_libraries(${name} PRIVATE ${A_DEPS} GTest::gmock GTest::gtest_main)
  kbtp_quick_sanitized(${name})
  gtest_discover_tests(${name} NO_PRETTY_VALUES DISCOVERY_TIMEOUT 60 PROPERTIES LABELS ${A_LABEL} TIMEOUT ${A_TIMEOUT})
endfunction()

# kbtp_fuzzer(NAME SOURCES file... DEPS target...)
#
# With KBTP_FUZZ a libFuzzer executable fuzz_NAME. Its corpus lives in fuzz/corpus/NAME and is replayed as a test in
# every build (the same LLVMFuzzerTestOneInput linked with fuzz/replay_main.cc).
function(kbtp_fuzzer name)
  cmake_parse_arguments(A "" "" "SOURCES;DEPS" ${ARGN})
  if(KBTP_FUZZ)
    add_executable(fuzz_${name} ${A_SOURCES})
    target_link_libraries(fuzz_${name} PRIVATE ${A_DEPS})
    target_link_options(fuzz_${name} PRIVATE -fsanitize=fuzzer)
  elseif(KBTP_TESTS)
    add_executable(replay_${name} ${A_SOURCES} ${CMAKE_SOURCE_DIR}/fuzz/replay_main.cc)
    target_link_libraries(replay_${name} PRIVATE ${A_DEPS})
    add_test(NAME corpus.${name} COMMAND replay_${name} ${CMAKE_SOURCE_DIR}/fuzz/corpus/${name})
    set_tests_properties(corpus.${name} PROPERTIES LABELS fuzz TIMEOUT 120)
  endif()
endfunction()
