#include "store/s3/credentials_refresh.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>

#include "base/log.h"
#include "base/simulation.h"
#include "base/text.h"
#include "base/thread_executor.h"

namespace headrace {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;
using testing::Not;

// A giver of numbered credentials, each good for `lifetime`.
class Renewal : public testing::Test {
 protected:
  Renewal() {
    SetLogSink([this](std::string_view line) { log_ += line; });
  }
  ~Renewal() override { SetLogSink(nullptr); }

  Result<Credentials> Fetch(const Deadline& deadline) {
    ++fetches_;
    EXPECT_FALSE(busy_) << "two fetches at a time";
    busy_ = true;
    simulation_.SleepUntil(std::min(simulation_.Now() + latency_, deadline.at()), deadline.stop());
    Status late = deadline.Check(simulation_, "fetching");
    busy_ = false;
    if (!late.ok()) return late;
    if (!failure_.ok()) return failure_;
    Credentials credentials;
    credentials.access_key_id = Cat("key-", stuck_ ? 1 : fetches_);
    credentials.secret_access_key = "hush";
    credentials.session_token = "mum";
    credentials.origin = "the test";
    if (lifetime_ != Duration::zero()) credentials.expires = simulation_.WallNow() + lifetime_;
    return credentials;
  }

  std::string Get(Deadline deadline = {}) {
    Result<Credentials> credentials = source_->Get(deadline);
    return credentials.ok() ? credentials->access_key_id : credentials.status().ToString();
  }

