#include "transform/transform.h"

#include <arrow/array.h>
#include <arrow/array/builder_binary.h>
#include <arrow/json/from_string.h>
#include <arrow/scalar.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

#include "base/text.h"
#include "transform/batch.h"
#include "transform/columns.h"
#include "transform/python_call.h"
#include "transform/tokenizer.h"

namespace headrace {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Columns as JSON; __file is 3 and __row counts from 100.
BatchPointer Batch(const std::vector<std::pair<std::shared_ptr<arrow::Field>, std::string>>& columns) {
  arrow::FieldVector fields;
  arrow::ArrayVector arrays;
  for (const auto& [field, json] : columns) {
    fields.push_back(field);
    arrays.push_back(arrow::json::ArrayFromJSONString(field->type(), json).ValueOrDie());
  }
  int64_t rows = arrays[0]->length();
  std::string files = "[", numbers = "[";
  for (int64_t i = 0; i < rows; i++) {
    files += Cat(i > 0 ? "," : "", 3);
    numbers += Cat(i > 0 ? "," : "", 100 + i);
  }
  fields.push_back(arrow::field("__file", arrow::int32()));
  arrays.push_back(arrow::json::ArrayFromJSONString(arrow::int32(), files + "]").ValueOrDie());
  fields.push_back(arrow::field("__row", arrow::int64()));
  arrays.push_back(arrow::json::ArrayFromJSONString(arrow::int64(), numbers + "]").ValueOrDie());
  return arrow::RecordBatch::Make(arrow::schema(fields), rows, arrays);
}

BatchPointer Numbers(int64_t rows) {
  std::string json = "[";
  for (int64_t i = 0; i < rows; i++) json += Cat(i > 0 ? "," : "", i);
  return Batch({{arrow::field("x", arrow::int64()), json + "]"}});
}

std::string Json(const arrow::RecordBatch& batch, const std::string& column) {
  auto array = batch.GetColumnByName(column);
  if (!array) return "none";
  std::string text;
  for (int64_t i = 0; i < array->length(); i++) text += Cat(i > 0 ? " " : "", array->GetScalar(i).ValueOrDie()->ToString());
  return text;
}

TransformSpec Spec(TransformSpec::Kind kind) {
  TransformSpec spec;
  spec.kind = kind;
  return spec;
}

std::string PythonProgram() {
  const char* named = std::getenv("HEADRACE_TEST_PYTHON");
  return named != nullptr ? named : HEADRACE_PYTHON_PROGRAM;
}

struct ChainTest : ::testing::Test {
  void SetUp() override {
    folder = std::filesystem::path(::testing::TempDir()) / Cat("transform_test_", getpid());
    std::filesystem::create_directories(folder);
    recipe.name = "recipe.yaml";
    recipe.folder = folder.string();
    options.python = PythonProgram();
  }
  void TearDown() override { std::filesystem::remove_all(folder); }

  std::unique_ptr<TransformChain> Chain() {
    auto chain = TransformChain::Make(recipe, options);
    EXPECT_TRUE(chain.ok()) << chain.status().message();
    return chain.ok() ? *std::move(chain) : nullptr;
  }
  Result<BatchPointer> Apply(const BatchPointer& batch) {
    auto chain = TransformChain::Make(recipe, options);
    if (!chain.ok()) return chain.status();
    return (*chain)->Apply(batch, 7, bad);
  }
  void Write(const std::string& name, const std::string& text) { std::ofstream(folder / name) << text; }
  void Python(const std::string& function, const std::string& on_error = "raise", double timeout_seconds = 120) {
    TransformSpec spec = Spec(TransformSpec::kPython);
    spec.call = Cat("fixes:", function);
    spec.on_error = on_error;
    spec.timeout_seconds = timeout_seconds;
    recipe.transforms.push_back(spec);
  }

