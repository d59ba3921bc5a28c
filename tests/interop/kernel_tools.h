// The other end of tools that nobody here wrote: librdmacm's rping and rdma_client/rdma_server, and the
// bandwidth tests of perftest, spoken over the seam. What they say was read from captures and manual pages:
//
//   rping        The client tells of a buffer (Send of 16 octets: Tagged Offset 64, STag 32, length 32). The
//                server Reads it and says so (any Send). The client tells of another buffer, the server
//                Writes there what it has read and says so. That is one iteration; the client ends it all.
//   rdma_client  A Send of 16 octets each way, the client's first. The client ends it.
//   ib_write_bw, ib_read_bw, ib_send_bw with -R   Two connections. On the first, Sends of equal length go
//   each
//                way in turn, the client's first: version, sizes, then 56 octets about each end's queue pair
//                and buffer (queue pair 32 bits at octet 8, STag 32 at 16, Tagged Offset 64 at 24); after the
//                test results. The test itself goes over the second, which is opened in between. A receiver
//                of Sends Writes how many there were (32 bits, little-endian) into the sender's buffer.
//
// A handler's `finished` is told once, on the loop: empty when all was as it should be, else what was not.

#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "proto/rdma/provider.h"

namespace kbtp::interop {

using Finished = std::function<void(const std::string& wrong)>;

/// What rping tells of a buffer.
struct PingBuffer {
  std::uint64_t tagged_offset = 0;
  rdma::STag stag = 0;
  std::uint32_t length = 0;

  [[nodiscard]] std::vector<std::byte> encode() const;
  /// Of 16 octets.
  [[nodiscard]] static PingBuffer decode(Octets octets);
};

/// "rdma-ping-ITERATION: " and letters on to a zero octet: what rping's client sends.
[[nodiscard]] std::vector<std::byte> ping_data(std::uint32_t iteration, std::size_t size);

class Tool : public rdma::StreamHandler {
 public:
  explicit Tool(Finished finished) : finished_(std::move(finished)) {}

  void on_open(rdma::Stream& stream, Octets private_data) override;
  void on_completion(const rdma::Completion& completion) override;
  void on_peer_finished() override;
  void on_closed(const rdma::CloseReason& reason) override;

 protected:
  virtual void begin() {}
  virtual void completed(rdma::WorkId /*id*/) {}
  /// Whether the tool's work was done when the stream ended, or what was lacking.
  [[nodiscard]] virtual std::string lacking() const = 0;

  [[nodiscard]] rdma::Stream& stream() { return *stream_; }
  void send(std::vector<std::byte> payload);
  /// The first wrong counts; ends the stream.
  void fail(std::string wrong);

 private:
  Finished finished_;
  rdma::Stream* stream_ = nullptr;
  std::string wrong_;
};

class PingServer final : public Tool {
 public:
  /// `size`: of its buffer; a client's must fit.
  PingServer(std::size_t size, Finished finished) : Tool(std::move(finished)), buffer_(size) {}

  void on_received(const rdma::Received& received) override;
  [[nodiscard]] std::uint32_t iterations() const { return iterations_; }

 private:
  void completed(rdma::WorkId id) override;
  [[nodiscard]] std::string lacking() const override;

  std::vector<std::byte> buffer_;
  bool writing_ = false;  ///< what the client tells of next is for a Write
  std::uint32_t length_ = 0;
  std::uint32_t iterations_ = 0;
};

class PingClient final : public Tool {
 public:
  PingClient(std::uint32_t iterations, std::size_t size, Finished finished)
      : Tool(std::move(finished)), wanted_(iterations), source_(size), sink_(size) {}

  void on_received(const rdma::Received& received) override;
  [[nodiscard]] std::uint32_t iterations() const { return done_; }

 private:
  void begin() override;
  void ping();
  [[nodiscard]] std::string lacking() const override;

  std::uint32_t wanted_;
  std::uint32_t done_ = 0;
  std::vector<std::byte> source_, sink_;
  PingBuffer source_buffer_, sink_buffer_;
  bool read_ = false;  ///< the server has the data of this iteration
};

class HelloServer final : public Tool {
 public:
  using Tool::Tool;
  void on_received(const rdma::Received& received) override;

 private:
  [[nodiscard]] std::string lacking() const override;
  bool answered_ = false;
};

class HelloClient final : public Tool {
 public:
  using Tool::Tool;
  void on_received(const rdma::Received& received) override;

 private:
  void begin() override;
  [[nodiscard]] std::string lacking() const override;
  bool answered_ = false;
};

/// Both connections of a bandwidth test. Lives longer than its streams; one loop.
class BandwidthServer {
 public:
  /// `size`: octets that the client may write and read. Registers them with `provider`.
  BandwidthServer(rdma::Provider& provider, std::size_t size, Finished finished);

  /// For the provider's listener.
  [[nodiscard]] rdma::AcceptDecision accept();

 private:
  class Handshake final : public Tool {
   public:
    Handshake(BandwidthServer& server, Finished finished) : Tool(std::move(finished)), server_(server) {}
    void on_received(const rdma::Received& received) override;

   private:
    [[nodiscard]] std::string lacking() const override;
    BandwidthServer& server_;
    unsigned buffers_told_ = 0;
  };
  class Test final : public Tool {
   public:
    Test(BandwidthServer& server, Finished finished) : Tool(std::move(finished)), server_(server) {}
    void on_received(const rdma::Received& received) override;

   private:
    [[nodiscard]] std::string lacking() const override { return {}; }
    BandwidthServer& server_;
    std::uint32_t received_ = 0;
  };
  Finished one_ended();

  std::vector<std::byte> memory_;
  rdma::DomainId domain_;
  rdma::Region region_;
  rdma::RemoteBuffer client_;  ///< what the client told of
  Finished finished_;
  std::string wrong_;
  Handshake handshake_;
  Test test_;
  unsigned accepted_ = 0, ended_ = 0;
};

}  // namespace kbtp::interop
