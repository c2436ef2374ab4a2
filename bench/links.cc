// What a link costs, for every row of the table of transports: half a round trip of small messages,
// and bytes per second one way and both ways at once.
//
//   bench_links --benchmark_filter='shm/.*'
//   RANK=... WORLD_SIZE=2 MASTER_ADDR=... MASTER_PORT=... bench_links verbs   on each of two hosts
//
// Two ranks that poll all the time: loopback's are threads, the others' processes. The second does
// what the first asks for. On two hosts they poll for a while and then sleep, as programs do.
#include <benchmark/benchmark.h>
#include <fmt/format.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "transports/base/wait_set.h"
#include "transports/bootstrap/launch.h"
#include "transports/bootstrap/net.h"
#include "transports/bootstrap/store.h"
#include "transports/transport.h"

namespace ringwood {
namespace {

enum class Mode : uint64_t { stop, ping_pong, one_way, both_ways };

// "Do that so many times."
struct Order {
  Mode mode;
  uint64_t bytes, times;
};

cpu_set_t own_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  ::sched_getaffinity(0, sizeof set, &set);
  return set;
}

// Rank i on the i-th core that the program may use, where there are two.
void pin(int rank) {
  static const cpu_set_t cores = own_cores();  // as they were before the first call
  for (int core = 0, seen = 0; core < CPU_SETSIZE && CPU_COUNT(&cores) >= 2; ++core) {
    if (!CPU_ISSET(core, &cores) || seen++ != rank) continue;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(core, &one);
    ::sched_setaffinity(0, sizeof one, &one);
    return;
  }
}

class Rank {
 public:
  // `master`: how the other host is reached; empty where both ranks are on this one.
  Rank(const TransportRow& row, std::shared_ptr<Store> store, const Identity& session, int rank,
       const std::string& master = "")
      : store_(std::move(store)), sleeps_(!master.empty()) {
    group_.identity = session;
    group_.identity.rank = rank;
    group_.identity.size = 2;
    group_.hosts = {"here", sleeps_ ? "there" : "here"};
    group_.options = &options_;
    group_.store = store_.get();
    group_.wait_set = &wait_set_;
    group_.deadline = Deadline::after(std::chrono::seconds(60));
    const std::string address =
        sleeps_ ? choose_local_address(options_, master, true).host : "127.0.0.1";
    const std::unique_ptr<Listener> listener = listen(group_.identity, address, options_);
    group_.listener = listener.get();
    group_.addresses.resize(2);
    store_->set(std::to_string(rank), to_string(listener->address()));
    for (int r = 0; r < 2; ++r) {
      group_.addresses[r] = store_->get(std::to_string(r), group_.deadline);
    }
    transport_ = row.make();
    links_ = transport_->connect(group_, {rank != 0, rank != 1}, 1);
    link_ = links_[0][1 - rank].get();
    if (link_ == nullptr) throw std::runtime_error("the ranks do not reach each other");
    if (!sleeps_) pin(rank);
  }

  void order(const Order& order) {
    send(&order, sizeof order);
    finish();
    carry_out(order, true);
  }

  void serve() {
    for (Order order{};;) {
      receive(&order, sizeof order);
      finish();
      if (order.mode == Mode::stop) return;
      carry_out(order, false);
    }
  }

 private:
  void carry_out(const Order& order, bool first) {
    if (out_.size() < order.bytes) out_.resize(order.bytes), in_.resize(order.bytes);
    for (uint64_t i = 0; i < order.times; ++i) {
      const bool both = order.mode == Mode::both_ways, back = order.mode == Mode::ping_pong;
      if (first || both) send(out_.data(), order.bytes);
      if (!first || both) receive(in_.data(), order.bytes);
      if (!first && back) finish();
      if (first ? back : false) receive(in_.data(), order.bytes);
      if (first ? false : back) send(in_.data(), order.bytes);
      finish();
    }
    // One way, the clock stops when the last byte has arrived.
    if (order.mode == Mode::one_way) first ? receive(in_.data(), 1) : send(out_.data(), 1);
    finish();
  }

  void send(const void* data, size_t bytes) {
    check(link_->post_send(data, bytes));
    ++sends_;
  }
  void receive(void* data, size_t bytes) {
    check(link_->post_recv(data, bytes));
    ++receives_;
  }
  void finish() {
    for (uint64_t polls = 0; now_.sent < sends_ || now_.received < receives_; ++polls) {
      check(link_->poll(now_));
      if (polls % 4096 == 4095) std::this_thread::yield();
      if (sleeps_ && polls >= kPollsBeforeSleep && !over()) sleep();
    }
  }
  bool over() const { return now_.sent >= sends_ && now_.received >= receives_; }
  void sleep() {
    transport_->arm();
    check(link_->poll(now_));
    if (!over()) wait_set_.wait(std::chrono::milliseconds(100));
    transport_->disarm();
  }
  static void check(const Status& status) {
    if (!status) throw status.error();
  }

  static constexpr uint64_t kPollsBeforeSleep = 64;