  std::filesystem::path folder;
  Recipe recipe;
  TransformOptions options;
  std::vector<BadRow> bad;
};

TEST_F(ChainTest, SelectsRenamesAndCasts) {
  TransformSpec select = Spec(TransformSpec::kSelect), rename = Spec(TransformSpec::kRename), cast = Spec(TransformSpec::kCast);
  select.columns = {"a", "b"};
  rename.names = {{"a", "number"}};
  cast.names = {{"number", "uint8"}, {"b", "float32"}};
  recipe.transforms = {select, rename, cast};
  auto made = Apply(Batch({{arrow::field("a", arrow::int64()), "[1, 300, 3]"},
                           {arrow::field("b", arrow::utf8()), R"(["0.5", "1", "x"])"},
                           {arrow::field("c", arrow::int64()), "[1, 2, 3]"}}));
  ASSERT_TRUE(made.ok()) << made.status().message();
  EXPECT_EQ(ColumnNames(**made), "number, b, __file, __row");
  EXPECT_EQ(Json(**made, "number"), "1");
  EXPECT_EQ(Json(**made, "b"), "0.5");
  EXPECT_EQ((*made)->GetColumnByName("b")->type_id(), arrow::Type::FLOAT);
  ASSERT_EQ(bad.size(), 2u);
  EXPECT_EQ(bad[0].row, 1);
  EXPECT_THAT(bad[0].why, HasSubstr("'number' cannot be cast from int64 to uint8"));
  EXPECT_EQ(bad[1].row, 2);
  EXPECT_THAT(bad[1].why, HasSubstr("'b' cannot be cast from string to float"));
}

TEST_F(ChainTest, FiltersByValuesAndLengths) {
  TransformSpec filter = Spec(TransformSpec::kFilter);
  filter.expression = "length(ids) >= 2 and lang in ['de', 'fr'] and score > 0.5";
  recipe.transforms = {filter};
  auto batch = Batch({{arrow::field("ids", arrow::list(arrow::int32())), "[[1, 2], [1], [1, 2, 3], null, [1, 2], [1, 2]]"},
                      {arrow::field("lang", arrow::utf8()), R"(["de", "de", "fr", "de", "en", "de"])"},
                      {arrow::field("score", arrow::float64()), "[0.6, 1, 1, 1, 1, null]"}});
  auto made = Apply(batch);
  ASSERT_TRUE(made.ok()) << made.status().message();
  EXPECT_EQ(Json(**made, "__row"), "100 102");
  EXPECT_TRUE(bad.empty());
  EXPECT_THAT(Chain()->Reads(), ElementsAre());
}

// The number of a bad row is that of the caller's batch, also behind a filter that dropped rows before it.
TEST_F(ChainTest, NamesBadRowsByTheCallersNumbers) {
  TransformSpec filter = Spec(TransformSpec::kFilter), cast = Spec(TransformSpec::kCast);
  filter.expression = "x >= 2";
  cast.names = {{"y", "int8"}};
  recipe.transforms = {filter, cast};
  auto made = Apply(Batch(
      {{arrow::field("x", arrow::int64()), "[1, 2, 1, 3, 4]"}, {arrow::field("y", arrow::int64()), "[1, 2, 999, 999, 5]"}}));
  ASSERT_TRUE(made.ok()) << made.status().message();
  EXPECT_EQ(Json(**made, "__row"), "101 104");
  ASSERT_EQ(bad.size(), 1u);
  EXPECT_EQ(bad[0].row, 3);
}

TEST_F(ChainTest, AMissingColumnMakesEveryRowBad) {
  TransformSpec filter = Spec(TransformSpec::kFilter);
  filter.expression = "lang == 'de'";
  recipe.transforms = {filter};
  auto made = Apply(Numbers(3));
  ASSERT_TRUE(made.ok());
  EXPECT_EQ((*made)->num_rows(), 0);
  ASSERT_EQ(bad.size(), 3u);
  EXPECT_THAT(bad[2].why, HasSubstr("no column 'lang'"));
}

TEST_F(ChainTest, KnowsWhatItReadsOfTheLake) {
  TransformSpec rename = Spec(TransformSpec::kRename), filter = Spec(TransformSpec::kFilter), cast = Spec(TransformSpec::kCast);
  rename.names = {{"body", "text"}};
  filter.expression = "length(text) > 1 and lang == 'de'";
  cast.names = {{"score", "float32"}};
  recipe.transforms = {rename, filter, cast};
  recipe.pack.emplace();
  EXPECT_THAT(Chain()->Reads(), ElementsAre("body", "lang", "score", "tokens"));
}

TEST(TypeNamed, KnowsNestedLists) {
  EXPECT_TRUE(TypeNamed("list<list<int32>>")->Equals(arrow::list(arrow::list(arrow::int32()))));
  for (auto name : kCastTypes) EXPECT_NE(TypeNamed(name), nullptr) << name;
  EXPECT_EQ(TypeNamed("list<int31>"), nullptr);
}

// --- Python --------------------------------------------------------------------------------------------------------------------

constexpr const char* kFixes = R"(
import ctypes, os, time
import pyarrow as pa

def double(batch, rng):
    return batch.set_column(0, "x", pa.array([2 * v for v in batch.column("x").to_pylist()], pa.int64()))

def draw(batch, rng):
    return pa.record_batch({"x": pa.array(rng.integers(0, 1000, batch.num_rows))})

def drop_odd(batch, rng):
    return batch.filter(pa.array([v % 2 == 0 for v in batch.column("x").to_pylist()]))

def lose_origins(batch, rng):
    return pa.record_batch({"x": batch.column("x")[:1]})

def invent(batch, rng):
    return batch.set_column(batch.num_columns - 1, "__row", pa.array([7] * batch.num_rows, pa.int64()))

def raises_at_5(batch, rng):
    for v in batch.column("x").to_pylist():
        if v == 5:
            raise ValueError("five is right out")
    return batch

def crashes_at_5(batch, rng):
    if 5 in batch.column("x").to_pylist():
        ctypes.string_at(0)
    return batch

def hangs_at_5(batch, rng):
    if 5 in batch.column("x").to_pylist():
        time.sleep(1000)
    return batch

def exits(batch, rng):
    os._exit(3)

def wrong_type(batch, rng):
    return pa.table({"x": [1]})

def prints(batch, rng):
    print("hello")
    return batch

def fails_once(batch, rng):
    if not os.path.exists(__file__ + ".tried"):
        open(__file__ + ".tried", "w").close()
        os._exit(1)
    return batch

def cost(batch):
    return [v * 0.5 for v in batch.column("x").to_pylist()]

def wrong_cost(batch):
    return 1.0

def in_processes(batch, rng):
    import multiprocessing
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pa.record_batch({"x": pa.array(pool.map(abs, [-v for v in batch.column("x").to_pylist()]))})

def leaves_a_child(batch, rng):
    child = os.fork()
    if child == 0:
        time.sleep(1000)
    return pa.record_batch({"pid": pa.array([child] * batch.num_rows)})

def pid(batch, rng):
    return pa.record_batch({"pid": pa.array([os.getpid()] * batch.num_rows)})
)";

