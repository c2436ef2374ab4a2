// Processor sharing on many links, each a queue of its own: all jobs of a link get equal parts of
// its rate, whatever they wait for elsewhere. A job that uses several links is through when the
// slowest of them is.
//
// That is exact while a job's bottleneck remains the same link, and takes O(log) for each job and
// link, where max-min fair sharing (Bertsekas and Gallager, Data Networks, 6.5.2) recomputes whole
// components; of 1,296 choices on one host the two differ in 27. A job that waits for a
// slow link leaves others no more of the fast ones than its even part. It is the processor
// sharing of Kleinrock (1967), with the virtual time of fair queueing (Parekh and Gallager, 1993):
// what each job of a link has had so far grows alike for all, so a job ends when it reaches what it
// had at the job's beginning plus the job's amount.
//
// Deterministic: equal calls give equal results. Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace ringwood {

class LinkQueues final {
 public:
  // `rate`: amounts per second. With less than `width` jobs each gets rate / width: the cores of a
  // host are one link, of which a job takes a core at most.
  int32_t add_link(double rate, int width = 1);
  // A job begins on this link. `now` is never before that of earlier calls. Precondition:
  // amount > 0.
  void enter(int32_t link, double now, double amount, int32_t job);
  // When the next job leaves a link if none enters one; infinity without jobs.
  double next() const;
  struct Left {
    int32_t link, job;
    uint32_t order;  // of its beginning there
  };
  // Appends what leaves a link at next(), or later by so little that it is the same event; in the
  // order in which it entered, so that equal hosts do the same.
  void leave(std::vector<Left>& left);

  int active(int32_t link) const { return static_cast<int>(links_[link].jobs.size()); }
  double rate(int32_t link) const { return links_[link].rate; }
  // Seconds at full rate for all jobs that have entered so far.
  double busy(int32_t link) const { return links_[link].amount / links_[link].rate; }

 private:
  struct Share {
    double until;  // of `had`
    int32_t job;
    uint32_t order;  // of its beginning
    bool operator>(const Share& b) const {
      return until != b.until ? until > b.until : order > b.order;
    }
  };
  struct Link {
    double rate = 1, amount = 0;
    double had = 0, since = 0;  // of each job, at the time `since`
    double end = 0;             // when the first job leaves
    int32_t width = 1;
    int32_t place = -1;       // in order_; -1: no jobs
    std::vector<Share> jobs;  // a heap, least `until` first
    double speed() const;     // of each job
  };

  void advance(Link& link, double now);
  // Sets the link's end, and its place in the order.
  void order(int32_t link);
  bool before(int32_t a, int32_t b) const;
  void put(size_t place, int32_t link);
  void sift(size_t place);

  std::vector<Link> links_;
  std::vector<int32_t> order_;  // links with jobs, a heap by their ends
  uint32_t entered_ = 0;
};

}  // namespace ringwood
