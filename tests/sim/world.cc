#include "sim/world.h"

#include <algorithm>

#include "base/text.h"
#include "store/retrying_store.h"
#include "store/slow_store.h"
#include "stream/collector.h"
#include "stream/rules.h"
#include "stream/strand_watch.h"
#include "stream/strand_writer.h"
#include "stream/stream_reader.h"

namespace headrace {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr Duration kTakeOver = seconds(5);
constexpr Duration kLongPeace = seconds(4000);

uint64_t ParseState(const std::optional<Bytes>& state) {
  uint64_t index = 0;
  if (state) ParseNumber(state->AsText(), index);
  return index;
}

std::string Sample(uint16_t strand, uint64_t index, uint32_t mixture) { return Cat("s", strand, " i", index, " m", mixture); }

Body Cell(const StreamInfo& info, const std::string& text) {
  Array array{Dtype::kU8, {text.size()}, Bytes::FromString(text)};
  return *BuildCell({&array, 1}, info.columns);
}

}  // namespace

Scenario Scenario::FromSeed(uint64_t seed) {
  Random random = Random(seed).Fork("scenario");
  Scenario s;
  for (auto& byte : s.info.uuid) byte = static_cast<unsigned char>(random.Next());
  s.info.strands = static_cast<uint32_t>(1 + random.Below(4));
  s.info.lanes = static_cast<uint32_t>(1 + random.Below(3));
  s.info.window = static_cast<uint32_t>(s.info.strands + random.Below(s.info.strands + 1));
  s.info.blocks = BlockSizes::Growing(s.info.strands, static_cast<uint32_t>(1 + random.Below(3)));
  s.info.order = random.Chance(0.15) ? Order::kArrival : Order::kPlanned;
  s.info.slots_per_marker = static_cast<uint32_t>(2 + 2 * random.Below(3));
  s.info.segment_entries = static_cast<uint32_t>(4 + random.Below(5));
  s.info.columns = {{"sample", Dtype::kU8, Column::kArray}};
  for (uint32_t v = 0; v < s.info.strands; ++v)
    s.samples.push_back(s.info.lanes * (5 + random.Below(40)) + random.Below(s.info.lanes));
  s.producers = static_cast<int>(1 + random.Below(4));
  s.capacity = static_cast<int>(1 + random.Below(3));
  s.readers = static_cast<int>(1 + random.Below(2));
  s.collectors = static_cast<int>(1 + random.Below(2));
  s.trainers = static_cast<int>(random.Below(4));
  s.decider = random.Chance(0.5);
  s.stranger = random.Chance(0.6);
  s.flood = random.Chance(0.03);
  s.trouble = random.Chance(0.2) ? 0 : random.Uniform(0, 0.08) / 8;
  s.death = random.Chance(0.2) ? 0 : random.Uniform(0, 0.01);
  s.stall = random.Chance(0.2) ? 0 : random.Uniform(0, 0.02);
  s.longest_stall = seconds(1 + static_cast<int64_t>(random.Below(60)));
  // Some make blocks that take longer than the patience of others.
  bool slow = random.Chance(0.2);
  s.shortest_build = slow ? seconds(8) : seconds(0);
  s.longest_build = slow ? seconds(16) : milliseconds(1500);
  if (slow) s.producers = std::max(2, s.producers);
  s.grace = milliseconds(static_cast<int64_t>(100 + random.Below(8000)));
  s.war = seconds(20 + static_cast<int64_t>(random.Below(100)));
  s.jump = random.Chance(0.5) ? 0 : random.Uniform(0, 0.05);
  return s;
}

// The outside world as one process sees it: at any request the process may stall or die, before or after the effect.
class World::ProcessStore final : public StoreDecorator {
 public:
  ProcessStore(World& world, ProcessTime& time, uint64_t seed)
      : StoreDecorator(world.store_), world_(world), time_(time), random_(seed), jumps_(Random(seed).Fork("jumps")) {}

