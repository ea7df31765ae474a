// Appending to a stream and reading it, against what cannot be done without: one pass of CRC32C and one copy.
//
//   stream_bench folder DIR [--bytes 512MB] [--rounds 5]     both sides in turns; DIR in memory (/dev/shm) shows the most
//   stream_bench append URI [--bytes 512MB] [--callers 4]    a stream of its own; what it came to, as JSON
//   stream_bench read URI [--callers 4]                      the whole of it, --passes 3 times
//   stream_bench gets URI [--callers 4]                      its chunks as bare objects with one pass of CRC32C, as often
//   stream_bench lanes URI                                   bytes fetched for bytes wanted, for every divisor of the lanes
//
// Chunks have 16 MB: 8 lanes × 4 steps of 512 KiB (`--lanes`, `--cell` for others).

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <iostream>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/crc32c.h"
#include "base/random.h"
#include "base/size.h"
#include "base/text.h"
#include "headrace/store.h"
#include "headrace/stream.h"

namespace headrace {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

const Deadline kNever;

struct Shape {
  uint64_t bytes = 512'000'000;
  uint64_t cell = 512 << 10;
  uint32_t lanes = 8;
  uint32_t steps = 4;  // of a block
  uint32_t callers = 4;
  uint32_t passes = 3;  // over what is read: the first opens connections
  int rounds = 5;

  uint64_t chunk() const { return cell * lanes * steps; }
  uint64_t blocks() const { return std::max<uint64_t>(1, bytes / chunk()); }
};

[[noreturn]] void Fail(const std::string& why) {
  std::cerr << "stream_bench: " << why << "\n";
  std::exit(1);
}

void Check(bool good, const char* what) {
  if (!good) Fail(Cat(what, ": ", std::strerror(errno)));
}

template <typename T>
T Get(Result<T> result) {
  if (!result.ok()) Fail(result.status().message());
  return *std::move(result);
}

void Done(const Status& status) {
  if (!status.ok()) Fail(status.message());
}

double Seconds(const std::function<void()>& work) {
  Instant began = RealClock().Now();
  work();
  return std::chrono::duration<double>(RealClock().Now() - began).count();
}

// Where the cells come from: 64 MB that do not fit a cache, so that the first pass over a cell comes from memory.
class Cells {
 public:
  explicit Cells(const Shape& shape) : shape_(shape), memory_((64 << 20) + shape.cell) {
    Random random(1);
    for (size_t i = 0; i + 8 <= memory_.size(); i += 8) {
      uint64_t value = random.Next();
      std::memcpy(memory_.data() + i, &value, 8);
    }
  }

  std::span<const std::byte> Cell(uint64_t number) const {
    uint64_t places = (memory_.size() - shape_.cell) / 4096;
    return std::span(memory_).subspan(number * (shape_.cell / 4096 + 1) % places * 4096, shape_.cell);
  }

  std::vector<std::vector<CellArrays>> Block(uint64_t block) const {
    std::vector<std::vector<CellArrays>> steps(shape_.steps);
    uint64_t number = block * shape_.steps * shape_.lanes;
    for (std::vector<CellArrays>& step : steps) {
      for (uint32_t lane = 0; lane < shape_.lanes; ++lane)
        step.push_back({Array{Dtype::kU8, {shape_.cell}, Bytes::Borrow(Cell(number++))}});
    }
    return steps;
  }

