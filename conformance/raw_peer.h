// RawPeer: one TCP connection over which the suite can say anything. It knows codecs and octets and nothing
// of sessions; what it sends may be wrong in any way. So that a case can bring a target to an interesting
// point it also keeps a small responder: it answers the target's RDMA Reads out of buffers that it exposes
// and takes its Writes into them.

#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/address.h"
#include "base/bytes.h"
#include "base/result.h"
#include "base/time.h"
#include "conformance/evidence.h"
#include "conformance/peer.h"
#include "conformance/profile.h"
#include "rdmap_binding/ddp/segment.h"
#include "rdmap_binding/mpa/fpdu.h"
#include "rdmap_binding/mpa/marker.h"
#include "rdmap_binding/mpa/startup.h"
#include "rdmap_binding/rdmap/headers.h"
#include "rdmap_binding/rdmap/segment.h"

namespace kbtp::conformance {

/// What one side said, in the order in which the suite saw it: the record that `--capture none` judges from.
struct RecordEntry {
  enum class Kind : std::uint8_t {
    octets,
    fin,
    reset,
  };
  Side from = Side::suite;
  Kind kind = Kind::octets;
  std::vector<std::byte> octets = {};
};

/// The ULPDU of a tagged segment, complete in itself.
[[nodiscard]] std::vector<std::byte> tagged_ulpdu(rdmap::Opcode opcode, std::uint32_t stag,
                                                  std::uint64_t tagged_offset, Octets payload);
/// Header and payload of any segment.
[[nodiscard]] std::vector<std::byte> ulpdu(const ddp::Header& header, Octets payload);

class RawPeer final : public Peer {
 public:
  /// A socket bound to a local port of its own, not yet connected: a capture can be told of the port first.
  [[nodiscard]] static Result<std::unique_ptr<RawPeer>> bind_for(const SocketAddress& target,
                                                                 const Allowances& allowances = {});
  /// One that never had a connection, and why.
  [[nodiscard]] static std::unique_ptr<RawPeer> dead(std::string why);
  ~RawPeer() override;
  RawPeer(const RawPeer&) = delete;
  RawPeer& operator=(const RawPeer&) = delete;

  [[nodiscard]] const SocketAddress& local() const { return local_; }
  /// The TCP connection; false with trouble() when it cannot be had.
  [[nodiscard]] bool connect();
  [[nodiscard]] bool open(const OnBound& on_bound) override;

  // Octets
  // -----------------------------------------------------------------------------------------------------

  void send(Octets octets);
  /// From here on nothing is done for the target's sake.
  void make_no_allowances();
  /// Each octet in a TCP segment of its own (TCP_NODELAY, one write each).
  void send_one_by_one(Octets octets);
  /// FIN; receiving goes on.
  void finish() override;
  /// Closes for good.
  void close() override;

  // Set-up
  // -----------------------------------------------------------------------------------------------------

  /// Sends the Request and waits for the Reply; the Reply's frame, or nothing (close, garbage, no answer).
  std::optional<SetupFrame> start_up(const mpa::StartupFrame& request);
  [[nodiscard]] bool establish(const mpa::StartupFrame& request) override;
  /// A Reply has come.
  [[nodiscard]] bool in_operation() const { return reply_.has_value(); }

  // Frames
  // -----------------------------------------------------------------------------------------------------

  /// One FPDU with its right CRC around the ULPDU `payload`, or around it with pad octets of `pad`.
  void send_fpdu(Octets payload, std::byte pad = std::byte{0});
  [[nodiscard]] static std::vector<std::byte> framed(Octets ulpdu) { return mpa::encode_fpdu(ulpdu); }
  /// The same with one bit of the CRC-covered payload flipped after the CRC was made.
  void send_damaged_fpdu(Octets payload);
  /// The ULPDU of the next Send, counted on queue 0. `invalidate` makes it a Send with Invalidate.
  [[nodiscard]] std::vector<std::byte> next_send(Octets payload,
                                                 std::optional<std::uint32_t> invalidate = std::nullopt);
  /// All in one write.
  void send_messages(const std::vector<std::vector<std::byte>>& messages) override;
  /// The ULPDU of the next Read Request, counted on queue 1.
  [[nodiscard]] std::vector<std::byte> next_read_request(const rdmap::ReadRequest& request);
  /// The MSN that the next Send will have.
  [[nodiscard]] std::uint32_t next_msn() const { return send_msn_; }

  // Memory
  // -----------------------------------------------------------------------------------------------------

  [[nodiscard]] ExposedBuffer& expose(std::size_t size, Revocable revocable = Revocable::no) override;
  /// While held, Read Requests of the target wait in pending_reads().
  void hold_reads(bool hold) { hold_reads_ = hold; }
  [[nodiscard]] const std::deque<rdmap::ReadRequest>& pending_reads() const { return pending_reads_; }
  /// Answers all that wait.
  void answer_reads();

  // What came
  // --------------------------------------------------------------------------------------------------

  using Peer::pump;
  bool pump(const std::function<bool()>& done, Duration patience) override;
  [[nodiscard]] std::deque<std::vector<std::byte>>& messages() override { return messages_; }
  [[nodiscard]] bool ended() const override { return ended_; }
  [[nodiscard]] std::size_t read_responses() const { return read_responses_; }
  [[nodiscard]] const std::string& trouble() const override { return trouble_; }
  [[nodiscard]] const std::vector<RecordEntry>& record() const { return record_; }

 private:
  [[nodiscard]] Duration patience() const override { return allowances_.patience; }
  RawPeer(int socket, SocketAddress local, SocketAddress target, const Allowances& allowances);
  void give_up(std::string why);
  void receive_some(Duration patience);
  void receive_octets();
  void write(Octets octets);
  void write_all(Octets octets);
  void write_whole_trailers(Octets octets);
  void handle_input();
  std::size_t handle_marked_fpdu(Octets octets);
  void handle_ulpdu(Octets octets);
  void answer(const rdmap::ReadRequest& request);
  ExposedBuffer* buffer(std::uint32_t stag);
  void note(Side from, Octets octets);

  int socket_;
  SocketAddress local_;
  SocketAddress target_;
  Allowances allowances_;
  TimePoint quiet_until_{};
  bool finished_ = false;
  bool ended_ = false;
  bool in_setup_ = true;
  std::optional<mpa::MarkerClock> markers_;  ///< in what comes, if the Request asked for them
  std::optional<SetupFrame> reply_;
  bool hold_reads_ = false;
  std::uint32_t send_msn_ = 1;
  std::uint32_t read_msn_ = 1;
  std::size_t read_responses_ = 0;
  std::vector<std::byte> input_;
  std::vector<std::byte> partial_send_;
  std::deque<std::vector<std::byte>> messages_;
  std::deque<rdmap::ReadRequest> pending_reads_;
  std::deque<ExposedBuffer> buffers_;
  std::string trouble_;
  std::vector<RecordEntry> record_;
};

}  // namespace kbtp::conformance
