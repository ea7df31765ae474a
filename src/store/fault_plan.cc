#include "store/fault_plan.h"

#include <utility>

namespace headrace {

using std::chrono::milliseconds;
using std::chrono::seconds;

std::string_view FaultName(Fault::Kind kind) {
  switch (kind) {
    case Fault::kNone: return "none";
    case Fault::kRefuse: return "refuse";
    case Fault::kFailBefore: return "fail before";
    case Fault::kFailAfter: return "fail after";
    case Fault::kLandLate: return "land late";
    case Fault::kTwice: return "twice";
    case Fault::kAgainLater: return "again later";
    case Fault::kSayExists: return "say exists";
    case Fault::kSlow: return "slow";
    case Fault::kTruncate: return "truncate";
    case Fault::kFlip: return "flip";
    case Fault::kDrop: return "drop";
    case Fault::kIgnoreCondition: return "ignore condition";
    case Fault::kAcceptTwo: return "accept two";
    case Fault::kRacyCreate: return "racy create";
    case Fault::kIgnoreRange: return "ignore range";
    case Fault::kStaleRead: return "stale read";
    case Fault::kStaleList: return "stale list";
    case Fault::kLoseEntries: return "lose entries";
    case Fault::kPlusIsSpace: return "plus is space";
  }
  return "?";
}

FaultPlan& FaultPlan::Add(FaultRule rule) {
  rules.push_back(std::move(rule));
  return *this;
}

FaultPlan FaultPlan::Trouble(double probability) {
  FaultPlan plan;
  for (StoreOp op : kAllStoreOps) {
    plan.Sometimes(op, probability, Fault::Refuse(Code::kThrottled, seconds(1)));
    plan.Sometimes(op, probability, Fault::Refuse(Code::kUnavailable));
    plan.Sometimes(op, probability, Fault::FailBefore());
    plan.Sometimes(op, probability, Fault::FailBefore(Code::kThrottled, seconds(1)));
    plan.Sometimes(op, probability, Fault::FailAfter());
    plan.Sometimes(op, probability, Fault::FailAfter(Code::kTimeout));
    plan.Sometimes(op, probability, Fault::LandLate(milliseconds(1), seconds(5)));
    plan.Sometimes(op, probability, Fault::Twice());
    plan.Sometimes(op, probability, Fault::AgainLater(milliseconds(1), seconds(5)));
    plan.Sometimes(op, probability, Fault::Slow(milliseconds(100), seconds(3)));
  }
  plan.Sometimes(StoreOp::kCreate, probability, Fault::FailBefore(Code::kConflict));  // 409: somebody is at it
  plan.Sometimes(StoreOp::kCreate, probability, Fault::SayExists());
  return plan;
}

}  // namespace headrace
