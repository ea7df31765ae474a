#include "stream/stream_info.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/crc32c.h"
#include "base/text.h"

namespace headrace {
namespace {

using Json = nlohmann::ordered_json;

struct DtypeRow {
  std::string_view name;
  size_t bytes;
};
constexpr std::array<DtypeRow, 13> kDtypes = {{{"uint8", 1},
                                               {"int8", 1},
                                               {"uint16", 2},
                                               {"int16", 2},
                                               {"uint32", 4},
                                               {"int32", 4},
                                               {"uint64", 8},
                                               {"int64", 8},
                                               {"float16", 2},
                                               {"bfloat16", 2},
                                               {"float32", 4},
                                               {"float64", 8},
                                               {"bool", 1}}};
constexpr std::array<std::string_view, 3> kKinds = {"array", "ragged", "bytes"};

Status Wrong(std::string_view what) { return Status(Code::kCorrupt, Cat("stream.json is damaged: ", what)); }

// Of the document without its own checksum, as it is written.
std::string Checksum(Json json) {
  json.erase("crc32c");
  std::string text = json.dump(2);
  uint32_t crc = Crc32c(std::as_bytes(std::span(text.data(), text.size())));
  return Hex(&crc, sizeof(crc));
}

template <typename T>
Status Read(const Json& json, const char* name, T& out) {
  auto found = json.find(name);
  if (found == json.end()) return Wrong(Cat("\"", name, "\" is missing"));
  if constexpr (std::is_same_v<T, std::string>) {
    if (!found->is_string()) return Wrong(Cat("\"", name, "\" is not a text"));
  } else {
    if (!found->is_number_unsigned() || found->template get<uint64_t>() > std::numeric_limits<T>::max()) {
      return Wrong(Cat("\"", name, "\" is not a number that fits"));
    }
  }
  out = found->template get<T>();
  return {};
}

Status ReadTexts(const Json& json, const char* name, std::vector<std::string>& out) {
  auto found = json.find(name);
  if (found == json.end()) return {};
  if (!found->is_array()) return Wrong(Cat("\"", name, "\" is not a list"));
  for (const Json& item : *found) {
    if (!item.is_string()) return Wrong(Cat("\"", name, "\" has something that is not a text"));
    out.push_back(item.get<std::string>());
  }
  return {};
}

}  // namespace

std::string UuidText(const Uuid& uuid) { return Hex(uuid.data(), uuid.size()); }

Result<Uuid> ParseUuid(std::string_view text) {
  Uuid uuid;
  if (text.size() != 2 * uuid.size()) return Status(Code::kInvalidArgument, Cat("\"", text, "\" is not a uuid of 32 digits"));
  for (size_t i = 0; i < uuid.size(); ++i) {
    auto [end, error] = std::from_chars(text.data() + 2 * i, text.data() + 2 * i + 2, uuid[i], 16);
    if (error != std::errc() || end != text.data() + 2 * i + 2) {
      return Status(Code::kInvalidArgument, Cat("\"", text, "\" is not a uuid of 32 digits"));
    }
  }
  return uuid;
}

std::string_view DtypeName(Dtype dtype) { return kDtypes[static_cast<size_t>(dtype)].name; }

size_t DtypeBytes(Dtype dtype) { return kDtypes[static_cast<size_t>(dtype)].bytes; }

Result<Dtype> ParseDtype(std::string_view name) {
  for (size_t i = 0; i < kDtypes.size(); ++i) {
    if (kDtypes[i].name == name) return static_cast<Dtype>(i);
  }
  std::string known;
  for (const DtypeRow& row : kDtypes) known += Cat(known.empty() ? "" : ", ", row.name);
  return Status(Code::kInvalidArgument, Cat("\"", name, "\" is no type of a column; there are ", known));
}

std::string StreamInfo::ToJson() const {
  Json json;
  json["format"] = kFormat;
  json["uuid"] = UuidText(uuid);
  json["features_required"] = features_required;
  json["features_optional"] = features_optional;
  json["lanes"] = lanes;
  json["strands"] = strands;
  json["order"] = order == Order::kPlanned ? "planned" : "arrival";
  Json phases = Json::array();
  for (const BlockSizes::Phase& phase : blocks.phases()) phases.push_back({{"blocks", phase.blocks}, {"steps", phase.steps}});
  json["blocks"] = phases;
  json["window"] = window;
  json["slots_per_marker"] = slots_per_marker;
  json["segment_entries"] = segment_entries;
  Json list = Json::array();
  for (const Column& column : columns) {
    list.push_back({{"name", column.name}, {"dtype", DtypeName(column.dtype)}, {"kind", kKinds[column.kind]}});
  }
  json["columns"] = list;
  json["recipe_hash"] = recipe_hash;
  if (!recipe.empty()) json["recipe"] = recipe;
  json["crc32c"] = Checksum(json);
  return json.dump(2) + "\n";
}

Result<StreamInfo> StreamInfo::FromJson(std::string_view text) {
  Result<StreamInfo> info = ReadJson(text);
  // What would be wrong words in a call is damage here.
  if (info.code() == Code::kInvalidArgument) return Wrong(info.status().message());
  return info;
}

Result<StreamInfo> StreamInfo::ReadJson(std::string_view text) {
  Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded() || !json.is_object()) return Wrong("it is not a JSON object");
  StreamInfo info;
  uint32_t format = 0;
  HR_RETURN_IF_ERROR(Read(json, "format", format));
  if (format != kFormat) {
    return Status(Code::kUnsupported,
                  Cat("the stream has format ", format, "; this version of Headrace reads format ", kFormat,
                      format > kFormat ? ": use a newer one" : ", the oldest there is: what wrote it was not Headrace"));
  }
  std::string checksum;
  HR_RETURN_IF_ERROR(Read(json, "crc32c", checksum));
  if (checksum != Checksum(json)) return Wrong("its checksum does not fit");
  HR_RETURN_IF_ERROR(ReadTexts(json, "features_required", info.features_required));
  HR_RETURN_IF_ERROR(ReadTexts(json, "features_optional", info.features_optional));
  if (!info.features_required.empty()) {
    return Status(Code::kUnsupported, Cat("the stream needs the feature \"", info.features_required.front(),
                                          "\", which this version of Headrace does not have: use a newer one"));
  }
  std::string uuid, order;
  HR_RETURN_IF_ERROR(Read(json, "uuid", uuid));
  HR_ASSIGN_OR_RETURN(info.uuid, ParseUuid(uuid));
  HR_RETURN_IF_ERROR(Read(json, "lanes", info.lanes));
  HR_RETURN_IF_ERROR(Read(json, "strands", info.strands));
  HR_RETURN_IF_ERROR(Read(json, "order", order));
  if (order != "planned" && order != "arrival") return Wrong(Cat("\"order\" is \"", order, "\""));
  info.order = order == "planned" ? Order::kPlanned : Order::kArrival;
  HR_RETURN_IF_ERROR(Read(json, "window", info.window));
  HR_RETURN_IF_ERROR(Read(json, "slots_per_marker", info.slots_per_marker));
  HR_RETURN_IF_ERROR(Read(json, "segment_entries", info.segment_entries));
  HR_RETURN_IF_ERROR(Read(json, "recipe_hash", info.recipe_hash));
  if (json.contains("recipe")) HR_RETURN_IF_ERROR(Read(json, "recipe", info.recipe));
  std::vector<BlockSizes::Phase> phases;
  if (!json.contains("blocks") || !json["blocks"].is_array()) return Wrong("\"blocks\" is not a list");
  for (const Json& phase : json["blocks"]) {
    BlockSizes::Phase& added = phases.emplace_back();
    HR_RETURN_IF_ERROR(Read(phase, "blocks", added.blocks));
    HR_RETURN_IF_ERROR(Read(phase, "steps", added.steps));
  }
  HR_ASSIGN_OR_RETURN(info.blocks, BlockSizes::FromPhases(std::move(phases)));
  if (!json.contains("columns") || !json["columns"].is_array()) return Wrong("\"columns\" is not a list");
  for (const Json& column : json["columns"]) {
    Column& added = info.columns.emplace_back();
    std::string dtype, kind;
    HR_RETURN_IF_ERROR(Read(column, "name", added.name));
    HR_RETURN_IF_ERROR(Read(column, "dtype", dtype));
    HR_RETURN_IF_ERROR(Read(column, "kind", kind));
    HR_ASSIGN_OR_RETURN(added.dtype, ParseDtype(dtype));
    auto found = std::ranges::find(kKinds, kind);
    if (found == kKinds.end()) return Wrong(Cat("a column's \"kind\" is \"", kind, "\""));
    added.kind = static_cast<Column::Kind>(found - kKinds.begin());
  }
  HR_RETURN_IF_ERROR(info.Check());
  return info;
}

