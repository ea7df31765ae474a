// Create, put and delete: what they promise to one caller at a time.
#include "base/text.h"
#include "conformance.h"

namespace headrace {
namespace {

TEST_P(StoreConformance, CreateIsToldCreatedOnce) {
  EXPECT_EQ(Create("a", std::string("first")), PutOutcome::kCreated);
  EXPECT_EQ(Create("a", std::string("second")), PutOutcome::kExists);
  EXPECT_EQ(Get("a"), "first");
}

TEST_P(StoreConformance, TheSameBytesExistToo) {
  EXPECT_EQ(Create("a", std::string("same")), PutOutcome::kCreated);
  EXPECT_EQ(Create("a", std::string("same")), PutOutcome::kExists);
}

TEST_P(StoreConformance, CreateDoesNotReplaceWhatWasPut) {
  Put("a", std::string("put"));
  EXPECT_EQ(Create("a", std::string("created")), PutOutcome::kExists);
  EXPECT_EQ(Get("a"), "put");
}

TEST_P(StoreConformance, PutReplacesWhatWasCreated) {
  EXPECT_EQ(Create("a", std::string("created")), PutOutcome::kCreated);
  Put("a", std::string("put"));
  EXPECT_EQ(Get("a"), "put");
}

TEST_P(StoreConformance, PutReplacesByLongerShorterAndNothing) {
  for (size_t size : {10, 100000, 3, 0, 7}) {
    std::string body(size, static_cast<char>('a' + size % 26));
    Put("a", body);
    EXPECT_EQ(Get("a"), body);
  }
}

TEST_P(StoreConformance, ADeletedKeyCanBeCreatedAgain) {
  EXPECT_EQ(Create("d/a", std::string("first")), PutOutcome::kCreated);
  Delete({"d/a"});
  EXPECT_EQ(Get("d/a"), std::nullopt);
  EXPECT_EQ(Create("d/a", std::string("second")), PutOutcome::kCreated);
  EXPECT_EQ(Get("d/a"), "second");
}

TEST_P(StoreConformance, ABodyOfSeveralPieces) {
  Bytes noise = Noise(100000, 5);
  Body body;
  for (size_t at = 0; at < noise.size(); at += 7777) body.Append(noise.Slice(at, 7777));
  body.Append(Bytes());
  EXPECT_EQ(Create("created", body), PutOutcome::kCreated);
  Put("put", body);
  EXPECT_EQ(WhereDifferent((**store().Get("created", Soon())).bytes.span(), noise.span()), "");
  EXPECT_EQ(WhereDifferent((**store().Get("put", Soon())).bytes.span(), noise.span()), "");
}

TEST_P(StoreConformance, ABodyOfVeryManyPieces) {
  Bytes noise = Noise(5000, 6);
  Body body;
  for (size_t at = 0; at < noise.size(); ++at) body.Append(noise.Slice(at, 1));
  EXPECT_EQ(Create("a", body), PutOutcome::kCreated);
  EXPECT_EQ(WhereDifferent((**store().Get("a", Soon())).bytes.span(), noise.span()), "");
}

TEST_P(StoreConformance, ABodyOfLargePieces) {
  Bytes noise = Noise(24 << 20, 8);
  Body body(std::vector{noise.Slice(0, 11 << 20), noise.Slice(11 << 20, 1), noise.Slice((11 << 20) + 1)});
  EXPECT_EQ(Create("a", body), PutOutcome::kCreated);
  EXPECT_EQ(WhereDifferent((**store().Get("a", Soon())).bytes.span(), noise.span()), "");
}

TEST_P(StoreConformance, OneKeyLeavesTheOthersAlone) {
  PutEach({"x/a", "x/ab", "x/a.b", "x/b"});
  Put("x/ab", std::string("new"));
  Delete({"x/a"});
  EXPECT_EQ(Get("x/a"), std::nullopt);
  EXPECT_EQ(Get("x/ab"), "new");
  EXPECT_EQ(Get("x/a.b"), "x/a.b");
  EXPECT_EQ(Get("x/b"), "x/b");
}

TEST_P(StoreConformance, AFolderIsNoObject) {
  Put("folder/below", std::string("here"));
  EXPECT_EQ(Get("folder"), std::nullopt);
  Delete({"folder"});
  EXPECT_EQ(Get("folder/below"), "here");
}

TEST_P(StoreConformance, DeletingWhatIsAbsentIsFine) {
  Delete({"nothing"});
  Delete({"no/such/folder"});
  Delete({});
  Put("a", std::string("a"));
  Delete({"nothing", "a", "nothing else"});
  EXPECT_EQ(Get("a"), std::nullopt);
  Delete({"a"});
}

TEST_P(StoreConformance, DeletingAKeyThatIsNamedTwice) {
  Put("a", std::string("a"));
  Delete({"a", "a"});
  EXPECT_EQ(Get("a"), std::nullopt);
}

TEST_P(StoreConformance, FifteenHundredDeletesInOneCall) {
  std::vector<std::string> keys = Numbered("many/a", 1500);
  PutEach(keys);
  Put("many/stays", std::string("here"));
  Put("manystays", std::string("here"));
  keys.insert(keys.begin() + 700, "many/absent");
  Delete(keys);
  EXPECT_EQ(List(), (std::vector<std::string>{"many/stays", "manystays"}));
}

TEST_P(StoreConformance, ReadsSeeEveryWriteThatWasAnsweredBefore) {
  for (int round = 0; round < 20; ++round) {
    std::string key = Cat("k", round % 5), body = Cat("round ", round);
    Put(key, body);
    EXPECT_EQ(Get(key), body);
    Delete({key});
    EXPECT_EQ(Get(key), std::nullopt);
    EXPECT_EQ(List(), std::vector<std::string>());
    EXPECT_EQ(Create(key, body), PutOutcome::kCreated);
    EXPECT_EQ(Get(key), body);
    EXPECT_EQ(List(), std::vector<std::string>{key});
    Delete({key});
  }
}

TEST_P(StoreConformance, DescribeNamesTheStoreAndTheKey) {
  std::string whole = store().Describe(), key = store().Describe("log/00007");
  EXPECT_NE(whole.find("://"), std::string::npos) << whole;
  EXPECT_TRUE(key.starts_with(whole)) << whole << " and " << key;
  EXPECT_TRUE(key.ends_with("/log/00007")) << key;
}

TEST_P(StoreConformance, NothingIsDoneAfterTheDeadline) {
  Put("there", std::string("before"));
  Deadline past(RealClock().Now() - std::chrono::seconds(1));
  std::string late = "late";
  EXPECT_EQ(store().Get("there", past).code(), Code::kTimeout);
  EXPECT_EQ(store().Put("there", late, past).code(), Code::kTimeout);
  EXPECT_EQ(store().PutIfAbsent("new", late, past).code(), Code::kTimeout);
  EXPECT_EQ(store().List({}, past).code(), Code::kTimeout);
  EXPECT_EQ(store().DeleteOne("there", past).code(), Code::kTimeout);
  EXPECT_EQ(Get("there"), "before");
  EXPECT_EQ(Get("new"), std::nullopt);
}

TEST_P(StoreConformance, NothingIsDoneAfterACallToStop) {
  Put("there", std::string("before"));
  std::stop_source source;
  source.request_stop();
  Deadline stopped = Deadline::OnlyStop(source.get_token());
  std::string late = "late";
  EXPECT_EQ(store().Get("there", stopped).code(), Code::kCancelled);
  EXPECT_EQ(store().Put("there", late, stopped).code(), Code::kCancelled);
  EXPECT_EQ(store().PutIfAbsent("new", late, stopped).code(), Code::kCancelled);
  EXPECT_EQ(store().List({}, stopped).code(), Code::kCancelled);
  EXPECT_EQ(store().DeleteOne("there", stopped).code(), Code::kCancelled);
  EXPECT_EQ(Get("there"), "before");
  EXPECT_EQ(Get("new"), std::nullopt);
}

}  // namespace
}  // namespace headrace
