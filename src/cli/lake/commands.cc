#include "cli/lake/commands.h"

#include <fmt/core.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "base/hash.h"

namespace headrace::cli {

std::string PythonForWorkers() {
  if (const char* named = std::getenv("HEADRACE_PYTHON"); named != nullptr && *named != '\0') return named;
  std::error_code error;
  const std::filesystem::path beside = std::filesystem::read_symlink("/proc/self/exe", error).parent_path() / "python3";
  if (!error && access(beside.c_str(), X_OK) == 0) return beside.string();
  return "python3";
}

Result<Recipe> ReadRecipe(const std::string& path, const Console& console, const std::string& folder) {
  // A recipe that was written in Python stands in a file that nobody has ever seen.
  const bool unnamed = CalledByPython() && !folder.empty();
  Result<Recipe> read = Recipe::FromFile(path);
  if (!folder.empty()) {
    std::ifstream file(path, std::ios::binary);
    if (file) {
      const std::string text{std::istreambuf_iterator<char>(file), {}};
      read = Recipe::FromYaml(text, unnamed ? "recipe" : path, folder);
    }
  }
  if (!read.ok()) return read.status();
  Recipe recipe = *std::move(read);
  if (!console.json()) {
    for (const std::string& note : recipe.notes) fmt::print(stderr, "note: {}\n", note);
  }
  return recipe;
}

std::string StreamOf(const Recipe& recipe, const std::string& named) {
  if (!named.empty()) return named;
  const std::string stream = recipe.stream.empty() ? ".headrace/" + Sha256Hex(recipe.text).substr(0, 16) : recipe.stream;
  // Relative to the recipe, as its files are.
  const bool plain = stream.find("://") == std::string::npos && !stream.starts_with('/');
  return plain ? (std::filesystem::path(recipe.folder) / stream).lexically_normal().string() : stream;
}

}  // namespace headrace::cli
