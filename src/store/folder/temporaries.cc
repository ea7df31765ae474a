#include "store/folder/temporaries.h"

#include <dirent.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <memory>
#include <vector>

#include "base/random.h"
#include "base/text.h"

namespace headrace {
namespace {

constexpr const char* kUnknown = "0";

std::string ThisBoot() {
  std::string id;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id") >> std::ws, id);
  std::erase(id, '-');
  return id.empty() ? kUnknown : id;
}

std::string ThisPidNamespace() {
  char link[64];
  ssize_t size = ::readlink("/proc/self/ns/pid", link, sizeof(link));
  std::string digits(link, std::max<ssize_t>(size, 0));
  std::erase_if(digits, [](unsigned char c) { return !std::isdigit(c); });
  return digits.empty() ? kUnknown : digits;
}

}  // namespace

Temporaries::Temporaries(FolderSyscalls& syscalls, const std::string& root)
    : syscalls_(syscalls),
      folder_(Cat(root, "/", kFolder)),
      boot_(ThisBoot()),
      namespace_(ThisPidNamespace()),
      nonce_(Random::FromEntropy().Hex(16)) {}

std::string Temporaries::NextPath() {
  // The pid is asked for each time: after a fork, two processes share the nonce and the count.
  return Cat(folder_, "/", boot_, "-", namespace_, "-", ::getpid(), "-", nonce_, "-",
             next_.fetch_add(1, std::memory_order_relaxed));
}

bool Temporaries::OwnerIsGone(const std::string& name) {
  std::vector<std::string> words = Split(name, '-');
  uint64_t pid = 0;
  if (words.size() != 5 || !ParseNumber(words[2], pid) || pid == 0 || pid > INT32_MAX) return false;
  if (words[0] == kUnknown || words[1] == kUnknown || boot_ == kUnknown) return false;
  if (words[0] != boot_) return syscalls_.IsLocal(folder_);
  return words[1] == namespace_ && ::kill(static_cast<pid_t>(pid), 0) != 0 && errno == ESRCH;
}

void Temporaries::Sweep(WallTime now) {
  std::unique_ptr<DIR, int (*)(DIR*)> folder(::opendir(folder_.c_str()), ::closedir);
  if (!folder) return;
  while (const dirent* entry = ::readdir(folder.get())) {
    std::string path = Cat(folder_, "/", entry->d_name);
    struct stat about;
    if (syscalls_.Stat(path, &about) != 0 || !S_ISREG(about.st_mode)) continue;
    if (now - WallTime(std::chrono::seconds(about.st_mtim.tv_sec)) < kAge) continue;
    if (OwnerIsGone(entry->d_name)) syscalls_.Unlink(path);
  }
}

}  // namespace headrace