  using ObjectStore::Get;
  Result<std::optional<Object>> Get(const std::string& key, const GetOptions& options, const Deadline& deadline) override {
    return Do<Result<std::optional<Object>>>([&] { return inner().Get(key, options, time_.ForOthers(deadline)); });
  }
  Result<PutOutcome> PutIfAbsent(const std::string& key, const Body& body, const Deadline& deadline) override {
    return Do<Result<PutOutcome>>([&] { return inner().PutIfAbsent(key, body, time_.ForOthers(deadline)); });
  }
  Status Put(const std::string& key, const Body& body, const Deadline& deadline) override {
    return Do<Status>([&] { return inner().Put(key, body, time_.ForOthers(deadline)); });
  }
  Result<ListPage> List(const ListOptions& options, const Deadline& deadline) override {
    return Do<Result<ListPage>>([&] { return inner().List(options, time_.ForOthers(deadline)); });
  }
  Status Delete(std::span<const std::string> keys, const Deadline& deadline) override {
    return Do<Status>([&] { return inner().Delete(keys, time_.ForOthers(deadline)); });
  }

 private:
  template <typename Answer>
  Answer Do(const std::function<Answer()>& call) {
    Simulation& simulation = world_.simulation_;
    if (simulation.Unwinding()) return Status(Code::kCancelled, "this process is dead");
    bool war = !world_.Peace();
    if (war && random_.Chance(world_.scenario_.stall)) {
      simulation.SleepFor(
          Duration(static_cast<int64_t>(random_.Uniform() * static_cast<double>(world_.scenario_.longest_stall.count()))));
    }
    if (war && jumps_.Chance(world_.scenario_.jump)) {
      time_.Jump();
      ++world_.jumps_;
    }
    bool dies = war && random_.Chance(world_.scenario_.death);
    bool before = random_.Chance(0.5);
    if (dies && before) Die();
    Answer answer = call();
    if (dies) Die();
    return answer;
  }
  void Die() {
    ++world_.deaths_;
    world_.simulation_.Kill(world_.simulation_.current());
  }

  World& world_;
  ProcessTime& time_;
  Random random_;
  Random jumps_;
};

World::World(uint64_t seed, Rules rules)
    : seed_(seed), rules_(rules), scenario_(Scenario::FromSeed(seed)), simulation_(seed), chance_(Random(seed).Fork("chance")) {
  history_ = std::make_shared<History>(std::make_shared<MemoryStore>("sim", simulation_), scenario_.info, rules);
  history_->on_chunk = [this](const Entry& entry, const Bytes& object) { OnChunk(entry, object); };
  auto slow = std::make_shared<SlowStore>(history_, SlowOptions{}, simulation_, Random(seed).Fork("slow"));
  // A request that is on its way outlives the process that sent it.
  FaultPlan plan = FaultPlan::Trouble(scenario_.trouble);
  plan.rules.insert(
      plan.rules.begin(),
      {.fault = Fault::LandLate(seconds(2), seconds(40)), .op = StoreOp::kPut, .key_prefix = "gc/", .probability = 0.3});
  faulty_ = std::make_shared<FaultyStore>(slow, plan, simulation_, Random(seed).Fork("faults"),
                                          [this](std::function<void()> late) { simulation_.Start("late", std::move(late)); });
  RetryOptions retries;
  retries.attempt_timeout = seconds(5);
  retries.budget = {.share = 1, .per_second = 100, .burst = 1000};
  store_ = std::make_shared<RetryingStore>(faulty_, retries, simulation_, Random(seed).Fork("retries"));
}

Clock& World::OwnClock() {
  auto found = times_.find(simulation_.current());
  return found == times_.end() ? static_cast<Clock&>(simulation_) : *found->second;
}

Deadline World::Soon() {
  return Deadline::After(OwnClock(), seconds(Peace() ? 60 : 1 + static_cast<int64_t>(chance_.Below(40))));
}

void World::Nap(Duration longest) {
  simulation_.SleepFor(Duration(static_cast<int64_t>(chance_.Uniform() * static_cast<double>(longest.count()))));
}