 private:
  const Shape shape_;
  std::vector<std::byte> memory_;
};

Stream CreateStream(const std::string& uri, const Shape& shape, uint32_t strands) {
  StreamOptions options{.lanes = shape.lanes,
                        .strands = strands,
                        .order = Order::kArrival,
                        .blocks = BlockSizes::Even(shape.steps),
                        .columns = {{"data", Dtype::kU8}},
                        .probe = false};
  return Get(Stream::Create(uri, options, kNever));
}

void Append(Stream& stream, const Shape& shape, const Cells& cells, uint32_t writers) {
  std::atomic<uint64_t> next = 0;
  auto work = [&](uint16_t strand) {
    std::unique_ptr<StrandWriter> writer = Get(stream.Take(strand, kNever));
    for (uint64_t block; (block = next++) < shape.blocks();) Done(writer->Append(writer->next(), cells.Block(block), {}, kNever));
  };
  std::vector<std::jthread> threads;
  for (uint32_t i = 1; i < writers; ++i) threads.emplace_back([&, strand = static_cast<uint16_t>(i)] { work(strand); });
  work(0);
}

struct Fetched {
  uint64_t bytes = 0, fetched = 0, wanted = 0;
};

// Everything, so many times, by so many readers at once, each `share` lanes at a time.
Fetched ReadAll(Stream& stream, uint32_t readers, uint32_t share, bool into_own_memory, uint32_t passes = 1) {
  std::atomic<uint64_t> next = 0, bytes = 0;
  const uint64_t steps = Get(stream.Refresh(kNever)).steps;
  const uint32_t block_steps = stream.info().blocks.Steps(0), lanes = stream.info().lanes;
  std::unique_ptr<StreamReader> reader = stream.Reader();
  auto work = [&] {
    // Used again and again, as by anybody who reads for long.
    std::optional<Buffer> memory;
    for (uint64_t place; (place = next.fetch_add(block_steps)) < passes * steps;) {
      const uint64_t step = place % steps;
      Entry entry = Get(reader->Find(step, kNever));
      if (into_own_memory && (!memory || memory->size() < entry.bytes)) memory.emplace(entry.bytes);
      for (uint32_t lane = 0; lane < lanes; lane += share) {
        std::span<std::byte> into = memory ? memory->span() : std::span<std::byte>();
        StreamReader::Block block = Get(reader->ReadBlock(entry, lane, lane + share, kNever, {.into = into}));
        for (uint64_t s = step; s < block.entry.end_step(); ++s) {
          for (uint32_t l = lane; l < lane + share; ++l) bytes += Get(reader->CellOf(block, s, l))[0].bytes.size();
        }
      }
    }
  };
  {
    std::vector<std::jthread> threads;
    for (uint32_t i = 1; i < readers; ++i) threads.emplace_back(work);
    work();
  }
  return {bytes, reader->fetched_bytes(), reader->wanted_bytes()};
}

// The same objects, by so many callers at once, from the store alone.
uint64_t GetAll(ObjectStore& store, uint32_t callers, uint32_t passes) {
  std::vector<ListEntry> chunks = Get(ListAll(store, "data/", kNever));
  std::atomic<uint64_t> next = 0, bytes = 0, sum = 0;
  auto work = [&] {
    std::optional<Buffer> memory;
    for (uint64_t place; (place = next++) < passes * chunks.size();) {
      const ListEntry& chunk = chunks[place % chunks.size()];
      if (!memory || memory->size() < chunk.size) memory.emplace(chunk.size);
      std::optional<Object> object = Get(store.Get(chunk.key, {.range = {}, .into = memory->span()}, kNever));
      if (!object) Fail(Cat(chunk.key, " is gone"));
      sum += Crc32c(object->bytes.span());
      bytes += object->bytes.size();
    }
  };
  std::vector<std::jthread> threads;
  for (uint32_t i = 1; i < callers; ++i) threads.emplace_back(work);
  work();
  threads.clear();
  return bytes;
}

double CpuSeconds() {
  struct rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  auto seconds = [](const timeval& time) { return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6; };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

// The bare calls.
class Plain {
 public:
  Plain(std::string root, const Shape& shape, const Cells& cells) : root_(std::move(root)), shape_(shape), cells_(cells) {
    fs::create_directories(root_);
  }

  void Write() {
    for (uint64_t block = 0; block < shape_.blocks(); ++block) {
      int file = ::open(Name(block).c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
      Check(file >= 0, "open");
      uint64_t number = block * shape_.steps * shape_.lanes;
      std::vector<iovec> pieces;
      for (uint32_t i = 0; i < shape_.steps * shape_.lanes; ++i) {
        std::span<const std::byte> cell = cells_.Cell(number++);
        sum_ = sum_ ^ Crc32c(cell);
        pieces.push_back({const_cast<std::byte*>(cell.data()), cell.size()});
      }
      ssize_t written = ::writev(file, pieces.data(), static_cast<int>(pieces.size()));
      Check(written == static_cast<ssize_t>(shape_.chunk()), "writev");
      ::close(file);
    }
  }

  void Read() {
    std::vector<std::byte> memory(shape_.chunk());
    for (uint64_t block = 0; block < shape_.blocks(); ++block) {
      int file = ::open(Name(block).c_str(), O_RDONLY | O_CLOEXEC);
      Check(file >= 0, "open");
      size_t at = 0;
      for (ssize_t got; at < memory.size(); at += static_cast<size_t>(got)) {
        got = ::read(file, memory.data() + at, memory.size() - at);
        Check(got > 0, "read");
      }
      ::close(file);
      sum_ = sum_ ^ Crc32c(memory);
    }
  }

  void Map() {
    for (uint64_t block = 0; block < shape_.blocks(); ++block) {
      int file = ::open(Name(block).c_str(), O_RDONLY | O_CLOEXEC);
      Check(file >= 0, "open");
      void* memory = ::mmap(nullptr, shape_.chunk(), PROT_READ, MAP_SHARED, file, 0);
      Check(memory != MAP_FAILED, "mmap");
      ::close(file);
      sum_ = sum_ ^ Crc32c({static_cast<const std::byte*>(memory), shape_.chunk()});
      ::munmap(memory, shape_.chunk());
    }
  }

 private:
  std::string Name(uint64_t block) const { return Cat(root_, "/", block); }

  const std::string root_;
  const Shape shape_;
  const Cells& cells_;
  volatile uint32_t sum_ = 0;
};

double Median(std::vector<double> all) {
  std::ranges::nth_element(all, all.begin() + static_cast<ptrdiff_t>(all.size() / 2));
  return all[all.size() / 2];
}

json Folder(const std::string& root, const Shape& shape) {
  Cells cells(shape);
  const double bytes = static_cast<double>(shape.blocks() * shape.chunk());
  std::vector<double> append, read, plain_write, plain_read, plain_map;
  for (int round = 0; round < shape.rounds; ++round) {
    const std::string ours = Cat(root, "/ours-", ::getpid()), bare = Cat(root, "/bare-", ::getpid());
    auto we = [&] {
      // Into the page cache, as the other side does.
      Stream stream = CreateStream(Cat("file://", ours, "?sync=false"), shape, 1);
      append.push_back(Seconds([&] { Append(stream, shape, cells, 1); }));
      // Once unmeasured, as the bare calls do: the first to touch a page of a file pays for its place in the cache.
      ReadAll(stream, 1, shape.lanes, /*into_own_memory=*/false);
      read.push_back(Seconds([&] {
        if (ReadAll(stream, 1, shape.lanes, /*into_own_memory=*/false).bytes != static_cast<uint64_t>(bytes))
          Fail("not everything was read");
      }));
      fs::remove_all(ours);
    };
    auto they = [&] {
      Plain plain(bare, shape, cells);
      plain_write.push_back(Seconds([&] { plain.Write(); }));
      plain.Read();
      plain_read.push_back(Seconds([&] { plain.Read(); }));
      plain_map.push_back(Seconds([&] { plain.Map(); }));
      fs::remove_all(bare);
    };
    round % 2 == 0 ? we() : they();
    round % 2 == 0 ? they() : we();
  }
  auto ratio = [](const std::vector<double>& mine, const std::vector<double>& theirs) {
    std::vector<double> all;
    for (size_t i = 0; i < mine.size(); ++i) all.push_back(theirs[i] / mine[i]);
    return Median(all);
  };
  auto rate = [&](const std::vector<double>& seconds) { return bytes / Median(seconds); };
  return {{"bytes", bytes},
          {"chunk_bytes", shape.chunk()},
          {"append", {{"bytes_per_second", rate(append)}, {"bare", rate(plain_write)}, {"ratio", ratio(append, plain_write)}}},
          {"read", {{"bytes_per_second", rate(read)}, {"bare", rate(plain_read)}, {"ratio", ratio(read, plain_read)}}},
          {"mapped", {{"bytes_per_second", rate(read)}, {"mapped", rate(plain_map)}, {"ratio", ratio(read, plain_map)}}}};
}

json LanesOf(const std::string& uri) {
  json rows = json::array();
  Stream stream = Get(Stream::Open(uri, kNever));
  const uint32_t lanes = stream.info().lanes;
  for (uint32_t ranks = 1; ranks <= lanes; ++ranks) {
    if (lanes % ranks != 0) continue;
    // Each rank is a process of its own in earnest, and reads headers of its own.
    uint64_t fetched = 0, wanted = 0;
    const uint64_t steps = Get(stream.Refresh(kNever)).steps;
    for (uint32_t rank = 0; rank < ranks; ++rank) {
      std::unique_ptr<StreamReader> reader = stream.Reader();
      const uint32_t share = lanes / ranks;
      for (uint64_t step = 0; step < steps;)
        step = Get(reader->ReadBlock(step, rank * share, (rank + 1) * share, kNever)).entry.end_step();
      fetched += reader->fetched_bytes();
      wanted += reader->wanted_bytes();
    }
    rows.push_back({{"ranks", ranks}, {"amplification", static_cast<double>(fetched) / static_cast<double>(wanted)}});
  }
  return rows;
}

json Answer(const std::string& mode, const std::string& where, const Shape& shape) {
  if (mode == "folder") return Folder(where, shape);
  if (mode == "lanes") return LanesOf(where);
  if (mode == "read" || mode == "gets") {
    uint64_t bytes = 0;
    const double cpu = CpuSeconds();
    double seconds = Seconds([&] {
      if (mode == "gets") {
        bytes = GetAll(*Get(OpenStore(where)), shape.callers, shape.passes);
      } else {
        Stream stream = Get(Stream::Open(where, kNever));
        bytes = ReadAll(stream, shape.callers, stream.info().lanes, /*into_own_memory=*/true, shape.passes).bytes;
      }
    });
    const double gigabytes = static_cast<double>(bytes) * 1e-9;
    return {{"bytes", bytes},
            {"seconds", seconds},
            {"bytes_per_second", static_cast<double>(bytes) / seconds},
            {"cpu_seconds_per_gb", (CpuSeconds() - cpu) / gigabytes}};
  }
  if (mode != "append") Fail(Cat("there is no mode \"", mode, "\""));
  Cells cells(shape);
  Stream stream = CreateStream(where, shape, shape.callers);
  double seconds = Seconds([&] { Append(stream, shape, cells, shape.callers); });
  double bytes = static_cast<double>(shape.blocks() * shape.chunk());
  return {{"bytes", bytes}, {"seconds", seconds}, {"bytes_per_second", bytes / seconds}, {"chunk_bytes", shape.chunk()}};
}

int Main(int argc, char** argv) {
  if (argc < 3) Fail("usage: stream_bench folder|append|read|gets|lanes WHERE [--bytes 512MB] [--cell 512KiB] [--lanes 8] …");
  Shape shape;
  for (int i = 3; i + 1 < argc; i += 2) {
    std::string_view word = argv[i];
    auto number = Get(ParseSize(argv[i + 1]));
    if (word == "--bytes")
      shape.bytes = number;
    else if (word == "--cell")
      shape.cell = number;
    else if (word == "--lanes")
      shape.lanes = static_cast<uint32_t>(number);
    else if (word == "--steps")
      shape.steps = static_cast<uint32_t>(number);
    else if (word == "--callers")
      shape.callers = static_cast<uint32_t>(number);
    else if (word == "--passes")
      shape.passes = static_cast<uint32_t>(number);
    else if (word == "--rounds")
      shape.rounds = static_cast<int>(number);
    else
      Fail(Cat("there is no option ", word));
  }
  std::cout << Answer(argv[1], argv[2], shape).dump(2) << "\n";
  return 0;
}

}  // namespace
}  // namespace headrace

int main(int argc, char** argv) { return headrace::Main(argc, argv); }
