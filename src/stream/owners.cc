#include "stream/owners.h"

#include <nlohmann/json.hpp>

#include "base/text.h"

namespace headrace {
namespace {

constexpr size_t kDigits = 8;
constexpr std::string_view kPrefix = "status/producer-";

// "trainer-3" and "4f3a09bb" of status/producer-trainer-3-4f3a09bb.
bool TakeApart(std::string_view key, std::string& name, std::string& digits) {
  std::string_view id = key.substr(kPrefix.size());
  if (id.size() < kDigits + 2 || id[id.size() - kDigits - 1] != '-') return false;
  digits = id.substr(id.size() - kDigits);
  return PercentDecode(id.substr(0, id.size() - kDigits - 1), name);
}

}  // namespace

std::string OwnerText(uint64_t owner) { return Hex(&owner, sizeof(owner)); }

OwnerNames ReadOwnerNames(ObjectStore& store, const Deadline& deadline) {
  OwnerNames names;
  auto listed = ListAll(store, std::string(kPrefix), deadline);
  if (!listed.ok()) return names;
  for (const ListEntry& entry : *listed) {
    std::string name, digits;
    if (TakeApart(entry.key, name, digits)) names[digits] = name;
  }
  return names;
}

OwnerStatus ReadOwnerStatus(ObjectStore& store, uint64_t owner, const Deadline& deadline) {
  OwnerStatus status;
  auto listed = ListAll(store, std::string(kPrefix), deadline);
  if (!listed.ok()) return status;
  for (const ListEntry& entry : *listed) {
    std::string name, digits;
    if (!TakeApart(entry.key, name, digits) || digits != OwnerText(owner).substr(0, kDigits)) continue;
    status.name = name;
    auto object = store.Get(entry.key, deadline);
    if (!object.ok() || !*object) continue;
    const nlohmann::json said = nlohmann::json::parse((*object)->bytes.AsText(), nullptr, /*allow_exceptions=*/false);
    if (!said.is_object() || !said.contains("counter") || !said["counter"].is_number_unsigned()) continue;
    status.said = true;
    status.left = said.contains("left") && said["left"] == true;
    status.counter = said["counter"].get<uint64_t>();
    if (!said.contains("strands") || !said["strands"].is_array()) continue;
    for (const nlohmann::json& strand : said["strands"]) {
      if (strand.is_number_unsigned()) status.strands.push_back(strand.get<uint64_t>());
    }
  }
  return status;
}

std::string OwnerName(uint64_t owner, const OwnerNames& names) {
  auto name = names.find(OwnerText(owner).substr(0, kDigits));
  return name == names.end() ? "" : name->second;
}

std::string OwnerText(uint64_t owner, const OwnerNames& names) {
  const std::string name = OwnerName(owner, names);
  return name.empty() ? OwnerText(owner) : Cat(name, " (", OwnerText(owner), ")");
}

}  // namespace headrace
