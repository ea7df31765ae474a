#include "produce/strand_feed.h"

#include <gmock/gmock.h>

#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "produce/test_lake.h"

namespace headrace {
namespace {

using ::testing::HasSubstr;

class StrandFeedTest : public LakeTest {
 protected:
  StrandFeed Feed(LakeStream& lake, uint16_t strand) {
    return StrandFeed(lake.recipe(), lake.sources(), lake.layout().kept, strand, Deadline());
  }
  static int64_t RowOf(const StrandFeed& feed, const SampleRef& ref) {
    const HeldSample& held = feed.Find(ref);
    return static_cast<int64_t>(held.part->row->Number(held.row));
  }
};

TEST_F(StrandFeedTest, StrandsShareEveryRowOfAnEpoch) {
  std::unique_ptr<LakeStream> lake = Open();
  std::multiset<int64_t> rows;
  for (uint16_t strand = 0; strand < 3; ++strand) {
    StrandFeed feed = Feed(*lake, strand);
    while (true) {
      Result<std::optional<SampleInfo>> sample = feed.Next(0);
      ASSERT_TRUE(sample.ok()) << sample.status().ToString();
      if (!*sample) break;
      const int64_t row = RowOf(feed, (*sample)->ref);
      EXPECT_EQ((*sample)->length, Document(row).size());
      rows.insert(row);
    }
    EXPECT_FALSE(feed.Next(0)->has_value()) << "what has ended stays so";
  }
  ASSERT_EQ(rows.size(), kDocuments);
  EXPECT_EQ(std::set(rows.begin(), rows.end()).size(), kDocuments);
}

TEST_F(StrandFeedTest, WhoTakesOverGoesOnWhereItWas) {
  std::unique_ptr<LakeStream> lake = Open();
  std::vector<int64_t> undisturbed;
  StrandFeed whole = Feed(*lake, 1);
  while (true) {
    Result<std::optional<SampleInfo>> sample = whole.Next(0);
    ASSERT_TRUE(sample.ok());
    if (!*sample) break;
    undisturbed.push_back(RowOf(whole, (*sample)->ref));
  }
  ASSERT_GT(undisturbed.size(), 10u);
  std::vector<int64_t> seen;
  nlohmann::json state;
  while (true) {
    StrandFeed feed = Feed(*lake, 1);  // a new one for each
    if (!state.is_null()) {
      ASSERT_TRUE(feed.Restore(state).ok());
    }
    Result<std::optional<SampleInfo>> sample = feed.Next(0);
    ASSERT_TRUE(sample.ok());
    if (!*sample) break;
    seen.push_back(RowOf(feed, (*sample)->ref));
    state = nlohmann::json::parse(feed.State().dump());
  }
  EXPECT_EQ(seen, undisturbed);
}

// One window holds everything here, so that a part of an epoch ends inside of it.
TEST_F(StrandFeedTest, APartOfAnEpochIsCutByRows) {
  for (const double epochs : {0.5, 1.0, 1.25, 2.5}) {
    for (const char* window : {"100000", "20"}) {
      for (const char* group : {"", "group: {size: 3}\n"}) {
        store_ = std::make_shared<MemoryStore>();
        SCOPED_TRACE(Cat(epochs, " epochs, a window of ", window, " ", group));
        std::unique_ptr<LakeStream> lake = Open(Cat("pack: {length: 16}\nstep: {sequences: 4}\nuntil: {epochs: ", epochs, "}\n",
                                                    group, "shuffle: {window: ", window, "}\n"));
        std::map<int64_t, int> times;
        size_t all = 0;
        for (uint16_t strand = 0; strand < 3; ++strand) {
          std::vector<int64_t> rows[2];
          for (bool anew : {false, true}) {  // each sample by a feed of its own
            auto feed = std::make_unique<StrandFeed>(Feed(*lake, strand));
            while (true) {
              Result<std::optional<SampleInfo>> sample = feed->Next(0);
              ASSERT_TRUE(sample.ok()) << sample.status().ToString();
              if (!*sample) break;
              rows[anew].push_back(RowOf(*feed, (*sample)->ref));
              if (!anew) continue;
              const nlohmann::json state = nlohmann::json::parse(feed->State().dump());
              feed = std::make_unique<StrandFeed>(Feed(*lake, strand));
              ASSERT_TRUE(feed->Restore(state).ok());
            }
          }
          EXPECT_EQ(rows[0], rows[1]);
          for (int64_t row : rows[0]) ++times[row];
          all += rows[0].size();
        }
        const double wanted = epochs * kDocuments;
        EXPECT_NEAR(static_cast<double>(all), wanted, *group ? 3 * 3 : 3) << "a row, or a group of them, for each strand";
        for (int64_t row = 0; row < kDocuments; ++row) {
          EXPECT_GE(times[row], static_cast<int>(epochs));
          EXPECT_LE(times[row], static_cast<int>(std::ceil(epochs)));
          if (*group) {
            EXPECT_EQ(times[row], times[row - row % 3]) << "a group stays together";
          }
        }
      }
    }
  }
}

TEST_F(StrandFeedTest, ACarriedSampleThatIsAnotherOneNowIsNamed) {
  std::unique_ptr<LakeStream> lake = Open();
  StrandFeed first = Feed(*lake, 0);
  Result<std::optional<SampleInfo>> sample = first.Next(0);
  ASSERT_TRUE(sample.ok() && *sample);
  const SampleRef ref = (*sample)->ref;
  nlohmann::json state = first.State();
  ASSERT_EQ(state["carried"].size(), 1u);

  StrandFeed same = Feed(*lake, 0);
  ASSERT_TRUE(same.Restore(state).ok());
  Result<SampleInfo> again = same.Again(ref);
  ASSERT_TRUE(again.ok()) << again.status().ToString();
  EXPECT_EQ(again->length, (*sample)->length);
  EXPECT_EQ(RowOf(same, ref), RowOf(first, ref));

  // As if its contents had been others when it was drawn.
  state["carried"][0][2] = state["carried"][0][2].get<uint32_t>() ^ 1;
  StrandFeed other = Feed(*lake, 0);
  ASSERT_TRUE(other.Restore(state).ok());
  Result<SampleInfo> refused = other.Again(ref);
  EXPECT_EQ(refused.code(), Code::kInvalidArgument) << "nothing that another try would mend";
  EXPECT_THAT(refused.status().message(), HasSubstr("source docs"));
  EXPECT_THAT(refused.status().message(), HasSubstr("not deterministic"));
  EXPECT_THAT(refused.status().message(), HasSubstr(Cat("row ", RowOf(first, ref), " of ")));
}

TEST_F(StrandFeedTest, AChecksumTellsContentsApart) {
  std::unique_ptr<LakeStream> lake = Open();
  StrandFeed feed = Feed(*lake, 0);
  for (int i = 0; i < 8; ++i) ASSERT_TRUE(feed.Next(0).ok());
  const nlohmann::json state = feed.State();
  std::set<uint32_t> checksums;
  for (const nlohmann::json& carried : state["carried"]) checksums.insert(carried[2].get<uint32_t>());
  EXPECT_EQ(checksums.size(), 8u);
}

TEST_F(StrandFeedTest, LetsGoOfAllButTheCarried) {
  std::unique_ptr<LakeStream> lake = Open();
  StrandFeed feed = Feed(*lake, 0);
  std::vector<SampleRef> refs;
  for (int i = 0; i < 5; ++i) refs.push_back((*feed.Next(0))->ref);
  feed.Retain(std::vector<SampleRef>{refs[3]});
  EXPECT_EQ(feed.State()["carried"].size(), 1u);
  EXPECT_NO_THROW(feed.Find(refs[3]));
  EXPECT_THROW(feed.Find(refs[2]), std::out_of_range);
}

TEST_F(StrandFeedTest, ADamagedStateIsNamed) {
  std::unique_ptr<LakeStream> lake = Open();
  StrandFeed feed = Feed(*lake, 2);
  for (const char* text : {"{}", R"({"sources": 3, "carried": []})", R"({"sources": [[[0, 0], false, false]], "carried": []})"}) {
    Status refused = feed.Restore(nlohmann::json::parse(text));
    EXPECT_EQ(refused.code(), Code::kCorrupt) << text;
    EXPECT_THAT(refused.message(), HasSubstr("strand 2"));
  }
}

}  // namespace
}  // namespace headrace
