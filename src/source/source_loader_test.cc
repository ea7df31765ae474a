#include "source/source_loader.h"

#include <arrow/array/array_primitive.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>

#include "base/log.h"
#include "base/random.h"
#include "base/text.h"
#include "source/json_rows.h"
#include "source/window_budget.h"

namespace headrace {
namespace {

using testing::HasSubstr;

constexpr uint32_t kRows = 600;
constexpr uint32_t kStrands = 3;

class SourceLoaderTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::temp_directory_path() / Cat("headrace-source-", Random::FromEntropy().Hex(12));
    std::filesystem::create_directories(folder_);
    std::ofstream out(folder_ / "a.jsonl");
    for (uint32_t i = 0; i < kRows; ++i) out << Cat("{\"n\": ", i, ", \"text\": \"", std::string(i % 50, 'x'), "\"}\n");
    out.close();
    spec_.name = "web";
    spec_.format = "jsonl";
    spec_.files = {(folder_ / "*.jsonl").string()};
    options_.strands = kStrands;
    options_.seed = 5;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::shared_ptr<const Inventory> Inventory_(uint32_t window = 300) {
    auto made = MakeInventory(spec_, "",
                              {.strands = kStrands, .sources = 1, .shuffle_window = window, .group_size = 1, .progress = nullptr},
                              Deadline());
    EXPECT_TRUE(made.ok()) << made.status().ToString();
    made->rows_per_piece = 20;
    made->granules_per_group = 2;
    return std::make_shared<const Inventory>(*std::move(made));
  }
  std::unique_ptr<SourceLoader> Open(std::shared_ptr<const Inventory> inventory, RowTransform transform = nullptr) {
    auto loader = SourceLoader::Open(spec_, std::move(inventory), options_, std::move(transform));
    EXPECT_TRUE(loader.ok()) << loader.status().ToString();
    return *std::move(loader);
  }
  static std::vector<int64_t> Numbers(const Window& window) {
    std::vector<int64_t> rows, numbers;
    for (const auto& part : window.parts) {
      const auto column = std::static_pointer_cast<arrow::Int64Array>(part->GetColumnByName("__row"));
      rows.insert(rows.end(), column->raw_values(), column->raw_values() + column->length());
    }
    for (uint32_t row : window.order) numbers.push_back(rows[row]);
    return numbers;
  }
  using Windows = std::map<std::pair<uint16_t, Position>, std::vector<int64_t>>;
  static Windows All(SourceLoader& loader, uint32_t epoch) {
    Windows windows;
    for (uint16_t strand = 0; strand < kStrands; ++strand) {
      for (Position at{.epoch = epoch}; at.group < loader.Groups(strand, epoch); ++at.group) {
        for (at.piece = 0;; ++at.piece) {
          auto window = loader.Load(strand, at, Deadline());
          EXPECT_TRUE(window.ok()) << window.status().ToString();
          if (!window.ok()) return windows;
          windows[{strand, at}] = Numbers(**window);
          if ((*window)->last_of_group) break;
        }
      }
    }
    return windows;
  }

