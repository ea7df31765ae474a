// SHA-256, HMAC-SHA-256 and Base64 in the shapes that we need, over OpenSSL.
#pragma once

#include <array>
#include <string>
#include <string_view>

namespace headrace {

using Sha256Digest = std::array<unsigned char, 32>;

class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(const Sha256&) = delete;
  Sha256& operator=(const Sha256&) = delete;

  void Update(const void* data, size_t size);
  Sha256Digest Finish();

 private:
  void* context_;
};

Sha256Digest Sha256Of(std::string_view text);
std::string Sha256Hex(std::string_view text);
Sha256Digest HmacSha256(std::string_view key, std::string_view text);

std::string Base64(const void* data, size_t size);
std::string ToHex(const Sha256Digest& digest);

}  // namespace headrace
