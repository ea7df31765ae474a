#pragma once

#include <memory>

#include "cli/command.h"
#include "cli/text_of_tokens.h"
#include "produce/lake_stream.h"

namespace headrace::cli {

std::unique_ptr<Command> MakeProduceCommand();
std::unique_ptr<Command> MakePlanCommand();
std::unique_ptr<Command> MakeMixCommand();
std::unique_ptr<Command> MakeLineageCommand();

// For `headrace cat`. Refused if the tokenizer is not the one that made the stream, unless it was asked for by name.
Result<TextOfTokens> FindTokenizerOfStream(StreamLog& log, const std::string& tokenizer, const Deadline& deadline);

// The interpreter for worker processes: HEADRACE_PYTHON, the one that Headrace is installed beside, or python3.
std::string PythonForWorkers();

// Reads a recipe and says what was understood in a way that a person should know.
// `folder`: what relative paths start from; that of the recipe if empty.
Result<Recipe> ReadRecipe(const std::string& path, const Console& console, const std::string& folder = {});

// The stream of a recipe: as it was named on the command line, in the recipe, or .headrace/<hash>.
std::string StreamOf(const Recipe& recipe, const std::string& named);

}  // namespace headrace::cli
