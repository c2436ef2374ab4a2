// The parameters of this host, measured once and kept in a file.
//
// measure_host() takes less than 60 ms (more only where the kernel preempts it for longer).
// It measures:
// - with a core beside another one that does the same: copy and reduction bandwidth in L2 and L3;
// - with one core: the same in memory, the wire formats' codecs in L2, a yield to another process,
//   and the cost of a message and of its bytes on a socket (loopback), and what a connection
//   buffers;
// - with all cores: copies in memory;
// - with two cores: how much of a set as large as L3 is found there; the bandwidth of data handed
//   from core to core in a cache, one way, both ways at once, in small messages, and where it is
//   read in place and written anew; and how long a cache line takes, inside a memory node and from
//   one to another.
//
// Each is the best of several times, since interruptions only ever add. The parameters of the
// network and the fixed cost of a message in shared memory keep their defaults.
//
// The file belongs to one kind of host: processor, cores, caches, kernel and this format are in its
// name and first line. It is replaced as a whole, readable by its owner alone, and protected by a
// checksum; a file that is damaged or of another user is ignored. Where none can be written, and
// after a measurement that was disturbed, the next process measures again.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "collectives/tuner/machine/machine_model.h"
#include "transports/base/clock.h"

namespace ringwood {

// `hosts` is empty and `cores` is the number that this process may use; the caller sets those of
// its group. Sets `disturbed` where the machine was so busy that the parameters between two cores
// are guesses.
MachineModel measure_host(bool* disturbed = nullptr);

// Sets net.post and net.copied, from messages that the calling thread sends to itself over loopback
// within the budget, and net.eager within as much again. Leaves them unchanged where there is no
// loopback.
void measure_sockets(MachineModel& machine, Duration budget);

// "AMD EPYC; 2 cores; L2 1048576; L3 33554432; Linux 6.1.0 x86_64"
std::string host_description();

enum class CalibrationUse {
  keep,     // read the file; measure and write it where there is none
  refresh,  // measure and write it
  off       // the defaults
};
CalibrationUse calibration_use(const std::string& knob);  // of a valid RINGWOOD_CALIBRATION
// Creates `directory` where it is missing; empty: no file. Never throws for a fault of the file.
// Any thread; two that measure at the same time disturb each other's results.
MachineModel calibration(const std::string& directory, CalibrationUse use);

// The file's name in `directory`, and reading and writing it. Pure, except for the file system.
std::string calibration_path(const std::string& directory);
bool write_calibration(const std::string& path, const MachineModel& machine);
bool read_calibration(const std::string& path, MachineModel& machine);

// The same for parameters of other things, with a title in one line, of which the first word and a
// hash make the file's name.
std::string parameters_path(const std::string& directory, const std::string& title);
bool write_parameters(const std::string& path, const std::string& title,
                      const MachineModel& machine);
bool read_parameters(const std::string& path, const std::string& title, MachineModel& machine);

}  // namespace ringwood
