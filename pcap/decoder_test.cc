// Which segments make up a connection, which end of it is the client, and when lost octets are told.

#include "pcap/decoder.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <utility>

#include "pcap/test_frames.h"
#include "pcap/trace.h"

namespace kbtp::trace {
namespace {

using namespace test;
using rdmap::Opcode;

Bytes send(std::uint32_t msn) { return untagged(Opcode::send, 0, msn, 0, true, pattern(50)); }

/// Start-up and a Send each way between the same ends, from other sequence numbers each time.
Conversation talk_from(std::uint32_t client_isn, std::uint32_t server_isn) {
  Conversation talk(client_isn, server_isn);
  talk.open();
  talk.say(true, request());
  talk.say(false, reply());
  talk.say(true, send(1));
  talk.say(false, send(1));
  return talk;
}

void append(std::vector<Frame>& to, const std::vector<Frame>& what) {
  for (Frame frame : what) {
    frame.number = to.size() + 1;
    frame.time_ns = static_cast<std::int64_t>(frame.number) * 1000;
    to.push_back(std::move(frame));
  }
}
/// Without the first segments, or those of one end.
std::vector<Frame> behind(const Conversation& talk, std::size_t first) {
  return {talk.frames.begin() + static_cast<std::ptrdiff_t>(first), talk.frames.end()};
}
std::vector<Frame> of_the_server(const Conversation& talk) {
  std::vector<Frame> frames;
  for (const Frame& frame : talk.frames) {
    const auto packet = decode_frame(frame);
    if (packet && std::get<TcpSegment>(*packet).source == v4(2, 7420)) frames.push_back(frame);
  }
  return frames;
}

std::size_t messages(const Connection& connection) {
  return static_cast<std::size_t>(std::ranges::count_if(
      connection.events, [](const Event& event) { return event.as<Message>() != nullptr; }));
}
std::uint64_t missing(const Connection& connection) {
  return connection.counters[0].missing + connection.counters[1].missing;
}

TEST(Connections, ANewSynBeginsAnotherThoughNeitherHasEnded) {
  std::vector<Frame> frames;
  append(frames, talk_from(1000, 2000).frames);
  append(frames, talk_from(1500, 2500).frames);
  const Trace trace = decode_trace(frames);
  ASSERT_EQ(trace.connections.size(), 2U);
  for (const Connection& connection : trace.connections) {
    EXPECT_TRUE(connection.opening_seen);
    EXPECT_EQ(messages(connection), 2U);
    EXPECT_EQ(missing(connection), 0U);
  }
}

TEST(Connections, TheServersSynDoesWhereTheClientsIsLacking) {
  // The client's SYN alone is lacking; then all that the client sends.
  std::vector<Frame> without_syn;
  append(without_syn, talk_from(1000, 2000).frames);
  append(without_syn, behind(talk_from(0x50000000, 0x60000000), 1));
  std::vector<Frame> one_sided;
  append(one_sided, of_the_server(talk_from(1000, 2000)));
  append(one_sided, of_the_server(talk_from(0x50000000, 0x60000000)));
  for (const auto& [frames, each] : {std::pair(without_syn, 2U), std::pair(one_sided, 1U)}) {
    const Trace trace = decode_trace(frames);
    ASSERT_EQ(trace.connections.size(), 2U);
    for (const Connection& connection : trace.connections) {
      EXPECT_EQ(connection.server, v4(2, 7420));
      EXPECT_EQ(messages(connection), each);
      EXPECT_EQ(missing(connection), 0U);
    }
  }
}

TEST(Connections, SynsAgainAndInEitherOrderAreOfTheSame) {
  const Conversation talk = talk_from(1000, 2000);
  std::vector<Frame> frames{talk.frames[1], talk.frames[0], talk.frames[1]};
  append(frames, behind(talk, 2));
  append(frames, {talk.frames[0], talk.frames[1]});
  const Trace trace = decode_trace(frames);
  ASSERT_EQ(trace.connections.size(), 1U);
  EXPECT_TRUE(trace.connections[0].opening_seen);
  EXPECT_EQ(trace.connections[0].client, v4(1, 40000));
  EXPECT_EQ(messages(trace.connections[0]), 2U);
}

TEST(Connections, OctetsFarBehindTheEndAreOfAnother) {
  for (const bool reset : {false, true}) {
    Conversation first = talk_from(1000, 2000);
    if (reset) {
      first.rst(true);
    } else {
      first.fin(true);
      first.fin(false);
    }
    std::vector<Frame> frames;
    append(frames, first.frames);
    append(frames, {first.frames[2]});  // sent again: still of the first
    append(frames, behind(talk_from(0x50000000, 0x60000000), 2));
    const Trace trace = decode_trace(frames);
    ASSERT_EQ(trace.connections.size(), 2U) << reset;
    EXPECT_FALSE(trace.connections[1].opening_seen);
    for (const Connection& connection : trace.connections) {
      EXPECT_EQ(messages(connection), 2U) << reset;
      EXPECT_EQ(missing(connection), 0U) << reset;
    }
  }
}

TEST(Connections, WithoutTheOpeningTheReplyOrThePortTellsTheServer) {
  const Conversation talk = talk_from(1000, 2000);
  for (const std::size_t first : {2U, 3U, 4U, 5U}) {
    const Trace trace = decode_trace(behind(talk, first));
    ASSERT_EQ(trace.connections.size(), 1U);
    EXPECT_EQ(trace.connections[0].client, v4(1, 40000)) << first;
    EXPECT_FALSE(trace.connections[0].opening_seen);
  }
  // Where the ports say nothing the Reply does, and without it who was first.
  Conversation high(1000, 2000, 700);
  high.say(false, reply());
  EXPECT_EQ(decode_trace(high.frames).connections.at(0).client, v4(1, 700));
  Conversation either(1000, 2000, 700);
  either.say(false, send(1));
  EXPECT_EQ(decode_trace(either.frames).connections.at(0).client, v4(2, 7420));
}

TEST(Connections, WhatTheOtherEndHasAndTheCaptureLacksIsToldBeforeTheEnd) {
  Conversation talk = talk_from(1000, 2000);
  talk.skip(true, send(2).size());
  talk.say(true, send(3));
  const std::uint64_t last_sent = talk.frames.size();
  for (std::uint32_t i = 0; i < 200; ++i) talk.say(false, send(2 + i));
  const Trace trace = decode_trace(talk.frames);
  const auto& events = trace.connections.at(0).events;
  const auto lost = std::ranges::find_if(events, [](const Event& e) { return e.as<Missing>() != nullptr; });
  ASSERT_NE(lost, events.end());
  EXPECT_EQ(lost->as<Missing>()->length, send(2).size());
  EXPECT_EQ(std::prev(lost)->frame.number, last_sent + 1 + Reassembler::Limits{}.patience_segments);
  EXPECT_EQ(lost->frame.number, last_sent);
  EXPECT_EQ(missing(trace.connections[0]), send(2).size());
}

TEST(Connections, AResetLeavesNothingToWaitFor) {
  Conversation talk = talk_from(1000, 2000);
  talk.skip(true, send(2).size());
  talk.say(true, send(3));
  talk.rst(true);
  const std::uint64_t reset = talk.frames.size();
  talk.say(false, send(2));
  const auto events = decode_trace(talk.frames).connections.at(0).events;
  const auto found = [&](auto is) { return std::ranges::find_if(events, is); };
  const auto lost = found([](const Event& e) { return e.as<Missing>() != nullptr; });
  const auto end = found([](const Event& e) { return e.as<TcpEnd>() != nullptr; });
  ASSERT_NE(lost, events.end());
  ASSERT_NE(end, events.end());
  EXPECT_LT(lost, end);
  EXPECT_EQ(end->frame.number, reset);
}

}  // namespace
}  // namespace kbtp::trace
