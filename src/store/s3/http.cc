#include "store/s3/http.h"

namespace headrace {

const std::string& HttpResponse::Header(std::string_view lower_case_name) const {
  static const std::string kNone;
  for (const auto& [name, value] : headers) {
    if (name == lower_case_name) return value;
  }
  return kNone;
}

}  // namespace headrace