  std::filesystem::path folder_;
  SourceSpec spec_;
  SourceLoaderOptions options_;
};

TEST_F(SourceLoaderTest, GivesEveryRowOnceInEachEpochAndInAnotherOrder) {
  auto loader = Open(Inventory_());
  std::set<std::vector<int64_t>> orders;
  for (uint32_t epoch = 0; epoch < 3; ++epoch) {
    std::vector<int64_t> rows;
    std::set<uint16_t> strands;
    for (const auto& [place, numbers] : All(*loader, epoch)) {
      strands.insert(place.first);
      rows.insert(rows.end(), numbers.begin(), numbers.end());
    }
    orders.insert(rows);
    std::ranges::sort(rows);
    ASSERT_EQ(rows.size(), kRows);
    for (uint32_t i = 0; i < kRows; ++i) ASSERT_EQ(rows[i], i);
    EXPECT_EQ(strands.size(), kStrands);
  }
  EXPECT_EQ(orders.size(), 3u);
}

TEST_F(SourceLoaderTest, AnyInstanceServesAnyPositionInAnyOrderWithAnyMemory) {
  auto inventory = Inventory_();
  const Windows windows = All(*Open(inventory), 1);
  for (uint64_t bytes : {uint64_t{1}, uint64_t{64} << 20}) {
    options_.budget = MakeWindowBudget(bytes);
    auto other = Open(inventory);
    std::vector<std::pair<std::pair<uint16_t, Position>, std::vector<int64_t>>> shuffled(windows.begin(), windows.end());
    Random random(bytes);
    for (size_t i = shuffled.size(); i > 1; --i) std::swap(shuffled[i - 1], shuffled[random.Below(i)]);
    for (const auto& [place, numbers] : shuffled) {
      if (random.Chance(0.5)) other->Prefetch(place.first, place.second);
      auto window = other->Load(place.first, place.second, Deadline());
      ASSERT_TRUE(window.ok()) << window.status().ToString();
      EXPECT_EQ(Numbers(**window), numbers);
    }
  }
}

TEST_F(SourceLoaderTest, PositionsThatAreNotThereAreErrors) {
  auto loader = Open(Inventory_());
  EXPECT_EQ(loader->Load(0, {.group = loader->Groups(0, 0)}, Deadline()).code(), Code::kInvalidArgument);
  EXPECT_EQ(loader->Load(0, {.piece = 1000}, Deadline()).code(), Code::kInvalidArgument);
}

TEST_F(SourceLoaderTest, ManyLoadersShareOneBudget) {
  auto inventory = Inventory_();
  options_.budget = MakeWindowBudget(200 << 10);
  std::vector<std::unique_ptr<SourceLoader>> loaders;
  for (int i = 0; i < 60; ++i) {
    spec_.name = Cat("source-", i);
    loaders.push_back(Open(inventory));
  }
  for (uint32_t piece = 0; piece < 2; ++piece) {
    for (auto& loader : loaders) {
      for (uint16_t strand = 0; strand < kStrands; ++strand) {
        ASSERT_TRUE(loader->Load(strand, {.piece = piece}, Deadline()).ok());
        EXPECT_LE(options_.budget->bytes(), uint64_t{400} << 10);
        EXPECT_LE(options_.budget->cursors(), 64u);
      }
    }
  }
  loaders.clear();
  EXPECT_EQ(options_.budget->bytes(), 0u);
}

TEST_F(SourceLoaderTest, RowsThatATransformCallsBadEndItOrAreLeftOut) {
  auto inventory = Inventory_();
  const RowTransform transform = [](const std::shared_ptr<arrow::RecordBatch>& batch, uint64_t, std::vector<BadRow>& bad) {
    const auto& rows = static_cast<const arrow::Int64Array&>(*batch->GetColumnByName("__row"));
    for (int64_t i = 0; i < batch->num_rows(); ++i) {
      if (rows.Value(i) == 123) bad.push_back({i, "it is unlucky"});
    }
    return Result<std::shared_ptr<arrow::RecordBatch>>(batch);
  };
  options_.bad_samples.skip = true;
  std::set<int64_t> seen;
  for (const auto& [place, numbers] : All(*Open(inventory, transform), 0)) seen.insert(numbers.begin(), numbers.end());
  EXPECT_EQ(seen.size(), kRows - 1);
  EXPECT_FALSE(seen.contains(123));

  options_.bad_samples.skip = false;
  auto strict = Open(inventory, transform);
  std::string message;
  for (uint16_t strand = 0; strand < kStrands; ++strand) {
    for (Position at; at.group < strict->Groups(strand, 0); ++at.group) {
      for (at.piece = 0;; ++at.piece) {
        auto window = strict->Load(strand, at, Deadline());
        if (!window.ok()) message = window.status().message();
        if (!window.ok() || (*window)->last_of_group) break;
      }
    }
  }
  EXPECT_THAT(message, HasSubstr("row 123 of "));
  EXPECT_THAT(message, HasSubstr("it is unlucky"));
}

TEST_F(SourceLoaderTest, RowsThatCannotBeReadAreCountedAndToldOf) {
  std::ofstream out(folder_ / "a.jsonl");
  for (uint32_t i = 0; i < kRows; ++i) out << Cat("{\"n\": ", i, i % 2 == 1 ? ",}\n" : "}\n");
  out.close();
  auto inventory = Inventory_();
  options_.bad_samples.skip = true;
  std::vector<std::string> lines;
  SetLogSink([&](std::string_view line) { lines.emplace_back(line); });
  auto loader = Open(inventory);
  uint64_t skipped = 0;
  for (const auto& [place, numbers] : All(*loader, 0)) {
    auto window = loader->Load(place.first, place.second, Deadline());
    ASSERT_TRUE(window.ok());
    skipped += (*window)->skipped;
  }
  SetLogSink(nullptr);
  EXPECT_EQ(skipped, kRows / 2);
  ASSERT_GE(lines.size(), 1u);
  EXPECT_LE(lines.size(), 12u) << "one for each row, or each window, would be a flood";
  EXPECT_THAT(lines.front(), HasSubstr("bad samples are left out"));
  EXPECT_THAT(lines.front(), HasSubstr("source=web"));
  EXPECT_THAT(lines.front(), HasSubstr("a.jsonl"));
  EXPECT_THAT(lines.front(), HasSubstr("no valid JSON"));

  options_.bad_samples.limit = 3;
  auto window = Open(inventory)->Load(0, {}, Deadline());
  ASSERT_FALSE(window.ok());
  EXPECT_THAT(window.status().message(), HasSubstr("a.jsonl: it is no valid JSON"));
  EXPECT_THAT(window.status().message(), HasSubstr("one epoch of a strand"));
}

TEST_F(SourceLoaderTest, NumbersThatAreNoTokensAreBad) {
  spec_.format = "tokens";
  spec_.files = {(folder_ / "*.bin").string()};
  spec_.document_length = 4;
  const auto bad = [&]<typename T>(Dtype dtype, T value) -> std::string {
    std::vector<T> tokens = {7, 7, value, 7};
    std::ofstream out(folder_ / "a.bin", std::ios::binary);
    out.write(reinterpret_cast<const char*>(tokens.data()), static_cast<std::streamsize>(tokens.size() * sizeof(T)));
    out.close();
    spec_.dtype = dtype;
    options_.strands = 1;
    auto window = Open(Inventory_())->Load(0, {}, Deadline());
    return window.ok() ? "" : window.status().message();
  };
  EXPECT_EQ(bad(Dtype::kI32, int32_t{2147483647}), "");
  EXPECT_THAT(bad(Dtype::kI16, int16_t{-5}), HasSubstr("row 0 of "));
  EXPECT_THAT(bad(Dtype::kI16, int16_t{-5}), HasSubstr("its token -5 is negative"));
  EXPECT_THAT(bad(Dtype::kI32, int32_t{INT32_MIN}), HasSubstr("its token -2147483648 is negative"));
  EXPECT_THAT(bad(Dtype::kI64, int64_t{-1}), HasSubstr("its token -1 is negative"));
  EXPECT_THAT(bad(Dtype::kI64, int64_t{1} << 33), HasSubstr("its token 8589934592 is larger"));
  EXPECT_THAT(bad(Dtype::kU32, uint32_t{1} << 31), HasSubstr("its token 2147483648 is larger"));
}

TEST(JsonRowsTest, WholeNumbersAreNeverRounded) {
  const auto whys = [](std::vector<std::string> values, std::string& type) {
    JsonTypes types;
    std::vector<std::string> rows, answers;
    for (const std::string& value : values) rows.push_back(Cat("{\"h\": ", value, "}"));
    for (std::string row : rows) types.Add(std::span(row.data(), row.size()));
    type = types.Schema()->field(0)->type()->ToString();
    JsonRows made(types.Schema());
    for (std::string row : rows) answers.push_back(made.Add(std::span(row.data(), row.size())));
    return answers;
  };
  std::string type;
  EXPECT_THAT(whys({"18446744073709551615", "3"}, type), testing::Each(""));
  EXPECT_EQ(type, "uint64");
  EXPECT_THAT(whys({"-1", "9223372036854775808"}, type),
              testing::ElementsAre("", HasSubstr("h: the whole number 9223372036854775808")));
  EXPECT_EQ(type, "int64");
  EXPECT_THAT(whys({"1.5", "9007199254740993", "9007199254740992"}, type), testing::ElementsAre("", HasSubstr("in quotes"), ""));
  EXPECT_EQ(type, "double");
}

TEST_F(SourceLoaderTest, AJsonArrayIsCalledByItsName) {
  std::ofstream out(folder_ / "a.jsonl");
  out << "[\n  1,\n  2\n]\n";
  out.close();
  options_.columns = {"id"};
  auto loader = SourceLoader::Open(spec_, Inventory_(), options_, nullptr);
  ASSERT_FALSE(loader.ok());
  EXPECT_THAT(loader.status().message(), HasSubstr("line 1"));
  EXPECT_THAT(loader.status().message(), HasSubstr("looks like one JSON array"));
}

TEST_F(SourceLoaderTest, AnInventoryIsTheSameAfterItWasStored) {
  auto inventory = Inventory_();
  const std::string bytes = inventory->Encode();
  auto again = Inventory::Decode(bytes, "test");
  ASSERT_TRUE(again.ok()) << again.status().ToString();
  EXPECT_EQ(again->Encode(), bytes);
  EXPECT_EQ(again->files.size(), inventory->files.size());
  EXPECT_EQ(again->granules.size(), inventory->granules.size());
  EXPECT_EQ(again->granules.back().first, inventory->granules.back().first);
  for (size_t i = 0; i < bytes.size(); i += 7) {
    std::string damaged = bytes;
    damaged[i] = static_cast<char>(damaged[i] ^ 0x55);
    EXPECT_EQ(Inventory::Decode(damaged, "test").code(), Code::kCorrupt) << i;
    EXPECT_EQ(Inventory::Decode(std::string_view(bytes).substr(0, i), "test").code(), Code::kCorrupt) << i;
  }
}

}  // namespace
}  // namespace headrace
