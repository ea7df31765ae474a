#include "transform/tokenize.h"

#include <arrow/compute/cast.h>
#include <arrow/compute/initialize.h>
#include <arrow/type.h>

#include <filesystem>
#include <utility>

#include "base/text.h"
#include "transform/batch.h"

namespace headrace {
namespace {

// The texts of a column by row, null ones as bad rows.
template <typename ArrayType>
void TextsOf(const arrow::Array& column, std::vector<std::string_view>& texts) {
  const auto& typed = static_cast<const ArrayType&>(column);
  for (int64_t row = 0; row < typed.length(); row++) {
    if (!typed.IsNull(row)) texts.push_back(typed.GetView(row));
  }
}

class Tokenize final : public TokenTransform {
 public:
  Tokenize(std::unique_ptr<Tokenizer> tokenizer, std::string from, int32_t first, int32_t last, bool keep_from)
      : tokenizer_(std::move(tokenizer)), from_(std::move(from)), first_(first), last_(last), keep_from_(keep_from) {}

  Result<BatchPointer> Apply(const BatchPointer& batch, uint64_t, std::vector<BadRow>& bad) override {
    auto column = batch->GetColumnByName(from_);
    if (!column) return AllBad(batch, Cat("has no column '", from_, "' to tokenize; it has ", ColumnNames(*batch)), bad);
    if (column->type_id() == arrow::Type::DICTIONARY) {
      HR_ASSIGN_OR_RETURN_ARROW(
          column, arrow::compute::Cast(*column, static_cast<const arrow::DictionaryType&>(*column->type()).value_type()),
          Cat("read the column ", from_));
    }
    std::vector<std::string_view> texts;
    texts.reserve(static_cast<size_t>(column->length()));
    switch (column->type_id()) {
      case arrow::Type::STRING: TextsOf<arrow::StringArray>(*column, texts); break;
      case arrow::Type::LARGE_STRING: TextsOf<arrow::LargeStringArray>(*column, texts); break;
      case arrow::Type::STRING_VIEW: TextsOf<arrow::StringViewArray>(*column, texts); break;
      case arrow::Type::BINARY: TextsOf<arrow::BinaryArray>(*column, texts); break;
      case arrow::Type::LARGE_BINARY: TextsOf<arrow::LargeBinaryArray>(*column, texts); break;
      case arrow::Type::BINARY_VIEW: TextsOf<arrow::BinaryViewArray>(*column, texts); break;
      case arrow::Type::NA: break;
      default:
        return Status(Code::kInvalidArgument,
                      Cat("cannot tokenize the column '", from_, "': it is ", column->type()->ToString(), ", not text"));
    }
    std::vector<BadRow> refused;
    HR_ASSIGN_OR_RETURN(auto tokens, tokenizer_->Encode(texts, first_, last_, refused));
    // From the texts' numbers to the rows', with the nulls among them.
    std::vector<BadRow> left_out;
    size_t next = 0;
    int64_t text = 0;
    for (int64_t row = 0; row < column->length(); row++) {
      if (column->IsNull(row)) {
        left_out.push_back({row, Cat("has no text: '", from_, "' is null")});
        continue;
      }
      if (next < refused.size() && refused[next].row == text)
        left_out.push_back({row, Cat("'", from_, "': ", refused[next++].why)});
      text++;
    }
    HR_ASSIGN_OR_RETURN(BatchPointer rest, keep_from_ ? Result<BatchPointer>(batch) : WithoutColumn(batch, from_));
    HR_ASSIGN_OR_RETURN(rest, WithoutRows(rest, left_out));
    bad.insert(bad.end(), left_out.begin(), left_out.end());
    return WithColumn(rest, "tokens", tokens);
  }

  std::map<std::string, std::string> Fingerprints() const override {
    std::map<std::string, std::string> found = {
        {Cat("tokenizer:", std::filesystem::path(tokenizer_->file()).filename().string()), tokenizer_->hash()},
        {"tokenizers", tokenizer_->Version()}};
    // They come from a file beside, which may change.
    if (first_ >= 0) found["bos_token"] = Cat(first_);
    if (last_ >= 0) found["eos_token"] = Cat(last_);
    return found;
  }
  std::optional<uint64_t> Vocabulary() const override { return tokenizer_->Vocabulary(); }
  Result<std::string> Decode(const std::vector<int64_t>& tokens) override { return tokenizer_->Decode(tokens); }

  bool native() const override { return tokenizer_->native(); }

 private:
  std::unique_ptr<Tokenizer> tokenizer_;
  std::string from_;
  int32_t first_, last_;
  bool keep_from_;
};

}  // namespace

std::string BelowFolder(const std::string& folder, const std::string& path) {
  std::filesystem::path given(path);
  return (given.is_absolute() || folder.empty() ? given : std::filesystem::path(folder) / given).lexically_normal().string();
}

Result<std::unique_ptr<TokenTransform>> MakeTokenize(const TransformSpec& spec, const std::string& folder, bool keep_from,
                                                     const TransformOptions& options) {
  HR_RETURN_IF_ERROR(CannotDo(arrow::compute::Initialize(), "start Arrow's compute kernels"));
  HR_ASSIGN_OR_RETURN(auto tokenizer, Tokenizer::Load(BelowFolder(folder, spec.tokenizer), {.python = options.python,
                                                                                            .threads = options.threads,
                                                                                            .native = options.native_tokenizer}));
  int32_t first = -1, last = -1;
  if (spec.add_bos) {
    HR_ASSIGN_OR_RETURN(first, tokenizer->Begin());
  }
  if (spec.add_eos) {
    HR_ASSIGN_OR_RETURN(last, tokenizer->End());
  }
  return std::unique_ptr<TokenTransform>(
      std::make_unique<Tokenize>(std::move(tokenizer), spec.from.empty() ? "text" : spec.from, first, last, keep_from));
}

}  // namespace headrace
