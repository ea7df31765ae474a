// The shared files of the AWS tools, ~/.aws/credentials and ~/.aws/config, and the credentials that a profile in them names.
//
// In the credentials file a profile's section is [dev], in the config file [profile dev]; only [default] is the same in both.
// Where both files have a value, the credentials file wins.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "store/s3/credentials_search.h"
#include "store/s3/ini.h"

namespace headrace {

class SharedFiles {
 public:
  static Result<SharedFiles> Load(const Surroundings& surroundings);

  bool Has(const std::string& profile) const { return InCredentials(profile) != nullptr || InConfig(profile) != nullptr; }
  const IniSection* InCredentials(const std::string& profile) const;
  const IniSection* InConfig(const std::string& profile) const;
  // The value from either file; an empty one counts as none.
  std::optional<std::string> Value(const std::string& profile, const std::string& name) const;
  // The endpoint that the profile sets for a service ("s3", "sts"): in its [services …], or for all of them.
  Result<std::optional<std::string>> Endpoint(const std::string& profile, const std::string& service) const;

  const IniFile& credentials() const { return credentials_; }
  const IniFile& config() const { return config_; }
  // What was looked at, for messages: "~/.aws/credentials does not exist, /etc/aws/config has no profile dev".
  std::string Explain(const std::string& profile) const;
  // Why a file that is there could not be read; ok otherwise.
  const Status& unreadable() const { return unreadable_; }

 private:
  Status LoadOne(const Surroundings& surroundings, const std::string& variable, const std::string& standard, IniFile& file);

  IniFile credentials_, config_;
  std::vector<std::string> absent_;  // a sentence for each file that is not there
  Status unreadable_;
};

// The profile that counts, and whether somebody asked for it.
struct ChosenProfile {
  std::string name = "default";
  bool asked = false;
};
ChosenProfile ChooseProfile(const std::optional<std::string>& option, const Surroundings& surroundings);

// The files, in which the profile that somebody asked for is certain to be.
Result<SharedFiles> LoadFilesFor(const ChosenProfile& profile, const Surroundings& surroundings);

// Static keys and `credential_process` of the profile that counts.
Result<CredentialFinding> LookInProfile(const CredentialSearch& search, const Deadline& deadline);
// The same of any profile.
Result<CredentialFinding> LookInProfile(const CredentialSearch& search, const SharedFiles& files, const std::string& profile,
                                        const Deadline& deadline);

}  // namespace headrace
