// For tests of the start-up: one end that faces start-up frames written as hex text.

#pragma once

#include <gtest/gtest.h>
#include <string>

#include "base/hex.h"
#include "rdmap_binding/rnic/engine_rig.h"

namespace kbtp::rnic::test {

inline const std::string kReq = "4d504120494420526571204672616d65";
inline const std::string kRep = "4d504120494420526570204672616d65";
inline std::vector<std::byte> hex(const std::string& text) { return *from_hex(text); }

inline RnicOptions taking(mpa::RtrSet rtr) {
  RnicOptions options;
  options.rtr = rtr;
  return options;
}

/// A responder before the Request.
struct Acceptor {
  explicit Acceptor(RnicOptions rnic = {}) {
    host.options = std::move(rnic);
    end.emplace(host);
    end->engine.start(kEmss);
  }
  std::string answer(const std::string& frame) {
    end->feed(hex(frame));
    return to_hex(end->drain());
  }
  [[nodiscard]] const rdma::Capabilities& agreed() const { return end->recorder.stream->capabilities(); }
  Host host;
  std::optional<End> end;
};

/// An initiator that has sent its Request.
struct Connector {
  explicit Connector(rdma::StreamOptions options = {}, RnicOptions rnic = {}) {
    host.options = std::move(rnic);
    end.emplace(host, std::move(options));
    end->engine.start(kEmss);
    request = to_hex(end->drain());
  }
  /// The ULPDUs that answer.
  std::vector<std::vector<std::byte>> answer(const std::string& frame) {
    end->feed(hex(frame));
    out = end->drain();
    return ulpdus(out);
  }
  [[nodiscard]] const rdma::Capabilities& agreed() const { return end->recorder.stream->capabilities(); }
  /// What the upper layer is told at the end.
  const rdma::CloseReason& closed() {
    end->engine.peer_finished();
    end->settle();
    EXPECT_TRUE(end->recorder.closed.has_value());
    static const rdma::CloseReason none;
    return end->recorder.closed ? *end->recorder.closed : none;
  }
  Host host;
  std::optional<End> end;
  std::string request;
  std::vector<std::byte> out;
};

inline rdma::StreamOptions depths(std::uint32_t ird, std::uint32_t ord) {
  rdma::StreamOptions options;
  options.ird = ird;
  options.ord = ord;
  return options;
}
inline rdma::StreamOptions peer_to_peer() {
  rdma::StreamOptions options;
  options.peer_to_peer = true;
  return options;
}

}  // namespace kbtp::rnic::test
