// libibverbs, loaded at run time: one build runs with and without it.
//
// Contains only calls that have a symbol; posting and polling go through the RDMA device's own
// table, which the headers call inline. Thread safe. Never unloaded: its threads and handlers may
// outlive this library's.
#pragma once

#include <infiniband/verbs.h>

#include <string>

namespace ringwood::verbs {

// Null in older libraries.
struct NewerCalls {
  decltype(&::ibv_is_fork_initialized) is_fork_initialized;  // before rdma-core 35
  decltype(&::ibv_query_ece) query_ece;                      // before 32, as the next
  decltype(&::ibv_set_ece) set_ece;
  decltype(&::ibv_reg_dmabuf_mr) reg_dmabuf_mr;  // before 34
};

struct Library {
  decltype(&::ibv_get_device_list) get_device_list;
  decltype(&::ibv_free_device_list) free_device_list;
  decltype(&::ibv_get_device_name) get_device_name;
  decltype(&::ibv_open_device) open_device;
  decltype(&::ibv_close_device) close_device;
  decltype(&::ibv_get_async_event) get_async_event;
  decltype(&::ibv_ack_async_event) ack_async_event;
  decltype(&::ibv_alloc_pd) alloc_pd;
  decltype(&::ibv_dealloc_pd) dealloc_pd;
  decltype(&::ibv_reg_mr_iova2) reg_mr_iova2;
  decltype(&::ibv_dereg_mr) dereg_mr;
  decltype(&::ibv_create_comp_channel) create_comp_channel;
  decltype(&::ibv_destroy_comp_channel) destroy_comp_channel;
  decltype(&::ibv_create_cq) create_cq;
  decltype(&::ibv_destroy_cq) destroy_cq;
  decltype(&::ibv_get_cq_event) get_cq_event;
  decltype(&::ibv_ack_cq_events) ack_cq_events;
  decltype(&::ibv_create_qp) create_qp;
  decltype(&::ibv_modify_qp) modify_qp;
  decltype(&::ibv_destroy_qp) destroy_qp;
  decltype(&::ibv_wc_status_str) wc_status_str;
  decltype(&::ibv_event_type_str) event_type_str;
  decltype(&::_ibv_query_gid_table) query_gid_table;
  decltype(&::ibv_query_device) query_device;
  int (*query_port)(ibv_context*, uint8_t, _compat_ibv_port_attr*);
  decltype(&::ibv_fork_init) fork_init;
  NewerCalls newer;

  // The header's inline function, without its need for a symbol.
  int port(ibv_context* context, uint8_t number, ibv_port_attr& attributes) const;
};

// Null if it cannot be loaded; `why` then says so, with the remedy.
const Library* load(std::string& why);
// Loads a named file instead: for tests.
const Library* load_from(const char* file, std::string& why);

}  // namespace ringwood::verbs
