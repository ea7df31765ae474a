// Streams of today are read by every later version: what was stored once is read to the same values, and the same values are stored as the
// same bytes.
//
// The files hold what samples.h says, as hexadecimal digits where it is binary. A change of a format that is meant to be one gets new files
// beside the old ones, which stay readable. `HEADRACE_GOLDEN=write golden_test` writes the files, and the seeds of the fuzzers from them.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "base/crc32c.h"
#include "base/hash.h"
#include "base/simulation.h"
#include "base/text.h"
#include "golden/samples.h"
#include "store/memory_store.h"
#include "stream/digest.h"
#include "stream/stream_log.h"
#include "stream/stream_reader.h"

namespace headrace::golden {
namespace {

namespace fs = std::filesystem;

bool Writing() {
  const char* asked = std::getenv("HEADRACE_GOLDEN");
  return asked != nullptr && std::string_view(asked) == "write";
}

std::string ReadText(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

void WriteText(const fs::path& path, std::string_view text) {
  fs::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary) << text;
}

// 32 bytes a line, so that a difference shows where it is.
std::string ToLines(std::string_view bytes) {
  std::string lines;
  for (size_t at = 0; at < bytes.size(); at += 32) {
    std::string_view line = bytes.substr(at, 32);
    lines += Hex(line.data(), line.size()) + "\n";
  }
  return lines;
}

std::string FromLines(std::string_view lines) {
  std::string digits, bytes;
  for (char c : lines) {
    if (c != '\n') digits += c;
  }
  for (size_t i = 0; i + 1 < digits.size(); i += 2) bytes += static_cast<char>(std::stoi(digits.substr(i, 2), nullptr, 16));
  return bytes;
}

fs::path Golden(const std::string& name) { return fs::path(HEADRACE_GOLDEN_FILES) / name; }

// What the file holds; first written, if that was asked for.
std::string Load(const std::string& name, std::string_view bytes, const std::string& fuzz_target = "") {
  bool binary = name.ends_with(".hex");
  if (Writing()) {
    WriteText(Golden(name), binary ? ToLines(bytes) : std::string(bytes));
    if (!fuzz_target.empty()) WriteText(fs::path(HEADRACE_CORPUS) / fuzz_target / Golden(name).stem(), bytes);
  }
  std::string text = ReadText(Golden(name));
  EXPECT_FALSE(text.empty()) << Golden(name) << " is not there";
  return binary ? FromLines(text) : text;
}

std::span<const std::byte> Span(const std::string& text) { return std::as_bytes(std::span(text.data(), text.size())); }

TEST(Golden, StreamJson) {
  std::string today = SampleInfo().ToJson();
  std::string stored = Load("stream.json", today, "stream_json");
  EXPECT_EQ(today, stored);
  auto read = StreamInfo::FromJson(stored);
  ASSERT_TRUE(read.ok()) << read.status().ToString();
  EXPECT_TRUE(*read == SampleInfo());
}

TEST(Golden, Manifest) {
  std::string today = SampleManifest().Encode();
  std::string stored = Load("manifest.hex", today, "manifest");
  EXPECT_EQ(ToLines(today), ToLines(stored));
  auto read = Manifest::Decode(Span(stored), "golden");
  ASSERT_TRUE(read.ok()) << read.status().ToString();
  Manifest wanted = SampleManifest();
  EXPECT_EQ(read->uuid, wanted.uuid);
  EXPECT_EQ(read->number, wanted.number);
  EXPECT_EQ(read->nonce, wanted.nonce);
  EXPECT_EQ(read->previous, wanted.previous);
  EXPECT_EQ(read->order, wanted.order);
  EXPECT_EQ(read->finished, wanted.finished);
  EXPECT_EQ(read->frontier_block, wanted.frontier_block);
  EXPECT_EQ(read->frontier_step, wanted.frontier_step);
  EXPECT_EQ(read->trim_block, wanted.trim_block);
  EXPECT_EQ(read->trim_step, wanted.trim_step);
  EXPECT_EQ(read->decisions, wanted.decisions);
  EXPECT_TRUE(read->strands == wanted.strands);
  EXPECT_TRUE(read->tail == wanted.tail);
  EXPECT_TRUE(read->parked == wanted.parked);
  EXPECT_TRUE(read->index == wanted.index);
  EXPECT_TRUE(read->pins == wanted.pins);
  EXPECT_TRUE(read->mixtures == wanted.mixtures);
  Manifest first = Manifest::First(SampleInfo(), 5);
  EXPECT_EQ(ToLines(first.Encode()), ToLines(Load("first_manifest.hex", first.Encode(), "manifest")));
}

TEST(Golden, Segments) {
  Uuid uuid = SampleInfo().uuid;
  MemoryStore store;
  SegmentReader reader(store, uuid);
  SampleSegment entries = SampleEntries();
  std::string today = EncodeSegment(entries.entries, uuid, entries.wanted);
  std::string stored = Load("segment.hex", today, "segment");
  EXPECT_EQ(ToLines(today), ToLines(stored));
  SegmentRef ref = SegmentOf(entries.entries, uuid, entries.wanted);
  ASSERT_TRUE(store.PutIfAbsent(ref.Key(), Body(stored), {}).ok());
  auto read = reader.Entries(ref, {});
  ASSERT_TRUE(read.ok()) << read.status().ToString();
  EXPECT_TRUE(*read == entries.entries);
  auto near = reader.FindStep(ref, 1777, {});
  ASSERT_TRUE(near.ok()) << near.status().ToString();
  EXPECT_NE(std::ranges::find(*near, entries.entries[144]), near->end());

  SampleSegment upper = SampleChildren();
  today = EncodeSegment(upper.children, uuid, upper.wanted);
  stored = Load("upper_segment.hex", today, "segment");
  EXPECT_EQ(ToLines(today), ToLines(stored));
  ref = SegmentOf(upper.children, uuid, upper.wanted);
  ASSERT_TRUE(store.PutIfAbsent(ref.Key(), Body(stored), {}).ok());
  auto children = reader.Children(ref, {});
  ASSERT_TRUE(children.ok()) << children.status().ToString();
  EXPECT_TRUE(*children == upper.children);
}

TEST(Golden, Cell) {
  StreamInfo info = SampleInfo();
  std::string today = BuildCell(SampleArrays(1, 1), info.columns)->Join().ToString();
  std::string stored = Load("cell.hex", today, "cell");
  EXPECT_EQ(ToLines(today), ToLines(stored));
  auto read = ReadCell(Bytes::FromString(stored), info.columns, "golden");
  ASSERT_TRUE(read.ok()) << read.status().ToString();
  EXPECT_TRUE(*read == SampleArrays(1, 1));
}

// Reads everything in a stored chunk with nothing but what an index says of it.
void CheckChunk(const Bytes& stored, const Entry& entry) {
  StreamInfo info = SampleInfo();
  ASSERT_EQ(stored.size(), entry.bytes);
  auto header = DecodeChunkHeader(stored.span().first(entry.header_bytes), entry, info, "golden");
  ASSERT_TRUE(header.ok()) << header.status().ToString();
  EXPECT_EQ(header->edit.prev, SampleChunkEdit().prev);
  EXPECT_EQ(header->edit.block, 10u);
  EXPECT_EQ(header->edit.mixture, 6u);
  for (uint32_t lane = 0; lane < info.lanes; ++lane) {
    uint64_t offset = header->lane[lane].offset;
    Bytes bytes = stored.Slice(offset, header->lane[lane + 1].offset - offset);
    auto places = DecodeDirectory(bytes.span(), *header, lane, "golden");
    ASSERT_TRUE(places.ok()) << places.status().ToString();
    ASSERT_EQ(places->size(), 2u);
    for (uint32_t step = 0; step < 2; ++step) {
      auto cell = UnpackCell(bytes, offset, (*places)[step], "golden");
      ASSERT_TRUE(cell.ok()) << cell.status().ToString();
      EXPECT_TRUE(*ReadCell(*cell, info.columns, "golden") == SampleArrays(step, lane));
    }
  }
  Bytes footer = stored.Slice(header->footer_offset);
  EXPECT_EQ(DecodeFooter(footer, info.uuid, entry.name, "golden")->ToString(), SampleState());
}

TEST(Golden, Chunk) {
  StreamInfo info = SampleInfo();
  ChunkBuilder::Finished today = SampleChunk(info, Codec::kNone);
  std::string stored = Load("chunk.hex", today.body.Join().AsText(), "chunk");
  EXPECT_EQ(ToLines(today.body.Join().AsText()), ToLines(stored));
  EXPECT_EQ(Hex(NextLink(today.edit).data(), 16) + "\n", Load("link.txt", Hex(NextLink(today.edit).data(), 16) + "\n"));
  CheckChunk(Bytes::FromString(stored), EntryOf(today.edit));
}

// How well zstd packs is its own business: a packed chunk is only read.
TEST(Golden, PackedChunk) {
  ChunkBuilder::Finished today = SampleChunk(SampleInfo(), Codec::kZstd);
  ASSERT_LT(today.edit.bytes, SampleChunk(SampleInfo(), Codec::kNone).edit.bytes);
  Bytes stored = Bytes::FromString(Load("packed_chunk.hex", today.body.Join().AsText(), "chunk"));
  Entry entry = EntryOf(today.edit);
  entry.bytes = stored.size();
  entry.header_crc = Crc32c(stored.span().first(entry.header_bytes - 4));
  CheckChunk(stored, entry);
}

TEST(Golden, Intents) {
  std::string today;
  for (const SampleIntent& intent : SampleIntents()) today += IntentKey(intent.edit, intent.seq) + "\n";
  std::string stored = Load("intents.txt", today);
  EXPECT_EQ(today, stored);
  std::vector<std::string> keys = Split(stored, '\n');
  std::vector<SampleIntent> wanted = SampleIntents();
  ASSERT_EQ(keys.size(), wanted.size() + 1);
  for (size_t i = 0; i < wanted.size(); ++i) {
    auto read = ParseIntentKey(keys[i]);
    ASSERT_TRUE(read) << keys[i];
    EXPECT_TRUE(read->edit == wanted[i].edit);
    EXPECT_EQ(read->seq, wanted[i].seq);
    if (Writing()) WriteText(fs::path(HEADRACE_CORPUS) / "intent_key" / Cat("intent", i), keys[i]);
  }
}

TEST(Golden, Keys) {
  std::string today =
      Cat(SlotKey(1234567), "\n", MarkerKey(2411), "\n", SampleChunkEdit().name.Key(), "\n", SampleEntries().wanted.Key(), "\n");
  EXPECT_EQ(today, Load("keys.txt", today));
}

// The digest of a step is the same for ever, and is what docs/format/digest.md says: here it is made by hand.
TEST(Golden, Digest) {
  Simulation simulation(1);
  StreamInfo info = SampleInfo();
  info.strands = info.window = 1;
  info.blocks = BlockSizes();
  std::string today;
  simulation.Run([&] {
    auto log = *StreamLog::Create(info, {std::make_shared<MemoryStore>(), &simulation, Random(1)}, {});
    ChunkEdit edit = SampleChunkEdit();
    edit.name.strand = 0;
    ChunkBuilder chunk(info, {});
    std::vector<Body> cells;
    for (uint32_t lane = 0; lane < 2; ++lane) cells.push_back(*BuildCell(SampleArrays(0, lane), info.columns));
    ASSERT_TRUE(chunk.AddStep(std::move(cells)).ok());
    ASSERT_TRUE(log->Commit(BumpEdit{info.uuid, 0, 0, log->owner()}, {}).ok());
    edit.name = {0, 1, 0, 77};
    edit.prev = Manifest::FirstLink(info, 0);
    edit.block = edit.mixture = 0;
    ChunkBuilder::Finished finished = chunk.Finish(edit, {});
    ASSERT_TRUE(log->store().PutIfAbsent(edit.name.Key(), finished.body, {}).ok());
    ASSERT_TRUE(log->Commit(finished.edit, {}).ok());
    StreamReader reader(log);
    Status read = DigestSteps(reader, info, 0, 1, {}, [&](uint64_t, const std::string& digest) {
      today = digest + "\n";
      return Status();
    });
    ASSERT_TRUE(read.ok()) << read.ToString();
  });
  EXPECT_EQ(today, Load("digest.txt", today));
  std::string hashed;
  auto number = [&](uint64_t value, size_t bytes) { hashed.append(reinterpret_cast<const char*>(&value), bytes); };
  for (uint32_t lane = 0; lane < 2; ++lane) {
    std::vector<Array> arrays = SampleArrays(0, lane);
    size_t at = 0;
    for (const Column& column : info.columns) {
      number(column.name.size(), 2);
      hashed += column.name;
      number(column.kind, 1);
      for (int i = 0; i < column.arrays(); ++i, ++at) {
        number(static_cast<uint64_t>(arrays[at].dtype), 1);
        number(arrays[at].shape.size(), 1);
        for (uint64_t extent : arrays[at].shape) number(extent, 8);
        hashed += arrays[at].bytes.AsText();
      }
    }
  }
  EXPECT_EQ(today, Sha256Hex(hashed) + "\n");
}

}  // namespace
}  // namespace headrace::golden
