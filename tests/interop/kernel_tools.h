// The other end of tools that nobody here wrote: librdmacm's rping and rdma_client/rdma_server, spoken over
// the seam. What they say was read from captures and manual pages:
//
//   rping        The client tells of a buffer (Send of 16 octets: Tagged Offset 64, STag 32, length 32). The
//                server Reads it and says so (any Send). The client tells of another buffer, the server
//                Writes there what it has read and says so. That is one iteration; the client ends it all.
//   rdma_client  A Send of 16 octets each way, the client's first. The client ends it.
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

}  // namespace kbtp::interop
