#include "feedback/source_names.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/nearest.h"
#include "base/text.h"
#include "stream/mixture_object.h"

namespace headrace {
namespace {

constexpr Duration kAttempt = std::chrono::seconds(10);

}  // namespace

Result<std::vector<std::string>> ReadSourceNames(StreamLog& log, const Deadline& deadline) {
  std::vector<std::string> names;
  if (log.info().recipe.empty()) return names;
  StreamLog::StatePtr state = log.known();
  nlohmann::json mixture;
  if (!state->manifest.mixtures.empty()) {
    // It names all sources that there ever were.
    HR_ASSIGN_OR_RETURN(MixtureObject object, ReadMixtureObject(log, state->manifest.mixtures.back().number, deadline));
    mixture = nlohmann::json::parse(object.bytes.AsText(), nullptr, /*allow_exceptions=*/false);
  } else {
    HR_ASSIGN_OR_RETURN(std::optional<Object> object, log.store().Get(log.info().recipe, deadline));
    if (!object) return Status(Code::kCorrupt, Cat(log.store().Describe(log.info().recipe), " is gone; the stream refers to it"));
    nlohmann::json recipe = nlohmann::json::parse(object->bytes.AsText(), nullptr, /*allow_exceptions=*/false);
    if (recipe.is_object() && recipe.contains("first")) mixture = recipe["first"];
  }
  if (!mixture.is_object() || !mixture.contains("sources") || !mixture["sources"].is_array()) return names;
  for (const nlohmann::json& source : mixture["sources"]) {
    if (source.is_object() && source.contains("name") && source["name"].is_string()) names.push_back(source["name"]);
  }
  return names;
}

std::shared_ptr<SourceNames> SourceNames::Make(std::shared_ptr<StreamLog> log, Executor& executor) {
  return std::shared_ptr<SourceNames>(new SourceNames(std::move(log), executor));
}

SourceNames::SourceNames(std::shared_ptr<StreamLog> log, Executor& executor)
    : log_(std::move(log)), executor_(executor), changed_(executor.MakeSignal()) {}

const std::string_view* SourceNames::Unknown(const std::vector<std::string_view>& names) const {
  for (const std::string_view& name : names) {
    if (!names_.contains(name)) return &name;
  }
  return nullptr;
}

Status SourceNames::Check(const std::vector<std::string_view>& names) {
  if (log_->info().recipe.empty()) return {};
  std::unique_lock lock(mutex_);
  if (Unknown(names) == nullptr) return {};
  const Instant now = log_->clock().Now();
  if (now < not_before_) return {};
  const uint64_t looks = looks_;
  if (!looking_) {
    looking_ = true;
    executor_.Spawn([self = shared_from_this()] { self->Look(); });
  }
  const Instant until = now + kPatience;
  while (looking_ && log_->clock().Now() < until) changed_->WaitUntil(lock, until);
  if (looks_ == looks) {
    not_before_ = log_->clock().Now() + kPause;
    return {};
  }
  const std::string_view* unknown = Unknown(names);
  if (unknown == nullptr || names_.empty()) return {};
  std::vector<std::string_view> known(names_.begin(), names_.end());
  std::string list;
  for (std::string_view name : known) list += Cat(list.empty() ? "" : ", ", name);
  std::string_view near = Nearest(*unknown, known);
  return Status(Code::kInvalidArgument, Cat(log_->store().Describe(), " has no source \"", *unknown, "\"",
                                            near.empty() ? "" : Cat(" (did you mean ", near, "?)"), "; its sources are: ", list));
}

void SourceNames::Look() {
  const Deadline deadline = Deadline::After(log_->clock(), kAttempt, stop_.get_token());
  // A source may have been added since; and who receives its steps from a peer never asks for the newest manifest otherwise.
  Status newest = log_->Refresh(deadline).status();
  Result<std::vector<std::string>> names = newest.ok() ? ReadSourceNames(*log_, deadline) : std::move(newest);
  std::lock_guard lock(mutex_);
  if (names.ok()) {
    ++looks_;
    names_.insert(names->begin(), names->end());
  }
  looking_ = false;
  changed_->NotifyAll();
}

}  // namespace headrace
