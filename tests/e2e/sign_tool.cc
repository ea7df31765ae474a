// Signs what stands on standard input, one JSON object a line, so that a test can compare us with another implementation:
//   {"method", "path", "query": [[name, value]…], "headers": [[name, value]…], "payload_hash", "region", "service", "key", "secret", "time"}
// Answers each with {"canonical_request", "string_to_sign", "signature"}. `time` is in seconds since 1970.
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>

#include "store/s3/signer.h"

int main() {
  for (std::string line; std::getline(std::cin, line);) {
    auto in = nlohmann::json::parse(line);
    headrace::Credentials credentials;
    credentials.access_key_id = in["key"];
    credentials.secret_access_key = in["secret"];
    headrace::Signature got = headrace::Signer(in["region"], in["service"])
                                  .Sign({in["method"], in["path"], in["query"], in["headers"], in["payload_hash"]}, credentials,
                                        headrace::WallTime(std::chrono::seconds(in["time"].get<int64_t>())));
    nlohmann::json out{
        {"canonical_request", got.canonical_request}, {"string_to_sign", got.string_to_sign}, {"signature", got.signature}};
    std::cout << out.dump() << "\n";
  }
}
