// Edits in any order, right and wrong ones, against a model that knows nothing of manifests: it remembers what was accepted and computes
// from that, each time anew, what must be visible.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "base/text.h"
#include "stream/cell.h"
#include "stream/chunk.h"
#include "stream/edit.h"
#include "stream/segment.h"

namespace headrace {
namespace {

struct Model {
  struct Row {
    uint32_t epoch = 0;
    uint64_t chunks = 0;
    std::optional<uint64_t> ended_before;  // the first block that it will not make
    uint64_t next_block = 0;
  };
  const StreamInfo& info;
  std::vector<Row> rows;
  std::map<uint64_t, uint32_t> steps;  // of every accepted block
  std::map<std::string, uint64_t> pins;
  uint64_t trim_step = 0, trim_block = 0;
  bool finished = false;
  uint64_t reached = 0;  // where the frontier was: when the last strand ends it stays, however the others ended before

  explicit Model(const StreamInfo& about) : info(about), rows(about.strands) {
    for (uint32_t v = 0; v < about.strands; ++v) rows[v].next_block = v;
  }
  bool planned() const { return info.order == Order::kPlanned; }
  bool all_ended() const {
    return std::ranges::all_of(rows, [](const Row& row) { return row.ended_before.has_value(); });
  }
  // The first block that is neither there nor nobody's.
  uint64_t frontier() const {
    uint64_t block = reached;
    while (true) {
      if (!steps.contains(block)) {
        const Row& row = rows[block % rows.size()];
        bool nobodys = planned() && row.ended_before && *row.ended_before <= block;
        bool last = all_ended() && (steps.empty() || steps.rbegin()->first < block);
        if (!nobodys || last) return block;
      }
      ++block;
    }
  }
  uint64_t visible_steps() const {
    uint64_t sum = 0;
    for (auto [block, count] : steps) sum += block < frontier() ? count : 0;
    return sum;
  }
};

void CheckAgainst(const Model& model, const Manifest& manifest) {
  uint64_t frontier = model.frontier();
  RC_ASSERT(manifest.frontier_block == frontier);
  RC_ASSERT(manifest.frontier_step == model.visible_steps());
  RC_ASSERT(manifest.finished == model.finished);
  RC_ASSERT(manifest.trim_step == model.trim_step);
  uint64_t step = 0;
  std::map<uint64_t, uint64_t> first_step;
  for (auto [block, count] : model.steps) {
    first_step[block] = step;
    step += count;
  }
  uint64_t held = 0;
  for (const auto& level : manifest.index) {
    for (const SegmentRef& ref : level) held += ref.count;
  }
  for (const Entry& entry : manifest.tail) {
    RC_ASSERT(model.steps.at(entry.block) == entry.steps);
    RC_ASSERT(first_step.at(entry.block) == entry.first_step);
    ++held;
  }
  uint64_t parked = 0, visible = 0, needed = 0;
  for (auto [block, count] : model.steps) {
    parked += block >= frontier;
    visible += block < frontier;
    needed += block < frontier && block >= model.trim_block;
  }
  RC_ASSERT(manifest.parked.size() == parked);
  RC_ASSERT(held >= needed && held <= visible);
  for (size_t v = 0; v < model.rows.size(); ++v) {
    RC_ASSERT(manifest.strands[v].epoch == model.rows[v].epoch);
    RC_ASSERT(manifest.strands[v].next_seq == model.rows[v].chunks);
    RC_ASSERT(manifest.strands[v].ended == model.rows[v].ended_before.has_value());
  }
  std::map<std::string, uint64_t> pins;
  for (const Pin& pin : manifest.pins) pins[pin.name] = pin.step;
  RC_ASSERT(pins == model.pins);
  std::string encoded = manifest.Encode();
  RC_ASSERT(encoded.size() <= Manifest::kMaxBytes);
  auto decoded = Manifest::Decode(std::as_bytes(std::span(encoded)), "here");
  RC_ASSERT(decoded.ok());
  RC_ASSERT(decoded->Encode() == encoded);
}

// One edit, mostly right, sometimes with one thing wrong; and whether it must be accepted.
struct Try {
  Edit edit;
  bool fits = false;
};

bool Rarely() { return *rc::gen::inRange(0, 6) == 0; }

Try SomeChunk(const Model& model, const Manifest& manifest) {
  auto v = *rc::gen::inRange<uint16_t>(0, static_cast<uint16_t>(model.rows.size()));
  const Model::Row& row = model.rows[v];
  ChunkEdit edit;
  edit.uuid = model.info.uuid;
  edit.name = {v, row.epoch, row.chunks, *rc::gen::inRange<uint64_t>(1, 1000000)};
  edit.prev = manifest.strands[v].link;
  edit.block = row.next_block;
  edit.steps = model.info.blocks.Steps(edit.block);
  edit.bytes = 100;
  edit.footer_bytes = 10;
  bool fits = !model.finished && !row.ended_before;
  if (model.planned()) fits = fits && edit.block < model.frontier() + model.info.window;
  if (Rarely()) {
    switch (*rc::gen::inRange(0, 6)) {
      case 0: edit.uuid[5] ^= 1; break;
      case 1: edit.name.epoch += 1; break;
      case 2: edit.name.seq += 1; break;
      case 3: edit.prev[0] ^= 1; break;
      case 4: edit.block += model.planned() ? model.rows.size() : 0; break;
      default: edit.steps = model.planned() ? edit.steps + 1 : 0;
    }
    // In arrival order the commit decides the block.
    bool harmless = !model.planned() && edit.block == row.next_block && edit.steps != 0 && edit.uuid == model.info.uuid &&
                    edit.name.epoch == row.epoch && edit.name.seq == row.chunks && edit.prev == manifest.strands[v].link;
    fits = fits && harmless;
  }
  return {edit, fits};
}

Try SomeEdit(const Model& model, const Manifest& manifest) {
  auto v = *rc::gen::inRange<uint16_t>(0, static_cast<uint16_t>(model.rows.size()));
  const Model::Row& row = model.rows[v];
  bool wrong = Rarely();
  switch (*rc::gen::weightedElement<int>({{40, 0}, {8, 1}, {2, 2}, {1, 3}, {8, 4}, {4, 5}, {4, 6}, {6, 7}})) {
    case 1: {
      BumpEdit edit{model.info.uuid, v, row.epoch + (wrong ? 1 : 0), 7};
      return {edit, !wrong && !model.finished};
    }
    case 2: {
      EndEdit edit{model.info.uuid, v, row.epoch + (wrong ? 1 : 0), manifest.strands[v].link, row.next_block};
      return {edit, !wrong && !model.finished && !row.ended_before};
    }
    case 3: {
      bool waits = !model.steps.empty() && model.steps.rbegin()->first >= model.frontier();
      return {FinishEdit{model.info.uuid}, !model.finished && model.all_ended() && !waits};
    }
    case 4: {
      auto step = *rc::gen::inRange<uint64_t>(0, model.visible_steps() + 3);
      std::string name = Cat("pin", *rc::gen::inRange(0, 4));
      return {PinEdit{{name, step, 0, 0}, ""}, step >= model.trim_step && step <= model.visible_steps()};
    }
    case 5: {
      std::string name = Cat("pin", *rc::gen::inRange(0, 4));
      return {UnpinEdit{name}, model.pins.contains(name)};
    }
    case 6: {
      // To the beginning of some block.
      uint64_t block = *rc::gen::inRange<uint64_t>(0, model.frontier() + 2), step = 0;
      for (auto [at, count] : model.steps) step += at < block ? count : 0;
      bool fits = block > model.trim_block && block <= model.frontier() && !model.pins.empty();
      for (const auto& [name, pinned] : model.pins) fits = fits && step <= pinned;
      return {TrimEdit{block, step, {}}, fits};
    }
    case 7: {
      if (manifest.tail.empty()) break;
      auto count = *rc::gen::inRange<size_t>(1, manifest.tail.size() + 1);
      std::span<const Entry> sealed(manifest.tail.data(), count);
      SegmentRef wanted;
      wanted.first_block = manifest.sealed_block();
      wanted.end_block = sealed.back().block + 1;
      wanted.nonce = 5;
      SegmentRef ref = SegmentOf(sealed, model.info.uuid, wanted);
      if (wrong) ref.crc ^= 1;
      return {SealEdit{ref}, !wrong && manifest.index[0].size() < Manifest::kMaxRefsPerLevel};
    }
    default: break;
  }
  return SomeChunk(model, manifest);
}

void Accept(Model& model, const Edit& edit) {
  if (const auto* chunk = std::get_if<ChunkEdit>(&edit)) {
    uint64_t block = model.planned() ? chunk->block : model.frontier();
    model.steps[block] = chunk->steps;
    ++model.rows[chunk->name.strand].chunks;
    model.rows[chunk->name.strand].next_block = block + model.rows.size();
  } else if (const auto* bump = std::get_if<BumpEdit>(&edit)) {
    ++model.rows[bump->strand].epoch;
  } else if (const auto* end = std::get_if<EndEdit>(&edit)) {
    model.rows[end->strand].ended_before = model.rows[end->strand].next_block;
  } else if (std::holds_alternative<FinishEdit>(edit)) {
    model.finished = true;
  } else if (const auto* pin = std::get_if<PinEdit>(&edit)) {
    model.pins[pin->pin.name] = pin->pin.step;
  } else if (const auto* unpin = std::get_if<UnpinEdit>(&edit)) {
    model.pins.erase(unpin->name);
  } else if (const auto* trim = std::get_if<TrimEdit>(&edit)) {
    model.trim_block = trim->block;
    model.trim_step = trim->step;
  }
}

RC_GTEST_PROP(Apply, DoesWhatASimpleModelDoes, ()) {
  StreamInfo info;
  info.uuid[0] = 9;
  info.strands = *rc::gen::inRange<uint32_t>(1, 5);
  info.window = *rc::gen::inRange<uint32_t>(info.strands, 3 * info.strands + 1);
  info.order = *rc::gen::element(Order::kPlanned, Order::kArrival);
  info.blocks = BlockSizes::Growing(info.strands, *rc::gen::inRange<uint32_t>(1, 9));
  info.columns = {{"x", Dtype::kI32, Column::kArray}};
  Manifest manifest = Manifest::First(info, 1);
  Model model(info);
  for (int i = *rc::gen::inRange(1, 60); i > 0; --i) {
    Manifest next = Successor(manifest, manifest.Encode(), static_cast<uint64_t>(i));
    std::string before = next.Encode();
    Try one = SomeEdit(model, manifest);
    Status applied = Apply(next, one.edit, info);
    RC_ASSERT(applied.ok() == one.fits);
    if (!applied.ok()) {
      RC_ASSERT(!applied.message().empty());
      RC_ASSERT(next.Encode() == before);
      continue;
    }
    Accept(model, one.edit);
    model.reached = model.frontier();
    manifest = std::move(next);
    CheckAgainst(model, manifest);
    // What fitted once does not fit again, except for words that say how things shall be.
    bool idempotent = std::holds_alternative<PinEdit>(one.edit);
    Manifest twice = Successor(manifest, manifest.Encode(), 1);
    RC_ASSERT(idempotent || !Apply(twice, one.edit, info).ok());
  }
}

RC_GTEST_PROP(Intent, AnyEditComesBackFromItsKey, ()) {
  Link link;
  Uuid uuid;
  for (auto& byte : link) byte = *rc::gen::arbitrary<unsigned char>();
  for (auto& byte : uuid) byte = *rc::gen::arbitrary<unsigned char>();
  auto strand = *rc::gen::arbitrary<uint16_t>();
  auto epoch = *rc::gen::arbitrary<uint32_t>();
  auto seq = *rc::gen::arbitrary<uint64_t>();
  ChunkEdit chunk{uuid, {strand, epoch, seq, *rc::gen::arbitrary<uint64_t>()}, link, *rc::gen::arbitrary<uint64_t>()};
  chunk.steps = *rc::gen::arbitrary<uint32_t>();
  chunk.bytes = *rc::gen::arbitrary<uint64_t>();
  chunk.header_crc = *rc::gen::arbitrary<uint32_t>();
  for (const Edit& edit :
       {Edit(chunk), Edit(EndEdit{uuid, strand, epoch, link, seq}), Edit(BumpEdit{uuid, strand, epoch, seq})}) {
    auto intent = ParseIntentKey(IntentKey(edit, seq));
    RC_ASSERT(intent && intent->edit == edit && intent->seq == seq && intent->strand == strand && intent->epoch == epoch);
  }
  auto name = ChunkName::FromKey(chunk.name.Key());
  RC_ASSERT(name && *name == chunk.name);
}

// A column of any kind, and an array for it.
std::vector<Array> SomeArrays(const Column& column, std::string bytes) {
  size_t width = DtypeBytes(column.dtype);
  bytes.resize(bytes.size() / width * width);
  uint64_t count = bytes.size() / width;
  Array values{column.dtype, {count}, Bytes::FromString(std::move(bytes))};
  if (column.kind == Column::kArray) {
    if (count % 2 == 0) values.shape = {2, count / 2};
    return {values};
  }
  std::vector<int64_t> offsets = {0, 0};  // the first row is empty
  while (offsets.back() < static_cast<int64_t>(count))
    offsets.push_back(std::min<int64_t>(count, offsets.back() + *rc::gen::inRange(1, 5)));
  return {values, {Dtype::kI64, {offsets.size()}, Bytes::Copy(std::as_bytes(std::span(offsets)))}};
}

RC_GTEST_PROP(Chunk, AnyCellsComeBack, ()) {
  StreamInfo info;
  info.lanes = *rc::gen::inRange<uint32_t>(1, 6);
  for (int i = 0, many = *rc::gen::inRange(1, 4); i < many; ++i) {
    auto kind = *rc::gen::element(Column::kArray, Column::kRagged, Column::kBytes);
    auto dtype = kind == Column::kBytes ? Dtype::kU8 : static_cast<Dtype>(*rc::gen::inRange(0, 13));
    info.columns.push_back({Cat("column", i), dtype, kind});
  }
  auto read_info = StreamInfo::FromJson(info.ToJson());
  RC_ASSERT(read_info.ok() && *read_info == info);
  ChunkBuilder chunk(info, {*rc::gen::element(Codec::kNone, Codec::kZstd), 1});
  std::vector<std::vector<std::vector<Array>>> wanted;
  for (int step = 0, steps = *rc::gen::inRange(1, 4); step < steps; ++step) {
    std::vector<Body> cells;
    wanted.emplace_back();
    for (uint32_t lane = 0; lane < info.lanes; ++lane) {
      std::vector<Array> arrays;
      for (const Column& column : info.columns) {
        std::string bytes(*rc::gen::inRange<size_t>(0, 300), *rc::gen::element('a', '\0'));
        for (Array& array : SomeArrays(column, bytes + *rc::gen::arbitrary<std::string>())) arrays.push_back(std::move(array));
      }
      auto cell = BuildCell(arrays, info.columns);
      RC_ASSERT(cell.ok());
      cells.push_back(*cell);
      wanted.back().push_back(std::move(arrays));
    }
    RC_ASSERT(chunk.AddStep(std::move(cells)).ok());
  }
  ChunkEdit edit;
  edit.name = {1, 2, 3, 4};
  std::string state = *rc::gen::arbitrary<std::string>();
  ChunkBuilder::Finished finished = chunk.Finish(edit, Bytes::FromString(state));
  Bytes stored = finished.body.Join();
  edit = finished.edit;
  Entry entry{edit.name, 0, 0, edit.steps, edit.bytes, edit.header_bytes, edit.header_crc, 0};
  RC_ASSERT(stored.size() == edit.bytes);
  auto header = DecodeChunkHeader(stored.span().first(edit.header_bytes), entry, info, "here");
  RC_ASSERT(header.ok());
  for (uint32_t lane = 0; lane < info.lanes; ++lane) {
    uint64_t offset = header->lane[lane].offset;
    Bytes bytes = stored.Slice(offset, header->lane[lane + 1].offset - offset);
    auto places = DecodeDirectory(bytes.span(), *header, lane, "here");
    RC_ASSERT(places.ok() && places->size() == wanted.size());
    for (size_t step = 0; step < wanted.size(); ++step) {
      auto cell = UnpackCell(bytes, offset, (*places)[step], "here");
      RC_ASSERT(cell.ok());
      auto arrays = ReadCell(*cell, info.columns, "here");
      RC_ASSERT(arrays.ok() && *arrays == wanted[step][lane]);
    }
  }
  auto footer = DecodeFooter(stored.Slice(header->footer_offset), info.uuid, edit.name, "here");
  RC_ASSERT(footer.ok() && footer->ToString() == state);
}

}  // namespace
}  // namespace headrace
