// The parameters of this host, measured once and kept in a file.
//
// measure_host() takes less than 60 ms (more only where the kernel takes the processor away for
// longer). Of a core beside another one that does the same: copy and reduction bandwidth in L2 and
// L3. Of one core: the same in memory, that of the wire formats' codecs in L2, a yield to another
// process, and what a message and its bytes cost on a socket (loopback). Of all cores: copies in
// memory. Of two: how much of a set as large as L3 is found there, what data handed from core to
// core in a cache get, one way, both ways at once, in small messages and where they are read and
// written anew in place, and how long a cache line takes, inside a memory node and from one to
// another. Best of several times each, since interruptions only ever add. The wire's own parameters
// and the fixed cost of a message in shared memory keep their defaults.
//
// The file is for one kind of host: processor, cores, caches, kernel and this format are in its
// name and first line. It is replaced as a whole, readable by its owner alone, and protected by a
// checksum; one that is damaged, or another user's, is ignored. Where none can be written, and
// after a measurement that was disturbed, the next process measures again.
#pragma once

#include <string>

#include "collectives/machine/machine_model.h"
#include "transports/base/clock.h"

namespace ringwood {

// `hosts` is empty and `cores` those that this process may use: a group's own are the caller's.
// `disturbed` is set where the machine was so busy that the parameters between two cores are
// guesses.
MachineModel measure_host(bool* disturbed = nullptr);

// Sets net.post and net.socket by messages that the calling thread sends to itself over loopback,
// within the budget; leaves them where there is no loopback.
void measure_sockets(MachineModel& machine, Duration budget);

// "AMD EPYC; 2 cores; L2 1048576; L3 33554432; Linux 6.1.0 x86_64"
std::string host_description();

enum class CalibrationUse {
  keep,     // read the file; measure and write it where there is none
  refresh,  // measure and write it
  off       // the defaults
};
CalibrationUse calibration_use(const std::string& knob);  // of RINGWOOD_CALIBRATION, valid
// `directory` is made where it is missing; empty: no file. Never throws for what goes wrong with
// the file. Any thread; two that measure at one time disturb each other's parameters.
MachineModel calibration(const std::string& directory, CalibrationUse use);

// The file's name in `directory`, and its two halves: pure but for the file system.
std::string calibration_path(const std::string& directory);
bool write_calibration(const std::string& path, const MachineModel& machine);
bool read_calibration(const std::string& path, MachineModel& machine);

}  // namespace ringwood
