// A tuner that reads its choices from a file, one a line, of which the first that fits counts (-1:
// any number); what no line is for is predicted:
//   collective,min_bytes,max_bytes,algorithm,segments,hosts,ranks
//   all_reduce,0,16384,recursive_doubling,1,-1,-1
//   all_reduce,16385,67108864,ring,4,2,16
//
//   c++ -shared -fPIC csv_tuner.cc -o libcsv_tuner.so $(pkg-config --cflags ringwood)
//   CSV_TUNER_FILE=$PWD/choices.csv RINGWOOD_TUNER=$PWD/libcsv_tuner.so torchrun ...
#include <ringwood/tuner_plugin.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>
#include <vector>

namespace {

struct Line {
  char collective[64], algorithm[64];
  long long min_bytes, max_bytes;
  int segments, hosts, ranks;
};

void* begin(const ringwood_tuner_group* group, char* why, size_t why_bytes) {
  const char* path = std::getenv("CSV_TUNER_FILE");
  std::ifstream file(path ? path : "");
  if (!file) {
    std::snprintf(why, why_bytes, "CSV_TUNER_FILE names no file that can be read");
    return nullptr;
  }
  const int hosts = 1 + *std::max_element(group->hosts, group->hosts + group->ranks);
  auto* lines = new std::vector<Line>;
  int number = 0;
  for (std::string text; std::getline(file, text);) {
    ++number;
    Line line{};
    if (text.empty() || text[0] == '#' || text.rfind("collective,", 0) == 0) continue;
    if (std::sscanf(text.c_str(), "%63[^,],%lld,%lld,%63[^,],%d,%d,%d", line.collective,
                    &line.min_bytes, &line.max_bytes, line.algorithm, &line.segments, &line.hosts,
                    &line.ranks) != 7) {
      std::snprintf(why, why_bytes, "%s, line %d: 7 values are expected", path, number);
      delete lines;
      return nullptr;
    }
    const bool for_us =
        (line.hosts < 0 || line.hosts == hosts) && (line.ranks < 0 || line.ranks == group->ranks);
    if (for_us) lines->push_back(line);
  }
  return lines;
}

int choose(void* state, const ringwood_tuner_query* query, ringwood_tuner_choice* choice) {
  const auto bytes = static_cast<long long>(query->bytes);
  for (const Line& line : *static_cast<const std::vector<Line>*>(state)) {
    if (std::strcmp(line.collective, query->collective) != 0 || bytes < line.min_bytes ||
        bytes > line.max_bytes)
      continue;
    std::snprintf(choice->algorithm, sizeof choice->algorithm, "%s", line.algorithm);
    choice->segments = std::max(0, line.segments);
    return 1;
  }
  return 0;
}

void end(void* state) { delete static_cast<std::vector<Line>*>(state); }

const ringwood_tuner tuner{RINGWOOD_TUNER_VERSION, "csv", begin, choose, end};

}  // namespace

extern "C" __attribute__((visibility("default"))) const ringwood_tuner* ringwood_tuner_v1() {
  return &tuner;
}
