#include "transports/verbs/path/path.h"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <array>
#include <bit>
#include <cerrno>
#include <cstring>
#include <random>
#include <thread>

#include "transports/error.h"

namespace ringwood::verbs {
namespace {

// Worth an account and a completion of its own; of smaller ones the last of a row stands for all.
constexpr uint32_t kLargeBytes = 4096;
constexpr uint64_t kSignalEvery = 16;
constexpr int kRenewEvery = 16;
// Tried in this order: what the device can take along in the request itself.
constexpr uint32_t kInline[] = {220, 64, 0};
constexpr Duration kPatience = std::chrono::seconds(3);
constexpr Duration kPatienceWithDead = std::chrono::milliseconds(100);
// NCCL waits as long between its tries (IB_MQP_RETRY_SLEEP_MSEC).
constexpr Duration kAskAgain = std::chrono::milliseconds(100);

ibv_mtu mtu_code(int bytes) {
  return static_cast<ibv_mtu>(std::bit_width(static_cast<unsigned>(bytes)) - 8);
}

void fill_route(ibv_ah_attr& route, const Rail& rail, const RailOffer& peer,
                const PathSetting& setting) {
  route.port_num = static_cast<uint8_t>(rail.port().number());
  route.sl = static_cast<uint8_t>(setting.service_level);
  route.dlid = static_cast<uint16_t>(peer.lid);
  // RoCE has no addresses but GIDs; InfiniBand needs them only between subnets.
  route.is_global = !peer.infiniband || shared_prefix(rail.offer().gid, peer.gid) < 64;
  std::memcpy(route.grh.dgid.raw, peer.gid.data(), peer.gid.size());
  route.grh.sgid_index = static_cast<uint8_t>(rail.port().gid_index());
  route.grh.hop_limit = 255;
  route.grh.traffic_class = static_cast<uint8_t>(setting.traffic_class);
}

}  // namespace

Path::~Path() {
  if (pair_) rail_->port().library().destroy_qp(pair_);
}

bool Path::make(ibv_cq* queue, const PathSetting& setting, std::string& why) {
  outages_ = rail_->events().outages();
  for (uint32_t inline_bytes : kInline) {
    ibv_qp_init_attr wanted{};
    wanted.send_cq = wanted.recv_cq = queue;
    wanted.qp_type = IBV_QPT_RC;
    wanted.cap = {kSends, kReceives, 1, 1, inline_bytes};
    pair_ = rail_->port().library().create_qp(rail_->memory().domain(), &wanted);
    inline_bytes_ = pair_ ? wanted.cap.max_inline_data : 0;
    if (pair_ || errno != EINVAL) break;
  }
  if (!pair_) {
    why = fmt::format("{}: {}", rail_->offer().name, system_message("ibv_create_qp"));
    return false;
  }
  first_packet_ = std::random_device{}() & 0xffffff;
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_INIT;
  attributes.pkey_index = static_cast<uint16_t>(setting.partition);
  attributes.port_num = static_cast<uint8_t>(rail_->port().number());
  attributes.qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
  const int error = rail_->port().library().modify_qp(
      pair_, &attributes, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
  if (error == 0 && post_receives(kReceives)) {
    ece_ = query_ece(rail_->port().library(), pair_);
    return true;
  }
  why = fmt::format("{}: {}", rail_->offer().name, explain_connect(error ? error : errno));
  return false;
}

void Path::agree(const std::optional<Ece>& theirs) {
  const bool taken = theirs && ece_ && set_ece(rail_->port().library(), pair_, *theirs);
  ece_ = taken ? query_ece(rail_->port().library(), pair_) : std::nullopt;
}

bool Path::connect(const PathEnd& peer, const RailOffer& rail, const PathSetting& setting,
                   Deadline patience, std::string& why) {
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_RTR;
  attributes.path_mtu = mtu_code(setting.mtu);
  attributes.dest_qp_num = peer.number;
  attributes.rq_psn = peer.first_packet;
  attributes.max_dest_rd_atomic = 1;
  attributes.min_rnr_timer = 12;
  fill_route(attributes.ah_attr, *rail_, rail, setting);
  const auto receive = [&] {
    return rail_->port().library().modify_qp(pair_, &attributes,
                                             IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU |
                                                 IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                                                 IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
  };
  int error = receive();
  for (; error == ETIMEDOUT && !patience.passed(); error = receive())
    std::this_thread::sleep_for(std::min(kAskAgain, patience.left()));
  if (error == 0) {
    attributes.qp_state = IBV_QPS_RTS;
    attributes.sq_psn = first_packet_;
    attributes.timeout = static_cast<uint8_t>(setting.timeout);
    attributes.retry_cnt = static_cast<uint8_t>(setting.retries);
    attributes.rnr_retry = 7;
    attributes.max_rd_atomic = 1;
    error = rail_->port().library().modify_qp(pair_, &attributes,
                                              IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT |
                                                  IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                                                  IBV_QP_MAX_QP_RD_ATOMIC);
  }
  if (error != 0) {
    why = fmt::format("{} to {}: {}", rail_->offer().name, to_string(rail.gid),
                      explain_connect(error));
    return false;
  }
  state_ = State::proving;
  return true;
}

uint64_t Path::write(const Write& write) {
  ibv_sge piece{reinterpret_cast<uintptr_t>(write.from), write.bytes, write.own_key};
  ibv_send_wr request{}, *refused = nullptr;
  const bool signalled =
      write.signalled || write.bytes >= kLargeBytes || posted_ + 1 - signalled_ >= kSignalEvery;
  request.wr_id = posted_ + 1;
  request.sg_list = &piece;
  request.num_sge = write.bytes > 0 ? 1 : 0;
  request.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
  request.send_flags =
      (signalled ? IBV_SEND_SIGNALED : 0) | (write.bytes <= inline_bytes_ ? IBV_SEND_INLINE : 0);
  request.imm_data = htonl(write.immediate);
  request.wr.rdma.remote_addr = write.to;
  request.wr.rdma.rkey = write.key;
  if (const int error = ibv_post_send(pair_, &request, &refused)) {
    errno = error;
    return 0;
  }
  ++posted_;
  if (signalled) signalled_ = posted_;
  if (write.bytes >= kLargeBytes) {
    large_.push({posted_, write.bytes});
    bytes_ += write.bytes;
  }
  return posted_;
}

void Path::completed(uint64_t number) {
  completed_ = std::max(completed_, number);
  for (; !large_.empty() && large_.front().number <= completed_; large_.pop())
    bytes_ -= large_.front().bytes;
}

bool Path::post_receives(int count) {
  std::array<ibv_recv_wr, kRenewEvery> requests{};
  for (int posted = 0; posted < count;) {
    const int batch = std::min(count - posted, kRenewEvery);
    for (int i = 0; i < batch; ++i) {
      requests[i].wr_id = kIsReceive;
      requests[i].next = i + 1 < batch ? &requests[i + 1] : nullptr;
    }
    ibv_recv_wr* refused = nullptr;
    if (const int error = ibv_post_recv(pair_, requests.data(), &refused)) {
      errno = error;
      return false;
    }
    posted += batch;
  }
  receives_ += count;
  return true;
}

bool Path::renew_receives(bool all) {
  if (!connected() || owed_ < (all ? 1 : kRenewEvery)) return true;
  const int count = owed_;
  owed_ = 0;
  return post_receives(count);
}

void Path::stop() noexcept {
  if (!pair_) return;
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_ERR;
  rail_->port().library().modify_qp(pair_, &attributes, IBV_QP_STATE);
}

void Path::close() {
  if (state_ == State::made) state_ = State::closed;  // nobody can write to it
  if (!connected()) return;
  stop();
  state_ = State::closing;
  patience_ = Deadline::after(rail_->events().dead() ? kPatienceWithDead : kPatience);
}

bool Path::destroy() {
  // Of a dead device the kernel may have taken everything away already, and refuses.
  const int error = rail_->port().library().destroy_qp(pair_);
  if (error == 0) pair_ = nullptr;
  errno = error;
  if (error != 0 && !rail_->events().dead()) return false;
  receives_ = 0;
  return settle();
}

bool Path::settle() {
  if (state_ != State::closing || receives_ > 0) return false;
  state_ = State::closed;
  return true;
}

}  // namespace ringwood::verbs
