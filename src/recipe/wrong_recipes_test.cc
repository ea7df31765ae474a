// Recipes that are wrong, and what a person is told about each: the line, the key, and what was meant.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "base/text.h"
#include "recipe/recipe.h"

namespace headrace {
namespace {

using ::testing::HasSubstr;

struct Wrong {
  const char* what;
  const char* text;
  int line;
  const char* key;
  const char* words;
  Code code = Code::kInvalidArgument;
};

// Two lines that a small recipe consists of; what is tried stands behind them, from line 3 on.
#define SOURCES "sources: {web: {format: parquet, files: web.parquet}}\n"
#define PACKED SOURCES "step: {sequences: 64}\npack: {length: 128}\n"
#define PLAIN SOURCES "step: {samples: 64}\n"

const Wrong kWrong[] = {
    // The YAML itself.
    {"not YAML", "sources: {web\nstep: [", 1, "", "this is not YAML"},
    {"a tab", "sources:\n\tweb: 1\n", 2, "", "this is not YAML"},
    {"a list", "- a\n- b\n", 1, "", "a list is not a recipe"},
    {"empty", "", 0, "", "nothing is not a recipe"},
    {"only a comment", "# hello\n", 0, "", "nothing is not a recipe"},
    {"a word", "hello\n", 1, "", "hello is not a recipe"},
    {"two documents", PLAIN "---\nseed: 1\n", 4, "", "one YAML document; here are 2"},
    {"a key twice", PLAIN "seed: 1\nlanes: 4\nseed: 2\n", 5, "seed", "twice: also on line 3"},
    {"a source twice", "step: {samples: 8}\nsources:\n  web: {files: a.parquet}\n  web: {files: b.parquet}\n", 4, "sources.web",
     "twice: also on line 3"},
    {"a key that is a list", PLAIN "[a]: 1\n", 3, "", "a key must be a word or a number"},
    {"an alias in itself", PLAIN "keep: &a [*a]\n", 3, "keep", "alias that contains itself"},
    {"a merge of a word", PLAIN "shuffle: {<<: x}\n", 3, "shuffle.<<", "a merge key takes a map"},

    // Keys.
    {"an unknown key", PLAIN "sede: 1\n", 3, "sede", "no such key; did you mean seed?"},
    {"an unknown key like none", PLAIN "xyzzy: 1\n", 3, "xyzzy", "no such key; there are stream, seed"},
    {"a slip in a source", "step: {samples: 8}\nsources:\n  web:\n    files: a.parquet\n    weigth: 1\n", 5, "sources.web.weigth",
     "no such key; did you mean weight?"},
    {"nothing behind a key", PLAIN "seed:\n", 3, "seed", "nothing stands behind this key"},
    {"a transform in a source", "step: {samples: 8}\nsources:\n  web: {files: a.parquet, transform: []}\n", 3,
     "sources.web.transform", "no such key"},

    // Simple values.
    {"a negative seed", PLAIN "seed: -1\n", 3, "seed", "-1 is not a whole number of 0 or more"},
    {"a seed that is too large", PLAIN "seed: 18446744073709551616\n", 3, "seed", "is not a whole number"},
    {"a seed with a fraction", PLAIN "seed: 1.5\n", 3, "seed", "1.5 is not a whole number"},
    {"no lanes", PLAIN "lanes: 0\n", 3, "lanes", "0 is not a whole number from 1 to 65536"},
    {"lanes in words", PLAIN "lanes: many\n", 3, "lanes", "many is not a whole number from 1 to 65536 (or auto)"},
    {"too many strands", PLAIN "strands: 257\n", 3, "strands", "from 1 to 256"},
    {"an unknown order", PLAIN "order: planed\n", 3, "order", "did you mean planned?"},
    {"an order of orders", PLAIN "order: [planned]\n", 3, "order", "a list is not an order; there are planned, arrival"},
    {"a flag in words", PLAIN "drop_last: maybe\n", 3, "drop_last", "maybe is not true or false"},
    {"an empty stream", PLAIN "stream: \"\"\n", 3, "stream", "\"\" is not a URI or a folder"},
    {"a chunk of nothing", PLAIN "chunk: {lane_bytes: 0}\n", 3, "chunk.lane_bytes", "0 is not a size like"},
    {"a unit of no size", PLAIN "chunk: {lane_bytes: 1MG}\n", 3, "chunk.lane_bytes", "1MG is not a size like 512KB"},
    {"a chunk as a number", PLAIN "chunk: 1MB\n", 3, "chunk", "write chunk: {lane_bytes: 1MB}"},
    {"a lead of both", PLAIN "lead: {steps: 1, bytes: 1GB}\n", 3, "lead", "in steps or in bytes"},
    {"a lead in words", PLAIN "lead: far\n", 3, "lead", "far is not a lead: auto, unlimited"},
    {"an unknown retain", PLAIN "retain: pin\n", 3, "retain", "did you mean pins?"},
    {"retain of no steps", PLAIN "retain: {steps: 0}\n", 3, "retain.steps", "0 is not a whole number from 1"},
    {"an unknown end", PLAIN "until: done\n", 3, "until", "done is not forever, {epochs: 1}"},
    {"two ends", PLAIN "until: {epochs: 1, steps: 5}\n", 3, "until", "one end is needed, and only one"},
    {"no epochs", PLAIN "until: {epochs: 0}\n", 3, "until.epochs", "0 is not a number of epochs above 0"},
    {"negative tokens", PLAIN "until: {tokens: -5}\n", 3, "until.tokens", "-5 is not a whole number"},
    {"bad samples in words", PLAIN "bad_samples: ignore\n", 3, "bad_samples",
     "raise, skip or {skip: 1000}; there are raise, skip"},
    {"bad samples without a number", PLAIN "bad_samples: {limit: 5}\n", 3, "bad_samples.limit", "no such key"},
    {"a fraction of all", PLAIN "holdout: {fraction: 1}\n", 3, "holdout.fraction", "1 is not a fraction above 0 and below 1"},
    {"a holdout of what", PLAIN "holdout: {by: id}\n", 3, "holdout.fraction", "is missing"},
    {"shuffle: true", PLAIN "shuffle: true\n", 3, "shuffle", "true is not false or {window: 100000}"},
    {"a negative window", PLAIN "shuffle: {window: -1}\n", 3, "shuffle.window", "-1 is not a whole number"},

    // Sources.
    {"no sources", "step: {samples: 8}\nseed: 1\n", 1, "sources", "is missing: where samples come from"},
    {"empty sources", "step: {samples: 8}\nsources: {}\n", 2, "sources", "an empty map is not a map of sources"},
    {"a list of sources", "step: {samples: 8}\nsources: [a, b]\n", 2, "sources", "a list is not a map of sources"},
    {"a source that is a path", "step: {samples: 8}\nsources:\n  web: a.parquet\n", 3, "sources.web",
     "a.parquet is not a source; write {format"},
    {"a source's name", "step: {samples: 8}\nsources:\n  \"a b\": {files: a.parquet}\n", 3, "sources.a b", "a source's name has"},
    {"an unknown format", "step: {samples: 8}\nsources:\n  web: {format: parket, files: a}\n", 3, "sources.web.format",
     "did you mean parquet?"},
    {"a format nobody can guess", "step: {samples: 8}\nsources:\n  web: {files: a.bin}\n", 3, "sources.web.format",
     "is missing, and the names of the files do not tell"},
    {"no files", "step: {samples: 8}\nsources:\n  web: {format: jsonl}\n", 3, "sources.web.files", "is missing: a path or URI"},
    {"an empty list of files", "step: {samples: 8}\nsources:\n  web: {format: jsonl, files: []}\n", 3, "sources.web.files",
     "an empty list is not a path"},
    {"an empty file name", "step: {samples: 8}\nsources:\n  web: {format: jsonl, files: [\"\"]}\n", 3, "sources.web.files[0]",
     "\"\" is not a path"},
    {"a file twice", "step: {samples: 8}\nsources:\n  web: {format: jsonl, files: [a, b, a]}\n", 3, "sources.web.files[2]",
     "a is there twice"},
    {"delta comes later", "step: {samples: 8}\nsources:\n  web: {format: delta, table: a, version: 4}\n", 3, "sources.web.format",
     "will come with a later version", Code::kUnsupported},
    {"iceberg comes later", "step: {samples: 8}\nsources:\n  web: {format: iceberg, table: a}\n", 3, "sources.web.format",
     "will come with a later version", Code::kUnsupported},
    {"a table of files", "step: {samples: 8}\nsources:\n  web: {format: parquet, files: a, table: b}\n", 3, "sources.web.table",
     "only the formats delta and iceberg"},
    {"a negative weight", "step: {samples: 8}\nsources:\n  web: {files: a.parquet, weight: -0.5}\n", 3, "sources.web.weight",
     "-0.5 is not a weight"},
    {"a weight of nan", "step: {samples: 8}\nsources:\n  web: {files: a.parquet, weight: nan}\n", 3, "sources.web.weight",
     "nan is not a weight"},
    {"weights of zero", "step: {samples: 8}\nsources:\n  web: {files: a.parquet, weight: 0}\n", 3, "sources",
     "all weights are 0"},
    {"one of two weights", "step: {samples: 8}\nsources:\n  a: {files: a.parquet, weight: 1}\n  b: {files: b.parquet}\n", 4,
     "sources.b.weight", "is missing, and other sources have one"},
    {"an unknown at_end", "step: {samples: 8}\nsources:\n  web: {files: a.parquet, at_end: repaet}\n", 3, "sources.web.at_end",
     "did you mean repeat?"},
    {"epochs of what repeats", "step: {samples: 8}\nsources:\n  web: {files: a.parquet, at_end: repeat, epochs: 2}\n", 3,
     "sources.web.epochs", "has no last epoch"},
    {"a limit of none", "step: {samples: 8}\nsources:\n  web: {files: a.parquet, limit: 0}\n", 3, "sources.web.limit",
     "0 is not a whole number of 1 or more"},
    {"a dtype of parquet", "step: {samples: 8}\nsources:\n  web: {files: a.parquet, dtype: uint16}\n", 3, "sources.web.dtype",
     "only the format tokens has this"},
    {"tokens of floats", "step: {samples: 8}\nsources:\n  web: {format: tokens, files: a, dtype: float32, eos: 0}\n", 3,
     "sources.web.dtype", "float32 is not a type of tokens"},
    {"documents that end twice", "step: {samples: 8}\nsources:\n  web: {format: tokens, files: a, eos: 0, document_length: 5}\n",
     3, "sources.web.document_length", "leave one of the two out"},
    {"documents that do not end", "step: {samples: 8}\nsources:\n  web: {format: tokens, files: a}\n", 3, "sources.web.eos",
     "need to know where a document ends"},
    {"an unknown storage option", "step: {samples: 8}\nsources:\n  web: {files: a.parquet, storage_options: {endpiont: x}}\n", 3,
     "sources.web.storage_options.endpiont", "did you mean endpoint?"},
    {"all repeat and epochs end it", "step: {samples: 8}\nsources:\n  web: {files: a.parquet, at_end: repeat}\n", 3, "sources",
     "every source has at_end: repeat"},
    {"all repeat until an epoch", "step: {samples: 8}\nsources:\n  web: {files: a.parquet, at_end: repeat}\nuntil: {epochs: 2}\n",
     4, "until", "so epochs never end"},
    {"forever of what stops", "step: {samples: 8}\nsources:\n  web: {files: a.parquet, at_end: stop}\nuntil: forever\n", 4,
     "until", "nothing that could go on forever"},

    // The step and its lanes.
    {"no step", SOURCES, 1, "step", "is missing: how large a global batch is; write step: {samples: 4096}"},
    {"no step with pack", SOURCES "pack: {length: 8}\n", 1, "step", "write step: {sequences: 512}"},
    {"a step of what", SOURCES "step: 512\n", 2, "step", "512 does not say of what; write step: {samples: 4096}"},
    {"sequences without pack", SOURCES "step: {sequences: 512}\n", 2, "step.sequences",
     "sequences are made by `pack`, which is missing"},
    {"samples with pack", SOURCES "step: {samples: 512}\npack: {length: 8}\n", 2, "step.samples",
     "with `pack` a step counts sequences"},
    {"both", SOURCES "step: {samples: 512, sequences: 8}\npack: {length: 8}\n", 2, "step.samples", "leave samples out"},
    {"an empty step", SOURCES "step: {samples: 0}\n", 2, "step.samples", "0 is not a whole number from 1"},
    {"a ramp without a beginning", SOURCES "step: {samples: {5: 10}}\n", 2, "step.samples", "nothing is said about step 0"},
    {"a ramp by words", SOURCES "step: {samples: {0: 10, later: 20}}\n", 2, "step.samples.later",
     "later is not the number of a step"},
    {"a ramp that says a step twice", SOURCES "step: {samples: {0: 10, 1000: 20, 1k: 30}}\n", 2, "step.samples.1k",
     "step 1000 is there twice"},
    {"sequences that lanes cannot share", PACKED "lanes: 48\n", 2, "step",
     "64 sequences cannot be divided evenly over 48 lanes; 48 and 96 can"},
    {"a ramp that lanes cannot share", SOURCES "step: {sequences: {0: 64, 9: 100}}\npack: {length: 8}\nlanes: 64\n", 2, "step",
     "100 sequences cannot be divided"},
    {"more lanes than sequences", PACKED "lanes: 128\n", 4, "lanes", "128 lanes cannot share a step of 64 sequences"},
    {"more lanes than samples", PLAIN "lanes: 128\n", 3, "lanes", "128 lanes cannot share a step of 64 samples"},
    {"groups that do not fit", PLAIN "group: {size: 3}\n", 2, "step", "64 samples cannot be made of whole groups of 3; 66 can"},
    {"two sizes of groups", PLAIN "group: {size: 2}\ndistribute: {axis: dp, group_size: 4}\n", 4, "distribute.group_size",
     "group.size says 2"},
    {"distribute over tp", PLAIN "distribute: {axis: tp}\n", 3, "distribute.axis", "samples are distributed over dp"},
    {"broadcast over dp", PLAIN "broadcast_at: [dp]\n", 3, "broadcast_at", "ranks along dp get different samples"},
    {"broadcast over what", PLAIN "broadcast_at: [tb]\n", 3, "broadcast_at", "tb is not an axis of the mesh"},

    // Transforms.
    {"a map of transforms", PLAIN "transform: {tokenize: t.json}\n", 3, "transform", "begin each transform with a dash"},
    {"two in one", PLAIN "transform:\n  - tokenize: t.json\n    filter: \"a > 1\"\n", 4, "transform[0]",
     "a map of several keys is not one transform"},
    {"an unknown transform", PLAIN "transform:\n  - tokenise: t.json\n", 4, "transform[0].tokenise",
     "no such transform; did you mean tokenize?"},
    {"no tokenizer", PLAIN "transform:\n  - tokenize: {from: text}\n", 4, "transform[0].tokenize.tokenizer",
     "is missing: the path of a tokenizer.json"},
    {"an option of no tokenizer", PLAIN "transform:\n  - tokenize: {tokenizer: t, add_oes: true}\n", 4,
     "transform[0].tokenize.add_oes", "did you mean add_eos?"},
    {"tokens twice", PLAIN "transform:\n  - tokenize: t.json\n  - chat: dir\n", 5, "transform[1].chat",
     "tokens are made already, on line 4"},
    {"train on nobody", PLAIN "transform:\n  - chat: {tokenizer: d, train_on: user}\n", 4, "transform[0].chat.train_on",
     "user is not what is trained on; there are assistant, all"},
    {"a filter that ends early", PLAIN "transform:\n  - filter: \"length(tokens) >=\"\n", 4, "transform[0].filter",
     "it ends here"},
    {"a filter that is a number", PLAIN "transform:\n  - filter: \"length(tokens)\"\n", 4, "transform[0].filter",
     "a filter must say yes or no"},
    {"a filter with no such function", PLAIN "transform:\n  - filter: \"len(tokens) > 3\"\n", 4, "transform[0].filter",
     "there is no function len; did you mean length?"},
    {"select nothing", PLAIN "transform:\n  - select: []\n", 4, "transform[0].select", "an empty list is not a list of columns"},
    {"select twice", PLAIN "transform:\n  - select: [a, a]\n", 4, "transform[0].select[1]", "a is there twice"},
    {"rename to the same", PLAIN "transform:\n  - rename: {a: c, b: c}\n", 4, "transform[0].rename.b",
     "two columns would be called c"},
    {"rename to our own", PLAIN "transform:\n  - rename: {a: __row}\n", 4, "transform[0].rename.a",
     "names that begin with __ are Headrace's own"},
    {"cast to what", PLAIN "transform:\n  - cast: {a: float23}\n", 4, "transform[0].cast.a",
     "float23 is not a type; did you mean float32?"},
    {"python with a dot", PLAIN "transform:\n  - python: {call: my.clean.fix}\n", 4, "transform[0].python.call",
     "did you mean my.clean:fix?"},
    {"python of no name", PLAIN "transform:\n  - python: {call: \"my clean:fix\"}\n", 4, "transform[0].python.call",
     "is not a Python function"},
    {"python of nothing", PLAIN "transform:\n  - python: {workers: 2}\n", 4, "transform[0].python.call", "is missing"},
    {"python without workers", PLAIN "transform:\n  - python: {call: \"a:b\", workers: 0}\n", 4, "transform[0].python.workers",
     "0 is not a whole number from 1"},
    {"python that waits", PLAIN "transform:\n  - python: {call: \"a:b\", timeout: soon}\n", 4, "transform[0].python.timeout",
     "soon is not a time like 60s"},

    // Packing, cost, balance.
    {"pack without length", SOURCES "step: {sequences: 64}\npack: {method: concat}\n", 3, "pack.length", "is missing"},
    {"a length of 8k", SOURCES "step: {sequences: 64}\npack: {length: 8k}\n", 3, "pack.length", "write 8Ki for 1024s"},
    {"a length of 0", SOURCES "step: {sequences: 64}\npack: {length: 0}\n", 3, "pack.length", "0 is not a whole number from 1"},
    {"an unknown method", SOURCES "step: {sequences: 64}\npack: {length: 8, method: bestfit}\n", 3, "pack.method",
     "did you mean best_fit?"},
    {"an unknown overflow", SOURCES "step: {sequences: 64}\npack: {length: 8, overflow: cut}\n", 3, "pack.overflow",
     "there are split, truncate, drop"},
    {"no such alignment", SOURCES "step: {sequences: 64}\npack: {length: 100, align: 64}\n", 3, "pack.align",
     "a length of 100 is not a multiple of 64"},
    {"no lengths", SOURCES "step: {sequences: 64}\npack: []\n", 3, "pack", "an empty list; write [{length"},
    {"a length twice", SOURCES "step: {sequences: 64}\npack:\n - {length: 8, share: 0.5}\n - {length: 8, share: 0.5}\n", 5,
     "pack[1]", "the length 8 is there twice"},
    {"a share of nothing", SOURCES "step: {sequences: 64}\npack: [{length: 8, share: 0}]\n", 3, "pack[0].share",
     "0 is not a share above 0"},
    {"one of two shares", SOURCES "step: {sequences: 64}\npack: [{length: 8, share: 0.5}, {length: 9}]\n", 3, "pack",
     "some lengths have a share"},
    {"tokens that are taken away", PACKED "transform:\n  - tokenize: t.json\n  - select: [id]\n", 3, "pack",
     "the transform on line 6 takes it away"},
    {"a cost of what", PLAIN "cost: {atention: {hidden: 1, layers: 2}}\n", 3, "cost.atention", "did you mean attention?"},
    {"half a shape", PLAIN "cost: {attention: {hidden: 1}}\n", 3, "cost.attention.layers", "is missing"},
    {"two costs", PLAIN "cost: {attention: {hidden: 1, layers: 2}, python: \"a:b\"}\n", 3, "cost", "and only one"},
    {"a cost that cannot be read", PLAIN "cost: \"length **\"\n", 3, "cost", "this cost cannot be read"},
    {"a cost that is no number", PLAIN "cost: \"length > 3\"\n", 3, "cost", "a cost is a number"},
    {"a cost of what is not known", PLAIN "cost: \"lenght * 2\"\n", 3, "cost", "did you mean length?"},
    {"a cost of the sample itself", PLAIN "cost: \"length(tokens)\"\n", 3, "cost", "write length for its tokens"},
    {"an unknown balance", PLAIN "balance: gready\n", 3, "balance", "did you mean greedy?"},
    {"balance over what", PLAIN "balance: {over: [lanes]}\n", 3, "balance.over", "did you mean lane?"},

    // The mixture.
    {"an unknown unit", PLAIN "mix: {unit: bytes}\n", 3, "mix.unit", "there are tokens, samples"},
    {"a schedule that is a list", PLAIN "mix: {schedule: [1, 2]}\n", 3, "mix.schedule",
     "a list is not a map from steps to weights"},
    {"a schedule of another source", PLAIN "mix:\n  schedule:\n    0: {wbe: 1}\n", 5, "mix.schedule.0.wbe",
     "there is no source wbe; did you mean web?"},
    {"a schedule that leaves one out", PLAIN "mix:\n  schedule:\n    0: {web: 1}\n    10: {}\n", 6, "mix.schedule.10",
     "web is missing; a weight of 0 leaves a source out"},
    {"a schedule of nothing", PLAIN "mix: {schedule: {0: {web: 0}}}\n", 3, "mix.schedule.0", "all weights are 0"},
    {"a schedule that begins late", PLAIN "mix: {schedule: {10: {web: 1}}}\n", 3, "mix.schedule", "nothing is said about step 0"},
    {"a negative share", PLAIN "mix: {schedule: {0: {web: -1}}}\n", 3, "mix.schedule.0.web", "-1 is not a weight"},
    {"a ramp to nowhere", PLAIN "mix: {ramp: linear}\n", 3, "mix.ramp", "nothing to ramp between"},
    {"an unknown ramp", PLAIN "mix: {ramp: liner}\n", 3, "mix.ramp", "did you mean linear?"},
    {"a policy comes later", PLAIN "mix: {policy: {name: ado}}\n", 3, "mix.policy", "will come with a later version",
     Code::kUnsupported},
    {"a policy without a name", PLAIN "mix: {policy: {rate: 1}}\n", 3, "mix.policy", "name is missing"},

    // Kept columns.
    {"keep twice", PLAIN "keep: [id, id]\n", 3, "keep[1]", "id is there twice"},
    {"keep a column of ours", PACKED "keep: [labels]\n", 4, "keep", "a packed batch has a column labels of its own"},
    {"keep our own", PLAIN "keep: [__row]\n", 3, "keep", "names that begin with __ are Headrace's own"},
    {"keep what is taken away", PLAIN "transform:\n  - select: [text]\nkeep: [id]\n", 5, "keep",
     "the transform on line 4 takes it away"},
};

TEST(WrongRecipes, AreRefusedWithLineKeyAndMeaning) {
  for (const Wrong& wrong : kWrong) {
    SCOPED_TRACE(wrong.what);
    Result<Recipe> read = Recipe::FromYaml(wrong.text, "recipe.yaml", "/work");
    ASSERT_FALSE(read.ok()) << wrong.text;
    EXPECT_EQ(read.code(), wrong.code) << read.status().ToString();
    const std::string message = read.status().message();
    const std::string place = wrong.line == 0 ? "recipe.yaml:" : Cat("recipe.yaml:", wrong.line, ":");
    const std::string key = *wrong.key == '\0' ? "" : Cat(": ", wrong.key, ": ");
    bool said = false;
    for (const std::string& line : Split(message, '\n')) {
      said |= line.starts_with(place) && line.find(key) != std::string::npos && line.find(wrong.words) != std::string::npos;
    }
    EXPECT_TRUE(said) << "expected " << place << " … " << key << " … " << wrong.words << "\nfound    " << message;
  }
}

TEST(WrongRecipes, AreManyAndEachSaysOneThing) {
  for (const Wrong& wrong : kWrong) {
    Result<Recipe> read = Recipe::FromYaml(wrong.text, "recipe.yaml", "/work");
    EXPECT_EQ(Split(read.status().message(), '\n').size(), 1u) << wrong.what << ": one slip must not draw others after it\n"
                                                               << read.status().message();
  }
  EXPECT_GE(std::size(kWrong), 50u);
}

TEST(WrongRecipes, EverythingThatIsWrongIsSaidAtOnceInTheOrderOfTheText) {
  Result<Recipe> read =
      Recipe::FromYaml("sede: 1\nsources:\n  web: {format: parket, files: a}\nstep: {sample: 5}\n", "r.yaml", "");
  const std::vector<std::string> lines = Split(read.status().message(), '\n');
  ASSERT_EQ(lines.size(), 3u) << read.status().message();
  EXPECT_EQ(lines[0], "r.yaml:1:1: sede: no such key; did you mean seed?");
  EXPECT_THAT(lines[1], HasSubstr("r.yaml:3:17: sources.web.format: parket is not a format; did you mean parquet?"));
  EXPECT_EQ(lines[2], "r.yaml:4:8: step.sample: no such key; did you mean samples?");
}

TEST(WrongRecipes, AnEndlessListOfProblemsIsCutShort) {
  std::string text = "sources: {web: {files: a.parquet}}\nstep: {samples: 5}\n";
  for (int i = 0; i < 100; ++i) text += Cat("wrong", i, ": 1\n");
  Result<Recipe> read = Recipe::FromYaml(text, "r.yaml", "");
  EXPECT_THAT(read.status().message(), HasSubstr("and 80 more"));
}

TEST(WrongRecipes, ASecretIsNotShown) {
  Result<Recipe> read = Recipe::FromYaml(
      "step: {samples: 5}\nsources: {web: {files: a.parquet, storage_options: {secret_access_key: [hunter2]}}}\n", "r.yaml", "");
  ASSERT_FALSE(read.ok());
  EXPECT_EQ(read.status().message().find("hunter2"), std::string::npos);
}

TEST(WrongRecipes, WhatOnlyComesLaterIsUnsupportedAndTheRestIsInvalid) {
  constexpr const char* kText = "step: {samples: 8}\nseed: -1\nsources:\n  web: {format: delta, table: a}\n";
  EXPECT_EQ(Recipe::FromYaml(kText, "r.yaml", "").code(), Code::kInvalidArgument);
}

}  // namespace
}  // namespace headrace
