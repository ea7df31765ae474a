#include "feedback/report.h"

#include <cmath>
#include <nlohmann/json.hpp>
#include <span>

#include "base/crc32c.h"
#include "base/text.h"

namespace headrace {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kFolder = "feedback/";
constexpr std::string_view kSuffix = ".jsonl";
constexpr size_t kStepDigits = 20;
constexpr size_t kNonceDigits = 16;
constexpr int kFormat = 1;
constexpr std::string_view kCrcBegins = "{\"crc32c\":";

std::string Padded(uint64_t step) {
  std::string digits = Cat(step);
  return std::string(kStepDigits - digits.size(), '0') + digits;
}

std::string NonceText(uint64_t nonce) {
  std::string text(kNonceDigits, '0');
  for (size_t i = kNonceDigits; i > 0; --i, nonce >>= 4) text[i - 1] = "0123456789abcdef"[nonce & 15];
  return text;
}

std::optional<uint64_t> ParseNonce(std::string_view text) {
  if (text.size() != kNonceDigits || text.find_first_not_of("0123456789abcdef") != std::string_view::npos) return {};
  uint64_t nonce = 0;
  std::from_chars(text.data(), text.data() + text.size(), nonce, 16);
  return nonce;
}

Json Number(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "Infinity" : "-Infinity";
  return value;
}

std::optional<double> NumberOf(const Json& value) {
  if (value.is_number()) return value.get<double>();
  if (!value.is_string()) return {};
  const auto& word = value.get_ref<const std::string&>();
  if (word == "NaN") return std::nan("");
  if (word == "Infinity") return INFINITY;
  if (word == "-Infinity") return -INFINITY;
  return {};
}

Json Line(const Report& report) {
  Json line = {{"step", report.step}, {"time", report.time}, {"lanes", {report.share.first_lane, report.share.end_lane}}};
  Json& mesh = line["mesh"] = Json::object();
  for (const auto& [axis, place] : report.mesh) {
    if (axis == "dp" || place.second != 1) mesh[axis] = {place.first, place.second};
  }
  if (report.mixture) line["mixture"] = *report.mixture;
  if (!report.loss.empty()) {
    Json& loss = line["loss"] = Json::object();
    for (const auto& [source, value] : report.loss) loss[source] = {Number(value.sum), Number(value.count)};
  }
  if (!report.metrics.empty()) {
    Json& metrics = line["metrics"] = Json::object();
    for (const auto& [name, value] : report.metrics) metrics[name] = Number(value);
  }
  return line;
}

bool IsPair(const Json& value) { return value.is_array() && value.size() == 2; }
bool IsPairOfCounts(const Json& value) { return IsPair(value) && value[0].is_number_unsigned() && value[1].is_number_unsigned(); }

const Json* Find(const Json& object, const char* name) {
  auto found = object.find(name);
  return found == object.end() ? nullptr : &*found;
}

std::optional<Report> ReportOf(const Json& line) {
  Report report;
  const Json* step = Find(line, "step");
  const Json* time = Find(line, "time");
  const Json* lanes = Find(line, "lanes");
  if (!step || !step->is_number_unsigned() || !time || !time->is_number() || !lanes || !IsPairOfCounts(*lanes)) return {};
  report.step = step->get<uint64_t>();
  report.time = time->get<double>();
  report.share.first_lane = (*lanes)[0].get<uint32_t>();
  report.share.end_lane = (*lanes)[1].get<uint32_t>();
  if (const Json* mesh = Find(line, "mesh"); mesh && mesh->is_object()) {
    for (const auto& [axis, place] : mesh->items()) {
      if (!IsPairOfCounts(place) || place[0] >= place[1]) return {};
      report.mesh[axis] = {place[0].get<uint32_t>(), place[1].get<uint32_t>()};
    }
  }
  if (auto cp = report.mesh.find("cp"); cp != report.mesh.end()) {
    report.share.cp_rank = cp->second.first;
    report.share.cp_size = cp->second.second;
  }
  if (const Json* mixture = Find(line, "mixture")) {
    if (!mixture->is_number_unsigned()) return {};
    report.mixture = mixture->get<uint32_t>();
  }
  if (const Json* loss = Find(line, "loss")) {
    if (!loss->is_object()) return {};
    for (const auto& [source, value] : loss->items()) {
      std::optional<double> sum, count;
      if (IsPair(value)) sum = NumberOf(value[0]), count = NumberOf(value[1]);
      if (!sum || !count) return {};
      report.loss.emplace_back(source, SourceLoss{*sum, *count});
    }
  }
  if (const Json* metrics = Find(line, "metrics")) {
    if (!metrics->is_object()) return {};
    for (const auto& [name, value] : metrics->items()) {
      std::optional<double> number = NumberOf(value);
      if (!number) return {};
      report.metrics.emplace_back(name, *number);
    }
  }
  return report;
}

std::optional<FeedbackObject> ObjectOf(const Json& header) {
  FeedbackObject object;
  const Json* session = Find(header, "session");
  const Json* number = Find(header, "n");
  const Json* manifest = Find(header, "manifest");
  const Json* started = Find(header, "started");
  const Json* reader = Find(header, "reader");
  if (!session || !session->is_string() || !number || !number->is_number_unsigned() || !manifest ||
      !manifest->is_number_unsigned() || !started || !started->is_number() || !reader || !reader->is_string())
    return {};
  std::optional<uint64_t> nonce = ParseNonce(session->get_ref<const std::string&>());
  if (!nonce) return {};
  object.session = {manifest->get<uint64_t>(), started->get<double>(), *nonce, reader->get<std::string>()};
  object.number = number->get<uint64_t>();
  return object;
}

std::string CrcLine(std::string_view text) {
  const uint32_t crc = Crc32c(std::as_bytes(std::span(text)));
  return Cat(kCrcBegins, "\"", NonceText(crc).substr(kNonceDigits - 8), "\"}\n");
}

}  // namespace

