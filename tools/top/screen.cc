#include "tools/top/screen.h"

#include <fmt/format.h>

#include <ncurses.h>
#include <algorithm>
#include <array>
#include <chrono>
#include <clocale>
#include <cmath>
#include <cstdlib>
#include <future>

#include "tools/top/cells.h"

namespace ringwood::tools {
namespace {

enum Colour : short { plain, good, busy, warning, trouble, heading, faint, bar };

Colour colour_of(Condition condition) {
  switch (condition) {
    case Condition::moving: return good;
    case Condition::computing: return busy;
    case Condition::waiting: return warning;
    case Condition::left:
    case Condition::unknown: return faint;
    default: return trouble;
  }
}

// The terminal is as it was when this is gone.
class Terminal final {
 public:
  Terminal() {
    std::setlocale(LC_ALL, "");
    if (MB_CUR_MAX == 1) std::setlocale(LC_CTYPE, "C.UTF-8");
    // Not initscr(), which ends the process where it fails.
    terminal_ = newterm(nullptr, stdout, stdin);
    if (!terminal_)
      throw Error(ErrorCode::system, "this is no terminal to draw on (TERM); use --once or --json");
    set_term(terminal_);
    cbreak();
    noecho();
    keypad(stdscr, TRUE);
    curs_set(0);
    timeout(50);
    set_escdelay(25);
    if (!has_colors()) return;
    start_color();
    use_default_colors();
    const std::array<std::pair<Colour, short>, 6> pairs = {{{good, COLOR_GREEN},
                                                            {busy, COLOR_CYAN},
                                                            {warning, COLOR_YELLOW},
                                                            {trouble, COLOR_RED},
                                                            {faint, COLOR_BLUE},
                                                            {bar, COLOR_GREEN}}};
    for (const auto& [name, colour] : pairs) init_pair(name, colour, -1);
    init_pair(heading, COLOR_BLACK, COLOR_CYAN);
  }
  ~Terminal() {
    endwin();
    delscreen(terminal_);
  }
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

 private:
  SCREEN* terminal_ = nullptr;
};

attr_t look_of(Colour colour) {
  attr_t look = has_colors() ? COLOR_PAIR(colour) : 0;
  if (colour == trouble) look |= A_BOLD;
  if (colour == heading && !has_colors()) look |= A_REVERSE;
  return look;
}

// `share` of `width` characters, in eighths of one.
std::string bar_text(double share, int width) {
  constexpr std::array kParts = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
  const int eighths = static_cast<int>(std::lround(std::clamp(share, 0.0, 1.0) * width * 8));
  std::string text;
  for (int i = 0; i < eighths / 8; ++i) text += "█";
  return fit(text + kParts[static_cast<size_t>(eighths % 8)], width, false);
}

class Screen final {
 public:
  explicit Screen(Sampler& sampler) : sampler_(sampler) {}

  void run() {
    auto next = Clock::now();
    draw();
    while (true) {
      if (!looking_.valid() && Clock::now() >= next) {
        next = std::max(next + std::chrono::seconds(1), Clock::now());
        looking_ = std::async(std::launch::async, [this] { return sampler_.next(); });
      }
      if (looking_.valid() &&
          looking_.wait_for(std::chrono::seconds(0)) == std::future_status::ready) {
        auto sample = looking_.get();
        if (!sample) return;
        keep(std::move(*sample));
        draw();
      }
      const int key = getch();
      if (key == 'q' || key == 27) return;
      if (key != ERR && handle(key)) draw();
    }
  }

 private:
  void keep(Sample sample) {
    for (JobEvent& event : sample.fresh) events_.push_back(std::move(event));
    if (events_.size() > Sampler::kMaxEvents)
      events_.erase(events_.begin(), events_.end() - Sampler::kMaxEvents);
    if (!paused_ || !sample_) sample_ = std::move(sample);
  }

  bool handle(int key) {
    switch (key) {
      case 's': order_ = static_cast<SortBy>((static_cast<int>(order_) + 1) % 4); return true;
      case 'g':
      case '\t': ++group_; return true;
      case 'p':
      case ' ': paused_ = !paused_; return true;
      case KEY_DOWN: ++scroll_; return true;
      case KEY_UP: scroll_ = std::max(0, scroll_ - 1); return true;
      case KEY_NPAGE: scroll_ += LINES / 2; return true;
      case KEY_PPAGE: scroll_ = std::max(0, scroll_ - LINES / 2); return true;
      case KEY_RESIZE: return true;
      default: return false;
    }
  }

  void put(int y, int x, const std::string& text, Colour colour, attr_t more = 0) {
    if (y < 0 || y >= LINES || x >= COLS) return;
    attron(look_of(colour) | more);
    mvaddstr(y, x, fit(text, std::min(COLS - x, static_cast<int>(text.size())), false).c_str());
    attroff(look_of(colour) | more);
  }
  void put_line(int y, const std::string& text, Colour colour) {
    put(y, 0, fit(text, COLS, false), colour);
  }

