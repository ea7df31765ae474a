#include "base/hash.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>

#include "base/text.h"

namespace headrace {

Sha256::Sha256() : context_(EVP_MD_CTX_new()) { EVP_DigestInit_ex(static_cast<EVP_MD_CTX*>(context_), EVP_sha256(), nullptr); }

Sha256::~Sha256() { EVP_MD_CTX_free(static_cast<EVP_MD_CTX*>(context_)); }

void Sha256::Update(const void* data, size_t size) { EVP_DigestUpdate(static_cast<EVP_MD_CTX*>(context_), data, size); }

Sha256Digest Sha256::Finish() {
  Sha256Digest digest;
  EVP_DigestFinal_ex(static_cast<EVP_MD_CTX*>(context_), digest.data(), nullptr);
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
  HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()), reinterpret_cast<const unsigned char*>(text.data()), text.size(),
       digest.data(), nullptr);
  return digest;
}

std::string Base64(const void* data, size_t size) {
  std::string out(4 * ((size + 2) / 3), '\0');
  EVP_EncodeBlock(reinterpret_cast<unsigned char*>(out.data()), static_cast<const unsigned char*>(data), static_cast<int>(size));
  return out;
}

std::string ToHex(const Sha256Digest& digest) { return Hex(digest.data(), digest.size()); }

}  // namespace headrace