bool FeedbackShare::Overlaps(const FeedbackShare& other) const {
  if (first_lane >= other.end_lane || other.first_lane >= end_lane) return false;
  // [r/n, (r+1)/n) against the other's, without dividing.
  auto before = [](const FeedbackShare& a, const FeedbackShare& b) {
    return (uint64_t{a.cp_rank} + 1) * b.cp_size <= uint64_t{b.cp_rank} * a.cp_size;
  };
  return !before(*this, other) && !before(other, *this);
}

size_t Report::bytes() const {
  size_t bytes = 160;
  for (const auto& [source, _] : loss) bytes += source.size() + 48;
  for (const auto& [name, _] : metrics) bytes += name.size() + 32;
  return bytes;
}

std::string FeedbackPrefix(uint64_t step) { return Cat(kFolder, Padded(step)); }

std::string FeedbackKey::Key() const {
  return Cat(FeedbackPrefix(first_step), "-", Padded(last_step), "-", NonceText(nonce), "-", number, kSuffix);
}

std::optional<FeedbackKey> FeedbackKey::FromKey(std::string_view key) {
  if (!key.starts_with(kFolder) || !key.ends_with(kSuffix)) return {};
  key.remove_prefix(kFolder.size());
  key.remove_suffix(kSuffix.size());
  std::vector<std::string> parts = Split(key, '-');
  FeedbackKey found;
  if (parts.size() != 4 || parts[0].size() != kStepDigits || parts[1].size() != kStepDigits ||
      !ParseNumber(parts[0], found.first_step) || !ParseNumber(parts[1], found.last_step) ||
      !ParseNumber(parts[3], found.number) || found.last_step < found.first_step || found.last_step - found.first_step >= kSpan)
    return {};
  std::optional<uint64_t> nonce = ParseNonce(parts[2]);
  if (!nonce) return {};
  found.nonce = *nonce;
  return found;
}

std::string EncodeFeedback(const FeedbackSession& session, uint64_t number, const std::vector<Report>& reports,
                           const std::string& stream) {
  // Names come from users; what is not UTF-8 in them must not end the process.
  auto dump = [](const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n"; };
  std::string text = dump({{"feedback", kFormat},
                           {"stream", stream},
                           {"session", NonceText(session.nonce)},
                           {"n", number},
                           {"manifest", session.manifest},
                           {"started", session.started},
                           {"reader", session.reader}});
  for (const Report& report : reports) text += dump(Line(report));
  return text + CrcLine(text);
}

Result<FeedbackObject> DecodeFeedback(std::string_view text) {
  auto corrupt = [](const std::string& what) { return Status(Code::kCorrupt, what); };
  if (!text.ends_with('\n')) return corrupt("it does not end with a whole line");
  const size_t before_last = text.size() < 2 ? std::string_view::npos : text.rfind('\n', text.size() - 2);
  if (before_last == std::string_view::npos) return corrupt("it has no last line with a checksum");
  const std::string_view body = text.substr(0, before_last + 1);
  if (text.substr(before_last + 1) != CrcLine(body)) return corrupt("its checksum is not that of its bytes");
  std::optional<FeedbackObject> object;
  size_t number = 0;
  for (const std::string& line : Split(body.substr(0, body.size() - 1), '\n')) {
    ++number;
    const Json json = Json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (!json.is_object()) return corrupt(Cat("line ", number, " is no JSON object"));
    if (number == 1) {
      const Json* format = Find(json, "feedback");
      if (format && format->is_number() && *format != kFormat)
        return Status(Code::kUnsupported, Cat("it has format ", format->dump(), ", and this Headrace knows ", kFormat));
      object = ObjectOf(json);
      if (!format || !object) return corrupt("its first line is no header");
      continue;
    }
    std::optional<Report> report = ReportOf(json);
    if (!report) return corrupt(Cat("line ", number, " is no report"));
    object->reports.push_back(*std::move(report));
  }
  return *std::move(object);
}

std::vector<std::string_view> SplitFold(std::string_view text) {
  std::vector<std::string_view> parts;
  size_t begin = 0;
  for (size_t line = 0; line < text.size();) {
    const size_t newline = text.find('\n', line);
    const size_t end = newline == std::string_view::npos ? text.size() : newline + 1;
    if (text.substr(line).starts_with(kCrcBegins)) {
      parts.push_back(text.substr(begin, end - begin));
      begin = end;
    }
    line = end;
  }
  if (begin < text.size() || parts.empty()) parts.push_back(text.substr(begin));
  return parts;
}

double WallSeconds(WallTime time) {
  // To the millisecond: shorter, and nobody's clock is better.
  return static_cast<double>(std::chrono::duration_cast<std::chrono::milliseconds>(time.time_since_epoch()).count()) / 1e3;
}

}  // namespace headrace
