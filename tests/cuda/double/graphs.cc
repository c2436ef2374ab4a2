#include "tests/cuda/double/graphs.h"

#include <thread>

struct CUgraph_st {
  std::shared_ptr<const fake_cuda::Nodes> nodes;
};

// What a launch holds on to: the executable graph may be destroyed while it runs.
struct CUgraphExec_st {
  std::shared_ptr<const fake_cuda::Nodes> nodes;
  std::shared_ptr<std::mutex> running = std::make_shared<std::mutex>();  // never twice at a time
};

namespace fake_cuda {
namespace {

Objects<CUgraph_st>& graphs() { return forever<Objects<CUgraph_st>>(); }
Objects<CUgraphExec_st>& executables() { return forever<Objects<CUgraphExec_st>>(); }

bool is_chain(const Nodes& nodes) {
  for (size_t i = 1; i < nodes.size(); ++i)
    if (nodes[i].after.count(i - 1) == 0) return false;
  return true;
}

void run_at_once(const Nodes& nodes) {
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<bool> done(nodes.size(), false);
  const auto is_ready = [&](const Node& node) {
    return std::all_of(node.after.begin(), node.after.end(), [&](size_t i) { return done[i]; });
  };
  std::vector<std::thread> threads;
  for (size_t i = 0; i < nodes.size(); ++i)
    threads.emplace_back([&, i] {
      std::unique_lock lock(mutex);
      changed.wait(lock, [&] { return is_ready(nodes[i]); });
      lock.unlock();
      nodes[i].task();
      lock.lock();
      done[i] = true;
      changed.notify_all();
    });
  for (std::thread& thread : threads) thread.join();
}

void run(const Nodes& nodes) {
  if (!is_chain(nodes)) return run_at_once(nodes);
  for (const Node& node : nodes) node.task();
}

}  // namespace

CUgraph make_graph(Nodes nodes) {
  hold(Held::graph, 1);
  return graphs().add(
      std::make_shared<CUgraph_st>(CUgraph_st{std::make_shared<const Nodes>(std::move(nodes))}));
}

}  // namespace fake_cuda

using namespace fake_cuda;

extern "C" {

CUresult cuGraphInstantiateWithFlags(CUgraphExec* executable, CUgraph handle, unsigned long long) {
  if (const CUresult refused = enter(__func__, Needs::context)) return refused;
  const auto graph = graphs().find(handle);
  if (!graph) return CUDA_ERROR_INVALID_VALUE;
  auto made = std::make_shared<CUgraphExec_st>();
  made->nodes = graph->nodes;
  *executable = executables().add(std::move(made));
  hold(Held::executable_graph, 1);
  return CUDA_SUCCESS;
}

CUresult cuGraphLaunch(CUgraphExec handle, CUstream stream_handle) {
  if (const CUresult refused = enter(__func__, Needs::context)) return refused;
  const auto executable = executables().find(handle);
  if (!executable) return CUDA_ERROR_INVALID_VALUE;
  const auto stream = stream_of(stream_handle);
  if (!stream) return CUDA_ERROR_INVALID_HANDLE;
  if (break_capture(*stream)) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;  // no graphs in graphs
  append(*stream, [nodes = executable->nodes, running = executable->running] {
    std::lock_guard lock(*running);
    run(*nodes);
  });
  return CUDA_SUCCESS;
}

CUresult cuGraphDestroy(CUgraph handle) {
  if (const CUresult refused = enter(__func__, Needs::context)) return refused;
  if (!graphs().remove(handle)) return CUDA_ERROR_INVALID_VALUE;
  hold(Held::graph, -1);
  return CUDA_SUCCESS;
}

CUresult cuGraphExecDestroy(CUgraphExec handle) {
  if (const CUresult refused = enter(__func__, Needs::context)) return refused;
  if (!executables().remove(handle)) return CUDA_ERROR_INVALID_VALUE;
  hold(Held::executable_graph, -1);
  return CUDA_SUCCESS;
}

CUresult cuGraphGetNodes(CUgraph handle, CUgraphNode* nodes, size_t* count) {
  if (const CUresult refused = enter(__func__, Needs::context)) return refused;
  const auto graph = graphs().find(handle);
  if (!graph || !count) return CUDA_ERROR_INVALID_VALUE;
  if (nodes) return CUDA_ERROR_NOT_SUPPORTED;  // their number only
  *count = graph->nodes->size();
  return CUDA_SUCCESS;
}
}
