// A loader: open, iterate, move, pin, close.
#include <nanobind/nanobind.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "bind.h"
#include "feedback/reporter.h"
#include "load/background_collection.h"
#include "load/loader.h"
#include "load/position_report.h"
#include "raise.h"
#include "session.h"
#include "step_view.h"
#include "stream/mixture_object.h"

namespace headrace::python {
namespace {

Duration SecondsOf(double seconds) {
  // About 100 years are for ever.
  return seconds > 3e9 ? Duration::max() : std::chrono::duration_cast<Duration>(std::chrono::duration<double>(seconds));
}

const char* KindName(Column::Kind kind) {
  switch (kind) {
    case Column::kArray: return "array";
    case Column::kRagged: return "ragged";
    case Column::kBytes: return "bytes";
  }
  return "";
}

class PyLoader {
 public:
  PyLoader(const std::string& uri, StorageOptions storage, uint64_t window, double timeout, double warn_after,
           std::optional<std::pair<double, double>> slow)
      : session_(std::make_unique<Session>("loader")), timeout_(SecondsOf(timeout)) {
    std::optional<SlowOptions> like;
    if (slow) {
      like.emplace();
      like->get = like->list = SecondsOf(slow->first);
      like->connection_bytes_per_second = slow->second;
    }
    Session* session = session_.get();
    // The session outlives the work, which runs on its threads.
    log_ = ValueOrRaise(session_->Wait<std::shared_ptr<StreamLog>>(
        timeout_,
        [session, uri, storage, like](const Deadline& deadline) { return session->Open(uri, storage, deadline, like); }));
    LoaderOptions options;
    options.window_bytes = window;
    options.timeout = timeout_;
    options.warn_after = SecondsOf(warn_after);
    options.lanes = {0, log_->info().lanes};
    packed_ = std::make_shared<const std::optional<PackedColumns>>(PackedColumns::Find(log_->info().columns));
    loader_ = std::make_shared<Loader>(log_, options, session_->executor());
  }

  ~PyLoader() {
    if (session_->forked()) {
      // The parent's threads may have held any of its locks when the child came to be.
      static_cast<void>(new std::shared_ptr<Loader>(std::move(loader_)));
      static_cast<void>(new std::shared_ptr<StreamLog>(std::move(log_)));
      static_cast<void>(new std::shared_ptr<BackgroundCollection>(std::move(collection_)));
      static_cast<void>(new std::shared_ptr<PositionReport>(std::move(report_)));
      static_cast<void>(new std::shared_ptr<Reporter>(std::move(reporter_)));
      return;
    }
    Close(1, 1);
  }

  Loader& use() const {
    session_->Check();
    return *loader_;
  }

  nb::object Next() {
    while (true) {
      Loader& loader = use();
      Result<Loader::Turn> turn = Status(Code::kInternal, "");
      {
        nb::gil_scoped_release released;
        std::shared_ptr<Loader> held = loader_;
        turn = held->Next(RealClock().Now() + kSlice);
      }
      static_cast<void>(loader);
      if (!turn.ok()) Raise(turn.status());
      switch (turn->kind) {
        case Loader::Turn::kStep: return nb::cast(StepView{*std::move(turn->step), packed_, pool_});
        case Loader::Turn::kEnd: return nb::none();
        case Loader::Turn::kNotYet:
          if (PyErr_CheckSignals() != 0) throw nb::python_error();
      }
    }
  }

  StepView Read(uint64_t number) {
    use();
    return {ValueOrRaise(session_->Wait<Step>(
                timeout_, [loader = loader_, number](const Deadline& deadline) { return loader->Read(number, deadline); })),
            packed_, pool_};
  }

  std::optional<uint64_t> Length() {
    use();
    return ValueOrRaise(session_->Wait<std::optional<uint64_t>>(
        timeout_, [loader = loader_](const Deadline& deadline) { return loader->Length(deadline); }));
  }

  // What is known without asking the store; nothing if the stream was not sealed when it was last looked at.
  std::optional<uint64_t> KnownLength() {
    use();
    StreamLog::StatePtr state = log_->known();
    return state->manifest.finished ? std::optional(state->manifest.frontier_step) : std::nullopt;
  }

  // A closed one still has its numbers; in a child of the process that opened it, they would be those of another process.
  void CheckNotForked() const {
    if (session_->forked()) session_->Check();
  }

  void Pin(const std::string& name, uint64_t step) {
    use();
    ValueOrRaise(session_->Wait<bool>(timeout_, [loader = loader_, name, step](const Deadline& deadline) -> Result<bool> {
      HR_RETURN_IF_ERROR(loader->Pin(name, step, deadline));
      return true;
    }));
  }

