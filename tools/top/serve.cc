#include "tools/top/serve.h"

#include <fmt/format.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <asio/ip/v6_only.hpp>
#include <asio/signal_set.hpp>
#include <atomic>
#include <chrono>
#include <csignal>
#include <exception>
#include <fstream>
#include <functional>
#include <iterator>
#include <memory>
#include <thread>

#include "tools/top/client_owner.h"
#include "tools/top/serve_clients.h"

namespace ringwood::tools {
namespace {

using asio::ip::tcp;

// At each port; of them, of strangers who have yet to show the token.
constexpr size_t kMaxClients = 32, kMaxStrangers = 16;
// After a failed accept(): there may be no descriptor left, and the connection still waits.
constexpr std::chrono::milliseconds kAcceptAgain{100};

// The job that a process was started by, of Slurm.
std::string slurm_job_of(int pid) {
  std::ifstream file(fmt::format("/proc/{}/environ", pid));
  const std::string all((std::istreambuf_iterator<char>(file)), {});
  const std::string name = "SLURM_JOB_ID=";
  for (size_t at = 0; at < all.size(); at = all.find('\0', at) + 1) {
    if (all.compare(at, name.size(), name) == 0) return all.substr(at + name.size(), 64).c_str();
    if (all.find('\0', at) == std::string::npos) break;
  }
  return "";
}

std::string in_url(const std::string& address) {
  if (address.empty()) return "localhost";
  return address.find(':') == std::string::npos ? address : "[" + address + "]";
}

class Server final {
 public:
  Server(const ServeOptions& options, std::string slurm_job) : options_(options) {
    shown_.slurm_job = std::move(slurm_job);
    metrics_.make = [this](tcp::socket socket, bool own_user) {
      return std::make_shared<HttpClient>(std::move(socket), own_user, shown_, options_.token);
    };
    metrics_.strangers = !options_.token.empty();
    ras_.make = [this](tcp::socket socket, bool) {
      return std::make_shared<RasClient>(std::move(socket), shown_);
    };
    const std::vector<std::string> here = {"127.0.0.1", "::1"};
    const bool elsewhere = !options_.address.empty();
    listen(metrics_, options.metrics_port, elsewhere ? std::vector{options_.address} : here);
    listen(ras_, options.ras_port, here);
  }
  int metrics_port() const { return metrics_.port; }
  int ras_port() const { return ras_.port; }

  // Any thread.
  void show(std::shared_ptr<const Sample> sample) {
    asio::post(io_, [this, sample = std::move(sample)] {
      shown_.sample = sample;
      if (!sample) return io_.stop();
      for (const auto& client : ras_.clients)
        for (const JobEvent& event : sample->fresh) client->tell(event);
    });
  }
  void run() {
    asio::signal_set signals(io_, SIGINT, SIGTERM);
    signals.async_wait([this](auto, int) { io_.stop(); });
    io_.run();
  }

 private:
  // A port, at one or two addresses.
  struct Service {
    int port = 0;
    bool strangers = false;  // may connect
    std::function<std::shared_ptr<Client>(tcp::socket, bool own_user)> make;
    std::vector<std::shared_ptr<Client>> clients;
  };
  struct Door {
    Door(asio::io_context& io, Service& serves) : acceptor(io), again(io), service(serves) {}
    tcp::acceptor acceptor;
    asio::steady_timer again;
    Service& service;
  };

  // The second address takes the port that the first one got, and may be missing on this host.
  void listen(Service& service, int port, const std::vector<std::string>& addresses) {
    for (bool first = true; const std::string& address : addresses) {
      asio::error_code error;
      const tcp::endpoint end(asio::ip::make_address(address, error), static_cast<uint16_t>(port));
      auto& door = doors_.emplace_back(std::make_unique<Door>(io_, service));
      tcp::acceptor& acceptor = door->acceptor;
      if (!error) acceptor.open(end.protocol(), error);
      if (!error) acceptor.set_option(tcp::acceptor::reuse_address(true), error);
      if (!error && end.address().is_v6()) acceptor.set_option(asio::ip::v6_only(true), error);
      if (!error) acceptor.bind(end, error);
      if (!error) acceptor.listen(16, error);
      if (error && first)
        throw Error(ErrorCode::invalid_argument,
                    fmt::format("cannot listen at {} port {}: {}; choose another one with "
                                "--metrics-port or --ras-port",
                                address, port, error.message()));
      if (error) {
        doors_.pop_back();
        continue;
      }
      service.port = port = acceptor.local_endpoint().port();
      accept(*door);
      first = false;
    }
  }

  void accept(Door& door) {
    door.acceptor.async_accept([this, &door](asio::error_code error, tcp::socket socket) {
      if (error == asio::error::operation_aborted) return;
      if (!error) {
        welcome(std::move(socket), door.service);
        return accept(door);
      }
      door.again.expires_after(kAcceptAgain);
      door.again.async_wait([this, &door](asio::error_code over) {
        if (!over) accept(door);
      });
    });
  }

  static void welcome(tcp::socket socket, Service& service) {
    std::erase_if(service.clients, [](const auto& client) { return !client->open(); });
    const auto user = owner_of_client(socket);
    const bool own = user && (*user == 0 || *user == geteuid());
    const auto strangers = std::ranges::count_if(
        service.clients, [](const auto& client) { return !client->own_user(); });
    const auto same = own ? service.clients.size() - static_cast<size_t>(strangers)
                          : static_cast<size_t>(strangers);
    if ((!own && !service.strangers) || same >= (own ? kMaxClients : kMaxStrangers)) return;
    service.clients.push_back(service.make(std::move(socket), own));
    service.clients.back()->read();
  }

  const ServeOptions options_;
  asio::io_context io_{1};
  Shown shown_;
  Service metrics_, ras_;
  std::vector<std::unique_ptr<Door>> doors_;
};

}  // namespace

void serve(Sampler& sampler, const ServeOptions& options) {
  auto first = sampler.next();
  if (!first) return;
  const std::string job = first->view.id;
  Server server(options, slurm_job_of(first->view.pids.front()));
  server.show(std::make_shared<const Sample>(std::move(*first)));
  fmt::print(stderr, "ringwood top: job {}: metrics at http://{}:{}/metrics, RAS at localhost:{}\n",
             job, in_url(options.address), server.metrics_port(), server.ras_port());
  std::atomic<bool> over{false};
  std::exception_ptr failure;
  std::thread looking([&] {
    auto next = Clock::now();
    while (!over) {
      next += std::chrono::seconds(1);
      while (!over && Clock::now() < next)
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
      if (over) return;
      std::optional<Sample> sample;
      try {
        sample = sampler.next();
      } catch (...) {
        failure = std::current_exception();
      }
      server.show(sample ? std::make_shared<const Sample>(std::move(*sample)) : nullptr);
      if (!sample) return;
    }
  });
  server.run();
  over = true;
  looking.join();
  if (failure) std::rethrow_exception(failure);
}

}  // namespace ringwood::tools
