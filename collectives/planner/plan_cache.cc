#include "collectives/planner/plan_cache.h"

#include <algorithm>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace ringwood {
namespace {

template <class T>
size_t bytes_of_vector(const std::vector<T>& v) {
  return v.capacity() * sizeof(T);
}

}  // namespace

size_t bytes_of(const Plan& plan) {
  const Graph& g = plan.graph;
  size_t bytes = sizeof(Plan) + bytes_of_vector(plan.steps) + bytes_of_vector(plan.schedule.steps) +
                 bytes_of_vector(plan.schedule.scratch) + bytes_of_vector(plan.key.args.blocks) +
                 bytes_of_vector(plan.peers) + bytes_of_vector(plan.agreement) +
                 bytes_of_vector(plan.one_round.sends) + bytes_of_vector(plan.one_round.receives) +
                 bytes_of_vector(plan.fusions.list) + bytes_of_vector(plan.fusions.of_step) +
                 bytes_of_vector(plan.memory.uses) + bytes_of_vector(g.predecessors) +
                 bytes_of_vector(g.successor) + bytes_of_vector(g.offset);
  for (const PeerQueue& queue : plan.peers)
    bytes += bytes_of_vector(queue.sends) + bytes_of_vector(queue.receives);
  return bytes;
}

size_t PlanKeyHash::operator()(const PlanKey& key) const {
  const CollectiveArgs& s = key.args;
  size_t h = s.count;
  for (size_t field :
       {static_cast<size_t>(s.collective), static_cast<size_t>(s.type), static_cast<size_t>(s.op),
        static_cast<size_t>(s.root), static_cast<size_t>(key.request.segments),
        static_cast<size_t>(key.request.private_source), static_cast<size_t>(key.request.memory)})
    h = h * 0x9e3779b97f4a7c15u + field;
  for (const size_t block : s.blocks) h = h * 0x9e3779b97f4a7c15u + block;
  return h ^ std::hash<std::string>()(key.request.algorithm);
}

PlanCache::Kept& PlanCache::place_of(const PlanKey& key) {
  const std::vector<size_t>& blocks = key.args.blocks;
  const bool even = std::ranges::all_of(blocks, [&](size_t b) { return b == blocks[0]; });
  return even ? even_ : uneven_;
}

std::shared_ptr<const Plan> PlanCache::find(const PlanKey& key) { return place_of(key).find(key); }

void PlanCache::add(const PlanKey& key, std::shared_ptr<const Plan> plan) {
  place_of(key).add(key, std::move(plan));
}

std::shared_ptr<const Plan> PlanCache::Kept::find(const PlanKey& key) {
  const auto at = plans_.find(key);
  if (at == plans_.end()) return nullptr;
  by_use_.splice(by_use_.begin(), by_use_, at->second);
  return at->second->plan;
}

void PlanCache::Kept::add(const PlanKey& key, std::shared_ptr<const Plan> plan) {
  const size_t bytes = bytes_of(*plan);
  if (const auto old = plans_.find(key); old != plans_.end()) {
    if (old->second->plan->epoch > plan->epoch) return;
    bytes_ -= old->second->bytes;
    by_use_.erase(old->second);
    plans_.erase(old);
  }
  while (!by_use_.empty() && (bytes_ + bytes > max_bytes_ || plans_.size() >= max_plans_)) {
    bytes_ -= by_use_.back().bytes;
    plans_.erase(plans_.find(*by_use_.back().key));
    by_use_.pop_back();
  }
  const auto at = plans_.emplace(key, by_use_.end()).first;
  by_use_.push_front({&at->first, std::move(plan), bytes});
  at->second = by_use_.begin();
  bytes_ += bytes;
}

}  // namespace ringwood
