// What others wrote wrongly, or what rotted: noticed before it is believed.
#include <gtest/gtest.h>

#include "base/simulation.h"
#include "base/text.h"
#include "store/memory_store.h"
#include "stream/cell.h"
#include "stream/collector.h"
#include "stream/strand_writer.h"
#include "stream/stream_reader.h"
#include "stream/verify.h"

namespace headrace {
namespace {

class DamageTest : public testing::Test {
 protected:
  DamageTest() {
    info_.uuid[0] = 7;
    info_.slots_per_marker = 2;
    info_.columns = {{"x", Dtype::kU8}};
  }

  std::shared_ptr<StreamLog> Open(uint64_t seed) { return *StreamLog::Open({store_, &simulation_, Random(seed)}, {}); }

  Status Append(StrandWriter& writer, Codec codec) {
    ChunkBuilder chunk(info_, {codec});
    Array array{Dtype::kU8, {64}, Bytes::FromString(std::string(32, 'a') + "the rest of it, of another kind.")};
    for (uint32_t s = 0; s < writer.next().steps; ++s)
      HR_RETURN_IF_ERROR(chunk.AddStep({*BuildCell({&array, 1}, info_.columns)}));
    return writer.Append(writer.next(), chunk, Bytes::FromString("state"), {});
  }

  // A stream with one block.
  void Run(Codec codec, const std::function<void(StreamLog&)>& body) {
    simulation_.Run([&] {
      auto log = StreamLog::Create(info_, {store_, &simulation_, Random(1)}, {});
      ASSERT_TRUE(log.ok()) << log.status().ToString();
      auto writer = StrandWriter::Take(*log, 0, {});
      ASSERT_TRUE(writer.ok());
      ASSERT_EQ(Append(**writer, codec).ToString(), "Ok");
      body(**log);
    });
  }

  void Flip(const std::string& key, size_t at) {
    std::string bytes = (*store_->Get(key, {}))->bytes.ToString();
    bytes[at] = static_cast<char>(bytes[at] ^ 1);
    ASSERT_TRUE(store_->Put(key, Body(bytes), {}).ok());
  }

