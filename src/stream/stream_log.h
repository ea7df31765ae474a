// A stream's manifests: the newest one that this process knows, and the only way to make the next.
//
// `Commit` makes one edit durable, or says why not. Its answer is about the log, not about a request: an edit is in when it is found in
// the newest manifest, whoever carried it there. `kFenced`: the strand has another owner. `kConflict`: the edit does not fit, and will not.
// `kOutcomeUnknown`: the deadline passed and nobody can tell yet; what was staged must be kept then.
//
// Callers of one process share their commits: one of them leads, the others' edits ride along. Between processes edits are combined
// through intents (docs/design/0004-combining.md); when to try is the pace's to say. Whoever carried others' edits goes on doing so, in the
// background, for as long as there are any: a steward.
//
// Thread-safe. Holds one manifest. What a caller need not wait for (sealing, the hint, deleting intents, stewardship) runs on the executor;
// the destructor ends it, and waits for the request that is on its way.
#pragma once

#include <atomic>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <stop_token>
#include <vector>

#include "base/executor.h"
#include "log/log.h"
#include "log/pace.h"
#include "stream/edit.h"
#include "stream/index.h"
#include "stream/stream_info.h"

namespace headrace {

// What a stream works with; passed in, so that a whole run can be simulated.
struct StreamContext {
  std::shared_ptr<ObjectStore> store;  // of the stream alone: keys begin at its prefix
  Executor* executor = nullptr;
  Random random{0};
  Discipline discipline = Discipline::kCombine;
  Rules rules = {};
};

// A manifest and its bytes, which the next one's hash covers.
struct StreamState {
  Manifest manifest;
  Bytes encoded;
};

class StreamLog {
 public:
  using State = StreamState;
  using StatePtr = std::shared_ptr<const State>;

  // Writes stream.json and the first manifest. kConflict if there is a stream already.
  static Result<std::shared_ptr<StreamLog>> Create(StreamInfo info, StreamContext context, const Deadline& deadline);
  static Result<std::shared_ptr<StreamLog>> Open(StreamContext context, const Deadline& deadline);

  ~StreamLog();
  // Ends what goes on in the background at once, for whoever takes the executor down while others still hold the log. Commits nothing after that.
  void Retire();

  const StreamInfo& info() const { return info_; }
  StreamContext& context() { return context_; }
  ObjectStore& store() { return *context_.store; }
  Clock& clock() { return context_.executor->clock(); }
  Log& log() { return log_; }
  Index& index() { return index_; }
  // A random number that only this process has, as the strand table's `owner`.
  uint64_t owner() const { return owner_; }
  uint64_t NewNonce();

  // The newest manifest that this process has seen; no request.
  StatePtr known() const;
  // The newest manifest, as a rule: one request if nothing is new, two for each of the next few. Who was away for so long that the next slots
  // were forgotten meanwhile may get what it knew already; that is never unsafe, and noticed after a few calls.
  Result<StatePtr> Refresh(const Deadline& deadline);
  // The newest manifest for certain: two or three requests.
  Result<StatePtr> RefreshFully(const Deadline& deadline);

  // Returns a manifest that has the edit in it.
  Result<StatePtr> Commit(const Edit& edit, const Deadline& deadline);

  // Seals or folds once if the index is ready for it; false if it is not. As a rule commits do this on the way.
  Result<bool> SealNow(const Deadline& deadline);

  // Whether the edit is in this manifest, or in the index below it. kOutcomeUnknown: it may have been, and trimmed since.
  Result<bool> Contains(const Manifest& manifest, const Edit& edit, const Deadline& deadline);

  struct Counts {
    std::atomic<uint64_t> commits = 0;  // manifests of ours
    std::atomic<uint64_t> lost = 0;  // attempts that another one beat
    std::atomic<uint64_t> carried = 0;  // edits of ours in others' manifests
    std::atomic<uint64_t> combined = 0;  // edits of others in ours
  };
  const Counts& counts() const { return counts_; }

