#include "load/prefetch.h"

#include <algorithm>
#include <utility>

#include "base/log.h"
#include "base/text.h"
#include "load/arrange.h"

namespace headrace {
namespace {

constexpr Duration kFirstPause = std::chrono::milliseconds(100);
constexpr Duration kLongestPause = std::chrono::seconds(2);
constexpr Duration kTimeForNames = std::chrono::seconds(2);

// So much is laid out before the trainer comes for it: enough that it need not wait, little enough that the memory is used again soon.
constexpr size_t kArrangedBlocks = 2;
constexpr uint64_t kArrangedBytes = 32 * 1024 * 1024;

// Whether the same call may succeed later.
bool MayPass(Code code) {
  switch (code) {
    case Code::kUnavailable:
    case Code::kThrottled:
    case Code::kTimeout:
    case Code::kExpired: return true;
    default: return false;
  }
}

}  // namespace

std::shared_ptr<Prefetch> Prefetch::Start(std::shared_ptr<StreamLog> log, std::shared_ptr<StreamReader> reader,
                                          Executor& executor, std::shared_ptr<LoadCounts> counts, PrefetchOptions options) {
  std::shared_ptr<Prefetch> prefetch(
      new Prefetch(std::move(log), std::move(reader), executor, std::move(counts), std::move(options)));
  prefetch->Spawn([](Prefetch& self) { self.Follow(); });
  return prefetch;
}

Prefetch::Prefetch(std::shared_ptr<StreamLog> log, std::shared_ptr<StreamReader> reader, Executor& executor,
                   std::shared_ptr<LoadCounts> counts, PrefetchOptions options)
    : log_(std::move(log)),
      reader_(std::move(reader)),
      executor_(executor),
      counts_(std::move(counts)),
      options_(std::move(options)),
      packed_(PackedColumns::Find(log_->info().columns)),
      changed_(executor.MakeSignal()) {}

void Prefetch::Spawn(std::function<void(Prefetch&)> work) {
  // Counts down when the work is gone, even if it never ran.
  struct Running {
    explicit Running(std::shared_ptr<Prefetch> prefetch) : self(std::move(prefetch)) {
      std::lock_guard lock(self->mutex_);
      ++self->running_;
    }
    ~Running() {
      std::lock_guard lock(self->mutex_);
      --self->running_;
      self->changed_->NotifyAll();
    }
    std::shared_ptr<Prefetch> self;
  };
  executor_.Spawn([running = std::make_shared<Running>(shared_from_this()), work = std::move(work)] { work(*running->self); });
}

void Prefetch::Stop() {
  stop_.request_stop();
  std::lock_guard lock(mutex_);
  changed_->NotifyAll();
}

void Prefetch::Join() {
  std::unique_lock lock(mutex_);
  while (running_ > 0) changed_->WaitInDestructor(lock);
}

bool Prefetch::idle() {
  std::lock_guard lock(mutex_);
  return running_ == 0;
}

Status Prefetch::Persist(const std::function<Status(const Deadline&)>& attempt) {
  for (Duration pause = kFirstPause;; pause = std::min(kLongestPause, pause * 2)) {
    Status status = attempt(deadline());
    if (!MayPass(status.code()) || stop_.stop_requested()) return status;
    ++counts_->retries;
    {
      std::lock_guard lock(mutex_);
      trouble_ = status;
    }
    HR_RETURN_IF_ERROR(deadline().Sleep(log_->clock(), pause, "try to read again"));
  }
}

uint64_t Prefetch::Pieces(uint64_t size) const {
  // The nearest number, so that what is a little larger is not cut in two.
  const uint64_t each = std::max<uint64_t>(1, options_.read_bytes);
  return (size + each / 2) / each;
}

uint64_t Prefetch::Estimate(const Entry& entry) const { return entry.bytes * options_.lanes.count() / log_->info().lanes; }

bool Prefetch::HasRoom(uint64_t bytes) const {
  if (slots_.empty()) return true;
  return used_ + bytes <= options_.window_bytes && slots_.size() < depth_.blocks() && reads_ < options_.max_reads;
}

Result<std::optional<Entry>> Prefetch::NextEntry(uint64_t step) {
  std::optional<Entry> entry;
  Status status = Persist([&](const Deadline& limit) -> Status {
    HR_ASSIGN_OR_RETURN(bool visible, reader_->WaitFor(step, limit));
    if (!visible) return {};
    HR_ASSIGN_OR_RETURN(entry, reader_->Find(step, limit));
    return {};
  });
  if (!status.ok()) return status;
  return entry;
}

void Prefetch::Follow() {
  uint64_t at = options_.first_step;
  uint64_t bytes = 0;  // of the block before, as a guess at the next
  while (!stop_.stop_requested()) {
    at = options_.skipped.NotIn(at);
    if (at == UINT64_MAX) return;  // nothing after this is wanted
    {
      // Without room there is no need to ask the store either.
      std::unique_lock lock(mutex_);
      while (!stop_.stop_requested() && !HasRoom(bytes)) changed_->Wait(lock);
    }
    if (stop_.stop_requested()) return;
    Result<std::optional<Entry>> entry = NextEntry(at);
    std::unique_lock lock(mutex_);
    if (!entry.ok() || !*entry) {
      if (!entry.ok()) {
        failure_ = std::move(entry).status();
      } else {
        end_ = log_->known()->manifest.frontier_step;
      }
      changed_->NotifyAll();
      return;
    }
    bytes = Estimate(**entry);
    while (!stop_.stop_requested() && !HasRoom(bytes)) changed_->Wait(lock);
    if (stop_.stop_requested()) return;
    auto slot = std::make_shared<Slot>();
    slot->entry = **entry;
    slot->bytes = bytes;
    slots_.push_back(slot);
    used_ += bytes;
    ++reads_;
    lock.unlock();
    Spawn([slot](Prefetch& self) { self.Fill(slot); });
    at = slot->entry.end_step();
  }
}

void Prefetch::Fill(const std::shared_ptr<Slot>& slot) {
  auto part = std::make_shared<Part>();
  part->slot = slot;
  part->began = log_->clock().Now();
  uint64_t size = slot->entry.bytes;
  // One read of everything needs no header first.
  const bool known = options_.lanes.count() == log_->info().lanes && size > StreamReader::kSmallChunk && Pieces(size) <= 1;
  Status status = known ? Status() : Persist([&](const Deadline& limit) -> Status {
    HR_ASSIGN_OR_RETURN(size, reader_->LaneBytes(slot->entry, options_.lanes.first, options_.lanes.end, limit));
    return {};
  });
  if (!status.ok()) {
    {
      std::lock_guard lock(mutex_);
      --reads_;
    }
    return Finish(slot, std::move(status));
  }
  part->block = std::make_shared<LoadedBlock>();
  part->block->entry = slot->entry;
  part->block->lanes = options_.lanes;
  part->block->habit = options_.habit;
  part->block->cells.resize(slot->entry.steps);
  for (auto& step : part->block->cells) step.resize(options_.lanes.count());
  const uint32_t lanes = options_.lanes.count();
  const uint64_t pieces = std::clamp<uint64_t>(Pieces(size), 1, lanes);
  {
    std::lock_guard lock(mutex_);
    used_ += size - slot->bytes;  // what was guessed before
    slot->bytes = size;
    reads_ += pieces - 1;
    part->left = pieces;
  }
  part->whole = lanes > 1 && options_.habit->whole();
  part->pieces.resize(pieces);
  part->landings.resize(pieces);
  part->memory = std::make_shared<BlockMemory>(slot->entry.steps, lanes, size, options_.pool);
  auto piece = [&](uint64_t i) {
    return LaneRange{options_.lanes.first + static_cast<uint32_t>(i * lanes / pieces),
                     options_.lanes.first + static_cast<uint32_t>((i + 1) * lanes / pieces)};
  };
  for (uint64_t i = 1; i < pieces; ++i) Spawn([part, i, range = piece(i)](Prefetch& self) { self.ReadPart(part, i, range); });
  ReadPart(part, 0, piece(0));
}

void Prefetch::ReadPart(const std::shared_ptr<Part>& part, size_t piece, LaneRange lanes) {
  Status status = Persist([&](const Deadline&) { return ReadLanes(*part, piece, lanes, true); });
  bool last = false;
  {
    std::lock_guard lock(mutex_);
    --reads_;
    if (!status.ok() && part->failure.ok()) part->failure = std::move(status);
    last = --part->left == 0;
    if (last && part->failure.ok()) {
      trouble_ = {};
      depth_.Read(log_->clock().Now() - part->began);
    }
    changed_->NotifyAll();  // there may be room for another read
  }
  if (!last) return;
  if (!part->failure.ok()) return Finish(part->slot, part->failure);
  ++counts_->blocks;
  const bool landed = std::ranges::any_of(part->landings, [](const auto& landing) { return landing != nullptr; });
  const bool now = !part->whole || landed;
  {
    std::lock_guard lock(mutex_);
    part->slot->fetched = part;
    part->slot->arranging = now;
    changed_->NotifyAll();
  }
  if (now) {
    ArrangeSlot(part->slot);
  } else {
    ArrangeNext();
  }
}

void Prefetch::ArrangeNext() {
  std::vector<std::shared_ptr<Slot>> next;
  {
    std::lock_guard lock(mutex_);
    uint64_t bytes = 0;
    for (size_t i = 0; i < slots_.size() && (i < kArrangedBlocks || bytes + slots_[i]->bytes <= kArrangedBytes); ++i) {
      const std::shared_ptr<Slot>& slot = slots_[i];
      bytes += slot->bytes;
      if (!slot->fetched || std::exchange(slot->arranging, true)) continue;
      next.push_back(slot);
    }
  }
  for (std::shared_ptr<Slot>& slot : next) Spawn([slot = std::move(slot)](Prefetch& self) { self.ArrangeSlot(slot); });
}

void Prefetch::ArrangeSlot(const std::shared_ptr<Slot>& slot) {
  std::shared_ptr<Part> part;
  {
    std::lock_guard lock(mutex_);
    part = std::move(slot->fetched);
  }
  Status status = Complete(*part);
  if (!status.ok()) return Finish(slot, std::move(status));
  Finish(slot, std::shared_ptr<const LoadedBlock>(part->block));
}

std::string Prefetch::What(const Entry& entry, uint64_t step, uint32_t lane) const {
  return Cat("step ", step, ", lane ", lane, " in the chunk ", log_->store().Describe(entry.name.Key()));
}

Status Prefetch::ReadLanes(Part& part, size_t piece, LaneRange lanes, bool land) {
  ++counts_->reads;
  LoadedBlock& block = *part.block;
  const std::vector<Column>& columns = log_->info().columns;
  ReadOptions options{.pool = options_.pool.get(), .check = !part.whole};
  std::unique_ptr<LaneLanding> landing;
  if (land) {
    options.land = [&](const ChunkHeader* header, uint64_t begin) {
      landing = std::make_unique<LaneLanding>(part.memory, block.entry, log_->info(), header, begin, lanes, block.lanes);
      return landing.get();
    };
  }
  HR_ASSIGN_OR_RETURN(StreamReader::Block read, reader_->ReadBlock(block.entry, lanes.first, lanes.end, deadline(), options));
  uint64_t bytes = 0;
  if (read.landed) {
    if (!landing->whole()) return ReadLanes(part, piece, lanes, false);
    HR_RETURN_IF_ERROR(
        landing->Check([&](uint64_t step, uint32_t lane) { return What(block.entry, block.entry.first_step + step, lane); }));
    counts_->bytes += landing->bytes();
    part.landings[piece] = std::move(landing);
    std::lock_guard lock(mutex_);
    block.bytes += part.landings[piece]->bytes();
    return {};
  }
  for (uint32_t step = 0; step < block.entry.steps; ++step) {
    for (uint32_t lane = lanes.first; lane < lanes.end; ++lane) {
      const Bytes& cell = read.cells[step][lane - lanes.first];
      bytes += cell.size();
      if (part.whole) continue;
      HR_ASSIGN_OR_RETURN(std::vector<Array> arrays,
                          ReadCell(cell, columns, What(block.entry, block.entry.first_step + step, lane)));
      block.cells[step][lane - block.lanes.first] = std::move(arrays);
    }
  }
  if (part.whole) part.pieces[piece] = std::move(read);
  counts_->bytes += bytes;
  std::lock_guard lock(mutex_);
  block.bytes += bytes;
  return {};
}

Status Prefetch::Complete(Part& part) {
  LoadedBlock& block = *part.block;
  auto what = [&](uint64_t step, uint32_t lane) { return What(block.entry, step, lane); };
  if (std::ranges::any_of(part.landings, [](const auto& landing) { return landing != nullptr; })) {
    for (size_t i = 0; i < part.landings.size(); ++i) {
      if (part.landings[i]) {
        part.landings[i]->Fill(block);
      } else if (part.whole) {
        HR_RETURN_IF_ERROR(CheckCells(part.pieces[i], log_->info().columns, what, block));
      }
    }
    if (part.whole) HR_RETURN_IF_ERROR(LayTogether(*options_.pool, block));
  } else if (part.whole) {
    HR_RETURN_IF_ERROR(Arrange(part.pieces, log_->info().columns, what, *options_.pool, block));
  }
  part.pieces.clear();
  part.landings.clear();
  part.memory.reset();
  if (!packed_) return {};
  for (uint32_t step = 0; step < block.entry.steps; ++step) {
    for (uint32_t i = 0; i < block.lanes.count(); ++i) {
      HR_RETURN_IF_ERROR(
          CheckPacked(block.cells[step][i], *packed_, What(block.entry, block.entry.first_step + step, block.lanes.first + i)));
    }
  }
  return {};
}

void Prefetch::Finish(const std::shared_ptr<Slot>& slot, Result<std::shared_ptr<const LoadedBlock>> outcome) {
  std::lock_guard lock(mutex_);
  slot->outcome = std::move(outcome);
  changed_->NotifyAll();
}

Result<Prefetch::Turn> Prefetch::Take(uint64_t step, Instant until) {
  Clock& clock = log_->clock();
  std::unique_lock lock(mutex_);
  while (true) {
    if (stop_.stop_requested()) return Status(Code::kCancelled, "the loader was closed");
    while (!slots_.empty() && slots_.front()->entry.end_step() <= step) {
      used_ -= slots_.front()->bytes;
      slots_.pop_front();
      changed_->NotifyAll();
    }
    if (!slots_.empty()) {
      Slot& slot = *slots_.front();
      if (slot.outcome) {
        if (!slot.outcome->ok()) return slot.outcome->status();
        Turn turn{Turn::kBlock, **slot.outcome};
        Instant now = clock.Now();
        // The first block is always waited for: that says nothing about the depth.
        if (waited_ && any_taken_) depth_.Waited();
        if (!waited_ && any_taken_ && step == slot.entry.first_step) depth_.Taken(now - last_taken_);
        if (step == slot.entry.first_step || !any_taken_) last_taken_ = now;
        any_taken_ = true;
        waited_ = false;
        if (options_.skipped.NotIn(step + 1) >= slot.entry.end_step()) {
          // The last step of its block: from here on it is the trainer's memory, not the window's.
          used_ -= slot.bytes;
          slots_.pop_front();
          changed_->NotifyAll();
          lock.unlock();
          ArrangeNext();
        }
        return turn;
      }
      if (slot.fetched && !std::exchange(slot.arranging, true)) {
        std::shared_ptr<Slot> front = slots_.front();
        lock.unlock();
        ArrangeSlot(front);
        lock.lock();
        continue;
      }
      waited_ = waited_ || !slot.arranging;  // what is here and being laid out is no reason to read further ahead
    } else {
      if (end_ && step >= *end_) return Turn{Turn::kEnd, nullptr};
      if (failure_) return *failure_;
    }
    if (clock.Now() >= until) return Turn{Turn::kNotYet, nullptr};
    changed_->WaitUntil(lock, until);
  }
}

LateOwner Prefetch::LookWhoIsLate(const Manifest& manifest) {
  return late_.Look(log_->store(), log_->clock(), manifest, log_->info(), Deadline::After(log_->clock(), kTimeForNames));
}

void Prefetch::LookWhoIsLate() { (void)LookWhoIsLate(log_->known()->manifest); }

std::string Prefetch::Waiting() {
  std::unique_lock lock(mutex_);
  std::string text;
  if (!slots_.empty()) {
    const Entry& entry = slots_.front()->entry;
    text = Cat("the chunk ", log_->store().Describe(entry.name.Key()), " with steps ", entry.first_step, " to ",
               entry.end_step() - 1, " is still being read");
  } else {
    lock.unlock();
    StreamLog::StatePtr state = log_->known();
    text = Cat("the stream has ", state->manifest.frontier_step,
               " steps so far: ", WhoIsLate(state->manifest, log_->info(), LookWhoIsLate(state->manifest)));
    lock.lock();
  }
  if (!trouble_.ok()) text += Cat("; the store's last answer: ", trouble_.message());
  return text;
}

Prefetch::Level Prefetch::level() {
  std::lock_guard lock(mutex_);
  Level level;
  level.blocks = slots_.size();
  level.bytes = used_;
  level.depth = depth_.blocks();
  for (const auto& slot : slots_) {
    if (slot->outcome ? !slot->outcome->ok() : !slot->fetched && !slot->arranging) break;
    level.ready_steps += slot->entry.steps;
  }
  return level;
}

}  // namespace headrace