  StreamInfo info_;
  Simulation simulation_{1};
  std::shared_ptr<MemoryStore> store_ = std::make_shared<MemoryStore>();
};

TEST_F(DamageTest, NoStreamIsMadeWhereOneHasLostItsStreamJson) {
  Run(Codec::kNone, [&](StreamLog&) {
    const std::string json = (*store_->Get("stream.json", {}))->bytes.ToString();
    StreamInfo other = info_;
    other.uuid = {9};
    EXPECT_EQ(StreamLog::Create(other, {store_, &simulation_, Random(5)}, {}).code(), Code::kConflict);
    ASSERT_TRUE(store_->DeleteOne("stream.json", {}).ok());
    auto refused = StreamLog::Create(other, {store_, &simulation_, Random(6)}, {});
    EXPECT_EQ(refused.code(), Code::kCorrupt);
    EXPECT_NE(refused.status().message().find("stream.json is gone. Put that object back"), std::string::npos)
        << refused.status().message();
    EXPECT_FALSE(*store_->Get("stream.json", {})) << "nothing is written";
    ASSERT_TRUE(store_->Put("stream.json", Body(json), {}).ok());
    EXPECT_EQ(Open(7)->known()->manifest.frontier_block, 1u);
  });
}

TEST_F(DamageTest, AManifestThatDoesNotContinueTheOneBeforeItIsRefused) {
  Run(Codec::kNone, [&](StreamLog& log) {
    std::shared_ptr<StreamLog> reader = Open(2), writer = Open(3);
    const Manifest& newest = log.known()->manifest;
    // Everything fits but the link: as if the slot before it had held something else when this one was written.
    std::string forged = Successor(newest, "another history", 99).Encode();
    ASSERT_TRUE(store_->PutIfAbsent(SlotKey(newest.number + 1), Body(forged), {}).ok());
    auto refreshed = reader->Refresh({});
    EXPECT_EQ(refreshed.code(), Code::kCorrupt);
    EXPECT_NE(refreshed.status().message().find("does not continue the one before it"), std::string::npos);
    EXPECT_EQ(reader->known()->manifest.number, newest.number);
    EXPECT_EQ(writer->Commit(PinEdit{{"pin", 0, 0, 0}, ""}, {}).code(), Code::kCorrupt) << "whoever lost the race to it";
  });
}

TEST_F(DamageTest, EveryFlippedByteOfACellIsNoticedAlsoIfItIsPacked) {
  for (Codec codec : {Codec::kNone, Codec::kZstd}) {
    store_ = std::make_shared<MemoryStore>();
    Run(codec, [&](StreamLog&) {
      Entry entry = *StreamReader(Open(2)).Find(0, {});
      const std::string key = entry.name.Key();
      Bytes chunk = (*store_->Get(key, {}))->bytes;
      ChunkHeader header = *DecodeChunkHeader(chunk.span().first(entry.header_bytes), entry, info_, key);
      uint64_t lane = header.lane[0].offset;
      Bytes bytes = chunk.Slice(lane, header.lane[1].offset - lane);
      CellPlace place = DecodeDirectory(bytes.span(), header, 0, key)->front();
      ASSERT_EQ(place.codec, codec);
      ASSERT_GT(place.stored, 20u);
      for (uint64_t at = place.offset; at < place.offset + place.stored; ++at) {
        Flip(key, at);
        auto read = StreamReader(Open(2)).ReadCell(0, 0, {});
        EXPECT_EQ(read.code(), Code::kCorrupt) << at;
        EXPECT_NE(read.status().message().find("its checksum does not fit"), std::string::npos) << at;
        EXPECT_NE(read.status().message().find(key), std::string::npos) << at;
        Flip(key, at);
      }
      EXPECT_TRUE(StreamReader(Open(2)).ReadCell(0, 0, {}).ok());
    });
  }
}

TEST_F(DamageTest, EveryFlippedByteOfAFooterIsNoticedBeforeAStrandGoesOnFromIt) {
  Run(Codec::kNone, [&](StreamLog& log) {
    const Strand row = log.known()->manifest.strands[0];
    const std::string key = log.known()->manifest.LastChunk(0)->Key();
    ASSERT_GT(row.last_footer_bytes, 0u);
    for (uint64_t at = row.last_bytes - row.last_footer_bytes; at < row.last_bytes; ++at) {
      Flip(key, at);
      auto taken = StrandWriter::Take(Open(at), 0, {});
      EXPECT_FALSE(taken.ok()) << at;
      EXPECT_NE(taken.status().message().find(key), std::string::npos) << taken.status().ToString();
      Flip(key, at);
    }
    auto taken = StrandWriter::Take(Open(2), 0, {});
    ASSERT_TRUE(taken.ok()) << taken.status().ToString();
    EXPECT_EQ((*taken)->state()->AsText(), "state");
  });
}

TEST_F(DamageTest, VerifyNamesTheDamagedChunkAndNotTheOnesAfterIt) {
  Run(Codec::kNone, [&](StreamLog&) {
    auto writer = StrandWriter::Take(Open(2), 0, {});
    for (int i = 0; i < 3; ++i) ASSERT_EQ(Append(**writer, Codec::kNone).ToString(), "Ok");
    auto verify = [&] { return *Verify(*Open(3), {}); };
    ASSERT_TRUE(verify().damaged.empty());
    ASSERT_TRUE(verify().unchecked.empty());

    std::vector<Entry> entries;
    for (uint64_t step = 0; step < 4; ++step) entries.push_back(*StreamReader(Open(2)).Find(step, {}));
    const std::string victim = entries[1].name.Key(), next = entries[2].name.Key(), last = entries[3].name.Key();

    // A cell: its header still says how the next chunk must begin.
    Flip(victim, entries[1].header_bytes + 60);
    VerifyReport report = verify();
    ASSERT_EQ(report.damaged.size(), 1u);
    EXPECT_EQ(report.damaged[0].object, store_->Describe(victim));
    EXPECT_TRUE(report.unchecked.empty());
    Flip(victim, entries[1].header_bytes + 60);

    // The header: nobody knows any more how the next chunk must begin, which is said of that one and of no other.
    Flip(victim, 20);
    report = verify();
    ASSERT_EQ(report.damaged.size(), 1u);
    EXPECT_EQ(report.damaged[0].object, store_->Describe(victim));
    ASSERT_EQ(report.unchecked.size(), 1u);
    EXPECT_EQ(report.unchecked[0].object, store_->Describe(next));
    EXPECT_NE(report.unchecked[0].what.find(victim), std::string::npos);
    Flip(victim, 20);

    // The last one: it is the manifest that nothing can be compared with.
    Flip(last, 20);
    report = verify();
    ASSERT_EQ(report.damaged.size(), 1u);
    EXPECT_EQ(report.damaged[0].object, store_->Describe(last));
    ASSERT_EQ(report.unchecked.size(), 1u);
    EXPECT_NE(report.unchecked[0].what.find("ends as its manifest says"), std::string::npos);
    Flip(last, 20);
    EXPECT_TRUE(verify().damaged.empty());
  });
}

TEST_F(DamageTest, APinOfTheSameNameElsewhereIsNotTheOneInDoubt) {
  Run(Codec::kNone, [&](StreamLog& log) {
    ASSERT_TRUE(log.Commit(PinEdit{{"pin", 0, 0, 0}, ""}, {}).ok());
    const Manifest& manifest = log.known()->manifest;
    EXPECT_TRUE(*log.Contains(manifest, PinEdit{{"pin", 0, 0, 0}, ""}, {}));
    EXPECT_FALSE(*log.Contains(manifest, PinEdit{{"pin", 1, 0, 0}, ""}, {}));
    EXPECT_FALSE(*log.Contains(manifest, PinEdit{{"other", 0, 0, 0}, ""}, {}));
    EXPECT_TRUE(*log.Contains(manifest, UnpinEdit{"other"}, {}));
    EXPECT_FALSE(*log.Contains(manifest, UnpinEdit{"pin"}, {}));
  });
}

TEST_F(DamageTest, WhoWasAwayWhileTheNextManifestsWereForgottenNoticesAfterAFewLooks) {
  Run(Codec::kNone, [&](StreamLog& log) {
    std::shared_ptr<StreamLog> away = Open(2);
    const uint64_t before = away->known()->manifest.number;
    auto writer = StrandWriter::Take(Open(3), 0, {});
    for (int i = 0; i < 30; ++i) ASSERT_EQ(Append(**writer, Codec::kNone).ToString(), "Ok");
    std::shared_ptr<StreamLog> collecting = Open(4);
    ASSERT_TRUE(Collector(collecting).Collect({.grace = Duration::zero(), .keep_manifests = 1}, {}).ok());
    ASSERT_FALSE(*store_->Get(SlotKey(before + 1), {}));
    for (int i = 0; i < 12 && away->known()->manifest.number == before; ++i) ASSERT_TRUE(away->Refresh({}).ok());
    EXPECT_EQ(away->known()->manifest.number, collecting->known()->manifest.number);
    (void)log;
  });
}

}  // namespace
}  // namespace headrace
