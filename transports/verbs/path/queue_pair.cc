#include "transports/verbs/path/queue_pair.h"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <array>
#include <bit>
#include <cerrno>
#include <cstring>
#include <random>
#include <thread>

#include "transports/base/error.h"
#include "transports/verbs/path/explain.h"

namespace ringwood::verbs {
namespace {

constexpr int kBatch = 16;
// Bytes that a request may carry inline, tried in this order.
constexpr uint32_t kInline[] = {220, 64, 0};
// NCCL waits this long between its tries (IB_MQP_RETRY_SLEEP_MSEC).
constexpr Duration kAskAgain = std::chrono::milliseconds(100);

ibv_mtu mtu_code(int bytes) {
  return static_cast<ibv_mtu>(std::bit_width(static_cast<unsigned>(bytes)) - 8);
}

void fill_route(ibv_ah_attr& route, const Port& port, const RailAddress& peer,
                const PathSetting& setting) {
  route.port_num = static_cast<uint8_t>(port.number());
  route.sl = static_cast<uint8_t>(setting.service_level);
  route.dlid = static_cast<uint16_t>(peer.lid);
  // RoCE has no addresses but GIDs; InfiniBand needs them only between subnets.
  route.is_global = !peer.infiniband || shared_prefix(port.address().gid, peer.gid) < 64;
  std::memcpy(route.grh.dgid.raw, peer.gid.data(), peer.gid.size());
  route.grh.sgid_index = static_cast<uint8_t>(port.gid_index());
  route.grh.hop_limit = 255;
  route.grh.traffic_class = static_cast<uint8_t>(setting.traffic_class);
}

}  // namespace

QueuePair::~QueuePair() {
  if (pair_ && !rail_->port().inherited()) rail_->port().library().destroy_qp(pair_);
}

int QueuePair::modify(ibv_qp_attr& attributes, int which) {
  return rail_->port().library().modify_qp(pair_, &attributes, which);
}

bool QueuePair::make(ibv_cq* queue, const PathSetting& setting, std::string& why) {
  const Library& library = rail_->port().library();
  for (uint32_t inline_bytes : kInline) {
    ibv_qp_init_attr wanted{};
    wanted.send_cq = wanted.recv_cq = queue;
    wanted.qp_type = IBV_QPT_RC;
    wanted.cap = {kSends, kReceives, 1, 1, inline_bytes};
    pair_ = library.create_qp(rail_->memory().domain(), &wanted);
    inline_bytes_ = pair_ ? wanted.cap.max_inline_data : 0;
    if (pair_ || errno != EINVAL) break;
  }
  if (!pair_) {
    why = fmt::format("{}: {}", rail_->address().name, system_message("ibv_create_qp"));
    return false;
  }
  first_packet_ = std::random_device{}() & 0xffffff;
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_INIT;
  attributes.pkey_index = static_cast<uint16_t>(setting.partition);
  attributes.port_num = static_cast<uint8_t>(rail_->port().number());
  attributes.qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
  const int error =
      modify(attributes, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
  if (error == 0 && receive(kReceives)) {
    ece_ = query_ece(library, pair_);
    return true;
  }
  why = fmt::format("{}: {}", rail_->address().name, explain_connect(error ? error : errno));
  return false;
}

void QueuePair::agree(const std::optional<Ece>& theirs) {
  const Library& library = rail_->port().library();
  const bool taken = theirs && ece_ && set_ece(library, pair_, *theirs);
  ece_ = taken ? query_ece(library, pair_) : std::nullopt;
}

bool QueuePair::connect(const PathEnd& peer, const RailAddress& rail, const PathSetting& setting,
                        Deadline patience, std::string& why) {
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_RTR;
  attributes.path_mtu = mtu_code(setting.mtu);
  attributes.dest_qp_num = peer.number;
  attributes.rq_psn = peer.first_packet;
  attributes.max_dest_rd_atomic = 1;
  attributes.min_rnr_timer = 12;
  fill_route(attributes.ah_attr, rail_->port(), rail, setting);
  const auto ready_to_receive = [&] {
    return modify(attributes, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                                  IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
  };
  int error = ready_to_receive();
  for (; error == ETIMEDOUT && !patience.passed(); error = ready_to_receive())
    std::this_thread::sleep_for(std::min(kAskAgain, patience.left()));
  if (error == 0) {
    attributes.qp_state = IBV_QPS_RTS;
    attributes.sq_psn = first_packet_;
    attributes.timeout = static_cast<uint8_t>(setting.timeout);
    attributes.retry_cnt = static_cast<uint8_t>(setting.retries);
    attributes.rnr_retry = 7;
    attributes.max_rd_atomic = 1;
    error = modify(attributes, IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
                                   IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC);
  }
  if (error == 0) return true;
  why = fmt::format("{} to {}: {}", rail_->address().name, to_string(rail.gid),
                    explain_connect(error));
  return false;
}

bool QueuePair::write(const Write& write, uint64_t number, bool signalled) {
  ibv_sge piece{reinterpret_cast<uintptr_t>(write.from), write.bytes, write.own_key};
  ibv_send_wr request{}, *refused = nullptr;
  request.wr_id = number;
  request.sg_list = &piece;
  request.num_sge = write.bytes > 0 ? 1 : 0;
  request.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
  request.send_flags =
      (signalled ? IBV_SEND_SIGNALED : 0) | (write.bytes <= inline_bytes_ ? IBV_SEND_INLINE : 0);
  request.imm_data = htonl(write.immediate);
  request.wr.rdma.remote_addr = write.to;
  request.wr.rdma.rkey = write.key;
  const int error = ibv_post_send(pair_, &request, &refused);
  if (error != 0) errno = error;
  return error == 0;
}

bool QueuePair::receive(int count) {
  std::array<ibv_recv_wr, kBatch> requests{};
  for (int posted = 0; posted < count;) {
    const int batch = std::min(count - posted, kBatch);
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
  return true;
}

void QueuePair::stop() noexcept {
  if (!pair_) return;
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_ERR;
  modify(attributes, IBV_QP_STATE);
}

int QueuePair::destroy() {
  const int error = rail_->port().library().destroy_qp(pair_);
  if (error == 0) pair_ = nullptr;
  return error;
}

}  // namespace ringwood::verbs