void World::StartActor(const std::string& role, std::function<void(StreamContext)> life) {
  // Restarted, as an orchestrator does, until the stream is done.
  simulation_.Spawn([this, role, life = std::move(life)] {
    while (!stopping_ && !history_->newest().finished) {
      uint64_t number = ++lives_;
      uint64_t seed = Random(seed_).Fork(Cat(role, number)).Next();
      auto process = simulation_.Start(Cat(role, number), [this, seed, life] {
        auto& time = times_[simulation_.current()];
        time = std::make_unique<ProcessTime>(simulation_, Random(seed).Fork("time"));
        life({std::make_shared<ProcessStore>(*this, *time, seed), time.get(), Random(seed), scenario_.discipline, rules_});
      });
      while (simulation_.Alive(process) && !stopping_) {
        simulation_.SleepFor(milliseconds(500));
        bool killed = !Peace() && role != "late" && chance_.Chance(scenario_.death);
        if (killed) {
          ++deaths_;
          simulation_.Kill(process);
        }
      }
      Nap(seconds(3));
    }
  });
}

Outcome World::Run() {
  const StreamInfo& info = scenario_.info;
  simulation_.Run([&] {
    StreamContext context{history_, &simulation_, Random(seed_).Fork("creator")};
    auto created = StreamLog::Create(info, context, {});
    if (!created.ok()) history_->Violate(created.status().ToString());
  });
  if (!history_->begun()) return {history_->violations()};
  peace_at_ = simulation_.Now() + scenario_.war;
  simulation_.Spawn([&] { Supervise(); });
  simulation_.RunUntil(peace_at_);
  faulty_->Heal();
  simulation_.RunUntil(peace_at_ + kLongPeace);
  stopping_ = true;
  simulation_.RunUntil(simulation_.Now() + seconds(300));

  simulation_.Run([&] {
    faulty_->Drain();
    StreamContext context{history_, &simulation_, Random(seed_).Fork("last"), scenario_.discipline, rules_};
    auto log = StreamLog::Open(context, {});
    if (!log.ok()) return history_->Violate(log.status().ToString());
    history_->Saw((*log)->known()->manifest, (*log)->known()->encoded);
    Collector collector(*log);
    for (int i = 0; i < 2; ++i) {
      auto collected = collector.Collect({.grace = seconds(1), .keep_manifests = 1}, {});
      if (!collected.ok()) history_->Violate(Cat("the last collection failed: ", collected.status().ToString()));
    }
    StreamReader reader(*log);
    const Manifest manifest = (*log)->known()->manifest;
    for (uint64_t step = manifest.trim_step; step < manifest.frontier_step;) {
      auto block = reader.ReadBlock(step, 0, info.lanes, {});
      if (!block.ok()) return history_->Violate(Cat("the last reader failed: ", block.status().ToString()));
      for (uint32_t i = 0; i < block->entry.steps; ++i) {
        for (uint32_t lane = 0; lane < info.lanes; ++lane)
          history_->Read(block->entry.first_step + i, lane, block->cells[i][lane]);
      }
      step = block->entry.end_step();
    }
  });
  history_->CheckAtRest();
  CheckSamples();
  return {history_->violations(),
          simulation_.fingerprint(),
          history_->newest().frontier_step,
          history_->newest().number,
          deaths_,
          history_->zombies(),
          faulty_->struck(),
          jumps_};
}

void World::Supervise() {
  for (int i = 0; i < scenario_.producers; ++i)
    StartActor(Cat("producer", i, "-"), [this](StreamContext context) { Produce(std::move(context)); });
  for (int i = 0; i < scenario_.readers; ++i)
    StartActor(Cat("reader", i, "-"), [this](StreamContext context) { Follow(std::move(context)); });
  for (int i = 0; i < scenario_.collectors; ++i) {
    StartActor(Cat("collector", i, "-"), [this](StreamContext context) { CollectGarbage(std::move(context)); });
  }
  for (int i = 0; i < scenario_.trainers; ++i) {
    StartActor(Cat("trainer", i, "-"), [this](StreamContext context) { Checkpoint(std::move(context)); });
  }
  if (scenario_.decider) {
    StartActor("decider", [this](StreamContext context) { Decide(std::move(context)); });
    StartActor("rival decider", [this](StreamContext context) { Decide(std::move(context)); });
  }
  if (scenario_.stranger) StartActor("stranger", [this](StreamContext context) { Intrude(std::move(context)); });
  if (scenario_.flood) StartActor("flood", [this](StreamContext context) { Flood(std::move(context)); });
}

