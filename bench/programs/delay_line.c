// Cables with a delay, where the kernel has no qdisc for that: each is a pair of tap devices, and
// what is sent into one comes out of the other that much later.
//
// Started by bench/shaped; prints "ready" once the devices are there, and lasts until it is killed:
//   delay_line MICROSECONDS NAMESPACE:DEVICE=NAMESPACE:DEVICE ...
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

// Packets on their way in one direction; more are dropped, as a switch would.
enum { kMostCables = 64, kRoom = 1024, kLargestPacket = 9216 };

typedef struct {
  int64_t due;  // nanoseconds
  int bytes;
  char data[kLargestPacket];
} Packet;

typedef struct {
  int from, to;  // tap devices
  Packet* packets;
  unsigned head, tail;
} Line;

static void fail(const char* what, const char* name) {
  fprintf(stderr, "delay_line: %s %s: %s\n", what, name, strerror(errno));
  exit(1);
}

static int64_t now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1000000000LL + t.tv_nsec;
}

// `place`: namespace:device.
static int tap(const char* place) {
  char path[256], device[IFNAMSIZ];
  if (sscanf(place, "%200[^:]:%15s", path, device) != 2) fail("not NAMESPACE:DEVICE:", place);
  char file[256];
  snprintf(file, sizeof file, "/run/netns/%.200s", path);
  const int space = open(file, O_RDONLY | O_CLOEXEC);
  if (space < 0 || setns(space, CLONE_NEWNET) != 0) fail("cannot enter", path);
  close(space);
  const int fd = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
  struct ifreq request;
  memset(&request, 0, sizeof request);
  request.ifr_flags = IFF_TAP | IFF_NO_PI;
  memcpy(request.ifr_name, device, sizeof device);
  if (fd < 0 || ioctl(fd, TUNSETIFF, &request) != 0) fail("cannot make", place);
  return fd;
}

static void take(Line* line, int64_t delay) {
  while (line->tail - line->head < kRoom) {
    Packet* p = &line->packets[line->tail % kRoom];
    const ssize_t bytes = read(line->from, p->data, sizeof p->data);
    if (bytes <= 0) return;
    p->bytes = (int)bytes;
    p->due = now() + delay;
    ++line->tail;
  }
}

// Passes on what is due; returns when the next packet is, or -1.
static int64_t pass_on(Line* line) {
  while (line->head != line->tail) {
    const Packet* p = &line->packets[line->head % kRoom];
    if (p->due > now()) return p->due;
    if (write(line->to, p->data, (size_t)p->bytes) < 0 && errno == EAGAIN) return now() + 20000;
    ++line->head;  // an interface that is down loses the packet
  }
  return -1;
}

int main(int count, char** words) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  // A cable does not wait for a core.
  const struct sched_param first = {1};
  if (sched_setscheduler(0, SCHED_FIFO, &first) != 0) fail("no real-time priority", "");
  prctl(PR_SET_TIMERSLACK, 1000);
  if (count < 3 || count - 2 > kMostCables) {
    fprintf(stderr, "usage: delay_line MICROSECONDS NAMESPACE:DEVICE=NAMESPACE:DEVICE ...\n");
    return 2;
  }
  const int64_t delay = atoll(words[1]) * 1000;
  const int lines = 2 * (count - 2);
  static Line all[2 * kMostCables];
  static struct pollfd polled[2 * kMostCables];
  for (int i = 0; i < count - 2; ++i) {
    char* one = words[2 + i];
    char* other = strchr(one, '=');
    if (!other) fail("not a pair of devices:", one);
    *other++ = 0;
    const int a = tap(one), b = tap(other);
    all[2 * i] = (Line){a, b, malloc(sizeof(Packet) * kRoom), 0, 0};
    all[2 * i + 1] = (Line){b, a, malloc(sizeof(Packet) * kRoom), 0, 0};
  }
  puts("ready");
  fflush(stdout);
  while (1) {
    int64_t next = -1;
    for (int i = 0; i < lines; ++i) {
      take(&all[i], delay);
      const int64_t due = pass_on(&all[i]);
      if (due >= 0 && (next < 0 || due < next)) next = due;
      const int full = all[i].tail - all[i].head == kRoom;
      polled[i] = (struct pollfd){all[i].from, full ? 0 : POLLIN, 0};
    }
    const int64_t left = next < 0 ? 0 : next - now();
    struct timespec wait = {left / 1000000000, left % 1000000000};
    if (next >= 0 && left <= 0) continue;
    ppoll(polled, (nfds_t)lines, next < 0 ? NULL : &wait, NULL);
  }
}