  std::shared_ptr<Store> store_;
  const bool sleeps_;
  Options options_ = Options::from_environment();
  WaitSet wait_set_;
  Group group_;
  std::unique_ptr<Transport> transport_;
  LinkTable links_;
  Link* link_ = nullptr;
  Completions now_;
  uint64_t sends_ = 0, receives_ = 0;
  std::vector<std::byte> in_ = std::vector<std::byte>(1), out_ = std::vector<std::byte>(1);
};

// This rank and the other one, in a thread or a process.
class Pair {
 public:
  explicit Pair(const TransportRow& row) {
    Identity session;
    session.session = random_session();
    session.key = random_key();
    char folder[] = "/tmp/ringwood-bench-XXXXXX";
    folder_ = ::mkdtemp(folder);
    const auto second = [=, store = folder_ + "/store"] {
      Rank(row, file_store(store), session, 1).serve();
    };
    if (row.one_process) {
      thread_ = std::thread(second);
    } else if ((child_ = ::fork()) == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      second();
      ::_exit(0);
    }
    rank_ = std::make_unique<Rank>(row, file_store(folder_ + "/store"), session, 0);
  }
  ~Pair() {
    rank_->order({Mode::stop, 1, 0});
    if (thread_.joinable()) thread_.join();
    if (child_ > 0) ::waitpid(child_, nullptr, 0);
    std::filesystem::remove_all(folder_);
  }
  Pair(const Pair&) = delete;
  Pair& operator=(const Pair&) = delete;
  Rank& rank() { return *rank_; }

 private:
  std::string folder_;
  std::thread thread_;
  pid_t child_ = -1;
  std::unique_ptr<Rank> rank_;
};

void measure(benchmark::State& state, Rank& rank, Mode mode, uint64_t bytes, uint64_t times) {
  rank.order({mode, bytes, times});
  while (state.KeepRunningBatch(static_cast<int64_t>(times))) rank.order({mode, bytes, times});
  const int64_t messages = state.iterations() * (mode == Mode::one_way ? 1 : 2);
  state.SetBytesProcessed(messages * static_cast<int64_t>(bytes));
  if (mode == Mode::ping_pong) {
    state.counters["half_round_trip"] = benchmark::Counter(
        static_cast<double>(messages), benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
  }
}

void run(benchmark::State& state, const TransportRow& row, Mode mode, uint64_t bytes) {
  Pair pair(row);
  measure(state, pair.rank(), mode, bytes, std::max<uint64_t>(8, 2000000 / (bytes + 1000)));
}

// This host's half of a pair on two hosts.
int run_distant(const TransportRow& row, const std::string& master) {
  const Rendezvous met = rendezvous("env://", -1, -1, Deadline::after(std::chrono::seconds(60)),
                                    Options::from_environment());
  Identity session;  // the two are alone in their laboratory
  Rank rank(row, met.store, session, met.rank, master);
  if (met.rank != 0) return rank.serve(), 0;
  const std::pair<Mode, uint64_t> points[] = {{Mode::ping_pong, 8},
                                              {Mode::one_way, 64 << 10},
                                              {Mode::one_way, 256 << 10},
                                              {Mode::one_way, 1 << 20}};
  for (const auto& [mode, bytes] : points) {
    const std::string title =
        fmt::format("{}/{}/{}", row.name, mode == Mode::one_way ? "one_way" : "ping_pong", bytes);
    const uint64_t times = std::max<uint64_t>(16, (4 << 20) / (bytes + (64 << 10)));
    benchmark::RegisterBenchmark(title.c_str(), [&, mode = mode, bytes = bytes,
                                                 times](benchmark::State& state) {
      measure(state, rank, mode, bytes, times);
    })->UseRealTime();
  }
  benchmark::RunSpecifiedBenchmarks();
  rank.order({Mode::stop, 1, 0});
  return 0;
}

int main_of(int argc, char** argv) {
  const std::pair<Mode, const char*> modes[] = {
      {Mode::ping_pong, "ping_pong"}, {Mode::one_way, "one_way"}, {Mode::both_ways, "both_ways"}};
  benchmark::Initialize(&argc, argv);
  const LaunchEnvironment launched = read_launch_environment();
  if (argc == 2 && launched.world_size == 2) {
    for (const TransportRow& row : transport_table())
      if (row.name == std::string(argv[1])) return run_distant(row, launched.master_addr);
    throw std::runtime_error("there is no such transport");
  }
  for (const TransportRow& row : transport_table()) {
    for (const auto& [mode, name] : modes) {
      for (uint64_t bytes : {8, 64, 4096, 65536, 262144, 1048576, 4194304}) {
        if (mode != Mode::ping_pong && bytes < 4096) continue;
        const std::string title = std::string(row.name) + "/" + name + "/" + std::to_string(bytes);
        benchmark::RegisterBenchmark(title.c_str(), run, row, mode, bytes)->UseRealTime();
      }
    }
  }
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}

}  // namespace
}  // namespace ringwood

int main(int argc, char** argv) {
  try {
    return ringwood::main_of(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "bench_links: %s\n", error.what());
    return 1;
  }
}