struct PythonTest : ChainTest {
  void SetUp() override {
    ChainTest::SetUp();
    Write("fixes.py", kFixes);
  }
  std::string Failure(const BatchPointer& batch) {
    auto made = Apply(batch);
    return made.ok() ? "nothing failed" : made.status().message();
  }
};

TEST_F(PythonTest, CallsTheFunctionAndKeepsOrigins) {
  Python("double");
  Python("draw");
  auto chain = Chain();
  auto first = chain->Apply(Numbers(4), 7, bad);
  ASSERT_TRUE(first.ok()) << first.status().message();
  EXPECT_EQ(Json(**first, "__row"), "100 101 102 103");
  // Random, but of the seed alone.
  EXPECT_EQ(Json(**first, "x"), Json(**chain->Apply(Numbers(4), 7, bad), "x"));
  EXPECT_NE(Json(**first, "x"), Json(**chain->Apply(Numbers(4), 8, bad), "x"));
  EXPECT_EQ(chain->Fingerprints().count("python:fixes"), 1u);
}

TEST_F(PythonTest, MayDropRowsThatKeepTheirOrigins) {
  Python("drop_odd");
  auto made = Apply(Numbers(5));
  ASSERT_TRUE(made.ok()) << made.status().message();
  EXPECT_EQ(Json(**made, "__row"), "100 102 104");
}

