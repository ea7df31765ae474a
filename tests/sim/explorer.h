// All interleavings of the store calls of a few actors.
//
// Every store call of an actor is a point where a scheduler decides who goes on, and whether the call is struck by a fault: its answer is
// lost, its effect comes later, or the actor dies. The scheduler tries every decision at every point, by running the whole case again
// with other decisions (the code under test has no state that could be put back).
//
// Two interleavings that lead to the same state have the same future, so it is explored once. A state is what the store holds, what is
// on its way, and what each actor has been told so far: actors are deterministic, have their own clocks, and learn of each other
// through the store alone. So nothing is left out; `Summary::interleavings` counts those that were covered.
//
// A call that nobody else's calls can touch any more (a get of a slot that is there, while nobody is left who deletes) happens at once:
// it makes no difference when.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/simulation.h"
#include "sim/history.h"
#include "stream/stream_log.h"

namespace headrace {

// One case: who is there, and what they do.
struct Case {
  struct Actor {
    std::string name;
    bool deletes = false;  // lists data/ and deletes objects for good
    bool lucky = false;  // no fault strikes it, and it does not die
    // What it does before the exploration begins, one actor after the other; then what is explored.
    std::function<std::function<void()>(StreamContext context, History& history)> start;
  };

  std::string name;
  StreamInfo info;
  int faults = 1;  // answers that are lost, and effects that come late, in one run
  int deaths = 1;  // actors that die, in one run
  Discipline discipline = Discipline::kCombine;
  std::vector<Actor> actors;
  // Fills the stream before the actors start.
  std::function<void(StreamContext context, History& history)> prologue;
  // In peace, when everybody is done or dead.
  std::function<void(StreamContext context, History& history)> epilogue;
};

struct Summary {
  double interleavings = 0;
  uint64_t states = 0;
  uint64_t runs = 0;
  size_t longest = 0;  // store calls in one run
  bool complete = false;  // false: it was stopped by `most_runs` or by a violation
  std::vector<std::string> violations;
  std::string path;  // of the violation, as `Explore` takes it
};

class Explorer {
 public:
  Explorer(const Case& what, Rules rules) : case_(what), rules_(rules) {}

  // Until everything is explored or something is wrong.
  Summary Explore(uint64_t most_runs);
  // One run, by the decisions that a summary's `path` tells; prints each of them.
  Summary Replay(const std::string& path);

 private:
  friend class ExploredRun;
  struct Node {
    uint64_t state = 0;
    size_t choices = 0;
    size_t chosen = 0;
    double interleavings = 0;
  };
  std::string PathText() const;

  const Case& case_;
  const Rules rules_;
  std::vector<Node> stack_;
  std::unordered_map<uint64_t, double> known_;  // states that were explored, and the interleavings from there on
};

}  // namespace headrace
