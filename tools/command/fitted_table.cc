#include "tools/command/fitted_table.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include <fmt/format.h>

#include "tools/command/terminal_width.h"

namespace ringwood::tools {
namespace {

int width_of(const TableColumn& column) {
  return static_cast<int>(column.gap.size()) + std::abs(column.width);
}

// Of a line with every column; the mark is one character.
int width_of(const std::vector<TableColumn>& columns) {
  int width = 1;
  for (const TableColumn& column : columns) width += width_of(column);
  return width;
}

// Columns that are shown where a line has `room` characters; 0: all.
std::vector<bool> fitting(const std::vector<TableColumn>& columns, int room) {
  std::vector<bool> shown(columns.size(), true);
  int needed = width_of(columns);
  while (room > 0 && needed > room) {
    size_t least = 0;
    for (size_t i = 0; i < columns.size(); ++i)
      if (shown[i] && (!shown[least] || columns[i].importance > columns[least].importance))
        least = i;
    if (!shown[least] || columns[least].importance == 0) break;
    shown[least] = false;
    needed -= width_of(columns[least]);
  }
  return shown;
}

}  // namespace

FittedTable::FittedTable(std::FILE* stream, std::vector<TableColumn> columns)
    : stream_(stream),
      columns_(std::move(columns)),
      shown_(fitting(columns_, terminal_width(stream).value_or(0))) {}

std::string FittedTable::line(char mark, const std::vector<std::string>& cells) const {
  std::string text(1, mark);
  for (size_t i = 0; i < columns_.size(); ++i)
    if (shown_[i])
      text += columns_[i].gap + (columns_[i].width < 0
                                     ? fmt::format("{:<{}}", cells[i], -columns_[i].width)
                                     : fmt::format("{:>{}}", cells[i], columns_[i].width));
  text.erase(text.find_last_not_of(' ') + 1);
  return text;
}

void FittedTable::write_head() const {
  std::vector<std::string> names, units;
  for (const TableColumn& column : columns_) {
    names.push_back(column.name);
    units.push_back(column.unit);
  }
  fmt::print(stream_, "{}\n{}\n", line('#', names), line('#', units));
}

void FittedTable::write_row(char mark, const std::vector<std::string>& cells) const {
  fmt::print(stream_, "{}\n", line(mark, cells));
}

std::string FittedTable::left_out() const {
  const auto left = std::ranges::count(shown_, false);
  const int needed = width_of(columns_) + 1;  // the terminal's last column stays free
  return left == 0
             ? ""
             : fmt::format("{} more columns in a terminal {} wide, a file or a pipe", left, needed);
}

}  // namespace ringwood::tools
