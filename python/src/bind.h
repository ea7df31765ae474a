// One function for each noun that the module has.
#pragma once

#include <nanobind/nanobind.h>

namespace headrace::python {

void BindStep(nanobind::module_& module);
void BindLoader(nanobind::module_& module);
void BindWriter(nanobind::module_& module);

}  // namespace headrace::python