Status StreamInfo::Check() const {
  auto wrong = [](std::string why) { return Status(Code::kInvalidArgument, std::move(why)); };
  if (lanes == 0 || lanes > kMaxLanes) return wrong(Cat("a stream has between 1 and ", kMaxLanes, " lanes, not ", lanes));
  if (strands == 0 || strands > kMaxStrands)
    return wrong(Cat("a stream has between 1 and ", kMaxStrands, " strands, not ", strands));
  if (window < strands || window > kMaxStrands) {
    return wrong(Cat("the window must lie between the number of strands, ", strands, ", and ", kMaxStrands, ", not at ", window));
  }
  if (slots_per_marker == 0) return wrong("slots_per_marker must not be 0");
  if (segment_entries == 0 || segment_entries > 128) return wrong("segment_entries must lie between 1 and 128");
  if (columns.empty()) return wrong("a stream needs at least one column");
  std::vector<std::string> names;
  for (const Column& column : columns) {
    if (column.name.empty() || column.name.size() > 200 || !IsUtf8(column.name))
      return wrong("a column needs a name of 1 to 200 bytes");
    if (column.kind == Column::kBytes && column.dtype != Dtype::kU8)
      return wrong(Cat("the bytes column \"", column.name, "\" must be uint8"));
    names.push_back(column.name);
  }
  std::ranges::sort(names);
  if (auto twice = std::ranges::adjacent_find(names); twice != names.end())
    return wrong(Cat("two columns are named \"", *twice, "\""));
  if (columns.size() > 1000) return wrong("a stream has at most 1000 columns");
  return {};
}

}  // namespace headrace
