// Applies the transforms of a recipe to the batches of an Arrow IPC stream, for tests/e2e/test_transforms.py and bench/tokenize_bench.py:
//
//   transform_tool RECIPE INPUT OUTPUT [--python PROGRAM] [--threads N] [--seed N] [--repeat N] [--callers N] [--worker-tokenizer] [--decode 1,2,3]
//
// Writes what came out as an Arrow IPC stream, and prints what else there is to know as JSON.
#include <arrow/io/file.h>
#include <arrow/ipc/reader.h>
#include <arrow/ipc/writer.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/text.h"
#include "transform/batch.h"
#include "transform/transform.h"

namespace headrace {
namespace {

Result<std::vector<BatchPointer>> ReadBatches(const std::string& path) {
  HR_ASSIGN_OR_RETURN_ARROW(auto file, arrow::io::ReadableFile::Open(path), "open the input");
  HR_ASSIGN_OR_RETURN_ARROW(auto reader, arrow::ipc::RecordBatchStreamReader::Open(file), "read the input");
  HR_ASSIGN_OR_RETURN_ARROW(auto batches, reader->ToRecordBatches(), "read the input");
  return batches;
}

Status WriteBatches(const std::string& path, const std::vector<BatchPointer>& batches) {
  if (batches.empty()) return Status::Ok();
  HR_ASSIGN_OR_RETURN_ARROW(auto file, arrow::io::FileOutputStream::Open(path), "open the output");
  HR_ASSIGN_OR_RETURN_ARROW(auto writer, arrow::ipc::MakeStreamWriter(file, batches[0]->schema()), "write the output");
  for (const auto& batch : batches) HR_RETURN_IF_ERROR(CannotDo(writer->WriteRecordBatch(*batch), "write the output"));
  HR_RETURN_IF_ERROR(CannotDo(writer->Close(), "write the output"));
  return CannotDo(file->Close(), "write the output");
}

Status Run(const std::vector<std::string>& arguments) {
  TransformOptions options;
  uint64_t seed = 0, repeat = 1, callers = 1, number = 0;
  std::vector<int64_t> decode;
  for (size_t i = 3; i < arguments.size(); i++) {
    const std::string& word = arguments[i];
    if (word == "--worker-tokenizer") {
      options.native_tokenizer = false;
      continue;
    }
    if (i + 1 >= arguments.size()) return Status(Code::kInvalidArgument, Cat(word, " needs a value"));
    const std::string& value = arguments[++i];
    if (word == "--python") {
      options.python = value;
    } else if (word == "--decode") {
      for (const auto& token : Split(value, ',')) decode.push_back(std::strtoll(token.c_str(), nullptr, 10));
    } else if (!ParseNumber(value, number)) {
      return Status(Code::kInvalidArgument, Cat(word, " needs a number"));
    } else {
      if (word == "--threads") options.threads = static_cast<uint32_t>(number);
      if (word == "--seed") seed = number;
      if (word == "--repeat") repeat = number;
      if (word == "--callers") callers = number;
    }
  }
  HR_ASSIGN_OR_RETURN(Recipe recipe, Recipe::FromFile(arguments[0]));
  HR_ASSIGN_OR_RETURN(auto chain, TransformChain::Make(recipe, options));
  nlohmann::json about = {
      {"fingerprints", chain->Fingerprints()}, {"reads", chain->Reads()}, {"native", chain->TokenizesNatively()}};
  if (chain->Vocabulary()) about["vocabulary"] = *chain->Vocabulary();
  if (!decode.empty()) {
    HR_ASSIGN_OR_RETURN(std::string text, chain->Decode(decode));
    about["text"] = text;
  }
  HR_ASSIGN_OR_RETURN(auto batches, ReadBatches(arguments[1]));

  std::vector<Result<BatchPointer>> made(batches.size(), Status(Code::kInternal, "not made"));
  std::vector<std::vector<BadRow>> bad(batches.size());
  auto begin = std::chrono::steady_clock::now();
  for (uint64_t round = 0; round < repeat; round++) {
    std::atomic<size_t> next = 0;
    std::vector<std::thread> threads;
    for (uint64_t caller = 0; caller < callers; caller++) {
      threads.emplace_back([&] {
        for (size_t i = next++; i < batches.size(); i = next++) {
          bad[i].clear();
          made[i] = chain->Apply(batches[i], seed + i, bad[i]);
        }
      });
    }
    for (auto& thread : threads) thread.join();
  }
  about["seconds"] = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  std::vector<BatchPointer> results;
  about["bad"] = nlohmann::json::array();
  for (size_t i = 0; i < batches.size(); i++) {
    if (!made[i].ok()) return made[i].status();
    results.push_back(*made[i]);
    for (const auto& row : bad[i]) about["bad"].push_back({{"batch", i}, {"row", row.row}, {"why", row.why}, {"skip", row.skip}});
  }
  HR_RETURN_IF_ERROR(WriteBatches(arguments[2], results));
  std::cout << about.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) << "\n";
  return Status::Ok();
}

}  // namespace
}  // namespace headrace

int main(int argc, char** argv) {
  std::vector<std::string> arguments(argv + 1, argv + argc);
  if (arguments.size() < 3) {
    std::cerr << "usage: transform_tool RECIPE INPUT OUTPUT [option…]\n";
    return 2;
  }
  headrace::Status status = headrace::Run(arguments);
  if (!status.ok()) std::cerr << status.message() << "\n";
  return status.ok() ? 0 : 1;
}
