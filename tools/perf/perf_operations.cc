#include "tools/perf/perf_operations.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <thread>

#include "collectives/schedule/schedule.h"
#include "tools/perf/perf_device.h"
#include "transports/base/clock.h"
#include "transports/base/host.h"
#include "transports/base/knobs/nearest.h"
#include "transports/bootstrap/net.h"
#include "transports/memory/arena.h"

namespace ringwood::tools {
namespace {

constexpr int kSpoiled = 0xA5;

std::vector<ConstBlock> inputs_of(const Call& c) {
  std::vector<ConstBlock> blocks(c.size());
  for (int i = 0; i < c.size(); ++i) blocks[i] = {c.in + i * c.block_bytes(), c.count};
  return blocks;
}

std::vector<Block> outputs_of(const Call& c) {
  std::vector<Block> blocks(c.size());
  for (int i = 0; i < c.size(); ++i) blocks[i] = {c.out + i * c.block_bytes(), c.count};
  return blocks;
}

int next(const Call& c) { return wrap(c.rank() + 1, c.size()); }
int previous(const Call& c) { return wrap(c.rank() - 1, c.size()); }

// Both directions at once: a ring of synchronous sends would never end, nor would sends that are
// behind receives in the stream of a device, unless they form a group.
void run_send_receive(const Call& c) {
  CallOptions started = c.options;
  started.synchronous = false;
  if (c.device) c.communicator->group_start();
  const OperationPtr received =
      c.communicator->recv(c.out, c.count, c.type, previous(c), 0, started);
  const OperationPtr sent = c.communicator->send(c.in, c.count, c.type, next(c), 0, started);
  if (c.device) c.communicator->group_end();
  finish(sent);
  finish(received);
}

const OperationRow kTable[] = {
    {Collective::all_reduce,
     [](const Call& c) {
       finish(c.communicator->all_reduce(c.in, c.count, c.type, c.op, c.options));
     }},
    {Collective::reduce,
     [](const Call& c) {
       finish(c.communicator->reduce(c.in, c.count, c.type, c.op, c.root, c.options));
     }},
    {Collective::broadcast,
     [](const Call& c) {
       finish(c.communicator->broadcast(c.in, c.count, c.type, c.root, c.options));
     }},
    {Collective::all_gather,
     [](const Call& c) {
       finish(c.communicator->all_gather(c.in, c.out, c.count, c.type, c.options));
     }},
    {Collective::gather,
     [](const Call& c) {
       std::vector<Block> out;
       if (c.rank() == c.root) out = outputs_of(c);
       finish(c.communicator->gather({c.in, c.count}, std::move(out), c.type, c.root, c.options));
     }},
    {Collective::reduce_scatter,
     [](const Call& c) {
       finish(c.communicator->reduce_scatter(c.in, c.out, c.count, c.type, c.op, c.options));
     }},
    {Collective::scatter,
     [](const Call& c) {
       std::vector<ConstBlock> in;
       if (c.rank() == c.root) in = inputs_of(c);
       finish(c.communicator->scatter(std::move(in), {c.out, c.count}, c.type, c.root, c.options));
     }},
    {Collective::all_to_all,
     [](const Call& c) {
       finish(c.communicator->all_to_all(c.in, c.out, c.count, c.type, c.options));
     }},
    {Collective::barrier, [](const Call& c) { finish(c.communicator->barrier(c.options)); }},
    {std::nullopt, run_send_receive},
};

template <class Visit>
void for_each_block(std::byte* data, int blocks, const Call& c, Visit visit) {
  for (int block = 0; block < blocks; ++block)
    visit(data + block * c.block_bytes(), static_cast<size_t>(block));
}

void all_reduce_int64(const Call& c, std::vector<int64_t>& values, ReduceOp op) {
  finish(c.communicator->all_reduce(values.data(), values.size(), DataType::int64, op,
                                    synchronous_call()));
}

bool ranks_share_a_clock(const Call& c) {
  const auto host = static_cast<int64_t>(std::hash<std::string>()(host_token()) >> 1);
  std::vector<int64_t> both{host, -host};
  all_reduce_int64(c, both, ReduceOp::max);
  return both[0] == -both[1];
}

}  // namespace

// What is to be remapped comes from the kernel: of malloc()'s heaps nothing is.
Buffer::Buffer(size_t bytes, BufferKind kind) : kind_(kind), bytes_(bytes + 1) {
  if (kind == BufferKind::shared) {
    Arena* arena = Arena::of_process();
    if (!arena)
      throw Error(ErrorCode::unsupported, "this machine gives no memory that ranks can share");
    data_ = static_cast<std::byte*>(arena->allocate(bytes));
    return;
  }
  void* data = nullptr;
  if (kind == BufferKind::remapped) {
    data = ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  } else {
    data = std::aligned_alloc(4096, (bytes / 4096 + 1) * 4096);
  }
  data_ = data == MAP_FAILED ? nullptr : static_cast<std::byte*>(data);
  if (data_ == nullptr) {
    throw Error(ErrorCode::system,
                fmt::format("no memory for a buffer of {} bytes; lower --maxbytes", bytes));
  }
}
Buffer::~Buffer() {
  if (kind_ == BufferKind::shared)
    Arena::of_process()->release(data_);
  else if (kind_ == BufferKind::remapped)
    ::munmap(data_, bytes_);
  else
    std::free(data_);
}

const char* OperationRow::name() const { return collective ? to_string(*collective) : "sendrecv"; }
int OperationRow::inputs(const Call& call) const {
  return collective ? input_blocks(*collective, call.at()) : 1;
}
int OperationRow::outputs(const Call& call) const {
  return collective ? output_blocks(*collective, call.at()) : 1;
}
Expected OperationRow::expected(const Call& call, size_t block) const {
  if (!collective) return {false, {previous(call), 1}, 0};
  const int chunk = chunk_received(*collective, call.at(), static_cast<int>(block));
  const Contents contents = ends_with(*collective, call.at(), chunk).value();
  // Where the input has blocks, a chunk is one of them.
  const int first = has_input_chunks(*collective) ? contents.chunk : 0;
  return {contents.reduced, contents.ranks, static_cast<size_t>(first) * call.count};
}

std::span<const OperationRow> operation_table() { return kTable; }

const OperationRow& find_operation(std::string_view name) {
  std::string plain(name);
  std::replace(plain.begin(), plain.end(), '-', '_');
  std::vector<std::string> names;
  for (const OperationRow& row : kTable) {
    if (plain == row.name()) return row;
    std::string run_together(row.name());
    std::erase(run_together, '_');
    if (plain == run_together) return row;
    names.emplace_back(row.name());
  }
  const std::string near = did_you_mean(plain, names);
  refuse(fmt::format("there is no collective {:?}{} are {} and all", name,
                     near.empty() ? "; there" : near + " There", fmt::join(names, ", ")));
}

size_t count_for(const OperationRow& row, size_t bytes, DataType type, int ranks) {
  const size_t blocks = row.in_blocks() ? static_cast<size_t>(ranks) : 1;
  return std::max<size_t>(1, bytes / (blocks * size_of(type)));
}

void finish(const OperationPtr& operation) {
  Status status = operation->wait();
  if (!status.ok()) throw Error(std::move(status.error()));
}

CallOptions synchronous_call() {
  CallOptions options;
  options.synchronous = true;
  return options;
}

void fill(const OperationRow& row, const Call& call, const Pattern& pattern) {
  if (call.device) {
    fill(row, call.device->on_host(call), pattern);
    return call.device->upload();
  }
  for_each_block(call.out, row.outputs(call), call,
                 [&](std::byte* at, size_t) { std::memset(at, kSpoiled, call.block_bytes()); });
  if (row.in_place() && !is_source(*row.collective, call.at())) return;
  for_each_block(call.in, row.inputs(call), call, [&](std::byte* at, size_t block) {
    pattern.fill(at, call.count, call.rank(), block * call.count);
  });
}

size_t count_wrong(const OperationRow& row, const Call& call, const Pattern& pattern) {
  if (call.device) {
    call.device->download();
    return count_wrong(row, call.device->on_host(call), pattern);
  }
  size_t wrong = 0;
  for_each_block(call.out, row.outputs(call), call, [&](std::byte* at, size_t block) {
    const Expected expected = row.expected(call, block);
    wrong += expected.reduced
                 ? pattern.wrong_reduction(at, call.count, expected.ranks, expected.first)
                 : pattern.wrong_contribution(at, call.count, expected.ranks.first, expected.first);
  });
  if (row.in_place()) return wrong;
  for_each_block(call.in, row.inputs(call), call, [&](std::byte* at, size_t block) {
    wrong += pattern.wrong_contribution(at, call.count, call.rank(), block * call.count);
  });
  return wrong;
}

size_t count_early_exits(const Call& call) {
  if (!ranks_share_a_clock(call)) return 0;
  size_t early = 0;
  for (int late = 0; late < std::min(call.size(), 8); ++late) {
    if (call.rank() == late) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    std::vector<int64_t> came{Clock::now().time_since_epoch().count()};
    finish(call.communicator->barrier(call.options));
    const int64_t left = Clock::now().time_since_epoch().count();
    all_reduce_int64(call, came, ReduceOp::max);
    early += left < came[0];
  }
  return std::min<size_t>(early, 1);
}

void write_input(const OperationRow& row, const Call& call) {
  if (call.device) {
    write_input(row, call.device->on_host(call));
    return call.device->upload();
  }
  std::memset(call.in, 0, row.inputs(call) * call.block_bytes());
}

void read_output(const OperationRow& row, const Call& call) {
  const volatile std::byte* data = call.out;
  const size_t bytes = row.outputs(call) * call.block_bytes();
  for (size_t at = 0; at < bytes; at += 64) (void)data[at];
}

}  // namespace ringwood::tools
