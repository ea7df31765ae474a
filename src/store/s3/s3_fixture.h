// For tests: an S3 store whose server is a script.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "base/thread_executor.h"
#include "store/s3/s3_store.h"
#include "store/s3/scripted_http.h"

namespace headrace {

class S3StoreTest : public ::testing::Test {
 protected:
  S3StoreTest() {
    config.bucket = "lake";
    config.prefix = "/runs/a/";
    config.endpoint = "http://127.0.0.1:9000";
  }

  ObjectStore& store() {
    if (store_ == nullptr) {
      auto made = MakeS3Store(config, credentials, http, executor_, RealClock());
      EXPECT_TRUE(made.ok()) << made.status().ToString();
      store_ = *made;
    }
    return *store_;
  }

  Result<std::optional<Object>> Get(const std::string& key, ByteRange range = {}, std::span<std::byte> into = {}) {
    return store().Get(key, GetOptions{.range = range, .into = into}, Deadline());
  }

  S3Config config;
  std::shared_ptr<FixedCredentials> credentials = std::make_shared<FixedCredentials>();
  std::shared_ptr<ScriptedHttp> http = std::make_shared<ScriptedHttp>();

 private:
  ThreadExecutor executor_;
  std::shared_ptr<ObjectStore> store_;
};

}  // namespace headrace
