// A small lake of JSON lines whose every document is known, and its stream in memory; for the tests of this folder.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "base/random.h"
#include "base/text.h"
#include "base/thread_executor.h"
#include "produce/lake_stream.h"
#include "store/memory_store.h"

namespace headrace {

class LakeTest : public ::testing::Test {
 protected:
  static constexpr uint32_t kDocuments = 90;

  void SetUp() override {
    folder_ = std::filesystem::temp_directory_path() / Cat("headrace-produce-", Random::FromEntropy().Hex(12));
    std::filesystem::create_directories(folder_);
    std::ofstream out(folder_ / "a.jsonl");
    for (uint32_t i = 0; i < kDocuments; ++i) {
      out << "{\"id\": \"doc-" << i << "\", \"tokens\": [" << i;
      for (uint32_t k = 0; k < i % 7; ++k) out << ", " << 100 + k;
      out << "]}\n";
    }
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  static std::vector<int64_t> Document(int64_t row) {
    std::vector<int64_t> tokens = {row};
    for (int64_t k = 0; k < row % 7; ++k) tokens.push_back(100 + k);
    return tokens;
  }

  // `more`: further lines of the recipe.
  std::unique_ptr<LakeStream> Open(const std::string& more = "pack: {length: 16}\nstep: {sequences: 4}\n") {
    const std::string text = Cat("seed: 3\nlanes: 2\nstrands: 3\nkeep: [id]\nchunk: {lane_bytes: 100B}\n",
                                 more.find("shuffle:") == std::string::npos ? "shuffle: {window: 30}\n" : "",
                                 "drop_last: false\nsources:\n  docs: {format: jsonl, files: \"*.jsonl\"}\n", more);
    Result<Recipe> recipe = Recipe::FromYaml(text, "test.yaml", folder_.string());
    EXPECT_TRUE(recipe.ok()) << recipe.status().ToString();
    LakeOptions options;
    Result<std::unique_ptr<LoadedRecipe>> loaded = LoadedRecipe::Make(*std::move(recipe), options);
    EXPECT_TRUE(loaded.ok()) << loaded.status().ToString();
    Result<std::unique_ptr<LakeStream>> lake =
        LakeStream::Open(*std::move(loaded), {store_, &executor_, Random(++opened_)}, options, Deadline());
    EXPECT_TRUE(lake.ok()) << lake.status().ToString();
    return *std::move(lake);
  }

  std::filesystem::path folder_;
  std::shared_ptr<MemoryStore> store_ = std::make_shared<MemoryStore>();
  uint64_t opened_ = 0;
  ThreadExecutor executor_;
};

}  // namespace headrace
