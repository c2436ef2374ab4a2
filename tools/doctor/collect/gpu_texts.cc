#include "tools/doctor/collect/gpu_texts.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>

#include "tools/doctor/collect/tree.h"

namespace ringwood::tools::doctor {
namespace {

constexpr size_t kMaxGpus = 256;

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != text.npos;
}

// Without what underlines on a terminal, "\x1b[4m", which nvidia-smi also writes into a file.
std::string plain(const std::string& text) {
  std::string result;
  for (size_t at = 0; at < text.size(); ++at) {
    if (text[at] == '\x1b') {
      const size_t end = text.find_first_not_of("0123456789;[", at + 1);
      if (end == text.npos) break;
      at = end;
    } else {
      result += text[at];
    }
  }
  return result;
}

// "GPU7" -> 7.
std::optional<int> number_of_gpu(const std::string& word) {
  const bool digits = word.size() > 3 && word.size() < 8 &&
                      std::all_of(word.begin() + 3, word.end(),
                                  [](unsigned char c) { return std::isdigit(c) != 0; });
  if (!digits || !begins_with(word, "GPU")) return std::nullopt;
  return static_cast<int>(leading_number(word.substr(3)).value_or(-1));
}

Gpu* find_gpu(std::vector<Gpu>& gpus, std::optional<int64_t> index) {
  const auto found =
      std::find_if(gpus.begin(), gpus.end(), [&](const Gpu& gpu) { return gpu.index == index; });
  return found == gpus.end() ? nullptr : &*found;
}

std::vector<std::string> fields_of(const std::string& line) {
  std::vector<std::string> fields;
  for (size_t at = 0; at <= line.size();) {
    const size_t comma = std::min(line.find(',', at), line.size());
    fields.push_back(trimmed(line.substr(at, comma - at)));
    at = comma + 1;
  }
  return fields;
}

// "[N/A]" is no number.
std::optional<int64_t> count_of(const std::string& text) {
  const auto number = leading_number(text);
  return number && *number >= 0 ? number : std::nullopt;
}

// The classes of nvidia-smi topo -m.
bool is_path(const std::string& word) {
  constexpr std::array kPaths = {"PIX", "PXB", "PHB", "NODE", "SYS"};
  if (std::find(kPaths.begin(), kPaths.end(), word) != kPaths.end()) return true;
  return begins_with(word, "NV") && word.size() < 6 && leading_number(word.substr(2));
}

bool is_access(const std::string& word) {
  constexpr std::array kAccess = {"OK", "CNS", "GNS", "TNS", "NS", "DR"};
  return std::find(kAccess.begin(), kAccess.end(), word) != kAccess.end();
}

// A matrix whose first line names the columns: calls cell(row, column, word) for each of a GPU's
// rows. `end`: the word that ends the first line's names; "": none does.
template <class Cell>
void read_matrix(const std::string& text, const std::string& end, const Cell& cell) {
  std::vector<std::string> columns;
  for (const std::string& line : lines_of(plain(text))) {
    auto words = words_of(line);
    if (words.empty() || !number_of_gpu(words[0])) continue;
    if (columns.empty()) {
      const auto last = end.empty() ? words.end() : std::find(words.begin(), words.end(), end);
      if (!end.empty() && last == words.end()) return;
      columns.assign(words.begin(), last);
      continue;
    }
    for (size_t i = 0; i < columns.size() && i + 1 < words.size(); ++i)
      cell(*number_of_gpu(words[0]), columns[i], words[i + 1]);
  }
}

}  // namespace

