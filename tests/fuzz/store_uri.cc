// Where a store is, in any words: understood, or refused with a reason; never a crash, and never a secret in the reason.

#include <string>

#include "store/store_options.h"
#include "store/uri.h"
#include "tests/fuzz/expect.h"

using namespace headrace;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string text(reinterpret_cast<const char*>(data), size);
  Result<StoreUri> uri = ParseStoreUri(text);
  if (!uri.ok()) {
    HR_EXPECT(!uri.status().message().empty());
    return 0;
  }
  if (uri->scheme != StoreUri::Scheme::kFile) {
    HR_EXPECT(!uri->name.empty());
    HR_EXPECT(!uri->path.starts_with('/') && !uri->path.ends_with('/'));
  }
  constexpr const char* kSecret = "hush-hush-hush";
  StorageOptions options = {{"access_key_id", "key"}, {"secret_access_key", kSecret}};
  if (Result<StoreSettings> settings = ReadStoreSettings(*uri, options); !settings.ok()) {
    HR_EXPECT(!settings.status().message().empty());
    HR_EXPECT(text.find(kSecret) != std::string::npos || settings.status().message().find(kSecret) == std::string::npos);
  } else {
    HR_EXPECT(settings->secret_access_key == kSecret);
  }
  return 0;
}
