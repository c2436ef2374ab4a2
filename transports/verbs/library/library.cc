#include "transports/verbs/library/library.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <cstring>
#include <memory>
#include <mutex>

namespace ringwood::verbs {
namespace {

// Fills one entry at a time; remembers the first name that is missing.
class Symbols {
 public:
  explicit Symbols(void* handle) : handle_(handle) {}
  template <class F>
  void take(F& entry, const char* name, bool optional = false) {
    entry = reinterpret_cast<F>(::dlsym(handle_, name));
    if (!entry && !optional && missing_.empty()) missing_ = name;
  }
  const std::string& missing() const { return missing_; }

 private:
  void* handle_;
  std::string missing_;
};

std::string fill(Library& library, void* handle) {
  Symbols symbols(handle);
  symbols.take(library.get_device_list, "ibv_get_device_list");
  symbols.take(library.free_device_list, "ibv_free_device_list");
  symbols.take(library.get_device_name, "ibv_get_device_name");
  symbols.take(library.open_device, "ibv_open_device");
  symbols.take(library.close_device, "ibv_close_device");
  symbols.take(library.get_async_event, "ibv_get_async_event");
  symbols.take(library.ack_async_event, "ibv_ack_async_event");
  symbols.take(library.alloc_pd, "ibv_alloc_pd");
  symbols.take(library.dealloc_pd, "ibv_dealloc_pd");
  symbols.take(library.reg_mr_iova2, "ibv_reg_mr_iova2");
  symbols.take(library.dereg_mr, "ibv_dereg_mr");
  symbols.take(library.create_comp_channel, "ibv_create_comp_channel");
  symbols.take(library.destroy_comp_channel, "ibv_destroy_comp_channel");
  symbols.take(library.create_cq, "ibv_create_cq");
  symbols.take(library.destroy_cq, "ibv_destroy_cq");
  symbols.take(library.get_cq_event, "ibv_get_cq_event");
  symbols.take(library.ack_cq_events, "ibv_ack_cq_events");
  symbols.take(library.create_qp, "ibv_create_qp");
  symbols.take(library.modify_qp, "ibv_modify_qp");
  symbols.take(library.destroy_qp, "ibv_destroy_qp");
  symbols.take(library.wc_status_str, "ibv_wc_status_str");
  symbols.take(library.event_type_str, "ibv_event_type_str");
  symbols.take(library.query_gid_table, "_ibv_query_gid_table");
  symbols.take(library.query_device, "ibv_query_device");
  symbols.take(library.query_port, "ibv_query_port");
  symbols.take(library.fork_init, "ibv_fork_init");
  symbols.take(library.newer.is_fork_initialized, "ibv_is_fork_initialized", true);
  symbols.take(library.newer.query_ece, "ibv_query_ece", true);
  symbols.take(library.newer.set_ece, "ibv_set_ece", true);
  symbols.take(library.newer.reg_dmabuf_mr, "ibv_reg_dmabuf_mr", true);
  return symbols.missing();
}

// Data loaders fork. Newer kernels copy pinned pages; on older ones the library must know before it
// allocates anything.
void prepare_for_forks(const Library& library) {
  if (library.newer.is_fork_initialized && library.newer.is_fork_initialized() != IBV_FORK_DISABLED)
    return;
  library.fork_init();
}

}  // namespace

int Library::port(ibv_context* context, uint8_t number, ibv_port_attr& attributes) const {
  std::memset(&attributes, 0, sizeof attributes);
  if (const verbs_context* extended = verbs_get_ctx_op(context, query_port))
    return extended->query_port(context, number, &attributes, sizeof attributes);
  return query_port(context, number, reinterpret_cast<_compat_ibv_port_attr*>(&attributes));
}

const Library* load_from(const char* file, std::string& why) {
  void* handle = ::dlopen(file, RTLD_NOW | RTLD_LOCAL);
  if (!handle) {
    why = fmt::format(
        "{}; install rdma-core's libibverbs and the provider of your device "
        "(Debian: ibverbs-providers)",
        ::dlerror());
    return nullptr;
  }
  auto library = std::make_unique<Library>();
  if (const std::string missing = fill(*library, handle); !missing.empty()) {
    ::dlclose(handle);
    why =
        fmt::format("{} has no {}: it is not libibverbs, or too old; install rdma-core 33 or newer",
                    file, missing);
    return nullptr;
  }
  prepare_for_forks(*library);
  return library.release();
}

const Library* load(std::string& why) {
  static std::mutex mutex;
  static const Library* library = nullptr;
  std::lock_guard lock(mutex);
  if (!library) library = load_from("libibverbs.so.1", why);
  return library;
}

}  // namespace ringwood::verbs
