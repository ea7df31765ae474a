#include "base/hash.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <cstdio>
#include <cstdlib>

#include "base/text.h"

namespace headrace {
namespace {

// These fail only where OpenSSL was built or configured without SHA-256. A wrong digest would be worse than the end.
void Require(bool worked) {
  if (worked) return;
  std::fputs("OpenSSL on this machine refuses to compute SHA-256 (is it restricted in openssl.cnf?)\n", stderr);
  std::abort();
}

}  // namespace

Sha256::Sha256() : context_(EVP_MD_CTX_new()) {
  Require(context_ != nullptr && EVP_DigestInit_ex(static_cast<EVP_MD_CTX*>(context_), EVP_sha256(), nullptr) == 1);
}

Sha256::~Sha256() { EVP_MD_CTX_free(static_cast<EVP_MD_CTX*>(context_)); }

void Sha256::Update(const void* data, size_t size) {
  Require(EVP_DigestUpdate(static_cast<EVP_MD_CTX*>(context_), data, size) == 1);
}

Sha256Digest Sha256::Finish() {
  Sha256Digest digest;
  Require(EVP_DigestFinal_ex(static_cast<EVP_MD_CTX*>(context_), digest.data(), nullptr) == 1);
  return digest;
}

Sha256Digest Sha256Of(std::string_view text) {
  Sha256 hash;
  hash.Update(text.data(), text.size());
  return hash.Finish();
}

std::string Sha256Hex(std::string_view text) { return ToHex(Sha256Of(text)); }

Sha256Digest HmacSha256(std::string_view key, std::string_view text) {
  Sha256Digest digest;
  // An empty view may have no address, which OpenSSL takes for "no key" and "no text".
  const char* key_data = key.empty() ? "" : key.data();
  const char* text_data = text.empty() ? "" : text.data();
  Require(HMAC(EVP_sha256(), key_data, static_cast<int>(key.size()), reinterpret_cast<const unsigned char*>(text_data),
               text.size(), digest.data(), nullptr) != nullptr);
  return digest;
}

std::string Base64(const void* data, size_t size) {
  std::string out(4 * ((size + 2) / 3), '\0');
  EVP_EncodeBlock(reinterpret_cast<unsigned char*>(out.data()), static_cast<const unsigned char*>(data), static_cast<int>(size));
  return out;
}

std::string ToHex(const Sha256Digest& digest) { return Hex(digest.data(), digest.size()); }

}  // namespace headrace
