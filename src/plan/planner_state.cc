// What a chunk's footer has of a planner.
#include <nlohmann/json.hpp>

#include "plan/planner_parts.h"

namespace headrace {

std::string Planner::State() const {
  const Parts& parts = *parts_;
  nlohmann::json ended = nlohmann::json::array(), buffer = nlohmann::json::array(), back = nlohmann::json::array();
  for (uint16_t source = 0; source < parts.mixer.size(); ++source)
    if (parts.mixer.ended(source)) ended.push_back(source);
  const auto position = [](const SampleInfo& sample) {
    const Position& at = sample.ref.position;
    return nlohmann::json{at.epoch, at.group, at.piece, at.index};
  };
  const auto entry_of = [&](const Drawn& drawn) {
    nlohmann::json entry = position(drawn.sample);
    for (uint32_t number :
         {uint32_t{drawn.sample.ref.source}, drawn.start, drawn.length, 2 * uint32_t{drawn.waited} + (drawn.split_now ? 1 : 0)})
      entry.push_back(number);
    for (const Member& member : drawn.rest) {
      nlohmann::json other = position(member.sample);
      other.push_back(member.length);
      entry.push_back(std::move(other));
    }
    return entry;
  };
  for (const Drawn& drawn : parts.buffer) buffer.push_back(entry_of(drawn));
  for (const std::deque<Drawn>& source : parts.back)
    for (const Drawn& drawn : source) back.push_back(entry_of(drawn));
  return nlohmann::json{{"owed", parts.mixer.owed()},
                        {"longest", parts.mixer.longest()},
                        {"ended", ended},
                        {"stopped", parts.stopped},
                        {"drawn", buffer},
                        {"back", back},
                        {"weights", parts.mixer.weights()},
                        {"truncated", parts.truncated},
                        {"dropped", parts.dropped}}
      .dump();
}

std::vector<SampleRef> Planner::Carried() const {
  std::vector<SampleRef> refs;
  const auto add = [&](const Drawn& drawn) {
    refs.push_back(drawn.sample.ref);
    for (const Member& member : drawn.rest) refs.push_back(member.sample.ref);
  };
  for (const Drawn& drawn : parts_->buffer) add(drawn);
  for (const std::deque<Drawn>& source : parts_->back)
    for (const Drawn& drawn : source) add(drawn);
  return refs;
}

Status Planner::Restore(const std::string& state) {
  Parts& parts = *parts_;
  const nlohmann::json json = nlohmann::json::parse(state, nullptr, /*allow_exceptions=*/false);
  const auto broken = [](const std::string& what) {
    return Status(Code::kCorrupt, "the planner's state in the strand's last chunk " + what);
  };
  const auto numbers = [](const nlohmann::json& list) {
    return list.is_array() &&
           std::all_of(list.begin(), list.end(), [](const nlohmann::json& n) { return n.is_number_integer(); });
  };
  if (!json.is_object() || !json.contains("owed") || !numbers(json["owed"]) || !json.contains("ended") ||
      !numbers(json["ended"]) || !json.contains("drawn") || !json["drawn"].is_array() || !json.contains("longest") ||
      !json["longest"].is_number_integer() || !json.contains("stopped") || !json["stopped"].is_boolean())
    return broken("is not what a planner writes: it needs `owed`, `ended`, `drawn`, `longest` and `stopped`");
  if (json["owed"].size() > parts.sources.size())
    return broken("knows " + std::to_string(json["owed"].size()) + " sources, and the stream has " +
                  std::to_string(parts.sources.size()));

  const nlohmann::json nothing = nlohmann::json::array();
  const nlohmann::json& back = json.contains("back") ? json["back"] : nothing;
  const nlohmann::json& weights = json.contains("weights") ? json["weights"] : nothing;
  if (!back.is_array() || !weights.is_array() ||
      !std::all_of(weights.begin(), weights.end(), [](const nlohmann::json& n) { return n.is_number(); }) ||
      weights.size() > parts.sources.size())
    return broken("has `back` or `weights` that no planner writes");

  const auto again = [&](const nlohmann::json& entry, uint16_t source) {
    return parts.feed.Again(
        {source, {entry[0].get<uint32_t>(), entry[1].get<uint32_t>(), entry[2].get<uint32_t>(), entry[3].get<uint32_t>()}});
  };
  const auto changed = [&](const SampleInfo& sample, uint64_t wanted) {
    const std::string name = sample.ref.source < parts.sources.size() ? parts.sources[sample.ref.source] : "?";
    return Status(Code::kCorrupt, "a sample of source `" + name + "` that was carried over had at least " +
                                      std::to_string(wanted) + " tokens when it was drawn and has " +
                                      std::to_string(sample.length) + " now: a transform does not do the same every time");
  };
  const auto read = [&](const nlohmann::json& entry) -> Result<Drawn> {
    if (!entry.is_array() || entry.size() < 8 || !numbers({entry.begin(), entry.begin() + 8}))
      return broken("has a carried sample without a position");
    Drawn drawn;
    const auto source = entry[4].get<uint16_t>();
    if (source >= parts.sources.size())
      return broken("carries a sample of source " + std::to_string(source) + ", which the stream does not have");
    HR_ASSIGN_OR_RETURN(drawn.sample, again(entry, source));
    drawn.start = entry[5].get<uint32_t>();
    drawn.length = entry[6].get<uint32_t>();
    drawn.waited = entry[7].get<uint32_t>() / 2;
    drawn.split_now = entry[7].get<uint32_t>() % 2 == 1;
    if (uint64_t{drawn.start} + drawn.length > drawn.sample.length)
      return changed(drawn.sample, uint64_t{drawn.start} + drawn.length);
    for (size_t i = 8; i < entry.size(); ++i) {
      if (!numbers(entry[i]) || entry[i].size() != 5) return broken("has a carried group with a sample without a position");
      Member member;
      HR_ASSIGN_OR_RETURN(member.sample, again(entry[i], source));
      member.length = entry[i][4].get<uint32_t>();
      if (member.length > member.sample.length) return changed(member.sample, member.length);
      drawn.rest.push_back(std::move(member));
    }
    return drawn;
  };
  DrawnList buffer;
  for (const nlohmann::json& entry : json["drawn"]) {
    HR_ASSIGN_OR_RETURN(Drawn drawn, read(entry));
    buffer.Add(std::move(drawn));
  }
  std::vector<std::deque<Drawn>> put_back(parts.sources.size());
  for (const nlohmann::json& entry : back) {
    HR_ASSIGN_OR_RETURN(Drawn drawn, read(entry));
    put_back[drawn.sample.ref.source].push_back(std::move(drawn));
  }
  parts.mixer = Mixer(parts.sources.size());
  parts.mixer.Restore(json["owed"].get<std::vector<int64_t>>(), json["ended"].get<std::vector<uint16_t>>(),
                      json["longest"].get<int64_t>(), weights.get<std::vector<double>>());
  parts.stopped = json["stopped"].get<bool>();
  parts.truncated = json.value("truncated", uint64_t{0});
  parts.dropped = json.value("dropped", uint64_t{0});
  parts.buffer = std::move(buffer);
  parts.back = std::move(put_back);
  parts.backs = back.size();
  return Status::Ok();
}

}  // namespace headrace