 private:
  struct Ticket {
    Edit edit;
    bool settled = false;
    bool posted = false;  // an intent may be about
    bool in_doubt = false;  // was part of an attempt whose outcome nobody knows
    bool in_flight = false;  // is part of a proposal that is on its way, or about to be
    bool fresh = false;  // was refused once, and is judged by a newer manifest now
    bool validated = false;
    int stalls = 0;  // how often it was beyond the window
    Instant look_at{};  // when to see what became of it; at once, unless others may carry it
    Instant try_at{};  // when to try, if nobody has carried it by then
    Status refusal;
    StatePtr in;
  };
  struct Proposal {
    std::string encoded;
    Manifest manifest;
    std::vector<std::shared_ptr<Ticket>> tickets;
    std::vector<std::string> done_intents;  // carried by this proposal, or stale already
    std::optional<Edit> seal;  // that rides along
    size_t combined = 0;
    bool full = false;  // something did not fit for lack of a seal
    bool stale = false;  // something did not fit, perhaps because the manifest is old
    bool stalled = false;  // something waits for other strands
  };
  enum class Turn { kNothing, kLanded, kOther };

  StreamLog(StreamInfo info, StreamContext context, StatePtr newest);

  // One turn at leading: settles what can be settled, waits, and attempts at most one manifest.
  Status Lead(const Deadline& deadline);
  Status LeadOnce(const Deadline& deadline);
  // Waits until it is time to see what became of what was posted, and looks. True if it is time to try for ourselves.
  Result<bool> WaitToBeCarried(const Deadline& deadline);
  // The newest manifest, with few requests; stops at one that has all that is waiting.
  Result<StatePtr> Look(const Deadline& deadline);
  // Builds the next manifest and appends it, if there is anything for it. `steward`: also if all of it is others'.
  Result<Turn> TakeTurn(bool combine, bool steward, const Deadline& deadline);
  // Goes on carrying others' edits until there are none, or somebody else does it.
  void Steward();
  // Does what nobody waits for.
  void Tend();
  void StartTending();  // with the mutex held

  std::vector<std::shared_ptr<Ticket>> Waiting();
  Status Settle(const StatePtr& state, const Deadline& deadline);
  // Posts the intents that are not posted yet, side by side. It does not matter whether that succeeds.
  void Post(const std::vector<std::shared_ptr<Ticket>>& tickets, const Deadline& deadline);
  void PostOne(Ticket& ticket, const Deadline& deadline);
  Result<Proposal> Propose(const State& base, const std::vector<std::shared_ptr<Ticket>>& tickets, bool combine, bool steward,
                           const Deadline& deadline);
  Result<Turn> Attempt(const StatePtr& base, Proposal& proposal, const Deadline& deadline);
  Status Learn(StatePtr state);
  Status CheckLink(const State& before, const State& after);
  Result<StatePtr> Decode(uint64_t number, Bytes body);
  size_t Rivals(const Manifest& manifest) const;
  // Writes the segment that the tail, or a level of the index, is ready for, and returns its edit.
  bool ReadyToSeal(const Manifest& manifest, bool urgent) const;
  Result<std::optional<Edit>> PrepareSeal(const Manifest& manifest, bool urgent, const Deadline& deadline);
  void Discard(std::vector<std::string> intents);

  const StreamInfo info_;
  StreamContext context_;
  Log log_;
  Index index_;
  const uint64_t owner_;
  Counts counts_;

  mutable std::mutex mutex_;
  std::unique_ptr<Signal> changed_;
  Random random_;
  Pace pace_;
  StatePtr newest_;
  std::deque<std::shared_ptr<Ticket>> queue_;
  std::optional<Edit> seal_;  // prepared, waiting for a commit to ride on
  bool leading_ = false;
  bool stewarding_ = false;
  int quiet_refreshes_ = 0;
  uint64_t arrivals_ = 0;  // edits that came to be committed
  Instant known_at_{};  // when `newest_` was the newest for all we know

  // What nobody waits for.
  std::unique_ptr<Signal> tend_;
  bool tending_ = false;
  bool closing_ = false;
  bool seal_due_ = false;
  uint64_t hint_owed_ = 0;
  Instant next_hint_{};
  std::set<std::string> done_intents_;
  Instant discard_at_{};
  std::stop_source stop_;
  TaskGroup background_;  // last, so that it ends first
};

}  // namespace headrace
