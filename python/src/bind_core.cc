// headrace._core: what the package's Python stands on. python/headrace/_core.pyi has the signatures.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>
#include <unistd.h>

#include <map>
#include <memory>
#include <mutex>

#include "base/crc32c.h"
#include "base/metrics.h"
#include "base/metrics_server.h"
#include "base/size.h"
#include "bind.h"
#include "load/lanes.h"
#include "raise.h"

namespace headrace::python {

namespace {

// The process's server for this wish: all loaders of a process have one registry, and one server while one of them is open. The port is the wished one
// plus `shift`, or the next free one after it, because the same program runs as several ranks on a machine.
std::shared_ptr<MetricsServer> ServeMetrics(const std::string& wish, uint16_t shift) {
  static std::mutex mutex;
  static auto& servers = *new std::map<std::pair<pid_t, std::string>, std::weak_ptr<MetricsServer>>;
  std::lock_guard lock(mutex);
  std::weak_ptr<MetricsServer>& running = servers[{getpid(), wish}];
  if (std::shared_ptr<MetricsServer> server = running.lock()) return server;
  HostPort at = ValueOrRaise(ParseHostPort(wish));
  if (at.port != 0) at.port = static_cast<uint16_t>(at.port + shift);
  std::shared_ptr<MetricsServer> server = ValueOrRaise(MetricsServer::Start(at, Metrics::Default(), kPortsTried));
  // After a fork the thread is the parent's: nothing may wait for it.
  server = std::shared_ptr<MetricsServer>(server.get(), [server, pid = getpid()](MetricsServer*) mutable {
    if (getpid() != pid) static_cast<void>(new std::shared_ptr<MetricsServer>(server));
    server = nullptr;
  });
  running = server;
  return server;
}

}  // namespace

NB_MODULE(_core, module) {
  // Objects that live until the interpreter ends are no leak worth a message on a training job's stderr.
  nb::set_leak_warnings(false);
  BindStep(module);
  BindLoader(module);
  BindWriter(module);
  module.def("parse_size", [](const std::string& text) { return ValueOrRaise(ParseSize(text)); });
  module.def("parse_duration",
             [](const std::string& text) { return std::chrono::duration<double>(ValueOrRaise(ParseDuration(text))).count(); });
  module.def("lanes_of_rank", [](uint32_t lanes, uint64_t rank, uint64_t size, bool uneven) {
    LaneRange range = ValueOrRaise(LanesOfRank(lanes, rank, size, uneven));
    return std::pair(range.first, range.end);
  });
  module.def("crc32c", [](nb::ndarray<nb::ro, nb::c_contig, nb::device::cpu> bytes) {
    nb::gil_scoped_release released;
    return Crc32c({static_cast<const std::byte*>(bytes.data()), bytes.nbytes()});
  });
  nb::class_<MetricsServer>(module, "MetricsServer").def_prop_ro("url", &MetricsServer::url);
  module.def("serve_metrics", ServeMetrics, nb::arg("at"), nb::arg("shift"));
  module.def("prometheus", [] { return Metrics::Default().ToPrometheus(); });
}

}  // namespace headrace::python