  bool Unpin(const std::string& name) {
    use();
    return ValueOrRaise(session_->Wait<bool>(
        timeout_, [loader = loader_, name](const Deadline& deadline) { return loader->Unpin(name, deadline); }));
  }

  // Name, step, whether it stays until it is taken away, and a number that is greater for those that were made later.
  std::vector<std::tuple<std::string, uint64_t, bool, uint64_t>> Pins() {
    use();
    std::vector<headrace::Pin> pins = ValueOrRaise(session_->Wait<std::vector<headrace::Pin>>(
        timeout_, [loader = loader_](const Deadline& deadline) { return loader->Pins(deadline); }));
    std::vector<std::tuple<std::string, uint64_t, bool, uint64_t>> rows;
    for (const headrace::Pin& pin : pins) rows.emplace_back(pin.name, pin.step, pin.term_seconds == 0, pin.counter);
    return rows;
  }

  std::optional<nb::bytes> ReadObject(const std::string& key) {
    use();
    auto object = ValueOrRaise(session_->Wait<std::optional<Object>>(
        timeout_, [log = log_, key](const Deadline& deadline) { return log->store().Get(key, deadline); }));
    if (!object) return std::nullopt;
    return nb::bytes(object->bytes.data(), object->bytes.size());
  }

  nb::bytes ReadMixture(uint32_t number) {
    use();
    auto object = ValueOrRaise(session_->Wait<MixtureObject>(
        timeout_, [log = log_, number](const Deadline& deadline) { return ReadMixtureObject(*log, number, deadline); }));
    return nb::bytes(object.bytes.data(), object.bytes.size());
  }

  void ReportPosition(const std::string& id, const std::string& reader, double every_seconds) {
    use();
    if (!report_)
      report_ = PositionReport::Start(log_, session_->executor(), {id, reader, SecondsOf(every_seconds)},
                                      [loader = loader_] { return loader->cursor(); });
  }

  // Whose reports those are that come from now on.
  void ReportAs(const std::string& reader, MeshCoordinates mesh, std::optional<double> every_seconds) {
    use();
    uint64_t processes = 1;
    for (const auto& [_, place] : mesh) processes *= place.second;
    mesh_ = std::move(mesh);
    if (reporter_) return;
    Reporter::Options options;
    options.reader = reader;
    options.every = every_seconds ? SecondsOf(*every_seconds) : Reporter::EveryFor(processes);
    reporter_ = Reporter::Make(log_, session_->executor(), options);
  }

  void Report(uint64_t step, const std::vector<std::tuple<std::string, double, double>>& loss,
              std::vector<std::pair<std::string, double>> metrics) {
    const LaneRange lanes = use().lanes();
    headrace::Report report;
    report.step = step;
    report.mesh = mesh_;
    const auto cp = mesh_.contains("cp") ? mesh_.at("cp") : std::pair<uint32_t, uint32_t>(0, 1);
    report.share = {lanes.first, lanes.end, cp.first, cp.second};
    report.mixture = loader_->MixtureOf(step);
    for (const auto& [source, sum, count] : loss) report.loss.push_back({source, {sum, count}});
    report.metrics = std::move(metrics);
    Status status;
    {
      nb::gil_scoped_release released;
      status = std::shared_ptr(reporter_)->Add(std::move(report));
    }
    if (!status.ok()) Raise(status);
  }

  Reporter::Counts reports() const { return reporter_ ? reporter_->counts() : Reporter::Counts(); }

  void Collect(double every_seconds, double grace_seconds) {
    use();
    if (!collection_)
      collection_ = BackgroundCollection::Start(log_, session_->executor(), SecondsOf(every_seconds), SecondsOf(grace_seconds));
  }

  void SetHold(bool hold) { use().SetHold(hold); }
  void SetLanes(uint32_t first, uint32_t end) { use().SetLanes({first, end}); }

  void Close(double patience, double report_patience) {
    if (session_->forked()) return;
    std::shared_ptr<Loader> loader = loader_;
    std::shared_ptr<Reporter> reporter = reporter_;
    nb::gil_scoped_release released;
    if (reporter) reporter->Close(SecondsOf(report_patience));
    if (loader) loader->Close(SecondsOf(patience));
    if (collection_) collection_->Stop();
    if (report_) report_->Stop();
    session_->Close();
  }

  bool closed() const { return session_->forked() ? false : loader_->closed(); }
  const StreamInfo& info() const { return log_->info(); }
  std::string Describe() const { return log_->store().Describe(); }
  StreamLog& log() const { return *log_; }
  Loader& loader() const { return *loader_; }