  Simulation simulation_{7};
  std::string log_;
  int fetches_ = 0;
  bool busy_ = false, stuck_ = false;
  Duration lifetime_ = 1h, latency_ = 200ms;
  Status failure_;
  std::unique_ptr<RefreshingCredentials> source_ = std::make_unique<RefreshingCredentials>(
      [this](const Deadline& deadline) { return Fetch(deadline); }, simulation_, Random(3));
};

TEST_F(Renewal, AsksNobodyBeforeTheFirstGet) {
  simulation_.Run();
  EXPECT_EQ(fetches_, 0);
}

TEST_F(Renewal, KeepsGoodOnes) {
  simulation_.Run([&] {
    for (int minute = 0; minute < 54; ++minute) {
      EXPECT_EQ(Get(), "key-1");
      simulation_.SleepFor(1min);
    }
  });
  EXPECT_EQ(fetches_, 1);
}

TEST_F(Renewal, CredentialsWithoutAnEndAreFetchedOnce) {
  lifetime_ = Duration::zero();
  simulation_.Run([&] {
    EXPECT_EQ(Get(), "key-1");
    simulation_.SleepFor(24h * 365);
    EXPECT_EQ(Get(), "key-1");
  });
  EXPECT_EQ(fetches_, 1);
}

TEST_F(Renewal, ComesMinutesBeforeTheEndAndNobodyWaitsForIt) {
  latency_ = 30s;
  simulation_.Run([&] {
    EXPECT_EQ(Get(), "key-1");
    simulation_.SleepFor(1h - 4min);
    Instant before = simulation_.Now();
    EXPECT_EQ(Get(), "key-1");
    EXPECT_EQ(Get(), "key-1");
    EXPECT_EQ(simulation_.Now(), before);
    simulation_.SleepFor(31s);
    EXPECT_EQ(Get(), "key-2");
  });
  EXPECT_EQ(fetches_, 2);
}

TEST_F(Renewal, OfShortLivesComesLater) {
  lifetime_ = 20s;
  simulation_.Run([&] {
    EXPECT_EQ(Get(), "key-1");
    simulation_.SleepFor(14s);
    EXPECT_EQ(Get(), "key-1");
    simulation_.SleepFor(500ms);
    EXPECT_EQ(fetches_, 1);
    simulation_.SleepFor(2s);
    EXPECT_EQ(Get(), "key-1");
    simulation_.SleepFor(500ms);
    EXPECT_EQ(Get(), "key-2");
  });
}

TEST_F(Renewal, OfManyMachinesIsSpread) {
  std::vector<Duration> times;
  for (uint64_t machine = 0; machine < 20; ++machine) {
    Simulation simulation(1);
    int fetches = 0;
    RefreshingCredentials source(
        [&](const Deadline&) -> Result<Credentials> {
          ++fetches;
          return Credentials{"a", "b", "c", simulation.WallNow() + 1h, "the test"};
        },
        simulation, Random(machine));
    simulation.Run([&] {
      Instant start = simulation.Now();
      while (fetches < 2) {
        EXPECT_TRUE(source.Get({}).ok());
        simulation.SleepFor(1s);
      }
      times.push_back(simulation.Now() - start);
    });
  }
  auto [first, last] = std::minmax_element(times.begin(), times.end());
  EXPECT_GE(*first, 1h - 5min);
  EXPECT_LE(*last, 1h - 4min + 2s);
  EXPECT_GE(*last - *first, 20s);
}

TEST_F(Renewal, ManyCallersAtTheStartMakeOneFetch) {
  for (int caller = 0; caller < 50; ++caller) {
    simulation_.Spawn([&] { EXPECT_EQ(Get(), "key-1"); });
  }
  simulation_.Run();
  EXPECT_EQ(fetches_, 1);
  EXPECT_EQ(simulation_.stuck(), 0u);
}

TEST_F(Renewal, ManyCallersAfterTheEndMakeOneFetch) {
  simulation_.Run([&] {
    EXPECT_EQ(Get(), "key-1");
    simulation_.SleepFor(2h);
    for (int caller = 0; caller < 50; ++caller) {
      simulation_.Spawn([&] { EXPECT_EQ(Get(), "key-2"); });
    }
  });
  EXPECT_EQ(fetches_, 2);
}

TEST_F(Renewal, ManyCallersNearTheEndMakeOneFetch) {
  simulation_.Run([&] {
    EXPECT_EQ(Get(), "key-1");
    simulation_.SleepFor(1h - 3min);
    for (int caller = 0; caller < 50; ++caller) {
      simulation_.Spawn([&] { EXPECT_EQ(Get(), "key-1"); });
    }
    simulation_.SleepFor(1s);
    EXPECT_EQ(Get(), "key-2");
  });
  EXPECT_EQ(fetches_, 2);
}

TEST_F(Renewal, ThatFailsKeepsTheOldOnesAndIsTriedAgain) {
  simulation_.Run([&] {
    EXPECT_EQ(Get(), "key-1");
    simulation_.SleepFor(1h - 4min);
    failure_ = Status(Code::kUnavailable, "no route");
    for (int second = 0; second < 200; ++second) {
      EXPECT_EQ(Get(), "key-1");
      simulation_.SleepFor(1s);
    }
    EXPECT_GE(fetches_, 4);
    EXPECT_LE(fetches_, 40);
    EXPECT_THAT(log_, HasSubstr("cannot renew credentials yet"));
    EXPECT_THAT(log_, HasSubstr("no route"));
    failure_ = Status::Ok();
    EXPECT_THAT(Get(), HasSubstr("key-1"));
    simulation_.SleepFor(30s);
    Get();
    simulation_.SleepFor(1s);
    EXPECT_EQ(Get(), Cat("key-", fetches_));
  });
}

TEST_F(Renewal, ThatFailsToTheEndIsAnErrorOnlyThen) {
  simulation_.Run([&] {
    EXPECT_EQ(Get(), "key-1");
    failure_ = Status(Code::kUnavailable, "no route");
    simulation_.SleepFor(1h - 5s);
    EXPECT_EQ(Get(), "key-1");
    simulation_.SleepFor(6s);
    EXPECT_EQ(Get(), "Unavailable: no route");
    failure_ = Status::Ok();
    simulation_.SleepFor(2s);
    EXPECT_THAT(Get(), HasSubstr("key-"));
  });
}

TEST_F(Renewal, AFailureIsNotAskedForAgainByEveryWaiter) {
  failure_ = Status(Code::kDenied, "found none");
  for (int caller = 0; caller < 50; ++caller) {
    simulation_.Spawn([&] { EXPECT_EQ(Get(), "Denied: found none"); });
  }
  simulation_.Run();
  EXPECT_EQ(fetches_, 1);
}

TEST_F(Renewal, ACallerWithoutTimeFailsAlone) {
  latency_ = 5s;
  simulation_.Spawn([&] { EXPECT_THAT(Get(Deadline::After(simulation_, 1s)), HasSubstr("Timeout")); });
  simulation_.Spawn([&] {
    simulation_.SleepFor(100ms);
    EXPECT_THAT(Get(Deadline::After(simulation_, 1min)), HasSubstr("key-"));
  });
  simulation_.Run();
  EXPECT_EQ(simulation_.stuck(), 0u);
}

TEST_F(Renewal, AWaiterGivesUpAtItsDeadlineAndWhenItIsStopped) {
  latency_ = 5s;
  std::stop_source stop;
  simulation_.Spawn([&] { EXPECT_EQ(Get(), "key-1"); });
  simulation_.Spawn([&] {
    simulation_.SleepFor(100ms);
    EXPECT_THAT(Get(Deadline::After(simulation_, 1s)), HasSubstr("Timeout"));
    EXPECT_EQ(simulation_.Now().time_since_epoch(), 1100ms);
  });
  simulation_.Spawn([&] {
    simulation_.SleepFor(100ms);
    EXPECT_THAT(Get(Deadline::OnlyStop(stop.get_token())), HasSubstr("Cancelled"));
    EXPECT_EQ(simulation_.Now().time_since_epoch(), 2s);
  });
  simulation_.Spawn([&] {
    simulation_.SleepFor(2s);
    stop.request_stop();
  });
  simulation_.Run();
  EXPECT_EQ(simulation_.stuck(), 0u);
  EXPECT_EQ(fetches_, 1);
}

TEST_F(Renewal, RefusedOnesAreReplacedAtOnce) {
  simulation_.Run([&] {
    Result<Credentials> first = source_->Get({});
    ASSERT_TRUE(first.ok());
    source_->Invalidate(*first);
    EXPECT_EQ(Get(), "key-2");
    // A late word about the old ones does not cost the new ones.
    source_->Invalidate(*first);
    EXPECT_EQ(Get(), "key-2");
  });
  EXPECT_EQ(fetches_, 2);
}

TEST_F(Renewal, RefusedOnesAreNeverHandedOutAgain) {
  stuck_ = true;
  simulation_.Run([&] {
    Result<Credentials> first = source_->Get({});
    ASSERT_TRUE(first.ok());
    source_->Invalidate(*first);
    for (int i = 0; i < 5; ++i) {
      std::string answer = Get();
      EXPECT_THAT(answer, HasSubstr("Expired: the credentials from the test (access key key-1) were refused as expired"));
      EXPECT_THAT(answer, Not(HasSubstr("hush")));
      EXPECT_THAT(answer, Not(HasSubstr("mum")));
      simulation_.SleepFor(2s);
    }
    stuck_ = false;
    EXPECT_THAT(Get(), HasSubstr("key-"));
  });
}

TEST_F(Renewal, CredentialsThatHaveEndedAlreadyAreAnError) {
  lifetime_ = -1min;
  simulation_.Run([&] { EXPECT_THAT(Get(), HasSubstr("ended at 20")); });
}

TEST_F(Renewal, FollowsTheCalendarAndIsNotFooledByIt) {
  simulation_.Run([&] {
    EXPECT_EQ(Get(), "key-1");
    simulation_.JumpWallClock(2h);
    EXPECT_EQ(Get(), "key-2");
    simulation_.JumpWallClock(-24h);
    simulation_.SleepFor(61min);
    EXPECT_EQ(Get(), "key-3");
  });
}

TEST_F(Renewal, IsNotInTheWayOfTheEnd) {
  simulation_.Run([&] {
    EXPECT_EQ(Get(), "key-1");
    simulation_.SleepFor(1h - 4min);
    latency_ = 1min;
    Get();
    simulation_.SleepFor(1s);
    EXPECT_TRUE(busy_);
    source_.reset();
    simulation_.SleepFor(1ms);
    EXPECT_FALSE(busy_);
  });
}

TEST(RenewalOnThreads, ManyCallersAndRefusalsMakeOneFetchAtATime) {
  std::atomic<int> fetches = 0, at_once = 0;
  ThreadExecutor executor;
  RefreshingCredentials source(
      [&](const Deadline&) -> Result<Credentials> {
        EXPECT_EQ(++at_once, 1);
        int number = ++fetches;
        RealClock().SleepFor(2ms);
        --at_once;
        if (number % 5 == 0) return Status(Code::kUnavailable, "not now");
        return Credentials{Cat("key-", number), "hush", "mum", RealClock().WallNow() + 60ms, "the test"};
      },
      executor, Random(1));
  std::atomic<int> good = 0;
  // Until a fetch was refused and others went well, however long that takes here.
  const Instant give_up = RealClock().Now() + 2min;
  auto enough = [&] { return (good >= 500 && fetches >= 7) || RealClock().Now() > give_up; };
  {
    std::vector<std::jthread> callers;
    for (int caller = 0; caller < 8; ++caller) {
      callers.emplace_back([&, caller] {
        for (int i = 0; !enough(); ++i) {
          Result<Credentials> found = source.Get(Deadline::After(RealClock(), 2min));
          if (found.ok()) {
            ++good;
          } else {
            // On a busy machine they may be over before they are seen.
            EXPECT_TRUE(found.code() == Code::kUnavailable || found.code() == Code::kExpired) << found.status().ToString();
          }
          if (found.ok() && caller == 0 && i % 50 == 0) source.Invalidate(*found);
          if (i % 8 == 0) RealClock().SleepFor(1ms);
        }
      });
    }
  }
  EXPECT_GE(good, 500);
  EXPECT_GE(fetches, 7);
}

}  // namespace
}  // namespace headrace
