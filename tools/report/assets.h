// What every report carries, so that it opens without a network: files of this folder, as text. The
// build makes the source from them (embed.py).
#pragma once

namespace ringwood::tools {

extern const char* const kUplotScript;  // uPlot, a plotting library; unchanged, licence in uplot/
extern const char* const kUplotStyle;
extern const char* const kReportScript;
extern const char* const kReportStyle;

}  // namespace ringwood::tools
