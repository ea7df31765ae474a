#include "log/log.h"

#include <algorithm>
#include <chrono>

#include "base/text.h"
#include "store/create.h"

namespace headrace {
namespace {

constexpr std::string_view kSlots = "log/";
constexpr std::string_view kHint = "log/hint";
constexpr std::string_view kMarkers = "gc/";
constexpr size_t kDigits = 20;

std::string Digits(uint64_t number) {
  std::string digits = Cat(number);
  return std::string(kDigits - digits.size(), '0') + digits;
}

std::optional<uint64_t> ParseDigits(std::string_view text) {
  uint64_t number = 0;
  if (text.size() != kDigits || !ParseNumber(text, number)) return std::nullopt;
  return number;
}

}  // namespace

std::string SlotKey(uint64_t number) { return Cat(kSlots, Digits(number)); }

std::string MarkerKey(uint64_t index) { return Cat(kMarkers, Digits(index)); }

std::optional<uint64_t> ParseSlotKey(const std::string& key) {
  if (!key.starts_with(kSlots)) return std::nullopt;
  return ParseDigits(std::string_view(key).substr(kSlots.size()));
}

Log::Log(std::shared_ptr<ObjectStore> store, Executor& executor, Random random, LogOptions options)
    : store_(std::move(store)), executor_(executor), options_(options), random_(random) {}

Result<std::optional<uint64_t>> Log::ReadHint(ObjectStore& store, const Deadline& deadline) {
  HR_ASSIGN_OR_RETURN(std::optional<Object> hint, store.Get(std::string(kHint), deadline));
  uint64_t number = 0;
  if (!hint || !ParseNumber(hint->bytes.AsText(), number)) return std::optional<uint64_t>();
  return std::optional<uint64_t>(number);
}

Result<std::optional<Slot>> Log::FindNewest(std::optional<uint64_t> known, const Deadline& deadline) {
  // A slot is the newest one if a list that was made after it was read shows none behind it: had it been forgotten and brought back by a
  // late writer, the list would show what came since. Where others commit all the time, the marker is asked instead.
  for (bool first = true;; first = false) {
    std::optional<Object> slot;
    if (known) {
      HR_ASSIGN_OR_RETURN(slot, store_->Get(SlotKey(*known), deadline));
      if (slot && !first) {
        HR_ASSIGN_OR_RETURN(bool forgotten, Marked(*known, deadline));
        if (!forgotten) return Slot{*known, std::move(slot->bytes)};
      }
    }
    HR_ASSIGN_OR_RETURN(std::optional<uint64_t> newer, NewestListed(known, deadline));
    if (newer) {
      known = newer;
      continue;
    }
    if (slot) return Slot{*known, std::move(slot->bytes)};
    if (!known) return std::optional<Slot>();
    // Forgotten, all of it up to the floor; or it never was, and whoever said so was wrong: then the list alone is believed.
    HR_ASSIGN_OR_RETURN(bool forgotten, Marked(*known, deadline));
    known.reset();
    if (forgotten) {
      HR_ASSIGN_OR_RETURN(known, Floor(deadline));
    }
  }
}

Result<std::optional<uint64_t>> Log::NewestListed(std::optional<uint64_t> after, const Deadline& deadline) {
  std::optional<uint64_t> newest;
  ListOptions options{.prefix = std::string(kSlots)};
  if (after) options.start_after = SlotKey(*after);
  do {
    HR_ASSIGN_OR_RETURN(ListPage page, store_->List(options, deadline));
    for (const ListEntry& entry : page.entries) {
      if (std::optional<uint64_t> number = ParseSlotKey(entry.key)) newest = std::max(newest.value_or(0), *number);
    }
    options.page = std::move(page.next);
  } while (!options.page.empty());
  return newest;
}

Result<std::optional<Slot>> Log::Peek(uint64_t number, const Deadline& deadline) {
  HR_ASSIGN_OR_RETURN(std::optional<Object> object, store_->Get(SlotKey(number), deadline));
  if (!object) return std::optional<Slot>();
  return Slot{number, std::move(object->bytes)};
}

Result<bool> Log::Genuine(uint64_t number, const Deadline& deadline) {
  if (!options_.rules.Holds(LogRule::kCheckMarkerOnRead)) return true;
  HR_ASSIGN_OR_RETURN(bool marked, Marked(number, deadline));
  return !marked;
}

Result<std::optional<Slot>> Log::Next(uint64_t number, const Deadline& deadline) {
  HR_ASSIGN_OR_RETURN(std::optional<Slot> slot, Peek(number + 1, deadline));
  if (!slot) return slot;
  HR_ASSIGN_OR_RETURN(bool genuine, Genuine(number + 1, deadline));
  if (!genuine) slot.reset();
  return slot;
}

Result<std::optional<Slot>> Log::NewestAfter(uint64_t number, const Deadline& deadline) {
  HR_ASSIGN_OR_RETURN(std::optional<uint64_t> newest, NewestListed(number, deadline));
  if (!newest) return std::optional<Slot>();
  HR_ASSIGN_OR_RETURN(std::optional<Slot> slot, Peek(*newest, deadline));
  if (slot) {
    HR_ASSIGN_OR_RETURN(bool genuine, Genuine(*newest, deadline));
    if (genuine) return slot;
  }
  // Forgotten while we looked.
  return FindNewest(*newest, deadline);
}

Result<AppendResult> Log::Append(uint64_t number, const Body& body, const Deadline& deadline) {
  Random random(0);
  {
    std::lock_guard lock(mutex_);
    random = Random(random_.Next());
  }
  CreateResult created;
  if (options_.rules.Holds(LogRule::kLookUpTheOutcome)) {
    HR_ASSIGN_OR_RETURN(created, Create(*store_, SlotKey(number), body, deadline, executor_.clock(), random));
  } else {
    HR_ASSIGN_OR_RETURN(PutOutcome outcome, store_->PutIfAbsent(SlotKey(number), body, deadline));
    created.kind = outcome.kind == PutOutcome::kCreated  ? CreateResult::kCreated
                   : outcome.kind == PutOutcome::kExists ? CreateResult::kLost
                                                         : CreateResult::kUnknown;
    created.reason = outcome.reason;
    if (created.kind == CreateResult::kLost) {
      HR_ASSIGN_OR_RETURN(std::optional<Object> winner, store_->Get(SlotKey(number), deadline));
      if (winner) created.winner = winner->bytes;
    }
  }
  if (created.kind == CreateResult::kUnknown) return AppendResult{AppendResult::kUnknown, {}, std::move(created.reason)};

  // Whoever holds the slot now: it decides something only if it had not been used and forgotten before.
  LogRule rule = created.kind == CreateResult::kCreated ? LogRule::kCheckMarkerOnWrite : LogRule::kCheckMarkerOnRead;
  if (options_.rules.Holds(rule)) {
    Result<bool> marked = Marked(number, deadline);
    if (!marked.ok()) return AppendResult{AppendResult::kUnknown, {}, std::move(marked).status()};
    if (*marked) return AppendResult{AppendResult::kStale, {}, {}};
  }
  if (created.kind == CreateResult::kCreated) return AppendResult{AppendResult::kLanded, {}, {}};
  return AppendResult{AppendResult::kLost, std::move(created.winner), {}};
}

void Log::Hint(uint64_t number, const Deadline& deadline) {
  {
    std::lock_guard lock(mutex_);
    if (number <= hinted_) return;
    hinted_ = number;
  }
  // A lost hint costs those who open the log a longer list, nothing more.
  (void)store_->Put(std::string(kHint), Body(Cat(number)), deadline);
}

Result<uint64_t> Log::Floor(const Deadline& deadline) {
  if (!options_.rules.Holds(LogRule::kImmutableMarkers)) {
    HR_ASSIGN_OR_RETURN(std::optional<Object> floor, store_->Get("gc/floor", deadline));
    uint64_t number = 0;
    if (floor) ParseNumber(floor->bytes.AsText(), number);
    return number;
  }
  uint64_t highest = 0;
  HR_ASSIGN_OR_RETURN(std::vector<ListEntry> markers, ListAll(*store_, std::string(kMarkers), deadline));
  for (const ListEntry& marker : markers) {
    highest = std::max(highest, ParseDigits(std::string_view(marker.key).substr(kMarkers.size())).value_or(0));
  }
  return highest * options_.slots_per_marker;
}

Result<uint64_t> Log::RaiseFloor(uint64_t number, const Deadline& deadline) {
  HR_ASSIGN_OR_RETURN(uint64_t floor, Floor(deadline));
  uint64_t target = number / options_.slots_per_marker * options_.slots_per_marker;
  if (!options_.rules.Holds(LogRule::kImmutableMarkers)) {
    if (target > floor) HR_RETURN_IF_ERROR(store_->Put("gc/floor", Body(Cat(target)), deadline));
    return std::max(floor, target);
  }
  if (!options_.rules.Holds(LogRule::kMarkerBeforeDelete)) return std::max(floor, target);
  while (floor < target) {
    std::string key = MarkerKey(floor / options_.slots_per_marker + 1);
    // All markers are alike, so it does not matter whose create it was: what counts is that it is there.
    HR_RETURN_IF_ERROR(store_->PutIfAbsent(key, Body("slots below are forgotten\n"), deadline).status());
    HR_ASSIGN_OR_RETURN(std::optional<Object> marker, store_->Get(key, deadline));
    if (!marker) return Status(Code::kUnavailable, Cat("cannot tell whether the marker ", store_->Describe(key), " was created"));
    floor += options_.slots_per_marker;
  }
  return floor;
}

Result<std::vector<std::string>> Log::Forgotten(uint64_t floor, const Deadline& deadline) {
  HR_ASSIGN_OR_RETURN(std::vector<ListEntry> slots, ListAll(*store_, std::string(kSlots), deadline));
  std::vector<std::string> keys;
  for (ListEntry& slot : slots) {
    std::optional<uint64_t> number = ParseSlotKey(slot.key);
    if (number && *number < floor) keys.push_back(std::move(slot.key));
  }
  return keys;
}

Result<bool> Log::Marked(uint64_t number, const Deadline& deadline) {
  if (!options_.rules.Holds(LogRule::kImmutableMarkers)) {
    HR_ASSIGN_OR_RETURN(uint64_t floor, Floor(deadline));
    return number < floor;
  }
  HR_ASSIGN_OR_RETURN(std::optional<Object> marker, store_->Get(MarkerKey(number / options_.slots_per_marker + 1), deadline));
  return marker.has_value();
}

}  // namespace headrace
