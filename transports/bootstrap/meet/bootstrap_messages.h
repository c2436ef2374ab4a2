// The messages of ranks in the store during the bootstrap (bootstrap.h).
#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "transports/base/bytes.h"
#include "transports/base/error.h"
#include "transports/base/knobs/link_knobs.h"
#include "transports/bootstrap/handshake.h"

namespace ringwood {

// The first words of a process that comes to be a rank. They have no version: rank 0 of any release
// replies with its own.
struct Hello {
  int rank = -1;
  int64_t process = 0;
  std::string host;
  JobIdentity job;
  // A rank 0 of this session has replied, and it belongs to an earlier attempt of the job.
  std::array<uint8_t, 16> left_over{};
};

// Why a rank did not go on: its error, as far as others need it.
struct Reason {
  ErrorCode code = ErrorCode::internal;
  int rank = -1;  // whose it is, which need not be the one that passes it on
  std::string host, cause;
};

// The reply to a hello, rank 0's or of another process of the same rank. The version comes first in
// every release's.
struct Welcome {
  bool refused = false;  // the jobs differ (strangers/job.h), and only the session is told
  JobIdentity job;       // rank 0's
  std::array<uint8_t, 16> session{};
  std::optional<std::array<uint8_t, 32>> key;  // none: all ranks read it from a file
  std::string announcement;
  std::optional<Reason> reason;  // why this process is not welcome; then the others are empty
};

// What a rank gives to an exchange: its value, or the reason why there is none.
struct Contribution {
  std::optional<Reason> reason;
  std::string value;
  std::string from;  // its process and host, for people
};

// Rank 0's value: it replies with those of all ranks, in so many pieces, as a store bounds what a
// key has room for. The first is here.
struct FirstPiece {
  uint32_t pieces = 1;
  std::string bytes;
};
// All pieces together.
struct ValuesOfAll {
  std::vector<std::string> by_rank;
};

// The introduction of a rank.
struct RankIntroduction {
  std::string token, host;  // equal tokens: one host, if told_apart() leaves them equal
  std::vector<int> cores;   // that it may use
  int node = -1;            // its memory node; -1: it may run on several
  int in_flight = 1;
  std::string facts;                   // what rank 0's announcement has asked for
  std::vector<std::string> addresses;  // host_addresses()
};

// How a rank is reached; and of rank 0, what the links of all ranks are set to.
struct RankContact {
  std::string addresses;      // as parse_net_addresses() reads them
  std::string link_settings;  // as parse_link_settings() reads them
};

inline constexpr size_t kMaxAnnouncement = 256 << 10, kMaxToken = 4096, kMaxCores = 1 << 15,
                        kMaxRankFacts = 8 << 10, kMaxAddresses = 64, kMaxAddress = 64,
                        kMaxReason = 16 << 10, kMaxContribution = 1 << 20, kMaxPiece = 512 << 10,
                        kMaxPieces = 1 << 16, kMaxRanks = 1 << 20;

void fields(auto& io, Hello& hello) {
  io.number(hello.rank);
  io.number(hello.process);
  io.text(hello.host, kMaxToken);
  fields(io, hello.job);
  io.raw(hello.left_over);
}

void fields(auto& io, Reason& reason) {
  io.number(reason.code, ErrorCode::invalid_argument, ErrorCode::internal);
  io.number(reason.rank);
  io.text(reason.host, kMaxToken);
  io.text(reason.cause, kMaxReason);
}

void fields(auto& io, Welcome& welcome) {
  io.constant(kProtocolVersion);
  io.number(welcome.refused);
  fields(io, welcome.job);
  io.raw(welcome.session);
  io.optional(welcome.key, [&](std::array<uint8_t, 32>& key) { io.raw(key); });
  io.blob(welcome.announcement, kMaxAnnouncement);
  io.optional(welcome.reason, [&](Reason& reason) { fields(io, reason); });
}

void fields(auto& io, Contribution& contribution) {
  io.optional(contribution.reason, [&](Reason& reason) { fields(io, reason); });
  io.blob(contribution.value, kMaxContribution);
  io.text(contribution.from, kMaxToken);
}

void fields(auto& io, FirstPiece& first) {
  io.number(first.pieces, 1, kMaxPieces);
  io.blob(first.bytes, kMaxPiece);
}

void fields(auto& io, ValuesOfAll& values) {
  io.list(values.by_rank, kMaxRanks, [&](std::string& value) { io.blob(value, kMaxContribution); });
}

void fields(auto& io, RankIntroduction& rank) {
  io.text(rank.token, kMaxToken);
  io.text(rank.host, kMaxToken);
  io.list(rank.cores, kMaxCores, [&](int& core) { io.number(core); });
  io.number(rank.node);
  io.number(rank.in_flight);
  io.blob(rank.facts, kMaxRankFacts);
  io.list(rank.addresses, kMaxAddresses, [&](std::string& one) { io.text(one, kMaxAddress); });
}

void fields(auto& io, RankContact& contact) {
  io.text(contact.addresses, kMaxToken);
  io.text(contact.link_settings, kMaxLinkSettings);
}

}  // namespace ringwood
