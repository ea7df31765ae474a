// Reads a source as producers do and writes what came: for tests that compare it with what other people's libraries read.
//
//   source_tool '{"format": "parquet", "files": ["…"], "out": "rows.arrow", …}'
//
// The words are those of a recipe's source, and: strands, epoch, seed, window, sources, group_size, columns, holdout, holdout_by, split, skip_bad,
// budget, prefetch. `out` gets an Arrow IPC stream of all rows in the order of the strands; stdout a JSON document about the inventory. A failure is
// {"error": code, "message": …} and exit status 1.
#include <arrow/array/array_primitive.h>
#include <arrow/compute/api_vector.h>
#include <arrow/datum.h>
#include <arrow/io/file.h>
#include <arrow/ipc/writer.h>

#include <cstdio>
#include <nlohmann/json.hpp>

#include "source/inventory.h"
#include "source/source_loader.h"

namespace headrace {
namespace {

using Json = nlohmann::json;

Status Write(arrow::ipc::RecordBatchWriter& writer, const Window& window, int strand) {
  std::vector<int64_t> order(window.order.begin(), window.order.end());
  const auto count = static_cast<int64_t>(order.size());
  auto indices = std::make_shared<arrow::Int64Array>(count, arrow::Buffer::FromVector(std::move(order)));
  auto whole = arrow::ConcatenateRecordBatches(window.parts);
  if (!whole.ok()) return Status(Code::kInternal, whole.status().ToString());
  auto rows = arrow::compute::Take(arrow::Datum(*whole), arrow::Datum(indices));
  if (!rows.ok()) return Status(Code::kInternal, rows.status().ToString());
  auto batch = rows->record_batch();
  std::vector<int32_t> strands(batch->num_rows(), strand);
  auto column = std::make_shared<arrow::Int32Array>(batch->num_rows(), arrow::Buffer::FromVector(std::move(strands)));
  auto with = batch->AddColumn(batch->num_columns(), "__strand", column);
  if (!with.ok()) return Status(Code::kInternal, with.status().ToString());
  auto status = writer.WriteRecordBatch(**with);
  return status.ok() ? Status::Ok() : Status(Code::kInternal, status.ToString());
}

Result<Json> Run(const Json& words) {
  SourceSpec spec;
  spec.name = words.value("name", "test");
  spec.format = words.at("format");
  spec.files = words.at("files").get<std::vector<std::string>>();
  spec.limit = words.value("limit", uint64_t{0});
  if (words.contains("dtype")) {
    HR_ASSIGN_OR_RETURN(spec.dtype, ParseDtype(words["dtype"].get<std::string>()));
  }
  if (words.contains("eos")) spec.eos = words["eos"].get<int64_t>();
  spec.document_length = words.value("document_length", uint64_t{0});
  for (auto& [name, value] : words.value("storage_options", Json::object()).items()) spec.storage_options[name] = value;

  InventoryOptions options;
  options.strands = words.value("strands", 1u);
  options.sources = words.value("sources", 1u);
  options.shuffle_window = words.value("window", uint64_t{100000});
  options.group_size = words.value("group_size", 1u);
  Inventory inventory;
  if (words.contains("inventory")) {
    std::FILE* file = std::fopen(words["inventory"].get<std::string>().c_str(), "rb");
    std::string bytes;
    for (int c; file && (c = std::fgetc(file)) != EOF;) bytes.push_back(static_cast<char>(c));
    if (file) std::fclose(file);
    HR_ASSIGN_OR_RETURN(inventory, Inventory::Decode(bytes, words["inventory"].get<std::string>()));
  } else {
    HR_ASSIGN_OR_RETURN(inventory, MakeInventory(spec, words.value("folder", ""), options, Deadline()));
  }
  const std::string encoded = inventory.Encode();
  if (words.contains("save_inventory")) {
    std::FILE* file = std::fopen(words["save_inventory"].get<std::string>().c_str(), "wb");
    std::fwrite(encoded.data(), 1, encoded.size(), file);
    std::fclose(file);
  }
  Json answer = {{"rows", inventory.rows},
                 {"bytes", inventory.bytes},
                 {"exact", inventory.exact},
                 {"granules", inventory.granules.size()},
                 {"rows_per_piece", inventory.rows_per_piece},
                 {"granules_per_group", inventory.granules_per_group},
                 {"encoded_bytes", encoded.size()},
                 {"files", Json::array()}};
  for (const LakeFile& file : inventory.files) answer["files"].push_back(file.uri);
  if (!words.contains("out")) return answer;

  SourceLoaderOptions reading;
  reading.seed = words.value("seed", uint64_t{0});
  reading.strands = options.strands;
  reading.shuffle = options.shuffle_window > 1;
  reading.group_size = options.group_size;
  reading.holdout_fraction = words.value("holdout", 0.0);
  reading.holdout_by = words.value("holdout_by", "");
  reading.holdout_split = words.value("split", false);
  reading.limit = spec.limit;
  reading.bad_samples.skip = words.value("skip_bad", false);
  reading.columns = words.value("columns", std::vector<std::string>());
  reading.budget = MakeWindowBudget(words.value("budget", uint64_t{256} << 20));
  const auto epoch = words.value("epoch", 0u);
  HR_ASSIGN_OR_RETURN(std::unique_ptr<SourceLoader> loader,
                      SourceLoader::Open(spec, std::make_shared<const Inventory>(std::move(inventory)), reading, nullptr));
  auto sink = arrow::io::FileOutputStream::Open(words["out"].get<std::string>());
  if (!sink.ok()) return Status(Code::kInternal, sink.status().ToString());
  std::shared_ptr<arrow::ipc::RecordBatchWriter> writer;
  uint64_t skipped = 0, windows = 0;
  for (uint32_t strand = 0; strand < options.strands; ++strand) {
    for (Position at{.epoch = epoch}; at.group < loader->Groups(static_cast<uint16_t>(strand), epoch); ++at.group) {
      for (at.piece = 0;; ++at.piece) {
        if (words.value("prefetch", false)) {
          loader->Prefetch(static_cast<uint16_t>(strand), at);
          loader->Prefetch(static_cast<uint16_t>(strand), {.epoch = epoch, .group = at.group + 1});
        }
        HR_ASSIGN_OR_RETURN(std::shared_ptr<const Window> window, loader->Load(static_cast<uint16_t>(strand), at, Deadline()));
        if (!writer) {
          const auto& rows = *window->parts.front();
          auto schema = rows.schema()->AddField(rows.num_columns(), arrow::field("__strand", arrow::int32()));
          auto made = arrow::ipc::MakeStreamWriter(*sink, *schema);
          if (!made.ok()) return Status(Code::kInternal, made.status().ToString());
          writer = *made;
        }
        HR_RETURN_IF_ERROR(Write(*writer, *window, static_cast<int>(strand)));
        skipped += window->skipped;
        ++windows;
        if (window->last_of_group) break;
      }
    }
  }
  if (writer && !writer->Close().ok()) return Status(Code::kInternal, "cannot close the answer");
  if (!(*sink)->Close().ok()) return Status(Code::kInternal, "cannot close the answer");
  answer["skipped"] = skipped;
  answer["windows"] = windows;
  return answer;
}

}  // namespace
}  // namespace headrace

int main(int, char** arguments) {
  headrace::Result<nlohmann::json> answer = headrace::Run(nlohmann::json::parse(arguments[1]));
  nlohmann::json printed =
      answer.ok() ? *answer
                  : nlohmann::json{{"error", headrace::CodeName(answer.code())}, {"message", answer.status().message()}};
  std::puts(printed.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace).c_str());
  return answer.ok() ? 0 : 1;
}
