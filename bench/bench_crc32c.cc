// CRC32C: how fast it goes, next to reading the same bytes at all, to the processor's own instruction for it, and to the portable form.
//
// The last lines say the ratios: that is what stays the same from machine to machine.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "base/crc32c.h"
#include "base/random.h"
#include "base/size.h"

namespace headrace {
namespace {

std::vector<std::byte> Noise(size_t size) {
  Random random(1);
  std::vector<std::byte> bytes(size);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random.Next());
  return bytes;
}

// One pass over the bytes that does as little as possible.
uint64_t Read(std::span<const std::byte> bytes) {
  uint64_t sum = 0;
  for (size_t at = 0; at + 8 <= bytes.size(); at += 8) {
    uint64_t word;
    std::memcpy(&word, bytes.data() + at, sizeof(word));
    sum ^= word;
  }
  return sum;
}

template <typename Pass>
void Measure(benchmark::State& state, Pass pass) {
  std::vector<std::byte> bytes = Noise(static_cast<size_t>(state.range(0)));
  for (auto _ : state) benchmark::DoNotOptimize(pass(bytes));
  state.SetBytesProcessed(state.iterations() * state.range(0));
}

void BM_Read(benchmark::State& state) {
  Measure(state, [](const auto& bytes) { return Read(bytes); });
}
void BM_Crc32c(benchmark::State& state) {
  Measure(state, [](const auto& bytes) { return Crc32c(bytes); });
}
void BM_Crc32cInstruction(benchmark::State& state) {
  Measure(state, [](const auto& bytes) { return Crc32c(bytes, 0, std::min(Crc32cWay::kInstruction, Crc32cBestWay())); });
}
void BM_Crc32cPortable(benchmark::State& state) {
  Measure(state, [](const auto& bytes) { return Crc32c(bytes, 0, Crc32cWay::kPortable); });
}

// Checksum and copy in one pass, as lanes land: pieces of 16 KiB that a socket has just filled, into memory that no cache holds.
template <typename Pass>
void MeasureCopy(benchmark::State& state, Pass pass) {
  constexpr size_t kPiece = 16 << 10;
  const std::vector<std::byte> from = Noise(256 << 10);
  std::vector<std::byte> to(static_cast<size_t>(state.range(0)));
  size_t at = 0;
  for (auto _ : state) {
    benchmark::DoNotOptimize(pass(std::span(from).subspan(at % from.size(), kPiece), to.data() + at));
    at = (at + kPiece) % to.size();
  }
  state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(kPiece));
}

void BM_Crc32cCopy(benchmark::State& state) {
  MeasureCopy(state, [](auto bytes, std::byte* to) { return Crc32cCopy(bytes, to); });
}
void BM_Crc32cCopyInstruction(benchmark::State& state) {
  MeasureCopy(state, [](auto bytes, std::byte* to) {
    return Crc32cCopy(bytes, to, 0, std::min(Crc32cWay::kInstruction, Crc32cBestWay()));
  });
}
void BM_Copy(benchmark::State& state) {
  MeasureCopy(state, [](auto bytes, std::byte* to) { return std::memcpy(to, bytes.data(), bytes.size()); });
}

void BM_Crc32cJoin(benchmark::State& state) {
  uint32_t crc = 1;
  for (auto _ : state) benchmark::DoNotOptimize(crc = Crc32cJoin(crc, 7, 123'456'789));
}

// From a short record to a chunk that no cache holds.
constexpr int64_t kSizes[] = {64, 1 << 10, 64 << 10, 1 << 20, 256 << 20};

class Ratios final : public benchmark::ConsoleReporter {
 public:
  void ReportRuns(const std::vector<Run>& runs) override {
    ConsoleReporter::ReportRuns(runs);
    for (const Run& run : runs) {
      auto found = run.counters.find("bytes_per_second");
      if (found != run.counters.end()) speed_[run.benchmark_name()] = found->second;
    }
  }

  void Print() const {
    const Crc32cWay way = Crc32cBestWay();
    std::printf("\nCRC32C %s:\n", way == Crc32cWay::kWide          ? "by carry-less products of 512 bits"
                                  : way == Crc32cWay::kInstruction ? "by the processor's instruction"
                                                                   : "without an instruction of the processor");
    for (int64_t size : kSizes) {
      auto at = [&](const std::string& name) {
        auto found = speed_.find(name + "/" + std::to_string(size));
        return found == speed_.end() ? 0 : found->second;
      };
      double read = at("BM_Read"), crc = at("BM_Crc32c"), instruction = at("BM_Crc32cInstruction"),
             portable = at("BM_Crc32cPortable");
      if (read == 0 || crc == 0 || instruction == 0 || portable == 0) continue;
      std::printf("  %8s  %8s/s  %.2f of a bare read  %.1f times the instruction  %.1f times the portable form\n",
                  FormatSize(static_cast<double>(size)).c_str(), FormatSize(crc).c_str(), crc / read, crc / instruction,
                  crc / portable);
    }
  }

 private:
  std::map<std::string, double> speed_;
};

}  // namespace
}  // namespace headrace

int main(int argc, char** argv) {
  using namespace headrace;
  for (auto [name, function] : {std::pair{"BM_Read", &BM_Read},
                                {"BM_Crc32c", &BM_Crc32c},
                                {"BM_Crc32cInstruction", &BM_Crc32cInstruction},
                                {"BM_Crc32cPortable", &BM_Crc32cPortable}}) {
    for (int64_t size : kSizes) benchmark::RegisterBenchmark(name, function)->Arg(size);
  }
  for (auto [name, function] : {std::pair{"BM_Copy", &BM_Copy},
                                {"BM_Crc32cCopy", &BM_Crc32cCopy},
                                {"BM_Crc32cCopyInstruction", &BM_Crc32cCopyInstruction}}) {
    benchmark::RegisterBenchmark(name, function)->Arg(48 << 20);
  }
  benchmark::RegisterBenchmark("BM_Crc32cJoin", BM_Crc32cJoin);
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  Ratios ratios;
  benchmark::RunSpecifiedBenchmarks(&ratios);
  ratios.Print();
  return 0;
}