void World::Produce(StreamContext context) {
  auto log = StreamLog::Open(std::move(context), Soon());
  if (!log.ok()) return;
  StrandWatch watch(kTakeOver, rules_);
  auto running = std::make_shared<std::set<uint16_t>>();
  while (!stopping_) {
    auto state = (*log)->Refresh(Soon());
    if (!state.ok()) return;
    history_->Saw((*state)->manifest, (*state)->encoded);
    if ((*state)->manifest.finished) return;
    bool eager = !rules_.Holds(StreamRule::kSealAfterEnds) && chance_.Chance(0.1);
    if ((*state)->manifest.AllEnded() || eager) TryFinish(*log);
    std::vector<uint16_t> offered = watch.Offered((*state)->manifest, (*log)->owner(), OwnClock().Now());
    // What this process had and let go after an error is its own to take again.
    for (uint16_t v = 0; v < scenario_.info.strands; ++v) {
      const Strand& row = (*state)->manifest.strands[v];
      if (row.owner == (*log)->owner() && !row.ended && !running->contains(v)) offered.push_back(v);
    }
    while (static_cast<int>(running->size()) < scenario_.capacity && !offered.empty()) {
      // Most often the strand that is furthest behind: others may be waiting for it.
      auto behind = std::ranges::min_element(offered, {}, [&](uint16_t v) { return (*state)->manifest.strands[v].next_block; });
      auto pick = chance_.Chance(0.8) ? behind : offered.begin() + static_cast<std::ptrdiff_t>(chance_.Below(offered.size()));
      uint16_t strand = *pick;
      offered.erase(pick);
      if (!running->insert(strand).second) continue;
      simulation_.Spawn([this, log = *log, strand, running] {
        RunStrand(log, strand);
        running->erase(strand);
      });
    }
    Nap(seconds(2));
  }
}

void World::RunStrand(const std::shared_ptr<StreamLog>& log, uint16_t strand) {
  const StreamInfo& info = scenario_.info;
  auto taken = StrandWriter::Take(log, strand, Soon());
  if (!taken.ok()) return;
  StrandWriter& writer = **taken;
  while (!stopping_ && !writer.ended()) {
    uint64_t index = ParseState(writer.state());
    StrandWriter::Turn turn = writer.next();
    // Too far ahead, with fewer hands than strands: let another strand have its turn.
    bool ahead = info.order == Order::kPlanned && turn.block >= log->known()->manifest.frontier_block + info.window;
    if (ahead && chance_.Chance(0.8)) return;
    uint32_t steps = turn.steps;
    if (steps == 0 || !rules_.Holds(StreamRule::kStepsByBlock)) steps = static_cast<uint32_t>(1 + chance_.Below(3));
    simulation_.SleepFor(scenario_.shortest_build);
    Nap(scenario_.longest_build - scenario_.shortest_build);
    Status done;
    if (scenario_.samples[strand] - std::min(scenario_.samples[strand], index) < uint64_t{steps} * info.lanes) {
      done = writer.End(Soon());
      if (done.ok()) return;
    } else {
      ChunkBuilder chunk(info, {chance_.Chance(0.3) ? Codec::kZstd : Codec::kNone});
      for (uint32_t i = 0; i < steps; ++i) {
        std::vector<Body> cells;
        for (uint32_t lane = 0; lane < info.lanes; ++lane) cells.push_back(Cell(info, Sample(strand, index++, turn.mixture)));
        (void)chunk.AddStep(std::move(cells));
      }
      done = writer.Append(turn, chunk, Bytes::FromString(Cat(index)), Soon());
      if (done.ok()) {
        history_->Acknowledged(writer.attempted());
      } else if (done.code() != Code::kOutcomeUnknown) {
        history_->Refused(writer.attempted());
      }
    }
    if (done.ok()) continue;
    if (done.code() == Code::kFenced || chance_.Chance(0.4)) return;
    if (done.code() == Code::kCorrupt) history_->Violate(done.ToString());
    if (!writer.Rebuild(Soon()).ok()) return;
  }
}

