// A sequence of immutable numbered slots: `log/<20 digits>`, where creating the next number is the commit.
//
// Slots are dense: number n + 1 is only ever created by somebody who has read n. Old slots may be deleted, but not before a
// marker `gc/<i>` says so: "slots below 1024·i may be gone". Markers are created in ascending order, never changed and never deleted.
//
// Two things follow, and everything here is built on them (docs/design/0002-log.md has the interleavings):
//   - An absent slot means "not written yet" only if its marker is absent too, looked at after the slot.
//   - A create that succeeded below a marker was no commit: the number had been used and forgotten. Its writer does not know
//     its outcome (`kStale`) and must look for its change in the newest slot.
//
// Thread-safe. One call makes a few requests and never sleeps, except for what the store's own decorators do.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "base/executor.h"
#include "base/random.h"
#include "base/rules.h"
#include "headrace/store.h"

namespace headrace {

enum class LogRule {
  kLookUpTheOutcome,  // a refused create is looked up, for it may have been our own earlier attempt
  kCheckMarkerOnRead,  // a slot that was read counts only if its marker is absent afterwards
  kCheckMarkerOnWrite,  // a slot that was created counts only if its marker is absent afterwards
  kImmutableMarkers,  // markers are created, never overwritten
  kMarkerBeforeDelete,  // nothing is deleted before its marker is there
};

struct LogOptions {
  // Slots share a marker in groups of this size: the same for everybody who uses the log, for ever.
  uint64_t slots_per_marker = 1024;
  Rules rules;
};

std::string SlotKey(uint64_t number);
std::string MarkerKey(uint64_t index);
// The number behind a slot's key, or nothing if it is no such key.
std::optional<uint64_t> ParseSlotKey(const std::string& key);

struct Slot {
  uint64_t number = 0;
  Bytes body;
};

struct AppendResult {
  enum Kind {
    kLanded,  // the slot is ours
    kLost,  // the slot is another's; `winner` is what it holds
    kStale,  // the number had been used and forgotten long ago; find the newest slot and look there
    kUnknown,  // cannot tell before the deadline: keep everything that was staged
  };
  Kind kind;
  Bytes winner;
  Status reason;
};

class Log {
 public:
  Log(std::shared_ptr<ObjectStore> store, Executor& executor, Random random, LogOptions options = {});

  // The number that somebody noted, if there is one: where to begin to look, never an answer.
  static Result<std::optional<uint64_t>> ReadHint(ObjectStore& store, const Deadline& deadline);

  // The newest slot, nothing if there is none. `known` is a number that may have existed, a hint; without it the whole log is listed.
  Result<std::optional<Slot>> FindNewest(std::optional<uint64_t> known, const Deadline& deadline);

  // The slot after `number`, if it is there. What it holds is genuine: the marker was checked.
  // Nothing there: either it is not written yet, or `number` is far behind; `FindNewest` tells them apart.
  Result<std::optional<Slot>> Next(uint64_t number, const Deadline& deadline);

  // The newest slot, if it is behind `number`, which the caller has: one request if there is none, three otherwise.
  Result<std::optional<Slot>> NewestAfter(uint64_t number, const Deadline& deadline);

  // What the slot holds, if anything. It decides something only if `Genuine` says so, asked afterwards; that speaks for all higher slots that
  // were read before, too.
  Result<std::optional<Slot>> Peek(uint64_t number, const Deadline& deadline);
  Result<bool> Genuine(uint64_t number, const Deadline& deadline);

  // Tries to be slot `number`, built on `number` − 1. The body must be unlike anybody else's (carry a nonce).
  Result<AppendResult> Append(uint64_t number, const Body& body, const Deadline& deadline);

  // Notes `number` for those who open the log later, best effort. Meant for at most one write a second: that is the caller's to keep.
  void Hint(uint64_t number, const Deadline& deadline);

  // The lowest slot that certainly is still there.
  Result<uint64_t> Floor(const Deadline& deadline);
  // Lets slots below `number` be forgotten: creates their markers in ascending order. Deletes nothing.
  Result<uint64_t> RaiseFloor(uint64_t number, const Deadline& deadline);
  // The keys of all slots below `floor` that are still there (also those that late writers created).
  Result<std::vector<std::string>> Forgotten(uint64_t floor, const Deadline& deadline);

  ObjectStore& store() { return *store_; }

 private:
  // The greatest number in a list of the slots after `after`.
  Result<std::optional<uint64_t>> NewestListed(std::optional<uint64_t> after, const Deadline& deadline);
  // Whether the slot `number` may be gone.
  Result<bool> Marked(uint64_t number, const Deadline& deadline);

  std::shared_ptr<ObjectStore> store_;
  Executor& executor_;
  const LogOptions options_;
  std::mutex mutex_;
  Random random_;
  uint64_t hinted_ = 0;
};

}  // namespace headrace
