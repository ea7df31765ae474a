#include "sim/explorer.h"

#include <algorithm>
#include <cstdio>
#include <map>
#include <optional>

#include "base/text.h"
#include "store/decorator.h"

namespace headrace {
namespace {

constexpr size_t kLongestRun = 600;

uint64_t Mix(uint64_t a, uint64_t b) {
  uint64_t x = a * 0x9E3779B97F4A7C15ull + b + 0x632BE59BD9B4E019ull;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ull;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBull;
  return x ^ (x >> 31);
}
uint64_t Mix(uint64_t a, std::string_view text) { return Mix(a, std::hash<std::string_view>()(text)); }

// An actor's own time: it passes only while the actor itself sleeps, so that what it does depends on nobody else's pauses.
class OwnTime final : public Executor, public Clock {
 public:
  explicit OwnTime(Simulation& simulation) : simulation_(simulation) {}
  Clock& clock() override { return *this; }
  void Spawn(std::function<void()> work) override { simulation_.Spawn(std::move(work)); }
  std::unique_ptr<Signal> MakeSignal() override { return std::make_unique<OwnSignal>(*this); }
  Instant Now() override { return now_; }
  WallTime WallNow() override { return WallTime(std::chrono::seconds(1'800'000'000)) + now_.time_since_epoch(); }
  void SleepUntil(Instant until, std::stop_token) override {
    if (until != Instant::max()) now_ = std::max(now_, until);
  }

 private:
  // Whoever waits until some time has waited that long: a time that comes before anybody's call is decided.
  class OwnSignal final : public Signal {
   public:
    explicit OwnSignal(OwnTime& time) : time_(time), signal_(time.simulation_.MakeSignal()) {}
    bool WaitUntil(std::unique_lock<std::mutex>& lock, Instant until) override {
      if (until == Instant::max()) return signal_->WaitUntil(lock, until);
      Duration left = std::max(Duration::zero(), until - time_.now_);
      bool notified = signal_->WaitUntil(lock, time_.simulation_.Now() + left);
      if (!notified) time_.now_ = std::max(time_.now_, until);
      return notified;
    }
    void WaitInDestructor(std::unique_lock<std::mutex>& lock) override { signal_->WaitInDestructor(lock); }
    void NotifyOne() override { signal_->NotifyOne(); }
    void NotifyAll() override { signal_->NotifyAll(); }

   private:
    OwnTime& time_;
    std::unique_ptr<Signal> signal_;
  };

  Simulation& simulation_;
  Instant now_{std::chrono::seconds(10)};
};

// What a call of a store would do; shared by the actor that made it and by those who let it happen later.
struct Call {
  std::string words;  // for people: "create log/…7"
  std::string key;
  bool changes = false;  // may be lost or late
  uint64_t body = 0;  // a hash of what it writes
  std::function<void()> effect;  // writes the answer where the actor finds it
  std::function<void()> lose;  // an answer that says nothing
  bool* granted = nullptr;
};

}  // namespace

// One run of a case, from the beginning, by decisions that are made at every point.
class ExploredRun {
 public:
  ExploredRun(const Case& what, Rules rules)
      : case_(what), rules_(rules), truth_(std::make_shared<MemoryStore>("explored", simulation_)) {
    history_ = std::make_shared<History>(truth_, what.info, rules);
  }

  // Whoever still waits is unwound while everything that it refers to is there.
  ~ExploredRun() {
    for (const Living& actor : actors_) simulation_.Kill(actor.process);
    simulation_.Run();
  }
  // Runs what comes before the exploration.
  void Begin();
  // Who may do what now. Nothing: everybody is done or dead.
  size_t Choices();
  uint64_t State() const;
  // Makes one decision and runs until all wait again. Says what it was.
  std::string Decide(size_t choice);
  void End();

  const std::vector<std::string>& violations() const { return history_->violations(); }

 private:
  class ActorStore;
  enum Kind { kGo, kLoseAnswer, kComeLate, kDie, kLand };
  struct Choice {
    Kind kind;
    size_t who;  // an actor, or for kLand a late effect
    size_t which = 0;  // of the actor's calls: it may do several things side by side
  };
  struct Living {
    Simulation::ProcessId process = 0;
    std::unique_ptr<OwnTime> time;
    std::unique_ptr<Signal> signal;
    std::vector<Call> waits;  // at these calls
    uint64_t told = 0;  // a hash of all that it was told
    bool dead = false;
    bool done = false;
    bool listed_data = false;
  };
  struct Late {
    Call call;
    uint64_t hash;
  };

  StreamContext Context(std::shared_ptr<ObjectStore> store, Executor& executor, std::string_view who) {
    return {std::move(store), &executor, Random(1).Fork(who), case_.discipline, rules_};
  }
  void Wait(size_t actor, Call call);
  // Whether it makes no difference when the call happens: it cannot change what others are told, and they cannot change its answer.
  bool Unseen(const Call& call) const;
  void Note(const std::string& key, std::optional<uint64_t> body) {
    auto [at, fresh] = contents_.try_emplace(key, 0);
    if (!fresh) store_hash_ ^= at->second;
    if (body) {
      at->second = Mix(*body, key);
      store_hash_ ^= at->second;
    } else {
      contents_.erase(at);
    }
  }

  const Case& case_;
  const Rules rules_;
  Simulation simulation_{1};
  std::shared_ptr<MemoryStore> truth_;
  std::shared_ptr<History> history_;
  std::mutex mutex_;
  OwnTime peace_{simulation_};
  std::vector<Living> actors_;
  std::vector<Late> late_;
  std::vector<Choice> choices_;
  std::map<std::string, uint64_t> contents_;
  uint64_t store_hash_ = 0;
  int faults_ = 0, deaths_ = 0;
  bool exploring_ = false;
};

// The store as an actor sees it: every call waits until it is decided.
class ExploredRun::ActorStore final : public StoreDecorator {
 public:
  ActorStore(ExploredRun& run, size_t actor) : StoreDecorator(run.history_), run_(run), actor_(actor) {}

  using ObjectStore::Get;
  Result<std::optional<Object>> Get(const std::string& key, const GetOptions& options, const Deadline& deadline) override {
    Result<std::optional<Object>> answer = Gone();
    Call call{Cat("get ", key), key, false, 0, [&] { answer = inner().Get(key, options, deadline); }, [] {}};
    run_.Wait(actor_, std::move(call));
    Told(answer.ok() && *answer ? Mix(1, (**answer).bytes.AsText()) : 2);
    return answer;
  }
  Result<PutOutcome> PutIfAbsent(const std::string& key, const Body& body, const Deadline&) override {
    auto answer = std::make_shared<Result<PutOutcome>>(Gone());
    Bytes bytes = body.Join();
    uint64_t hash = Mix(3, bytes.AsText());
    Call call{Cat("create ", key),
              key,
              true,
              hash,
              [run = &run_, answer, key, body, hash] {
                *answer = run->history_->PutIfAbsent(key, body, {});
                if (answer->ok() && (*answer)->kind == PutOutcome::kCreated) run->Note(key, hash);
              },
              [answer] { *answer = PutOutcome{PutOutcome::kUnknown, Status(Code::kUnavailable, "the answer was lost")}; }};
    run_.Wait(actor_, std::move(call));
    // What comes late answers nobody any more.
    Result<PutOutcome> mine = *answer;
    Told(mine.ok() ? static_cast<uint64_t>(mine->kind) : 9);
    return mine;
  }
  Status Put(const std::string& key, const Body& body, const Deadline&) override {
    auto answer = std::make_shared<Status>(Gone());
    uint64_t hash = Mix(3, body.Join().AsText());
    Call call{Cat("put ", key),
              key,
              true,
              hash,
              [run = &run_, answer, key, body, hash] {
                *answer = run->history_->Put(key, body, {});
                run->Note(key, hash);
              },
              [answer] { *answer = Status(Code::kUnavailable, "the answer was lost"); }};
    run_.Wait(actor_, std::move(call));
    Told(answer->ok());
    return *answer;
  }
  Result<ListPage> List(const ListOptions& options, const Deadline& deadline) override {
    Result<ListPage> answer = Gone();
    Call call{Cat("list ", options.prefix), options.prefix, false, 0, [&] { answer = inner().List(options, deadline); }, [] {}};
    run_.Wait(actor_, std::move(call));
    uint64_t hash = 4;
    if (answer.ok()) {
      for (const ListEntry& entry : answer->entries) hash = Mix(hash, entry.key);
    }
    Told(hash);
    if (options.prefix == "data/") run_.actors_[actor_].listed_data = true;
    return answer;
  }
  Status Delete(std::span<const std::string> keys, const Deadline&) override {
    if (keys.empty()) return {};
    auto answer = std::make_shared<Status>(Gone());
    std::vector<std::string> all(keys.begin(), keys.end());
    uint64_t hash = 5;
    for (const std::string& key : all) hash = Mix(hash, key);
    Call call{Cat("delete ", all.front(), all.size() > 1 ? Cat(" and ", all.size() - 1, " more") : ""),
              all.front(),
              true,
              hash,
              [run = &run_, answer, all] {
                *answer = run->history_->Delete(all, {});
                for (const std::string& key : all) run->Note(key, std::nullopt);
              },
              [answer] { *answer = Status(Code::kUnavailable, "the answer was lost"); }};
    run_.Wait(actor_, std::move(call));
    Told(answer->ok());
    return *answer;
  }

 private:
  static Status Gone() { return Status(Code::kCancelled, "this process is dead"); }
  void Told(uint64_t hash) {
    uint64_t& told = run_.actors_[actor_].told;
    told = Mix(told, hash);
  }

  ExploredRun& run_;
  const size_t actor_;
};

void ExploredRun::Wait(size_t actor, Call call) {
  if (simulation_.Unwinding()) return;
  uint64_t& told = actors_[actor].told;
  told = Mix(Mix(told, call.words), call.body);
  if (!exploring_ || Unseen(call)) return call.effect();
  bool granted = false;
  call.granted = &granted;
  actors_[actor].waits.push_back(std::move(call));
  std::unique_lock lock(mutex_);
  while (!granted) actors_[actor].signal->Wait(lock);
}

bool ExploredRun::Unseen(const Call& call) const {
  // The hint is only for those who open the stream, which everybody here has done.
  if (call.key == "log/hint") return true;
  bool deleter = false, lister = false;
  for (size_t i = 0; i < actors_.size(); ++i) {
    bool busy = case_.actors[i].deletes && !actors_[i].dead && !actors_[i].done;
    deleter = deleter || busy;
    lister = lister || (busy && !actors_[i].listed_data);
  }
  // Chunks have names of their own: without somebody who will list them, a put meets nobody.
  if (!lister && call.key.starts_with("data/") && call.changes) return true;
  for (const Late& late : late_) deleter = deleter || late.call.words.starts_with("delete") || late.call.key.starts_with("gc/");
  if (deleter) return false;
  if (call.key.starts_with("data/") || call.key.starts_with("gc/")) return true;
  return call.key.starts_with("log/0") && contents_.contains(call.key);
}

void ExploredRun::Begin() {
  simulation_.Run([&] {
    auto created = StreamLog::Create(case_.info, Context(history_, peace_, "creator"), {});
    if (!created.ok()) history_->Violate(created.status().ToString());
    if (case_.prologue) case_.prologue(Context(history_, peace_, "prologue"), *history_);
  });
  actors_.resize(case_.actors.size());
  for (size_t i = 0; i < actors_.size(); ++i) {
    Living& actor = actors_[i];
    actor.time = std::make_unique<OwnTime>(simulation_);
    actor.signal = simulation_.MakeSignal();
    actor.process = simulation_.Start(case_.actors[i].name, [this, &actor, i] {
      auto store = std::make_shared<ActorStore>(*this, i);
      std::function<void()> life = case_.actors[i].start(Context(std::move(store), *actor.time, case_.actors[i].name), *history_);
      {
        std::unique_lock lock(mutex_);
        while (!exploring_) actor.signal->Wait(lock);
      }
      life();
      life = nullptr;
      actor.done = true;
    });
    simulation_.Run();
    actor.told = 0;
  }
  std::vector<ListEntry> there = *ListAll(*truth_, "", {});
  for (const ListEntry& entry : there) Note(entry.key, 1);
  exploring_ = true;
  for (Living& actor : actors_) actor.signal->NotifyAll();
  simulation_.Run();
}

size_t ExploredRun::Choices() {
  choices_.clear();
  // One that has become unseen while it waited.
  for (size_t i = 0; i < actors_.size(); ++i) {
    for (size_t j = 0; j < actors_[i].waits.size(); ++j) {
      if (!Unseen(actors_[i].waits[j])) continue;
      choices_.push_back({kGo, i, j});
      return 1;
    }
  }
  for (size_t i = 0; i < actors_.size(); ++i) {
    for (size_t j = 0; j < actors_[i].waits.size(); ++j) choices_.push_back({kGo, i, j});
  }
  for (size_t i = 0; i < late_.size(); ++i) choices_.push_back({kLand, i});
  for (size_t i = 0; i < actors_.size(); ++i) {
    if (actors_[i].waits.empty() || case_.actors[i].lucky) continue;
    for (size_t j = 0; j < actors_[i].waits.size() && faults_ < case_.faults; ++j) {
      if (!actors_[i].waits[j].changes) continue;
      choices_.push_back({kLoseAnswer, i, j});
      choices_.push_back({kComeLate, i, j});
    }
    if (deaths_ < case_.deaths) choices_.push_back({kDie, i});
  }
  return choices_.size();
}

uint64_t ExploredRun::State() const {
  uint64_t state = Mix(store_hash_, static_cast<uint64_t>(faults_ * 16 + deaths_));
  for (const Living& actor : actors_) state = Mix(state, actor.dead ? 1 : actor.told);
  uint64_t on_the_way = 0;
  for (const Late& late : late_) on_the_way ^= late.hash;
  state = Mix(state, on_the_way);
  // What was committed and deleted since is not in the store, but the model goes on comparing with it.
  return Mix(Mix(Mix(state, history_->newest().number), history_->newest().nonce), history_->witnessed());
}

std::string ExploredRun::Decide(size_t choice) {
  auto [kind, who, which] = choices_[choice];
  if (kind == kLand) {
    Late late = std::move(late_[who]);
    late_.erase(late_.begin() + static_cast<std::ptrdiff_t>(who));
    late.call.effect();
    return Cat("at last: ", late.call.words);
  }
  Living& actor = actors_[who];
  Call call = std::move(actor.waits[which]);
  actor.waits.erase(actor.waits.begin() + static_cast<std::ptrdiff_t>(which));
  std::string what = Cat(case_.actors[who].name, ": ", call.words);
  switch (kind) {
    case kGo: call.effect(); break;
    case kLoseAnswer:
      call.effect();
      call.lose();
      ++faults_;
      what += ", the answer is lost";
      break;
    case kComeLate:
      call.lose();
      ++faults_;
      late_.push_back({call, Mix(Mix(call.body, call.words), who)});
      what += ", comes late, the answer is lost";
      break;
    case kDie:
      ++deaths_;
      actor.dead = true;
      actor.waits.clear();
      simulation_.Kill(actor.process);
      simulation_.Run();
      return Cat(case_.actors[who].name, " dies before: ", call.words);
    case kLand: break;
  }
  *call.granted = true;
  actor.signal->NotifyAll();
  simulation_.Run();
  return what;
}

void ExploredRun::End() {
  exploring_ = false;
  simulation_.Run([&] {
    if (case_.epilogue) case_.epilogue(Context(history_, peace_, "epilogue"), *history_);
  });
}

std::string Explorer::PathText() const {
  std::string text;
  for (const Node& node : stack_) text += Cat(text.empty() ? "" : ".", node.chosen);
  return text;
}

Summary Explorer::Explore(uint64_t most_runs) {
  Summary summary;
  stack_.clear();
  known_.clear();
  double all = 0;
  while (summary.runs < most_runs) {
    ++summary.runs;
    ExploredRun run(case_, rules_);
    run.Begin();
    size_t depth = 0;
    double found = 1;  // interleavings behind the point where this run ends
    while (true) {
      size_t choices = run.Choices();
      if (depth == stack_.size()) {
        if (!run.violations().empty()) break;
        if (choices == 0) {
          run.End();
          break;
        }
        uint64_t state = run.State();
        if (auto seen = known_.find(state); seen != known_.end()) {
          found = seen->second;
          break;
        }
        stack_.push_back({state, choices});
      }
      run.Decide(stack_[depth].chosen);
      ++depth;
      summary.longest = std::max(summary.longest, depth);
      if (depth > kLongestRun) {
        summary.violations = {"a run does not end"};
        summary.path = PathText();
        return summary;
      }
    }
    if (!run.violations().empty()) {
      summary.violations = run.violations();
      summary.path = PathText();
      summary.interleavings = all;
      return summary;
    }
    // Back to the last point with a decision that was not tried.
    while (!stack_.empty()) {
      Node& node = stack_.back();
      node.interleavings += found;
      if (++node.chosen < node.choices) break;
      found = node.interleavings;
      known_[node.state] = found;
      stack_.pop_back();
    }
    if (stack_.empty()) {
      summary.complete = true;
      summary.interleavings = found;
      break;
    }
  }
  summary.states = known_.size();
  return summary;
}

Summary Explorer::Replay(const std::string& path) {
  Summary summary;
  ExploredRun run(case_, rules_);
  run.Begin();
  std::vector<std::string> decisions = path.empty() ? std::vector<std::string>() : Split(path, '.');
  for (size_t at = 0;; ++at) {
    size_t choices = run.Choices();
    if (choices == 0) {
      run.End();
      std::printf("  everybody is done\n");
      break;
    }
    uint64_t choice = 0;
    if (at < decisions.size()) ParseNumber(decisions[at], choice);
    std::printf("  %s\n", run.Decide(std::min<size_t>(choice, choices - 1)).c_str());
    if (!run.violations().empty()) break;
  }
  summary.violations = run.violations();
  return summary;
}

}  // namespace headrace