void World::TryFinish(const std::shared_ptr<StreamLog>& log) {
  const StreamInfo& info = scenario_.info;
  auto writer = StrandWriter::Take(log, 0, Soon());
  if (!writer.ok()) return;
  // What the strands had left, from the footers of their last chunks.
  const Manifest manifest = log->known()->manifest;
  std::vector<std::string> rest;
  for (uint16_t v = 0; v < info.strands; ++v) {
    uint64_t index = 0;
    if (std::optional<ChunkName> last = manifest.LastChunk(v)) {
      auto footer =
          log->store().Get(last->Key(), GetOptions{.range = ByteRange::Last(manifest.strands[v].last_footer_bytes)}, Soon());
      if (!footer.ok() || !*footer) return;
      auto state = DecodeFooter((**footer).bytes, info.uuid, *last, last->Key());
      if (!state.ok()) return history_->Violate(state.status().ToString());
      index = ParseState(*state);
    }
    for (; index < scenario_.samples[v]; ++index) rest.push_back(Sample(v, index, 0));
  }
  ChunkBuilder chunk(info, {});
  for (size_t at = 0; at < rest.size(); at += info.lanes) {
    std::vector<Body> cells;
    for (uint32_t lane = 0; lane < info.lanes; ++lane)
      cells.push_back(Cell(info, at + lane < rest.size() ? rest[at + lane] : "padding"));
    (void)chunk.AddStep(std::move(cells));
  }
  bool has_steps = chunk.steps() > 0;
  Status done = (*writer)->Finish(chunk, Soon());
  if (!has_steps) return;
  if (done.ok()) {
    history_->Acknowledged((*writer)->attempted());
  } else if (done.code() != Code::kOutcomeUnknown) {
    history_->Refused((*writer)->attempted());
  }
}

void World::Follow(StreamContext context) {
  const StreamInfo& info = scenario_.info;
  auto log = StreamLog::Open(std::move(context), Soon());
  if (!log.ok()) return;
  StreamReader reader(*log);
  uint64_t step = (*log)->known()->manifest.trim_step;
  bool sleepy = chance_.Chance(0.3);
  while (!stopping_) {
    auto there = reader.WaitFor(step, Soon());
    StreamLog::StatePtr known = (*log)->known();
    history_->Saw(known->manifest, known->encoded);
    if (!there.ok()) {
      if (there.code() == Code::kCorrupt) history_->Violate(there.status().ToString());
      if (there.code() == Code::kTimeout) continue;
      return;
    }
    if (!*there) return;
    auto first = static_cast<uint32_t>(chance_.Below(info.lanes));
    auto end = static_cast<uint32_t>(first + 1 + chance_.Below(info.lanes - first));
    auto block = reader.ReadBlock(step, first, end, Soon());
    if (block.code() == Code::kTrimmed) {
      step = std::max(step + 1, (*log)->known()->manifest.trim_step);
      if ((*log)->known()->manifest.trim_step == 0)
        history_->Violate("a reader was told that step 0 and on was trimmed, and nothing was");
      continue;
    }
    if (block.code() == Code::kCorrupt || block.code() == Code::kNotFound)
      history_->Violate(Cat("a reader failed: ", block.status().ToString()));
    if (!block.ok()) return;
    for (uint64_t i = step - block->entry.first_step; i < block->entry.steps; ++i) {
      for (uint32_t lane = first; lane < end; ++lane)
        history_->Read(block->entry.first_step + i, lane, block->cells[i][lane - first]);
    }
    step = block->entry.end_step();
    if (sleepy) Nap(seconds(20));
  }
}