 private:
  std::unique_ptr<Session> session_;  // goes last
  const Duration timeout_;
  std::shared_ptr<StreamLog> log_;
  std::shared_ptr<const std::optional<PackedColumns>> packed_;
  std::shared_ptr<BufferPool> pool_ = BufferPool::Make();
  std::shared_ptr<BackgroundCollection> collection_;
  std::shared_ptr<PositionReport> report_;
  std::shared_ptr<Reporter> reporter_;
  MeshCoordinates mesh_;
  std::shared_ptr<Loader> loader_;
};

nb::dict InfoOf(const PyLoader& loader) {
  const StreamInfo& info = loader.info();
  nb::list columns;
  size_t index = 0;
  for (const Column& column : info.columns) {
    columns.append(nb::make_tuple(nb::str(column.name.c_str()),
                                  nb::str(DtypeName(column.dtype).data(), DtypeName(column.dtype).size()),
                                  nb::str(KindName(column.kind)), index));
    index += static_cast<size_t>(column.arrays());
  }
  nb::dict fields;
  fields["uuid"] = nb::str(UuidText(info.uuid).c_str());
  fields["uri"] = nb::str(loader.Describe().c_str());
  fields["lanes"] = info.lanes;
  fields["strands"] = info.strands;
  fields["columns"] = columns;
  fields["packed"] = PackedColumns::Find(info.columns).has_value();
  fields["recipe"] = nb::str(info.recipe.c_str());
  return fields;
}

nb::dict Stats(const PyLoader& loader) {
  loader.CheckNotForked();
  nb::dict stats;
  for (const auto& [name, value] : loader.loader().Stats()) stats[name.c_str()] = value;
  const Reporter::Counts reports = loader.reports();
  stats["reports"] = static_cast<double>(reports.reports);
  stats["reports_written"] = static_cast<double>(reports.written);
  stats["reports_waiting"] = static_cast<double>(reports.waiting);
  stats["reports_dropped"] = static_cast<double>(reports.dropped);
  stats["report_failures"] = static_cast<double>(reports.failures);
  stats["reported_step"] = static_cast<double>(reports.last_step);
  return stats;
}

}  // namespace

void BindLoader(nb::module_& module) {
  nb::class_<PyLoader>(module, "Loader")
      .def(nb::init<const std::string&, StorageOptions, uint64_t, double, double, std::optional<std::pair<double, double>>>(),
           nb::arg("uri"), nb::arg("storage_options"), nb::arg("window_bytes"), nb::arg("timeout"), nb::arg("warn_after"),
           nb::arg("slow").none())
      .def("info", InfoOf)
      .def("next", &PyLoader::Next)
      .def("read", &PyLoader::Read, nb::arg("step"))
      .def("length", &PyLoader::Length)
      .def_prop_ro("known_length", &PyLoader::KnownLength)
      .def("check", [](const PyLoader& self) { self.use(); })
      .def_prop_ro("cursor", [](const PyLoader& self) { return self.use().cursor(); })
      .def(
          "seek", [](const PyLoader& self, uint64_t step) { self.use().Seek(step); }, nb::arg("step"))
      .def(
          "skip", [](const PyLoader& self, uint64_t first, uint64_t end) { self.use().Skip(first, end); }, nb::arg("first"),
          nb::arg("end"))
      .def_prop_ro("skipped", [](const PyLoader& self) { return self.use().skipped().ranges(); })
      .def("set_lanes", &PyLoader::SetLanes, nb::arg("first"), nb::arg("end"))
      .def("set_hold", &PyLoader::SetHold, nb::arg("hold"))
      .def("pin", &PyLoader::Pin, nb::arg("name"), nb::arg("step"))
      .def("unpin", &PyLoader::Unpin, nb::arg("name"))
      .def("pins", &PyLoader::Pins)
      .def("read_object", &PyLoader::ReadObject, nb::arg("key"))
      .def("read_mixture", &PyLoader::ReadMixture, nb::arg("number"))
      .def("report_position", &PyLoader::ReportPosition, nb::arg("id"), nb::arg("reader"), nb::arg("every"))
      .def("report_as", &PyLoader::ReportAs, nb::arg("reader"), nb::arg("mesh"), nb::arg("every").none())
      .def("report", &PyLoader::Report, nb::arg("step"), nb::arg("loss"), nb::arg("metrics"))
      .def("collect", &PyLoader::Collect, nb::arg("every"), nb::arg("grace"))
      .def("stats", Stats)
      .def_prop_ro("closed", &PyLoader::closed)
      .def("close", &PyLoader::Close, nb::arg("patience"), nb::arg("report_patience") = 0.0);
}

}  // namespace headrace::python
