// What nvidia-smi prints, as values.
//
// The formats are those of public outputs of the drivers 470 to 595. Pure functions of untrusted
// texts: what is not understood is left out, nothing throws.
#pragma once

#include <string>
#include <vector>

#include "tools/doctor/snapshot.h"

namespace ringwood::tools::doctor {

// nvidia-smi --query-gpu=index,name,pci.bus_id,driver_version,ecc.errors.uncorrected.volatile.total
// --format=csv,noheader,nounits
std::vector<Gpu> parse_gpu_table(const std::string& text);
// nvidia-smi -q, which numbers no GPUs: they come in the order of their numbers.
std::vector<Gpu> parse_gpu_report(const std::string& text);
// "00000000:3B:00.0" as the kernel writes it: "0000:3b:00.0"; "": it is no address.
std::string parse_gpu_address(const std::string& text);

// Each adds to the GPUs what its text tells of them; false if it told nothing.
bool parse_nvlinks(const std::string& text, std::vector<Gpu>& gpus);   // nvidia-smi nvlink -s
bool parse_topology(const std::string& text, std::vector<Gpu>& gpus);  // nvidia-smi topo -m
bool parse_peers(const std::string& text, std::vector<Gpu>& gpus);     // nvidia-smi topo -p2p r

// The sentence by which nvidia-smi says that the driver does not answer, or that a GPU is lost;
// "": there is none.
std::string parse_gpu_fault(const std::string& text);

}  // namespace ringwood::tools::doctor
