#include "sim/rule_names.h"

#include "log/log.h"
#include "stream/rules.h"

namespace headrace {

#define LOG_RULE(rule) {#rule, Rules::Without(LogRule::rule)}
#define STREAM_RULE(rule) {#rule, Rules::Without(StreamRule::rule)}
const std::vector<NamedRule>& AllRules() {
  static const std::vector<NamedRule> rules = {
      LOG_RULE(kLookUpTheOutcome),      LOG_RULE(kCheckMarkerOnRead),   LOG_RULE(kCheckMarkerOnWrite),
      LOG_RULE(kImmutableMarkers),      LOG_RULE(kMarkerBeforeDelete),  STREAM_RULE(kCheckUuid),
      STREAM_RULE(kCheckEpoch),         STREAM_RULE(kCheckPrev),        STREAM_RULE(kCheckMixture),
      STREAM_RULE(kStepsByBlock),       STREAM_RULE(kParkByDistance),   STREAM_RULE(kValidateAtRebase),
      STREAM_RULE(kAcknowledgeByName),  STREAM_RULE(kStaleIsUndecided), STREAM_RULE(kResumeFromFooter),
      STREAM_RULE(kNeverAdopt),         STREAM_RULE(kDoubleTimeout),    STREAM_RULE(kTrimAtRebase),
      STREAM_RULE(kKeepLastBeforeTrim), STREAM_RULE(kSweepOnlyBehind),  STREAM_RULE(kSweepSegmentsBehind),
      STREAM_RULE(kDeleteIntents),      STREAM_RULE(kReserve),          STREAM_RULE(kSealAfterEnds),
  };
  return rules;
}

Rules RulesWithout(const std::string& name) {
  for (const NamedRule& rule : AllRules()) {
    if (name == rule.name) return rule.broken;
  }
  return {};
}

}  // namespace headrace
