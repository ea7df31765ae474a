// headrace._core: what the package's Python stands on. python/headrace/_core.pyi has the signatures.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "base/crc32c.h"
#include "base/metrics.h"
#include "base/size.h"
#include "bind.h"
#include "load/lanes.h"
#include "raise.h"

namespace headrace::python {

NB_MODULE(_core, module) {
  // Objects that live until the interpreter ends are no leak worth a message on a training job's stderr.
  nb::set_leak_warnings(false);
  BindStep(module);
  BindLoader(module);
  BindWriter(module);
  module.def("parse_size", [](const std::string& text) { return ValueOrRaise(ParseSize(text)); });
  module.def("lanes_of_rank", [](uint32_t lanes, uint64_t rank, uint64_t size, bool uneven) {
    LaneRange range = ValueOrRaise(LanesOfRank(lanes, rank, size, uneven));
    return std::pair(range.first, range.end);
  });
  module.def("crc32c", [](nb::ndarray<nb::ro, nb::c_contig, nb::device::cpu> bytes) {
    nb::gil_scoped_release released;
    return Crc32c({static_cast<const std::byte*>(bytes.data()), bytes.nbytes()});
  });
  module.def("prometheus", [] { return Metrics::Default().ToPrometheus(); });
}

}  // namespace headrace::python