TEST_F(PythonTest, SaysWhatIsWrongWithWhatCameBack) {
  for (auto [function, words] : {std::pair("lose_origins", "1 rows for 2 without the columns __file and __row"),
                                 std::pair("invent", "comes from file 3, row 7, which was not in the batch"),
                                 std::pair("wrong_type", "returned a pyarrow.lib.Table, not a pyarrow.RecordBatch")}) {
    recipe.transforms.clear();
    Python(function);
    auto batch = std::string(function) == "lose_origins" ? Numbers(2) : Numbers(1);
    EXPECT_THAT(Failure(batch), HasSubstr(words));
  }
}

TEST_F(PythonTest, NamesTheSampleThatRaised) {
  Python("raises_at_5");
  std::string failure = Failure(Numbers(9));
  EXPECT_THAT(failure, HasSubstr("fixes:raises_at_5 failed: ValueError: five is right out"));
  EXPECT_THAT(failure, HasSubstr("fixes.py\", line"));
  ASSERT_EQ(bad.size(), 1u);
  EXPECT_TRUE(bad[0].failed);
  EXPECT_EQ(bad[0].row, 5);
}

TEST_F(PythonTest, NamesTheSampleThatCrashed) {
  Python("crashes_at_5");
  std::string failure = Failure(Numbers(6));
  EXPECT_THAT(failure, HasSubstr("failed: the worker process was killed by SIGSEGV"));
  EXPECT_THAT(failure, HasSubstr("in crashes_at_5"));  // the stack of a process that is no more
}

TEST_F(PythonTest, EndsAHangAndShowsWhereItHung) {
  std::string failure;
  // A busy machine may need longer to come as far as the function.
  for (double seconds = 0.3; seconds < 60 && failure.find("in hangs_at_5") == std::string::npos; seconds *= 4) {
    recipe.transforms.clear();
    Python("hangs_at_5", "raise", seconds);
    failure = Failure(Numbers(6));
    EXPECT_THAT(failure, HasSubstr(seconds < 1 ? "failed: no answer within 0.3 s" : "failed: no answer within "));
  }
  EXPECT_THAT(failure, HasSubstr("in hangs_at_5"));
}

TEST_F(PythonTest, LeavesOutOnlyTheSamplesThatFail) {
  for (const char* function : {"raises_at_5", "crashes_at_5"}) {
    recipe.transforms.clear();
    bad.clear();
    Python(function, "skip");
    auto made = Apply(Numbers(8));
    ASSERT_TRUE(made.ok()) << made.status().message();
    EXPECT_EQ(Json(**made, "x"), "0 1 2 3 4 6 7");
    ASSERT_EQ(bad.size(), 1u);
    EXPECT_EQ(bad[0].row, 5);
    EXPECT_TRUE(bad[0].skip);
  }
}

TEST_F(PythonTest, TriesAgain) {
  Python("fails_once", "retry");
  auto made = Apply(Numbers(2));
  EXPECT_TRUE(made.ok()) << made.status().message();
}

TEST_F(PythonTest, ARetryThatDoesNotHelpIsAnError) {
  Python("exits", "retry");
  EXPECT_THAT(Failure(Numbers(1)), HasSubstr("ended with exit code 3"));
}

TEST_F(PythonTest, RefusesWhatCannotBeImported) {
  Python("no_such_function");
  EXPECT_THAT(Failure(Numbers(1)), HasSubstr("has no 'no_such_function'"));
  recipe.transforms[0].call = "no_such_module:fix";
  recipe.transforms[0].line = 12;
  EXPECT_THAT(Failure(Numbers(1)), HasSubstr("recipe.yaml:12: python: "));
  EXPECT_THAT(Failure(Numbers(1)),
              HasSubstr("there is no Python module no_such_module: put no_such_module.py beside the recipe"));
  options.python = "no-such-python";
  EXPECT_THAT(Failure(Numbers(1)), HasSubstr("no Python interpreter 'no-such-python'"));
}

