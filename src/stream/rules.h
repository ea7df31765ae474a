// The rules of the stream's protocol; docs/design names the interleaving that each one excludes.
#pragma once

#include "base/rules.h"

namespace headrace {

enum class StreamRule {
  kCheckUuid = 16,         // an edit names its stream
  kCheckEpoch,             // an edit's epoch is the strand's in the manifest that it extends
  kCheckPrev,              // an edit continues the strand's chain
  kCheckMixture,           // a block is drawn with the mixture in force for it
  kStepsByBlock,           // a block has as many steps as its number says, whatever its bytes
  kParkByDistance,         // how far ahead a block may be parked is a distance from the frontier, not a count
  kValidateAtRebase,       // an edit is checked against the manifest that it extends, again at every rebase
  kAcknowledgeByName,      // a writer's chunk is in when its name is found, not when its sequence number has passed
  kStaleIsUndecided,       // a create that landed below a marker is looked up, not reported as lost
  kResumeFromFooter,       // a strand goes on from the state in its last chunk
  kNeverAdopt,             // a chunk of another epoch is never taken over
  kDoubleTimeout,          // the wait before a take-over doubles with every bump that brought no chunk
  kTrimAtRebase,           // the trim point is lowered to the lowest pin of the manifest that it extends
  kKeepLastBeforeTrim,     // the last chunk of each strand before the trim point stays
  kSweepOnlyBehind,        // an unreferenced chunk is an orphan only if its epoch or sequence is behind
  kSweepSegmentsBehind,    // an unreferenced segment is an orphan only if its range is sealed otherwise
  kDeleteIntents,          // intents that were carried or refused are deleted
  kReserve,                // tables refuse growth before they are full, so that unpin, trim and seal always fit
  kSealAfterEnds,          // a stream is sealed only when every strand has ended and nothing is parked
};

}  // namespace headrace