std::string parse_gpu_address(const std::string& text) {
  const size_t colon = text.find(':');
  const std::string rest = colon == text.npos ? "" : text.substr(colon);
  const auto domain = leading_number(text, 16);
  if (rest.size() != 8 || rest[3] != ':' || rest[6] != '.' || !domain || *domain < 0) return {};
  std::string address = fmt::format("{:04x}{}", *domain, rest);
  std::transform(address.begin(), address.end(), address.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return address;
}

std::vector<Gpu> parse_gpu_table(const std::string& text) {
  std::vector<Gpu> gpus;
  for (const std::string& line : lines_of(text)) {
    const auto fields = fields_of(line);
    if (fields.size() != 5 || gpus.size() == kMaxGpus) continue;
    const auto index = count_of(fields[0]);
    const std::string address = parse_gpu_address(fields[2]);
    if (!index || *index >= static_cast<int64_t>(kMaxGpus) || address.empty()) continue;
    Gpu gpu;
    gpu.index = static_cast<int>(*index);
    gpu.model = fields[1];
    gpu.pci = address;
    gpu.version = fields[3];
    gpu.ecc_errors = count_of(fields[4]);
    if (find_gpu(gpus, gpu.index) == nullptr) gpus.push_back(gpu);
  }
  return gpus;
}

std::vector<Gpu> parse_gpu_report(const std::string& text) {
  std::vector<Gpu> gpus;
  std::string version;
  bool since_load = false, double_bit = false;  // in these parts of the list of ECC errors
  for (const std::string& line : lines_of(text)) {
    const size_t colon = line.find(" : ");
    const std::string name = trimmed(line.substr(0, colon));
    const std::string value = colon == line.npos ? "" : trimmed(line.substr(colon + 3));
    if (name == "Driver Version") version = value;
    if (begins_with(line, "GPU ") && gpus.size() < kMaxGpus) {
      const std::string address = parse_gpu_address(trimmed(line.substr(4)));
      if (address.empty()) continue;
      gpus.emplace_back();
      gpus.back().index = static_cast<int>(gpus.size()) - 1;
      gpus.back().pci = address;
      gpus.back().version = version;
      since_load = false;
    }
    if (gpus.empty()) continue;
    Gpu& gpu = gpus.back();
    if (name == "Product Name") gpu.model = value;
    if (colon == line.npos) {
      if (name == "Volatile" || begins_with(name, "Aggregate")) since_load = name == "Volatile";
      double_bit = name == "Double Bit" || (double_bit && name != "Single Bit");
    } else if (since_load && (contains(name, "Uncorrectable") || (double_bit && name == "Total"))) {
      constexpr int64_t kMany = int64_t{1} << 40;
      if (const auto count = count_of(value))
        gpu.ecc_errors = gpu.ecc_errors.value_or(0) + std::min(*count, kMany);
    }
  }
  return gpus;
}

bool parse_nvlinks(const std::string& text, std::vector<Gpu>& gpus) {
  bool told = false;
  Gpu* gpu = nullptr;
  for (const std::string& line : lines_of(plain(text))) {
    const std::string whole = trimmed(line);
    if (begins_with(whole, "GPU ")) {
      gpu = find_gpu(gpus, leading_number(whole.substr(4)));
      told = told || gpu != nullptr;
    } else if (gpu != nullptr && begins_with(whole, "Link ") && contains(whole, ":")) {
      const bool up = contains(whole, "GB/s");
      if (!up && !contains(whole, "inactive")) continue;
      gpu->nvlinks = gpu->nvlinks.value_or(0) + 1;
      gpu->nvlinks_up = gpu->nvlinks_up.value_or(0) + (up ? 1 : 0);
    } else if (gpu != nullptr && contains(whole, "all links are inActive")) {
      gpu->nvlinks_up = 0;
    }
  }
  return told || trimmed(text).empty();  // nothing is printed where no card has NVLink
}

bool parse_topology(const std::string& text, std::vector<Gpu>& gpus) {
  std::map<std::string, std::string> cards;  // "NIC0": "mlx5_0"
  for (const std::string& line : lines_of(text)) {
    const auto words = words_of(line);
    if (words.size() == 2 && begins_with(words[0], "NIC") && words[0].back() == ':')
      cards[words[0].substr(0, words[0].size() - 1)] = words[1];
  }
  bool told = false;
  read_matrix(text, "CPU", [&](int row, const std::string& column, const std::string& word) {
    Gpu* gpu = find_gpu(gpus, row);
    if (gpu == nullptr || !is_path(word)) return;
    const auto card = cards.find(column);
    gpu->paths[card == cards.end() ? column : card->second] = word;
    told = true;
  });
  return told;
}

bool parse_peers(const std::string& text, std::vector<Gpu>& gpus) {
  bool told = false;
  read_matrix(text, "", [&](int row, const std::string& column, const std::string& word) {
    Gpu* gpu = find_gpu(gpus, row);
    if (gpu == nullptr || !number_of_gpu(column) || !is_access(word)) return;
    gpu->peers[column] = word;
    told = true;
  });
  return told;
}

std::string parse_gpu_fault(const std::string& text) {
  constexpr std::array kFaults = {"couldn't communicate with the NVIDIA driver",
                                  "Driver/library version mismatch",
                                  "Unable to determine the device handle", "GPU is lost"};
  for (const std::string& line : lines_of(text))
    if (std::any_of(kFaults.begin(), kFaults.end(),
                    [&](const char* fault) { return contains(line, fault); }))
      return trimmed(line).substr(0, 200);
  return {};
}

}  // namespace ringwood::tools::doctor