TEST_F(PythonTest, WorkersEndWithTheChain) {
  Python("pid");
  auto chain = Chain();
  auto made = chain->Apply(Numbers(1), 0, bad);
  ASSERT_TRUE(made.ok()) << made.status().message();
  auto pid = static_cast<const arrow::Int64Array&>(*(*made)->GetColumnByName("pid")).Value(0);
  EXPECT_EQ(kill(static_cast<pid_t>(pid), 0), 0);
  chain.reset();
  EXPECT_NE(kill(static_cast<pid_t>(pid), 0), 0);
}

TEST_F(PythonTest, WhatAWorkerLeavesBehindEndsWithIt) {
  Python("leaves_a_child");
  auto chain = Chain();
  auto made = chain->Apply(Numbers(1), 0, bad);
  ASSERT_TRUE(made.ok()) << made.status().message();
  auto child = static_cast<pid_t>(static_cast<const arrow::Int64Array&>(*(*made)->GetColumnByName("pid")).Value(0));
  EXPECT_EQ(kill(child, 0), 0);
  chain.reset();
  // Dead, and perhaps still waiting for init to collect it.
  auto gone = [&] {
    std::ifstream stat(Cat("/proc/", child, "/stat"));
    std::string text((std::istreambuf_iterator<char>(stat)), {});
    return text.empty() || text.substr(text.rfind(')') + 2, 1) == "Z";
  };
  for (int i = 0; i < 6000 && !gone(); i++) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  EXPECT_TRUE(gone());
}

TEST_F(PythonTest, MayStartProcessesOfItsOwn) {
  Python("in_processes");
  auto made = Apply(Numbers(3));
  ASSERT_TRUE(made.ok()) << made.status().message();
  EXPECT_EQ(Json(**made, "x"), "0 1 2");
}

// The kernel ends a worker when the thread that made it ends; a strand's thread must not be that one.
TEST_F(PythonTest, WorkersOutliveTheThreadThatAskedForThem) {
  Python("pid");
  std::unique_ptr<TransformChain> chain;
  std::string pid;
  std::thread([&] {
    chain = Chain();
    pid = Json(**chain->Apply(Numbers(1), 0, bad), "pid");
  }).join();
  std::thread([&] { EXPECT_EQ(Json(**chain->Apply(Numbers(1), 0, bad), "pid"), pid); }).join();
}

TEST_F(PythonTest, ManyThreadsShareTheWorkers) {
  Python("double");
  recipe.transforms[0].workers = 2;
  auto chain = Chain();
  std::vector<std::thread> threads;
  for (int t = 0; t < 6; t++) {
    threads.emplace_back([&] {
      std::vector<BadRow> none;
      for (int i = 1; i < 10; i++) {
        auto made = chain->Apply(Numbers(i), 0, none);
        ASSERT_TRUE(made.ok()) << made.status().message();
        EXPECT_EQ((*made)->num_rows(), i);
      }
    });
  }
  for (auto& thread : threads) thread.join();
}

TEST_F(PythonTest, CountsCosts) {
  auto cost = PythonCall::Make(PythonCall::kCost, "fixes:cost", {.python = options.python, .folder = folder.string()});
  ASSERT_TRUE(cost.ok()) << cost.status().message();
  auto costs = (*cost)->Costs(Numbers(3));
  ASSERT_TRUE(costs.ok()) << costs.status().message();
  EXPECT_THAT(*costs, ElementsAre(0, 0.5, 1));
  auto wrong = PythonCall::Make(PythonCall::kCost, "fixes:wrong_cost", {.python = options.python, .folder = folder.string()});
  EXPECT_THAT((*wrong)->Costs(Numbers(3)).status().message(), HasSubstr("one number for each row"));
}

// --- Tokens --------------------------------------------------------------------------------------------------------------------

// Words between spaces; the vocabulary has a hole at 4.
constexpr const char* kTokenizer =
    R"({"version": "1.0", "truncation": {"max_length": 2, "stride": 0, "strategy": "LongestFirst", "direction": "Right"},
 "padding": null, "added_tokens": [{"id": 5, "content": "</s>", "single_word": false, "lstrip": false, "rstrip": false, "normalized": false, "special": true}],
 "normalizer": null, "pre_tokenizer": {"type": "WhitespaceSplit"}, "post_processor": null, "decoder": null,
 "model": {"type": "WordLevel", "vocab": {"[UNK]": 0, "a": 1, "b": 2, "ü": 3, "</s>": 5}, "unk_token": "[UNK]"}})";

