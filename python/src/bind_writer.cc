// A writer of steps that come from Python, and the making of a stream for it.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "base/random.h"
#include "base/text.h"
#include "bind.h"
#include "headrace/stream.h"
#include "load/packed.h"
#include "raise.h"
#include "session.h"
#include "stream/appender.h"
#include "stream/cell.h"

namespace headrace::python {
namespace {

using Given = nb::ndarray<nb::ro, nb::c_contig, nb::device::cpu>;
// Name, type, kind.
using ColumnWords = std::vector<std::tuple<std::string, std::string, std::string>>;

std::vector<Column> ColumnsOf(const ColumnWords& words) {
  std::vector<Column> columns;
  for (const auto& [name, type, kind] : words) {
    Column column;
    column.name = name;
    column.dtype = ValueOrRaise(ParseDtype(type));
    column.kind = kind == "ragged" ? Column::kRagged : kind == "bytes" ? Column::kBytes : Column::kArray;
    columns.push_back(std::move(column));
  }
  return columns;
}

class PyWriter {
 public:
  // Opens the stream; makes it if it is not there and `lanes` says how.
  PyWriter(const std::string& uri, StorageOptions storage, uint32_t lanes, uint32_t strands, const std::string& order,
           uint32_t block_steps, const ColumnWords& columns, bool probe, const std::string& source,
           std::optional<uint16_t> strand, bool compress, double timeout)
      : session_(std::make_unique<Session>("writer")),
        timeout_(std::chrono::duration_cast<Duration>(std::chrono::duration<double>(std::min(timeout, 3e9)))) {
    StreamOptions wanted;
    wanted.lanes = lanes;
    wanted.strands = strands;
    wanted.order = order == "planned" ? Order::kPlanned : Order::kArrival;
    wanted.blocks = ValueOrRaise(BlockSizes::FromPhases({{UINT64_MAX, block_steps}}));
    wanted.columns = ColumnsOf(columns);
    wanted.storage = storage;
    wanted.probe = probe;
    AppendOptions options;
    options.source = source;
    options.strand = strand;
    if (compress) options.chunk.codec = Codec::kZstd;
    Session* session = session_.get();
    log_ = ValueOrRaise(session_->Wait<std::shared_ptr<StreamLog>>(
        timeout_, [session, uri, storage, wanted](const Deadline& deadline) -> Result<std::shared_ptr<StreamLog>> {
          Result<std::shared_ptr<StreamLog>> log = session->Open(uri, storage, deadline);
          if (log.code() != Code::kNotFound || wanted.lanes == 0) return log;
          Status created = Stream::Create(uri, wanted, deadline).status();
          // Somebody else may have been quicker.
          if (!created.ok() && created.code() != Code::kConflict) return created;
          return session->Open(uri, storage, deadline);
        }));
    const StreamInfo& info = log_->info();
    if ((lanes != 0 && lanes != info.lanes) || (!wanted.columns.empty() && wanted.columns != info.columns)) {
      Raise(Status(Code::kConflict,
                   Cat("the stream ", log_->store().Describe(), " is there already, with other lanes or columns: ", info.lanes,
                       " lanes, columns ", Names(info))));
    }
    appender_ = std::make_shared<Appender>(log_, options);
    done_ = ValueOrRaise(session_->Wait<uint64_t>(
        timeout_, [appender = appender_](const Deadline& deadline) { return appender->Begin(deadline); }));
  }

  ~PyWriter() {
    if (session_->forked()) {
      static_cast<void>(new std::shared_ptr<Appender>(std::move(appender_)));
      static_cast<void>(new std::shared_ptr<StreamLog>(std::move(log_)));
      return;
    }
    Close();
  }

