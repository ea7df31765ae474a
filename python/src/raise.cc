#include "raise.h"

namespace headrace::python {
namespace {

const char* ExceptionName(Code code) {
  switch (code) {
    case Code::kInvalidArgument: return "InvalidArgument";
    case Code::kUnsupported: return "Unsupported";
    case Code::kNotFound: return "NotFound";
    case Code::kTrimmed: return "Trimmed";
    case Code::kConflict: return "Conflict";
    case Code::kFenced: return "Fenced";
    case Code::kCorrupt: return "Corrupt";
    case Code::kOutcomeUnknown: return "OutcomeUnknown";
    case Code::kStalled: return "Stalled";
    case Code::kDenied:
    case Code::kExpired:
    case Code::kThrottled:
    case Code::kUnavailable:
    case Code::kTimeout:
    case Code::kFull: return "Unavailable";
    default: return "Error";
  }
}

}  // namespace

void Raise(const Status& status) {
  nb::object type = nb::module_::import_("headrace.errors").attr(ExceptionName(status.code()));
  nb::str text(status.message().c_str(), status.message().size());
  PyErr_SetObject(type.ptr(), text.ptr());
  throw nb::python_error();
}

}  // namespace headrace::python