void World::CollectGarbage(StreamContext context) {
  auto log = StreamLog::Open(std::move(context), Soon());
  if (!log.ok()) return;
  Collector collector(*log);
  while (!stopping_) {
    auto collected =
        collector.Collect({.grace = scenario_.grace, .keep_manifests = 1}, Deadline::After(OwnClock(), seconds(300)));
    history_->Saw((*log)->known()->manifest, (*log)->known()->encoded);
    if (collected.code() == Code::kCorrupt) history_->Violate(Cat("a collector failed: ", collected.status().ToString()));
    if (!collected.ok() || (*log)->known()->manifest.finished) return;
    Nap(seconds(4));
  }
}

void World::Checkpoint(StreamContext context) {
  auto log = StreamLog::Open(std::move(context), Soon());
  if (!log.ok()) return;
  std::string session = Cat("session-", (*log)->owner() % 1000000);
  std::string last = session;
  uint64_t step = (*log)->known()->manifest.trim_step;
  if (!(*log)->Commit(PinEdit{{session, step, 0, 30}, ""}, Soon()).ok()) return;
  while (!stopping_) {
    Nap(seconds(6));
    if (chance_.Chance(0.1)) return;
    if (chance_.Chance(0.5)) {
      if (last == session && !(*log)->Commit(RenewEdit{session}, Soon()).ok()) return;
      continue;
    }
    auto state = (*log)->Refresh(Soon());
    if (!state.ok()) return;
    uint64_t frontier = (*state)->manifest.frontier_step;
    step = std::max(step, (*state)->manifest.trim_step);
    if (frontier > step) step += chance_.Below(frontier - step + 1);
    std::string name = Cat("ckpt-", (*log)->owner() % 1000000, "-", step);
    bool replaces = chance_.Chance(0.8) && last != name;
    Status pinned = (*log)->Commit(PinEdit{{name, step, 0, 30}, replaces ? last : ""}, Soon()).status();
    if (!pinned.ok()) return;
    if (!replaces && last != name) (void)(*log)->Commit(UnpinEdit{last}, Soon());
    last = name;
  }
}

void World::Decide(StreamContext context) {
  auto log = StreamLog::Open(std::move(context), Soon());
  if (!log.ok()) return;
  while (!stopping_ && !Peace()) {
    Nap(seconds(15));
    auto state = (*log)->Refresh(Soon());
    if (!state.ok() || (*state)->manifest.finished) return;
    MixtureEdit edit{scenario_.info.uuid, (*state)->manifest.decisions + 1, (*log)->NewNonce()};
    if ((*log)->Commit(edit, Soon()).ok()) history_->Decided(edit.decision);
  }
}

// A writer that does not belong here: of another stream, so that everything fits but the uuid; or of this one as it was in
// some backup, so that everything fits but the chain.
void World::Intrude(StreamContext context) {
  auto log = StreamLog::Open(std::move(context), Soon());
  if (!log.ok()) return;
  while (!stopping_ && !Peace()) {
    Nap(seconds(3));
    auto state = (*log)->Refresh(Soon());
    if (!state.ok()) return;
    auto v = static_cast<uint16_t>(chance_.Below(scenario_.info.strands));
    const Strand& row = (*state)->manifest.strands[v];
    StreamInfo foreign = scenario_.info;
    bool other_stream = chance_.Chance(0.5);
    if (other_stream) foreign.uuid[0] ^= 0x55;
    ChunkEdit edit;
    edit.uuid = foreign.uuid;
    edit.name = {v, row.epoch, row.next_seq, (*log)->NewNonce()};
    edit.prev = row.link;
    if (!other_stream) edit.prev[0] ^= 0x55;
    edit.block = row.next_block;
    edit.mixture = (*state)->manifest.MixtureOf(row.next_block);
    ChunkBuilder chunk(foreign, {});
    for (uint32_t i = 0; i < foreign.blocks.Steps(edit.block); ++i) {
      std::vector<Body> cells;
      for (uint32_t lane = 0; lane < foreign.lanes; ++lane) cells.push_back(Cell(foreign, "foreign"));
      (void)chunk.AddStep(std::move(cells));
    }
    ChunkBuilder::Finished finished = chunk.Finish(edit, Bytes::FromString("0"));
    if (!(*log)->store().PutIfAbsent(edit.name.Key(), finished.body, Soon()).ok()) return;
    (void)(*log)->store().PutIfAbsent(IntentKey(finished.edit, edit.name.seq), Body(std::string("intent\n")), Soon());
  }
}