struct TokenizeTest : ChainTest, ::testing::WithParamInterface<bool> {
  void SetUp() override {
    ChainTest::SetUp();
    Write("tokenizer.json", kTokenizer);
    options.native_tokenizer = GetParam();
    TransformSpec spec = Spec(TransformSpec::kTokenize);
    spec.tokenizer = "tokenizer.json";
    spec.from = "text";
    recipe.transforms = {spec};
  }
};

TEST_P(TokenizeTest, MakesTokensOfText) {
  recipe.transforms[0].add_eos = true;
  auto batch = Batch({{arrow::field("text", arrow::utf8()), R"(["a b ü a", "", "z", null])"}});
  auto made = Apply(batch);
  ASSERT_TRUE(made.ok()) << made.status().message();
  EXPECT_EQ(ColumnNames(**made), "__file, __row, tokens");
  EXPECT_EQ(Json(**made, "tokens"), "list<item: int32>[1, 2, 3, 1, 5] list<item: int32>[5] list<item: int32>[0, 5]");
  EXPECT_EQ(Json(**made, "__row"), "100 101 102");
  ASSERT_EQ(bad.size(), 1u);
  EXPECT_EQ(bad[0].row, 3);
  auto chain = Chain();
  EXPECT_EQ(chain->Vocabulary(), 6u);
  EXPECT_EQ(*chain->Decode({1, 2, 5}), "a b </s>");
  EXPECT_THAT(chain->Reads(), ElementsAre("text"));
}

TEST_P(TokenizeTest, TextThatIsNotUtf8IsABadRow) {
  arrow::StringBuilder builder;
  for (std::string_view text : {"a", "b \xff", "\xc3", "ü"}) ASSERT_TRUE(builder.Append(text).ok());
  auto column = builder.Finish().ValueOrDie();
  auto batch = arrow::RecordBatch::Make(arrow::schema({arrow::field("text", arrow::utf8())}), 4, {column});
  recipe.keep = {"text"};
  auto made = Apply(batch);
  ASSERT_TRUE(made.ok()) << made.status().message();
  EXPECT_EQ(Json(**made, "text"), "a ü");
  EXPECT_EQ(Json(**made, "tokens"), "list<item: int32>[1] list<item: int32>[3]");
  ASSERT_EQ(bad.size(), 2u);
  EXPECT_EQ(bad[0].why, "recipe.yaml: tokenize: 'text': the text is not valid UTF-8 at byte 2");
  EXPECT_EQ(bad[1].why, "recipe.yaml: tokenize: 'text': the text is not valid UTF-8 at byte 0");
}

TEST_P(TokenizeTest, ASpecialTokenThatIsNotThereIsAnErrorThatSaysWhatToDo) {
  recipe.transforms[0].add_bos = true;
  EXPECT_THAT(Apply(Numbers(1)).status().message(), HasSubstr("has no bos_token"));
  Write("tokenizer_config.json", R"({"bos_token": {"content": "b"}})");
  auto made = Apply(Batch({{arrow::field("text", arrow::utf8()), R"(["a"])"}}));
  ASSERT_TRUE(made.ok()) << made.status().message();
  EXPECT_EQ(Json(**made, "tokens"), "list<item: int32>[2, 1]");
}

TEST_P(TokenizeTest, AFileThatIsNoTokenizerIsNamed) {
  Write("tokenizer.json", "{}");
  EXPECT_THAT(Apply(Numbers(1)).status().message(), HasSubstr("tokenizer.json"));
  recipe.transforms[0].tokenizer = "missing.json";
  EXPECT_THAT(Apply(Numbers(1)).status().message(), HasSubstr("missing.json: No such file"));
}

INSTANTIATE_TEST_SUITE_P(Both, TokenizeTest, ::testing::Values(true, false),
                         [](const auto& test) { return test.param ? "native" : "workers"; });

}  // namespace
}  // namespace headrace
