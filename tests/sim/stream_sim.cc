// Simulates streams from seeds.
//
//   stream_sim --seeds 2000 [--from N] [--jobs 2]   many runs; a failure prints the line that replays it
//   stream_sim --seed N [--break RULE]              one run, with all it has to say
//   stream_sim --mutations [--most 400]             breaks each rule in turn and counts the seeds until somebody notices
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "base/text.h"
#include "sim/rule_names.h"
#include "sim/world.h"

namespace headrace {
namespace {

bool RunOne(uint64_t seed, const Rules& rules, bool talk, const std::string& how) {
  Outcome outcome = World(seed, rules).Run();
  if (talk) {
    std::printf(
        "seed %lu: %lu steps, %lu manifests, %lu deaths, %lu faults, %lu jumps of clocks, %lu slots brought back, fingerprint %016lx\n",
        seed, outcome.steps, outcome.manifests, outcome.deaths, outcome.faults, outcome.jumps, outcome.zombies,
        outcome.fingerprint);
  }
  if (!outcome.violations.empty() && !how.empty()) {
    std::printf("FAILED  replay: stream_sim --seed %lu%s\n", seed, how == "-" ? "" : how.c_str());
    for (const std::string& violation : outcome.violations) std::printf("    %s\n", violation.c_str());
  }
  return outcome.violations.empty();
}

int RunSeeds(uint64_t from, uint64_t count) {
  uint64_t failed = 0;
  Instant began = RealClock().Now();
  for (uint64_t seed = from; seed < from + count; ++seed) {
    if (!RunOne(seed, {}, false, "-")) ++failed;
    // The same seed must give the same run.
    if (seed % 97 == 0 && World(seed, {}).Run().fingerprint != World(seed, {}).Run().fingerprint) {
      std::printf("FAILED  seed %lu does not replay\n", seed);
      ++failed;
    }
    if (failed >= 5) break;
  }
  double seconds = std::chrono::duration<double>(RealClock().Now() - began).count();
  std::printf("%lu seeds in %.1f s, %lu failed\n", count, seconds, failed);
  return failed == 0 ? 0 : 1;
}

int RunMutations(uint64_t most, const std::string& only) {
  int missed = 0;
  std::printf("%-24s seeds until noticed\n", "broken rule");
  for (const NamedRule& rule : AllRules()) {
    if (!only.empty() && only != rule.name) continue;
    uint64_t seed = 0;
    // A seed counts only if nothing is noticed while the rule holds.
    while (seed < most && (RunOne(seed, rule.broken, false, "") || !RunOne(seed, {}, false, ""))) ++seed;
    if (seed == most) {
      ++missed;
      std::printf("%-24s not noticed in %lu\n", rule.name, most);
    } else {
      std::printf("%-24s %lu\n", rule.name, seed + 1);
    }
    std::fflush(stdout);
  }
  return missed == 0 ? 0 : 1;
}

}  // namespace
}  // namespace headrace

int main(int argc, char** argv) {
  using namespace headrace;
  std::map<std::string, std::string> options;
  for (int i = 1; i < argc; ++i) {
    std::string name = argv[i];
    bool has_value = i + 1 < argc && std::strncmp(argv[i + 1], "--", 2) != 0;
    options[name] = has_value ? argv[++i] : "";
  }
  auto number = [&](const std::string& name, uint64_t otherwise) {
    uint64_t value = otherwise;
    if (options.contains(name)) ParseNumber(options[name], value);
    return value;
  };
  std::string broken = options["--break"];
  Rules rules = RulesWithout(broken);
  if (options.contains("--mutations")) return RunMutations(number("--most", 400), broken);
  if (options.contains("--seed")) return RunOne(number("--seed", 0), rules, true, "-") ? 0 : 1;
  return RunSeeds(number("--from", 0), number("--seeds", 200));
}
