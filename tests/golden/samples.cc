#include "golden/samples.h"

#include "base/text.h"

namespace headrace::golden {
namespace {

Uuid SampleUuid() {
  Uuid uuid;
  for (size_t i = 0; i < uuid.size(); ++i) uuid[i] = static_cast<unsigned char>(0xA0 + i);
  return uuid;
}

Link SampleLink(unsigned char first) {
  Link link;
  for (size_t i = 0; i < link.size(); ++i) link[i] = static_cast<unsigned char>(first + i);
  return link;
}

Entry SampleEntry(uint64_t number) {
  Entry entry;
  entry.name = {static_cast<uint16_t>(number % 3), static_cast<uint32_t>(2 + number % 5), number / 3,
                0xABCD000000000000 + number};
  entry.block = number;
  entry.first_step = 4 * number;
  entry.steps = 4;
  entry.bytes = 1000000 + number;
  entry.header_bytes = 192;
  entry.header_crc = 0x89ABCDEF;
  entry.mixture = static_cast<uint32_t>(number / 100);
  return entry;
}

template <typename T>
Array Numbers(Dtype dtype, std::vector<uint64_t> shape, const std::vector<T>& values) {
  return {dtype, std::move(shape), Bytes::Copy(std::as_bytes(std::span(values)))};
}

}  // namespace

StreamInfo SampleInfo() {
  StreamInfo info;
  info.uuid = SampleUuid();
  info.features_optional = {"some-later-thing"};
  info.lanes = 2;
  info.strands = 3;
  info.blocks = BlockSizes::Growing(3, 4);
  info.window = 6;
  info.slots_per_marker = 512;
  info.segment_entries = 100;
  info.columns = {{"tokens", Dtype::kI32, Column::kArray},
                  {"weight", Dtype::kBf16, Column::kArray},
                  {"ids", Dtype::kU16, Column::kRagged},
                  {"text", Dtype::kU8, Column::kBytes}};
  info.recipe_hash = std::string(64, 'e');
  return info;
}

Manifest SampleManifest() {
  Manifest manifest = Manifest::First(SampleInfo(), 0x0123456789ABCDEF);
  manifest.number = 1234567;
  for (size_t i = 0; i < manifest.previous.size(); ++i) manifest.previous[i] = static_cast<unsigned char>(i);
  manifest.finished = true;
  manifest.frontier_block = 1040;
  manifest.frontier_step = 4160;
  manifest.trim_block = 100;
  manifest.trim_step = 400;
  manifest.decisions = 7;
  for (uint32_t v = 0; v < 3; ++v) {
    Strand& strand = manifest.strands[v];
    strand = {
        5 + v,      0xF00D + v, static_cast<uint8_t>(v), v == 2, 347, 1041 + v, SampleLink(static_cast<unsigned char>(16 * v)),
        1234560 + v};
    strand.keep_seq = 33;
    strand.keep_epoch = 2;
    strand.keep_nonce = 0x1111 * (v + 1);
    strand.last_epoch = 4 + v;
    strand.last_nonce = 0x2222 * (v + 1);
    strand.last_bytes = 1000000 + v;
    strand.last_footer_bytes = 60 + v;
  }
  for (uint64_t n = 1036; n < 1040; ++n) manifest.tail.push_back(SampleEntry(n));
  manifest.parked = {SampleEntry(1042)};
  manifest.parked[0].first_step = 0;
  manifest.index[1] = {{1, 0, 1000, 0, 4000, 1000, 0x01020304, 0xAAAA}};
  manifest.index[0] = {{0, 1000, 1018, 4000, 4072, 18, 0x05060708, 0xBBBB}, {0, 1018, 1036, 4072, 4144, 18, 0x090A0B0C, 0xCCCC}};
  manifest.pins = {{"checkpoint-900", 3600, 1234000, 0}, {"session-1", 400, 1234566, 600}};
  manifest.mixtures = {{6, 900, 0x6666}, {7, 1030, 0x7777}};
  return manifest;
}

SampleSegment SampleEntries() {
  SampleSegment segment;
  segment.wanted.level = 1;
  segment.wanted.first_block = 300;
  segment.wanted.end_block = 450;
  segment.wanted.nonce = 0x5E65E65E6;
  for (uint64_t n = 300; n < 450; ++n) segment.entries.push_back(SampleEntry(n));
  return segment;
}

SampleSegment SampleChildren() {
  SampleSegment segment;
  segment.wanted.level = 4;
  segment.wanted.first_block = 0;
  segment.wanted.end_block = 800;
  segment.wanted.nonce = 0xF01D;
  for (uint64_t i = 0; i < 8; ++i) {
    segment.children.push_back(
        {3, 100 * i, 100 * i + 100, 400 * i, 400 * i + 400, 100, static_cast<uint32_t>(0xC0C0C000 + i), 0x9000 + i});
  }
  return segment;
}

std::vector<Array> SampleArrays(uint32_t step, uint32_t lane) {
  auto base = static_cast<int32_t>(100 * step + 10 * lane);
  return {
      Numbers<int32_t>(Dtype::kI32, {2, 3}, {base, base + 1, base + 2, -1, -2, -3}),
      Numbers<uint16_t>(Dtype::kBf16, {}, {0x3F80}),
      Numbers<uint16_t>(Dtype::kU16, {5}, {1, 2, 3, 4, 65535}),
      Numbers<int64_t>(Dtype::kI64, {4}, {0, 2, 2, 5}),
      Numbers<uint8_t>(Dtype::kU8, {5}, {'g', 'r', 0xC3, 0xBC, 'n'}),
      Numbers<int64_t>(Dtype::kI64, {3}, {0, 4, 5}),
  };
}

ChunkEdit SampleChunkEdit() {
  ChunkEdit edit;
  edit.uuid = SampleUuid();
  edit.name = {1, 5, 3, 0xFEDCBA9876543210};
  edit.prev = SampleLink(0x40);
  edit.block = 10;
  edit.mixture = 6;
  return edit;
}

std::string SampleState() { return "{\"position\": 42}"; }

ChunkBuilder::Finished SampleChunk(const StreamInfo& info, Codec codec) {
  ChunkBuilder chunk(info, {codec, 1});
  for (uint32_t step = 0; step < 2; ++step) {
    std::vector<Body> cells;
    for (uint32_t lane = 0; lane < info.lanes; ++lane) cells.push_back(*BuildCell(SampleArrays(step, lane), info.columns));
    (void)chunk.AddStep(std::move(cells));
  }
  return chunk.Finish(SampleChunkEdit(), Bytes::FromString(SampleState()));
}

std::vector<SampleIntent> SampleIntents() {
  ChunkEdit chunk = SampleChunk(SampleInfo(), Codec::kNone).edit;
  return {{chunk, chunk.name.seq},
          {EndEdit{SampleUuid(), 2, 9, SampleLink(0x80), 1043}, 348},
          {BumpEdit{SampleUuid(), 0, 11, 0xFEEDFACE}, 347}};
}

Entry EntryOf(const ChunkEdit& edit) {
  return {edit.name, edit.block, 0, edit.steps, edit.bytes, edit.header_bytes, edit.header_crc, edit.mixture};
}

}  // namespace headrace::golden
