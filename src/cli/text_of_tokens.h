// What the tokens of a stream mean, for `headrace cat`.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "cli/command.h"
#include "stream/stream_log.h"

namespace headrace::cli {

using TextOfTokens = std::function<Result<std::string>(const std::vector<int64_t>& tokens)>;
// By the tokenizer of the stream's recipe, or by `tokenizer`, a file, if that is not empty.
using FindTextOfTokens =
    std::function<Result<TextOfTokens>(StreamLog& log, const std::string& tokenizer, const Deadline& deadline)>;

// `headrace cat` for a program that has tokenizers; the one without hands over to it.
std::unique_ptr<Command> MakeCatCommandWithText(FindTextOfTokens find);

}  // namespace headrace::cli
