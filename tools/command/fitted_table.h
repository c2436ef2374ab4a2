// A table whose columns fit the terminal: lines that wrap cannot be read.
//
// On a terminal the least important columns are left out until a line fits its width, which is
// asked once, by the constructor; elsewhere (a file, a pipe) every column is written, so that
// scripts see one form. Not thread safe. The stream must outlive the object.
#pragma once

#include <cstdio>
#include <string>
#include <vector>

namespace ringwood::tools {

struct TableColumn {
  std::string name, unit;
  int width;              // characters; negative: aligned to the left
  int importance;         // 0: never left out; else the largest goes first
  std::string gap = " ";  // before it
};

class FittedTable final {
 public:
  FittedTable(std::FILE* stream, std::vector<TableColumn> columns);

  // Two lines, that of names and that of units, which begin with '#'.
  void write_head() const;
  // Of every column, also of those left out; `mark` takes the place of the head's '#'.
  void write_row(char mark, const std::vector<std::string>& cells) const;
  // What is left out and how to see it, as a sentence; "" where all fit.
  std::string left_out() const;

 private:
  std::string line(char mark, const std::vector<std::string>& cells) const;

  std::FILE* const stream_;
  const std::vector<TableColumn> columns_;
  std::vector<bool> shown_;
};

}  // namespace ringwood::tools
