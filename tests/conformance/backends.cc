#include "backends.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <iostream>

#include "base/random.h"
#include "base/text.h"
#include "store/folder_store.h"
#include "store/memory_store.h"

namespace headrace {
namespace {

OpenedBackend OpenMemory() { return {.store = std::make_shared<MemoryStore>("conformance")}; }

OpenedBackend OpenFolder() {
  // HEADRACE_TEST_FOLDER: somewhere else, such as a mount of NFS.
  const char* parent = std::getenv("HEADRACE_TEST_FOLDER");
  std::filesystem::path root = parent ? std::filesystem::path(parent) : std::filesystem::temp_directory_path();
  root /= Cat("headrace-conformance-", Random::FromEntropy().Hex(16));
  return {.store = std::make_shared<FolderStore>(root.string()), .remove = [root] {
            std::error_code ignored;
            std::filesystem::remove_all(root, ignored);
          }};
}

OpenedBackend OpenS3(const std::string& endpoint) {
  // A prefix of its own for each case: the bucket is shared, and servers keep what they are given.
  Result<std::shared_ptr<ObjectStore>> store =
      OpenStore(Cat("s3://headrace-test/", Random::FromEntropy().Hex(16), "?endpoint=", PercentEncode(endpoint)));
  if (!store.ok()) {
    ADD_FAILURE() << store.status().ToString();
    return {};
  }
  return {.store = *store};
}

std::vector<Backend> FindBackends() {
  std::vector<Backend> backends = {{"memory", OpenMemory}, {"folder", OpenFolder}};
  struct Server {
    const char* name;
    const char* variable;
    bool loses_empty_folders;
  };
  for (Server server : {Server{"versitygw", "HEADRACE_TEST_VERSITYGW", true}, Server{"moto", "HEADRACE_TEST_MOTO", false},
                        Server{"minio", "HEADRACE_TEST_MINIO", false}}) {
    const char* endpoint = std::getenv(server.variable);
    if (endpoint != nullptr && *endpoint != '\0') {
      backends.push_back(
          {server.name, [endpoint = std::string(endpoint)] { return OpenS3(endpoint); }, server.loses_empty_folders});
    } else {
      std::cerr << Cat("LEFT OUT: ", server.name, " (", server.variable,
                       " is not set; `python tests/servers.py -- COMMAND` starts and names the servers)\n");
    }
  }
  return backends;
}

}  // namespace

std::ostream& operator<<(std::ostream& out, const Backend& backend) { return out << backend.name; }

const std::vector<Backend>& Backends() {
  static const std::vector<Backend> backends = FindBackends();
  return backends;
}

}  // namespace headrace