  void draw() {
    erase();
    if (!sample_ || sample_->groups.empty()) {
      put(0, 0, "ringwood top: asking the ranks ...", plain);
      refresh();
      return;
    }
    const size_t which = static_cast<size_t>(group_) % sample_->groups.size();
    const GroupLines& group = sample_->groups[which];
    const int event_lines = std::clamp(static_cast<int>(events_.size()), 1, std::max(1, LINES / 4));
    int y = draw_heading(group, which);
    y = draw_trouble(y);
    draw_table(y, LINES - event_lines - 2, sample_->view.groups[which], group);
    draw_events(LINES - event_lines - 2, event_lines);
    put_line(LINES - 1,
             fmt::format(" q quit   s sort: {}   {}p {}   arrows scroll", to_string(order_),
                         sample_->groups.size() > 1 ? "g next group   " : "",
                         paused_ ? "go on (PAUSED)" : "pause"),
             heading);
    refresh();
  }

  int draw_heading(const GroupLines& group, size_t which) {
    put_line(0,
             fmt::format(" ringwood top   job {}   group {}{}   {} ranks   {}", sample_->view.id,
                         group.name,
                         sample_->groups.size() > 1
                             ? fmt::format(" ({} of {})", which + 1, sample_->groups.size())
                             : std::string(),
                         group.ranks.size(), clock_text(sample_->time)),
             heading);
    double rate = 0, operations = 0;
    for (const RankLine& line : group.ranks) {
      rate = std::max(rate, line.bus_bytes_per_s);
      operations = std::max(operations, line.operations_per_s);
    }
    std::string text =
        fmt::format(" bus {} GB/s   {:.0f} operations/s", rate_text(rate), operations);
    if (group.ratio > 0) text += fmt::format("   measured / predicted {:.2f}", group.ratio);
    if (!group.relayed) text += "   rank 0 does not answer: only what this host knows";
    put(1, 0, text, group.alarm || !group.relayed ? trouble : plain, A_BOLD);
    return 2;
  }

  int draw_trouble(int y) {
    constexpr size_t kMost = 4;
    for (size_t i = 0; i < std::min(kMost, sample_->trouble.size()); ++i)
      put_line(y++, " ! " + sample_->trouble[i], trouble);
    if (sample_->trouble.size() > kMost)
      put_line(y++, fmt::format(" ! and {} more", sample_->trouble.size() - kMost), trouble);
    return y + 1;
  }

  // Columns that do not fit are left out, from the right; the bar of GB/s takes what is left.
  void draw_table(int y, int end, const GroupView& view, const GroupLines& group) {
    int fixed = 0;
    for (const Column& column : columns()) fixed += column.width + 1;
    const int left = COLS - fixed;
    bar_width_ = left >= 34 ? std::min(24, left / 3) : 0;
    operation_width_ = std::clamp(left - bar_width_ - 1, 12, 44);
    std::string titles;
    for (const Column& column : columns()) titles += cell(column.title, column) + " ";
    put(y++, 0, titles, plain, A_BOLD | A_UNDERLINE);
    fastest_ = 1;
    for (const RankLine& line : group.ranks) fastest_ = std::max(fastest_, line.bus_bytes_per_s);
    std::vector<std::function<void(int)>> lines;
    const std::vector<Block> blocks = blocks_of(view, group, order_);
    for (const Block& block : blocks) {
      if (!block.title.empty())
        lines.push_back([&](int at) { put(at, 0, block.title, busy, A_BOLD); });
      for (const RankLine* line : block.ranks)
        lines.push_back([this, line](int at) { draw_rank(at, *line); });
    }
    const int room = std::max(0, end - y), all = static_cast<int>(lines.size());
    scroll_ = std::clamp(scroll_, 0, std::max(0, all - room));
    for (int i = 0; i < std::min(room, all - scroll_); ++i)
      lines[static_cast<size_t>(scroll_) + static_cast<size_t>(i)](y + i);
  }

  std::string cell(const std::string& text, const Column& column) const {
    return fit(text, column.width ? column.width : operation_width_, column.right);
  }

  void draw_rank(int y, const RankLine& line) {
    const std::vector<std::string> cells = cells_of(line);
    int x = 0;
    for (size_t c = 0; c < cells.size(); ++c) {
      const std::string text = cell(cells[c], columns()[c]);
      const bool marked = c == 2 || is_trouble(line.condition);
      put(y, x, text, marked ? colour_of(line.condition) : plain);
      x += (columns()[c].width ? columns()[c].width : operation_width_) + 1;
    }
    if (bar_width_ > 3) put(y, x, bar_text(line.bus_bytes_per_s / fastest_, bar_width_), bar);
  }

  void draw_events(int y, int lines) {
    put_line(y++, fit(" events", COLS, false), heading);
    if (events_.empty()) return put(y, 0, " none", faint);
    const size_t first = events_.size() - std::min(events_.size(), static_cast<size_t>(lines));
    for (size_t i = first; i < events_.size(); ++i) {
      const JobEvent& event = events_[i];
      const bool bad = event.kind != EventKind::recovered && event.kind != EventKind::caught_up &&
                       event.kind != EventKind::left;
      put(y++, 0,
          fmt::format(" {}  {}{}", clock_text(event.time),
                      event.rank >= 0 ? fmt::format("rank {}: ", event.rank) : std::string(),
                      event.text),
          bad ? warning : good);
    }
  }

  Sampler& sampler_;
  std::optional<Sample> sample_;
  std::vector<JobEvent> events_;
  std::future<std::optional<Sample>> looking_;
  SortBy order_ = SortBy::host;
  int group_ = 0, scroll_ = 0, operation_width_ = 30, bar_width_ = 0;
  bool paused_ = false;
  double fastest_ = 1;
};

}  // namespace

void run_screen(Sampler& sampler) {
  const Terminal terminal;
  Screen(sampler).run();
}

}  // namespace ringwood::tools
