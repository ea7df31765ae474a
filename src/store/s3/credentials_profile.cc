#include "store/s3/credentials_profile.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/text.h"
#include "store/s3/credentials_answer.h"

namespace headrace {
namespace {

// [profile dev], [profile "dev"], [services  x]: the name behind `kind`, or nothing.
std::optional<std::string> SectionName(const std::string& section, std::string_view kind) {
  if (!section.starts_with(kind)) return std::nullopt;
  std::string_view rest = std::string_view(section).substr(kind.size());
  if (rest.empty() || (rest.front() != ' ' && rest.front() != '\t')) return std::nullopt;
  rest = Trim(rest);
  if (rest.size() >= 2 && (rest.front() == '"' || rest.front() == '\'') && rest.back() == rest.front())
    rest = rest.substr(1, rest.size() - 2);
  return std::string(rest);
}

const IniSection* FindNamed(const IniFile& file, std::string_view kind, const std::string& name) {
  for (const auto& [section, values] : file.sections) {
    if (SectionName(section, kind) == name) return &values;
  }
  return nullptr;
}

std::string TextOf(const IniSection& section, const std::string& name) {
  const IniValue* value = section.Find(name);
  return value == nullptr ? "" : value->text;
}

std::string Where(const IniFile& file, const IniSection& section) { return Cat(file.path, ":", section.line); }

// The static keys of one section, if it has any.
Result<std::optional<Credentials>> StaticKeys(const IniFile& file, const IniSection* section, const std::string& profile) {
  if (section == nullptr) return std::optional<Credentials>();
  Credentials credentials;
  credentials.access_key_id = TextOf(*section, "aws_access_key_id");
  credentials.secret_access_key = TextOf(*section, "aws_secret_access_key");
  credentials.session_token = TextOf(*section, "aws_session_token");
  if (credentials.session_token.empty()) credentials.session_token = TextOf(*section, "aws_security_token");
  credentials.origin = Cat("profile ", profile);
  if (credentials.access_key_id.empty()) return std::optional<Credentials>();
  if (credentials.secret_access_key.empty()) {
    return Status(Code::kInvalidArgument, Cat(Where(file, *section), ": profile ", profile,
                                              " has aws_access_key_id but no aws_secret_access_key: credentials need both"));
  }
  Status legal = CheckCredentials(credentials);
  if (!legal.ok()) return legal.Annotate(Where(file, *section));
  return std::optional<Credentials>(std::move(credentials));
}

Result<Credentials> RunProcess(const CredentialSearch& search, std::string command, const std::string& profile,
                               const Deadline& deadline) {
  const std::string origin = Cat("credential_process of profile ", profile);
  // A command that goes on in the next line of the file is still one command.
  std::replace(command.begin(), command.end(), '\n', ' ');
  Result<std::string> output = search.surroundings.run(command, deadline.NotAfter(search.clock.Now() + std::chrono::minutes(1)));
  if (!output.ok()) return output.status().Annotate(origin);
  Result<Credentials> credentials = ParseCredentialsJson(*output, "SessionToken", origin);
  nlohmann::json object = nlohmann::json::parse(*output, nullptr, /*allow_exceptions=*/false);
  if (object.is_object() && object.value("Version", nlohmann::json()) != 1) {
    return Status(Code::kUnsupported, Cat("the answer of ", origin, " does not say `\"Version\": 1`, the only version there is"));
  }
  return credentials;
}

std::optional<std::string> Home(const Surroundings& surroundings, const std::string& path) {
  if (!path.starts_with("~/")) return path;
  std::optional<std::string> home = surroundings.env("HOME");
  if (!home) return std::nullopt;
  return *home + path.substr(1);
}

}  // namespace

Status SharedFiles::LoadOne(const Surroundings& surroundings, const std::string& variable, const std::string& standard,
                            IniFile& file) {
  std::optional<std::string> given = surroundings.env(variable);
  std::optional<std::string> path = Home(surroundings, given.value_or(standard));
  if (!path) {
    absent_.push_back(Cat(given.value_or(standard), " cannot be found because HOME is not set"));
    return Status::Ok();
  }
  file.path = *path;
  Result<std::optional<std::string>> text = surroundings.read(*path);
  if (!text.ok()) {
    // Another user's home in a container is no reason to fail, unless the profile in it is needed.
    absent_.push_back(text.status().message());
    unreadable_ = text.status();
    return Status::Ok();
  }
  if (!*text) {
    absent_.push_back(Cat(*path, given ? Cat(" (from ", variable, ")") : "", " does not exist"));
    return Status::Ok();
  }
  HR_ASSIGN_OR_RETURN(file, ParseIni(**text, *path));
  return Status::Ok();
}

Result<SharedFiles> SharedFiles::Load(const Surroundings& surroundings) {
  SharedFiles files;
  HR_RETURN_IF_ERROR(files.LoadOne(surroundings, "AWS_SHARED_CREDENTIALS_FILE", "~/.aws/credentials", files.credentials_));
  HR_RETURN_IF_ERROR(files.LoadOne(surroundings, "AWS_CONFIG_FILE", "~/.aws/config", files.config_));
  return files;
}

const IniSection* SharedFiles::InCredentials(const std::string& profile) const { return credentials_.Find(profile); }

const IniSection* SharedFiles::InConfig(const std::string& profile) const {
  const IniSection* section = FindNamed(config_, "profile", profile);
  return section == nullptr && profile == "default" ? config_.Find(profile) : section;
}

std::optional<std::string> SharedFiles::Value(const std::string& profile, const std::string& name) const {
  for (const IniSection* section : {InCredentials(profile), InConfig(profile)}) {
    const IniValue* value = section == nullptr ? nullptr : section->Find(name);
    if (value != nullptr && !value->text.empty()) return value->text;
  }
  return std::nullopt;
}

Result<std::optional<std::string>> SharedFiles::Endpoint(const std::string& profile, const std::string& service) const {
  if (std::optional<std::string> services = Value(profile, "services")) {
    const IniSection* section = FindNamed(config_, "services", *services);
    if (section == nullptr) {
      return Status(Code::kInvalidArgument, Cat(config_.path, ": profile ", profile, " says `services = ", *services,
                                                "`, but there is no [services ", *services, "]"));
    }
    const IniValue* value = section->Find(service);
    if (value != nullptr) {
      auto found = value->nested.find("endpoint_url");
      if (found != value->nested.end() && !found->second.empty()) return std::optional(found->second);
    }
  }
  return Value(profile, "endpoint_url");
}

std::string SharedFiles::Explain(const std::string& profile) const {
  std::string text;
  auto add = [&](const std::string& sentence) { text += Cat(text.empty() ? "" : ", ", sentence); };
  for (const std::string& sentence : absent_) add(sentence);
  auto explain = [&](const IniFile& file, const IniSection* section, const std::string& wrong_name,
                     const std::string& right_name) {
    if (file.sections.empty()) return;
    if (section != nullptr) {
      add(Cat(Where(file, *section), ": [", right_name, "] has neither keys nor credential_process"));
    } else if (file.Find(wrong_name) != nullptr) {
      add(Cat(file.path, " has [", wrong_name, "], which must be called [", right_name, "] in this file"));
    } else {
      add(Cat(file.path, " has no [", right_name, "]"));
    }
  };
  explain(credentials_, InCredentials(profile), Cat("profile ", profile), profile);
  explain(config_, InConfig(profile), profile == "default" ? "" : profile,
          profile == "default" ? profile : Cat("profile ", profile));
  return text;
}

ChosenProfile ChooseProfile(const std::optional<std::string>& option, const Surroundings& surroundings) {
  if (option && !option->empty()) return {*option, true};
  for (const char* variable : {"AWS_PROFILE", "AWS_DEFAULT_PROFILE"}) {
    if (std::optional<std::string> name = surroundings.env(variable)) return {*name, true};
  }
  return {};
}

Result<SharedFiles> LoadFilesFor(const ChosenProfile& profile, const Surroundings& surroundings) {
  HR_ASSIGN_OR_RETURN(SharedFiles files, SharedFiles::Load(surroundings));
  // A chosen "default" need not exist: it is what one gets without a choice.
  if (!profile.asked || profile.name == "default" || files.Has(profile.name)) return files;
  if (!files.unreadable().ok()) return files.unreadable().Annotate(Cat("profile ", profile.name));
  return Status(Code::kInvalidArgument, Cat("there is no profile ", profile.name, ": ", files.Explain(profile.name)));
}

Result<CredentialFinding> LookInProfile(const CredentialSearch& search, const SharedFiles& files, const std::string& profile,
                                        const Deadline& deadline) {
  HR_ASSIGN_OR_RETURN(std::optional<Credentials> keys, StaticKeys(files.credentials(), files.InCredentials(profile), profile));
  if (keys) return CredentialFinding::Found(*std::move(keys));
  if (std::optional<std::string> command = files.Value(profile, "credential_process")) {
    HR_ASSIGN_OR_RETURN(Credentials credentials, RunProcess(search, *command, profile, deadline));
    return CredentialFinding::Found(std::move(credentials));
  }
  HR_ASSIGN_OR_RETURN(keys, StaticKeys(files.config(), files.InConfig(profile), profile));
  if (keys) return CredentialFinding::Found(*std::move(keys));
  for (const char* setting : {"sso_session", "sso_start_url", "login_session"}) {
    if (!files.Value(profile, setting)) continue;
    return Status(Code::kUnsupported, Cat("profile ", profile, " signs in with ", setting,
                                          ", which Headrace does not do itself. Let the AWS command do it: add\n  ",
                                          "credential_process = aws configure export-credentials --profile ", profile,
                                          " --format process\n", "to another profile and use that one, after `aws sso login`"));
  }
  return CredentialFinding::Nothing(files.Explain(profile));
}

Result<CredentialFinding> LookInProfile(const CredentialSearch& search, const Deadline& deadline) {
  ChosenProfile profile = ChooseProfile(search.options.profile, search.surroundings);
  HR_ASSIGN_OR_RETURN(SharedFiles files, LoadFilesFor(profile, search.surroundings));
  return LookInProfile(search, files, profile.name, deadline);
}

Result<std::optional<std::string>> ProfileSetting(const Surroundings& surroundings, const std::optional<std::string>& profile,
                                                  const std::string& name) {
  ChosenProfile chosen = ChooseProfile(profile, surroundings);
  HR_ASSIGN_OR_RETURN(SharedFiles files, LoadFilesFor(chosen, surroundings));
  if (name == "endpoint_url") return files.Endpoint(chosen.name, "s3");
  return files.Value(chosen.name, name);
}

}  // namespace headrace
