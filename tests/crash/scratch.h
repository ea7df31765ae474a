// A folder for one test, gone with it.
#pragma once

#include <filesystem>
#include <string>

#include "base/random.h"
#include "base/text.h"

namespace headrace {

class ScratchFolder {
 public:
  ScratchFolder() { std::filesystem::create_directories(path_); }
  ~ScratchFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }
  std::string Below(const std::string& name) const { return (path_ / name).string(); }

 private:
  const std::filesystem::path path_ =
      std::filesystem::temp_directory_path() / Cat("headrace-crash-", Random::FromEntropy().Hex(16));
};

}  // namespace headrace
