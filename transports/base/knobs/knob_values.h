// How the values of the table of knobs (knobs.h) are read and shown.
#pragma once

#include <array>
#include <string>

#include <fmt/ranges.h>

#include "transports/base/knobs/knob_text.h"
#include "transports/base/knobs/knobs.h"

namespace ringwood::knob_values {

using Text = const std::string&;

// The field of a row, wherever it is nested.
template <class T>
auto& field(auto& options, T Options::*member) {
  return options.*member;
}
template <class T>
auto& field(auto& options, T VerbsOptions::*member) {
  return options.verbs.*member;
}

template <class T>
auto& field(auto& options, T CudaOptions::*member) {
  return options.cuda.*member;
}

template <auto member, int lowest, int highest>
constexpr KnobText kNumber = {
    [](Text text, Options& o) { field(o, member) = parse_number(text, lowest, highest); },
    [](const Options& o) { return std::to_string(field(o, member)); }};

template <auto member>
constexpr KnobText kSwitch = {
    [](Text text, Options& o) { field(o, member) = parse_number(text, 0, 1) != 0; },
    [](const Options& o) { return std::string(field(o, member) ? "1" : "0"); }};

template <auto member>
constexpr KnobText kText = {[](Text text, Options& o) { field(o, member) = text; },
                            [](const Options& o) { return field(o, member); }};

template <auto member, size_t lowest, size_t highest, bool power_of_two = false>
constexpr KnobText kBytes = {[](Text text, Options& o) {
                               field(o, member) = parse_bytes(text, lowest, highest, power_of_two);
                             },
                             [](const Options& o) { return std::to_string(field(o, member)); }};

template <auto member>
constexpr KnobText kSeconds = {
    [](Text text, Options& o) { field(o, member) = parse_seconds(text); },
    [](const Options& o) { return show_seconds(field(o, member)); }};

template <auto member, const auto& words>
constexpr KnobText kWord = {
    [](Text text, Options& o) { field(o, member) = words[parse_word(text, words)]; },
    [](const Options& o) { return field(o, member); }};

inline constexpr std::array kFamilies = {"AF_INET", "AF_INET6"};
inline constexpr std::array kCalibrations = {"keep", "refresh", "off"};
inline constexpr std::array kLevels = {"error", "warn", "info", "debug"};

inline constexpr size_t kKiB = size_t{1} << 10, kGiB = size_t{1} << 30;

// Values with a format of their own.
inline constexpr KnobText kTransports = {
    [](Text text, Options& o) { o.transports = parse_list(text); },
    [](const Options& o) { return fmt::format("{}", fmt::join(o.transports, ",")); }};
inline constexpr KnobText kPorts = {
    [](Text text, Options& o) { o.ports = parse_ports(text); },
    [](const Options& o) { return fmt::format("{}-{}", o.ports.first, o.ports.last); }};
inline constexpr KnobText kHeartbeat = {
    [](Text text, Options& o) {
      o.heartbeat = std::chrono::milliseconds(parse_number(text, 10, 60000));
    },
    [](const Options& o) { return std::to_string(o.heartbeat.count()); }};
inline constexpr KnobText kTolerance = {
    [](Text text, Options& o) { o.tolerance = parse_tolerance(text); },
    [](const Options& o) { return fmt::format("{}", o.tolerance); }};
inline constexpr KnobText kLog = {
    [](Text text, Options& o) { o.log_level = LogLevel(parse_word(text, kLevels)); },
    [](const Options& o) { return std::string(kLevels[static_cast<size_t>(o.log_level)]); }};

}  // namespace ringwood::knob_values
