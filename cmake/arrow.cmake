# Arrow and Parquet out of the pyarrow wheel: its headers and libraries are all that is needed, and a process that also imports pyarrow
# maps one libarrow. Defines the target headrace_arrow, HEADRACE_ARROW_DIR, the folder to find the libraries in at run time, and
# HEADRACE_ARROW_VERSION, the end of their names.

find_package(Python 3.10 COMPONENTS Interpreter REQUIRED)
execute_process(COMMAND ${Python_EXECUTABLE} -c
                        "import pyarrow; print(pyarrow.get_library_dirs()[0]); print(pyarrow.get_include()); print(pyarrow.cpp_build_info.so_version)"
                OUTPUT_VARIABLE found RESULT_VARIABLE status OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
if(NOT status EQUAL 0)
  message(FATAL_ERROR "HEADRACE_LAKE needs the Python package pyarrow in ${Python_EXECUTABLE}: `pip install pyarrow`, name another "
                      "interpreter by -DPython_EXECUTABLE=…, or build without the parts that read a lake by -DHEADRACE_LAKE=OFF")
endif()
string(REPLACE "\n" ";" found "${found}")
list(GET found 0 HEADRACE_ARROW_DIR)
list(GET found 1 arrow_include)
list(GET found 2 HEADRACE_ARROW_VERSION)

add_library(headrace_arrow INTERFACE)
target_include_directories(headrace_arrow SYSTEM INTERFACE ${arrow_include})
foreach(name arrow parquet arrow_compute)
  set(file ${HEADRACE_ARROW_DIR}/lib${name}.so.${HEADRACE_ARROW_VERSION})
  if(EXISTS ${file})
    add_library(headrace_lib${name} SHARED IMPORTED)
    set_target_properties(headrace_lib${name} PROPERTIES IMPORTED_LOCATION ${file})
    target_link_libraries(headrace_arrow INTERFACE headrace_lib${name})
  endif()
endforeach()
