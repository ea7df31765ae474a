#include "stream/owners.h"

#include "base/text.h"

namespace headrace {
namespace {

constexpr size_t kDigits = 8;

}  // namespace

std::string OwnerText(uint64_t owner) { return Hex(&owner, sizeof(owner)); }

OwnerNames ReadOwnerNames(ObjectStore& store, const Deadline& deadline) {
  constexpr std::string_view kPrefix = "status/producer-";
  OwnerNames names;
  auto listed = ListAll(store, std::string(kPrefix), deadline);
  if (!listed.ok()) return names;
  for (const ListEntry& entry : *listed) {
    std::string_view id = std::string_view(entry.key).substr(kPrefix.size());
    if (id.size() < kDigits + 2 || id[id.size() - kDigits - 1] != '-') continue;
    std::string name;
    if (PercentDecode(id.substr(0, id.size() - kDigits - 1), name)) names[std::string(id.substr(id.size() - kDigits))] = name;
  }
  return names;
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
