// Finds credentials in its own surroundings, as a store would, so that a test can compare us with the AWS tools:
//   credentials_tool [--profile NAME] [--region NAME]
// Each line on standard input is a word: `get` answers with one JSON object, `invalidate` says that the last ones were refused.
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>

#include "base/thread_executor.h"
#include "store/s3/credentials.h"
#include "store/s3/credentials_answer.h"
#include "store/s3/curl_engine.h"

int main(int argc, char** argv) {
  using namespace headrace;
  CredentialOptions options;
  for (int i = 1; i + 1 < argc; i += 2) {
    if (std::string(argv[i]) == "--profile") options.profile = argv[i + 1];
    if (std::string(argv[i]) == "--region") options.region = argv[i + 1];
  }
  ThreadExecutor executor;
  Result<std::shared_ptr<HttpClient>> http = MakeCurlEngine();
  if (!http.ok()) {
    std::cerr << http.status().ToString() << "\n";
    return 1;
  }
  auto source = MakeCredentialChain(options, Surroundings::Process(), *http, executor);
  Credentials last;
  for (std::string word; std::getline(std::cin, word);) {
    if (word == "invalidate") {
      source->Invalidate(last);
      continue;
    }
    Result<Credentials> found = source->Get(Deadline::After(RealClock(), std::chrono::seconds(30)));
    nlohmann::json answer;
    if (found.ok()) {
      last = *found;
      answer = {{"access_key_id", found->access_key_id},
                {"secret_access_key", found->secret_access_key},
                {"session_token", found->session_token},
                {"origin", found->origin}};
      if (found->expires) answer["expires"] = FormatTimestamp(*found->expires);
    } else {
      answer = {{"code", CodeName(found.code())}, {"error", found.status().message()}};
    }
    std::cout << answer.dump() << std::endl;
  }
}
