// The matrix for people and programs: aligned tables, CSV, HTML with heat maps.
#pragma once

#include <string>

#include "tools/matrix/matrix.h"
#include "tools/report/html_report.h"

namespace ringwood::tools {

// "52.0 MB/s", "12.1 us": three digits, the unit that fits.
std::string print_rate(double bytes_per_s);
std::string print_time(double seconds);

// What helps where something was not measured.
inline constexpr const char* kRemedy =
    "their transfers were too short to be timed; a larger --transfer or --max-bytes helps";

// Every table with a heading, marks at what is slow; then what is slow, in sentences.
std::string print_table(const Matrix& matrix);
// A line for each pair of hosts and rail:
// rail,from,to,latency_us,alone_mb_s,pairs_mb_s,all_mb_s,slow
std::string print_csv(const Matrix& matrix);
// The tables as heat maps, for a browser. Throws Error(invalid_argument), naming the file.
void write_html(const Matrix& matrix, const std::string& file);
// The heat maps and sentences alone, for a report that has more.
void add_to_report(const Matrix& matrix, HtmlReport& report);

}  // namespace ringwood::tools