  // The arrays of every lane, in the stream's order. Copied: the caller may change them at once.
  void Append(const std::vector<std::vector<Given>>& lanes) {
    session_->Check();
    const StreamInfo& info = log_->info();
    std::vector<Dtype> types;
    for (const Column& column : info.columns) {
      types.push_back(column.dtype);
      if (column.kind != Column::kArray) types.push_back(Dtype::kI64);
    }
    std::optional<PackedColumns> packed = PackedColumns::Find(info.columns);
    std::vector<Body> cells;
    for (size_t lane = 0; lane < lanes.size(); ++lane) {
      CellArrays arrays;
      if (lanes[lane].size() != types.size()) Raise(Status(Code::kInvalidArgument, "a column is missing"));
      for (size_t i = 0; i < types.size(); ++i) {
        const Given& given = lanes[lane][i];
        Array array;
        array.dtype = types[i];
        for (size_t d = 0; d < given.ndim(); ++d) array.shape.push_back(given.shape(d));
        array.bytes = Bytes::Copy({static_cast<const std::byte*>(given.data()), given.nbytes()});
        arrays.push_back(std::move(array));
      }
      cells.push_back(ValueOrRaise(BuildCell(arrays, info.columns)));
      if (!packed) continue;
      if (Status status = CheckPacked(arrays, *packed, Cat("lane ", lane)); !status.ok())
        Raise(Status(Code::kInvalidArgument, status.message()));
    }
    if (cells.size() != info.lanes)
      Raise(Status(Code::kInvalidArgument, Cat("a step has ", info.lanes, " lanes, not ", cells.size())));
    Do([cells = std::move(cells)](Appender& appender, const Deadline& deadline) { return appender.Add(cells, deadline); });
  }

  void Flush() {
    Do([](Appender& appender, const Deadline& deadline) { return appender.Flush(deadline); });
  }
  void Seal() {
    Do([](Appender& appender, const Deadline& deadline) { return appender.Seal(deadline); });
  }
  void Close() {
    if (session_->forked()) return;
    nb::gil_scoped_release released;
    session_->Close();
  }

  uint64_t done() const { return done_ + appender_->appended(); }
  uint64_t waiting() const { return appender_->waiting(); }
  uint64_t steps() const { return log_->known()->manifest.frontier_step; }
  const StreamInfo& info() const { return log_->info(); }

 private:
  static std::string Names(const StreamInfo& info) {
    std::string names;
    for (const Column& column : info.columns) {
      names += Cat(names.empty() ? "" : ", ", column.name, ":", column.kind == Column::kRagged ? "ragged:" : "",
                   column.kind == Column::kBytes ? "bytes" : DtypeName(column.dtype));
    }
    return names;
  }

  void Do(std::function<Status(Appender&, const Deadline&)> work) {
    session_->Check();
    ValueOrRaise(
        session_->Wait<bool>(timeout_, [appender = appender_, work = std::move(work)](const Deadline& deadline) -> Result<bool> {
          HR_RETURN_IF_ERROR(work(*appender, deadline));
          return true;
        }));
  }

  std::unique_ptr<Session> session_;  // goes last
  const Duration timeout_;
  std::shared_ptr<StreamLog> log_;
  std::shared_ptr<Appender> appender_;
  uint64_t done_ = 0;
};

nb::dict InfoOf(const PyWriter& writer) {
  nb::list columns;
  for (const Column& column : writer.info().columns) {
    const char* kind = column.kind == Column::kArray ? "array" : column.kind == Column::kRagged ? "ragged" : "bytes";
    columns.append(nb::make_tuple(nb::str(column.name.c_str()),
                                  nb::str(DtypeName(column.dtype).data(), DtypeName(column.dtype).size()), nb::str(kind)));
  }
  nb::dict fields;
  fields["uuid"] = nb::str(UuidText(writer.info().uuid).c_str());
  fields["lanes"] = writer.info().lanes;
  fields["columns"] = columns;
  return fields;
}

}  // namespace

void BindWriter(nb::module_& module) {
  nb::class_<PyWriter>(module, "Writer")
      .def(nb::init<const std::string&, StorageOptions, uint32_t, uint32_t, const std::string&, uint32_t, const ColumnWords&,
                    bool, const std::string&, std::optional<uint16_t>, bool, double>(),
           nb::arg("uri"), nb::arg("storage_options"), nb::arg("lanes"), nb::arg("strands"), nb::arg("order"),
           nb::arg("block_steps"), nb::arg("columns"), nb::arg("probe"), nb::arg("source"), nb::arg("strand").none(),
           nb::arg("compress"), nb::arg("timeout"))
      .def("info", InfoOf)
      .def("append", &PyWriter::Append, nb::arg("lanes"))
      .def("flush", &PyWriter::Flush)
      .def("seal", &PyWriter::Seal)
      .def("close", &PyWriter::Close)
      .def_prop_ro("done", &PyWriter::done)
      .def_prop_ro("waiting", &PyWriter::waiting)
      .def_prop_ro("steps", &PyWriter::steps);
}

}  // namespace headrace::python