// A program that pins and never unpins: others must still be able to unpin, trim and seal.
void World::Flood(StreamContext context) {
  auto log = StreamLog::Open(std::move(context), Soon());
  if (!log.ok()) return;
  for (int i = 0; i < 140 && !stopping_; ++i) {
    const Manifest& manifest = (*log)->known()->manifest;
    Status pinned = (*log)->Commit(PinEdit{{Cat("flood-", i), manifest.frontier_step, 0, 20}, ""}, Soon()).status();
    if (pinned.code() == Code::kFull) {
      Status unpinned = (*log)->Commit(UnpinEdit{Cat("flood-", i - 1)}, Deadline::After(OwnClock(), seconds(600))).status();
      if (!unpinned.ok() && unpinned.code() != Code::kNotFound && Peace())
        history_->Violate(Cat("a full table cannot be unpinned: ", unpinned.ToString()));
      return;
    }
    if (!pinned.ok() && pinned.code() != Code::kTrimmed) return;
  }
}

void World::OnChunk(const Entry& entry, const Bytes& object) {
  const StreamInfo& info = scenario_.info;
  auto header = DecodeChunkHeader(object.span().first(entry.header_bytes), entry, info, "chunk");
  for (uint32_t lane = 0; lane < info.lanes; ++lane) {
    uint64_t offset = header->lane[lane].offset;
    Bytes bytes = object.Slice(offset, header->lane[lane + 1].offset - offset);
    auto places = DecodeDirectory(bytes.span(), *header, lane, "chunk");
    if (!places.ok()) return history_->Violate(places.status().ToString());
    for (const CellPlace& place : *places) {
      auto cell = UnpackCell(bytes, offset, place, "cell");
      if (!cell.ok()) return history_->Violate(cell.status().ToString());
      auto arrays = ReadCell(*cell, info.columns, "cell");
      if (!arrays.ok()) return history_->Violate(arrays.status().ToString());
      std::vector<std::string> words = Split((*arrays)[0].bytes.AsText(), ' ');
      if (words.size() != 3) {
        if (words[0] != "padding") history_->Violate(Cat("block ", entry.block, " holds ", words[0]));
        continue;
      }
      uint64_t strand = 0, index = 0, mixture = 0;
      ParseNumber(words[0].substr(1), strand);
      ParseNumber(words[1].substr(1), index);
      ParseNumber(words[2].substr(1), mixture);
      ++drawn_[{static_cast<uint16_t>(strand), index}];
      bool planned = info.order == Order::kPlanned && entry.block % info.strands == strand && entry.name.strand == strand;
      if (planned && mixture != entry.mixture && !history_->newest().AllEnded()) {
        history_->Violate(Cat("block ", entry.block, " was drawn with mixture ", mixture, " and says ", entry.mixture));
      }
    }
  }
}

void World::CheckSamples() {
  for (const auto& [sample, times] : drawn_) {
    if (times != 1) history_->Violate(Cat("sample ", sample.second, " of strand ", sample.first, " is in ", times, " steps"));
  }
  for (uint16_t v = 0; v < scenario_.info.strands; ++v) {
    for (uint64_t i = 0; i < scenario_.samples[v]; ++i) {
      if (!drawn_.contains({v, i})) return history_->Violate(Cat("sample ", i, " of strand ", v, " is in no step"));
    }
  }
}

}  // namespace headrace
