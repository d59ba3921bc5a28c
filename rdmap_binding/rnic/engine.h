// One stream's protocol engine: MPA start-up, FPDUs, DDP, RDMAP and RFC 7306, without I/O and without a
// clock. Its driver (a socket, a pair of byte queues in tests, a fuzzer) asks where the next received octets
// belong and which octets to send next, and tells what became of them; the upper layer uses it as an
// rdma::Stream.
//
//   driver: start(), then in any order  receive_plan()/received(), peer_finished(), transport_lost(),
//           send_plan()/sent(), fin_due()/fin_sent(), tick() at deadline(); after each of them, and after
//           EngineHost::wake(), pump(); until finished().
//
// Everything runs on one loop. Handler callbacks run inside received(), peer_finished() and pump() only.

#pragma once

#include <array>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <sys/uio.h>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/result.h"
#include "proto/rdma/provider.h"
#include "rdmap_binding/mpa/marker.h"
#include "rdmap_binding/mpa/negotiation.h"
#include "rdmap_binding/mpa/startup.h"
#include "rdmap_binding/rdmap/segment.h"
#include "rdmap_binding/rdmap/terminate.h"
#include "rdmap_binding/rnic/input_buffer.h"
#include "rdmap_binding/rnic/rnic.h"
#include "rdmap_binding/rnic/send_window.h"
#include "rdmap_binding/rnic/stag_table.h"

namespace kbtp::rnic {

/// What an engine asks of its driver.
class EngineHost {
 public:
  virtual ~EngineHost() = default;
  /// There may be something to send or to tell: call send_plan() and pump() soon, not from inside this call.
  virtual void wake() = 0;
  /// Responder: the upper layer's answer to a valid MPA Request.
  virtual rdma::AcceptDecision decide(Octets private_data,
                                      const std::optional<rdma::PeerDepths>& peer_depths) = 0;
};

/// What all streams of a loop share, and what makes this one itself.
struct EngineSetup {
  StagTable& stags;
  Staging& staging;
  rdma::Loop& loop;
  EngineHost& host;
  const RnicOptions& options;
  StreamId id{};
  SocketAddress local;
  SocketAddress peer;
};

/// How long the end of a stream may take once a Terminate or a rejection is on its way.
inline constexpr Duration kTeardownDeadline = std::chrono::seconds(5);

[[nodiscard]] rdma::Capabilities capabilities_of(std::uint32_t ird, std::uint32_t ord);

class Engine final : public rdma::Stream {
 public:
  /// Initiator of the MPA start-up.
  Engine(const EngineSetup& setup, rdma::StreamOptions options, rdma::StreamHandler& handler);
  /// Responder: handler and options come with the upper layer's decision.
  explicit Engine(const EngineSetup& setup);
  ~Engine() override;

  // The driver's side.

  /// TCP is established; `emss` is the largest segment that it sends (RFC 5044 5.1).
  void start(std::size_t emss);
  /// The largest segment has changed (TCP starts with half of a small window, RFC 5044 4.5).
  void set_emss(std::size_t emss);
  /// TCP could not be established, or is gone: the stream ends for this reason.
  void transport_lost(rdma::CloseReason::Kind kind, std::string text);
  /// Where the next octets belong, first piece first; never empty.
  [[nodiscard]] std::span<const iovec> receive_plan();
  /// `n` octets have been put there.
  void received(std::size_t n);
  /// The peer's FIN.
  void peer_finished();
  /// True once after peer_finished() or transport_lost() when a peer has closed on our enhanced Request
  /// (RnicOptions::legacy_peers): the driver connects anew, tells the new address and calls start() again.
  [[nodiscard]] bool take_restart() { return std::exchange(restart_due_, false); }
  void set_local(const SocketAddress& local) { setup_.local = local; }

  /// What to send next; empty when there is nothing or it may not be sent now.
  [[nodiscard]] std::span<const iovec> send_plan();
  void sent(std::size_t n);
  [[nodiscard]] bool fin_due() const;
  void fin_sent();

  /// Completions and the end are told here.
  void pump();
  [[nodiscard]] TimePoint deadline() const;
  void tick();

  /// on_closed() has been called (or there is nobody to call): the driver may close TCP and drop the engine.
  [[nodiscard]] bool finished() const { return told_closed_; }
  /// TCP is to be reset rather than closed.
  [[nodiscard]] bool abortive() const { return abortive_; }
  [[nodiscard]] bool in_startup() const { return state_ == State::startup; }
  [[nodiscard]] const rdma::CloseReason& reason() const { return reason_; }

  /// The memory behind a domain's STag is about to go away.
  void forget_memory(rdma::STag stag) { window_.make_private(stag); }

  // The upper layer's side (rdma::Stream).

  rdma::Loop& loop() override { return setup_.loop; }
  const rdma::Capabilities& capabilities() const override { return capabilities_; }
  const SocketAddress& peer() const override { return setup_.peer; }
  const SocketAddress& local() const override { return setup_.local; }
  void post(std::vector<rdma::WorkRequest> requests) override;
  [[nodiscard]] std::size_t backlog() const override { return end_number() - next_number_; }
  void post_receives(std::uint32_t count) override;
  Result<rdma::Region> register_region(const rdma::RegionSpec& spec) override;
  void revoke(rdma::STag stag) override;
  void close(Duration linger) override;
  void abort(std::string why) override;

 private:
  friend struct SequenceNumbers;  // engine_rig.h: tests that begin near a wrap

  enum class State : std::uint8_t {
    startup,      ///< MPA start-up frames
    open,         ///< full operation
    terminating,  ///< an error was found: answers already due, then a Terminate, then FIN; input is ignored
    leaving,      ///< nothing more to say: FIN, then the peer's FIN or a deadline; input is ignored
    ended,
  };
  /// A request of the upper layer that has not completed.
  struct Posted {
    rdma::WorkRequest request;
    rdma::Completion completion;
    bool done = false;
  };
  /// A Read or Atomic of ours that the peer has not answered yet.
  struct Outstanding {
    std::uint64_t number = 0;  // of its Posted
    bool atomic = false;
    rdma::STag sink_stag = 0;
    Target sink;
    std::uint32_t received = 0;  // octets of the Response, and the Tagged Offset of the next one
    std::uint32_t identifier = 0;
  };
  /// A Read or Atomic of the peer that is not answered yet.
  struct Inbound {
    std::variant<rdmap::ReadRequest, rdmap::AtomicRequest> request;
    std::array<std::byte, ddp::kUntaggedHeaderSize> ddp_header{};
    std::uint16_t segment_length = 0;
    std::uint32_t sent = 0;  // octets of the Read Response
  };
  /// Tagged payload that is being received straight into place (CRCs off).
  struct Direct {
    bool active = false;
    std::array<std::byte, ddp::kTaggedHeaderSize> header{};
    rdmap::SegmentHead head;
    std::uint16_t ulpdu_length = 0;
    std::size_t done = 0;     // octets of payload placed
    std::size_t trailer = 0;  // octets of PAD and CRC still to come
  };
  using Fault = std::optional<WireError>;

  // engine_startup.cc
  void send_request();
  bool parse_startup();
  void on_request(const mpa::StartupFrame& request, std::size_t behind);
  void on_reply(const mpa::StartupFrame& reply);
  void accept(const mpa::StartupFrame& request, rdma::Accept decision);
  void reject(const mpa::StartupFrame& request, const rdma::Reject& rejection);
  void send_reply(const mpa::StartupFrame& request, bool rejecting, std::optional<mpa::Enhanced> enhanced,
                  Octets private_data);
  void refuse(std::string text);
  void adopt(const mpa::StartupFrame& peer);
  [[nodiscard]] mpa::LocalLimits limits() const;
  void enter_full_operation(mpa::ReadDepths depths, Octets private_data);

  // engine_receive.cc
  void parse();
  bool parse_fpdu();
  bool start_direct(Octets fpdu, std::uint16_t ulpdu_length);
  void finish_direct();
  bool parse_marked_fpdu(Octets octets);
  void on_fpdu(Octets fpdu, std::uint16_t ulpdu_length, CrcVerdict verdict);
  tl::expected<Target, WireError> place_for(const rdmap::SegmentHead& head);
  tl::expected<Target, WireError> place_for_response(const rdmap::SegmentHead& head);
  void tagged_arrived(const rdmap::SegmentHead& head, Octets ulpdu_head, std::uint16_t ulpdu_length);
  void read_response_arrived(const rdmap::SegmentHead& head, Octets ulpdu_head, std::uint16_t ulpdu_length);
  void observe_received(const std::byte* fpdu, std::uint16_t ulpdu_length, CrcVerdict verdict);

  // engine_deliver.cc
  void on_untagged(const rdmap::SegmentView& segment, Octets ulpdu);
  Fault check_msn(const ddp::UntaggedHeader& header) const;
  Fault on_send_segment(const rdmap::SegmentHead& head, Octets payload,
                        std::optional<std::uint64_t> immediate);
  Fault deliver_send(const rdmap::SegmentHead& head, Octets message, std::optional<std::uint64_t> immediate);
  Fault on_read_request(const rdmap::ReadRequest& request, Octets ulpdu);
  Fault on_atomic_request(const rdmap::AtomicRequest& request, Octets ulpdu);
  Fault on_atomic_response(const rdmap::AtomicResponse& response);
  void on_terminate(const rdmap::Terminate& terminate);
  tl::expected<Target, WireError> source_of(const rdmap::ReadRequest& request, std::uint32_t done,
                                            std::uint32_t length) const;
  tl::expected<std::uint64_t*, WireError> word_of(const rdmap::AtomicRequest& request) const;

  // engine_send.cc
  void fill_window();
  /// Whether the peer has to answer, so that it takes up Read depth.
  [[nodiscard]] static bool is_answered(const rdma::WorkRequest& request);
  [[nodiscard]] bool posted_ready();
  void append_posted();
  void append_write(const rdma::Write& write, std::uint64_t completes);
  void append_immediate(const rdma::Immediate& immediate, std::uint64_t completes);
  void append_send(const rdma::Send& send, std::uint64_t completes);
  void append_read(const rdma::Read& read, std::uint64_t number);
  void append_atomic(rdmap::AtomicRequest request, const rdma::RemoteBuffer& word, std::uint64_t number);
  void append_rtr();
  void append_response();
  void fail_response(const WireError& error, const std::optional<rdmap::ReadRequest>& read);
  void append_terminate();
  void append_tagged(rdmap::Opcode opcode, rdma::STag stag, std::uint64_t offset, bool last,
                     const SendWindow::Payload& payload, std::uint64_t completes);
  void append_untagged(rdmap::Opcode opcode, std::uint32_t msn, std::uint32_t mo, rdma::STag invalidate,
                       bool last, Octets rdmap_header, const SendWindow::Payload& payload,
                       std::uint64_t completes);
  void observe_sent(const SendWindow::Fpdu& fpdu);

  // engine.cc
  /// An error in what the peer sent: Terminate if one may be sent, else a plain close.
  void fail(const WireError& error, const rdmap::Offender& offender);
  bool start_over();
  void leave(rdma::CloseReason reason);
  void end(rdma::CloseReason reason);
  void flush_posted();
  void flush_unanswered();
  void complete(std::uint64_t number, rdma::WorkStatus status, std::uint64_t original);
  void tell_completions();
  [[nodiscard]] std::uint64_t end_number() const { return first_number_ + posted_.size(); }
  [[nodiscard]] Posted& posted(std::uint64_t number) { return posted_[number - first_number_]; }
  [[nodiscard]] rdma::CloseReason make_reason(rdma::CloseReason::Kind kind, std::string text) const;

  EngineSetup setup_;
  const bool initiator_;
  rdma::StreamOptions options_;
  rdma::StreamHandler* handler_ = nullptr;
  rdma::Capabilities capabilities_;
  StreamScope scope_;
  State state_ = State::startup;
  bool started_ = false;      // TCP is established
  bool opened_ = false;       // on_open() has been called
  bool told_closed_ = false;  // on_closed() has been called
  bool abortive_ = false;
  bool closing_ = false;  // close() has been called
  bool fin_sent_ = false;
  bool peer_finished_ = false;
  rdma::CloseReason reason_;
  TimePoint setup_deadline_ = kNever;
  TimePoint end_deadline_ = kNever;     // of close(), a Terminate, a rejection
  TimePoint last_progress_{};           // of sending
  std::unordered_set<rdma::STag> own_;  // STags of this stream

  // Start-up.
  std::optional<mpa::Enhanced> offered_;
  unsigned revision_ = 0;     // of our Request
  bool restart_due_ = false;  // the driver is to connect anew
  bool crc_ = true;
  std::optional<mpa::MarkerClock> in_markers_;  // set when we asked for markers
  std::optional<rdma::PeerDepths> peer_depths_;

  // Receiving.
  InputBuffer input_;
  std::array<iovec, 2> plan_{};
  Direct direct_;
  bool first_fpdu_seen_ = false;
  bool rtr_send_agreed_ = false;       // the first FPDU may be an RTR Send (RFC 6581 5)
  std::uint64_t received_octets_ = 0;  // in front of what is unread
  std::array<std::uint32_t, rdmap::kQueueCount> in_msn_{1, 1, 1, 1};
  std::uint32_t receives_ = 0;
  std::vector<std::byte> message_;               // segments of an unfinished Send
  std::optional<rdmap::Opcode> message_opcode_;  // of an unfinished Send
  std::deque<Outstanding> outstanding_;
  std::deque<Inbound> inbound_;
  std::uint32_t ird_ = 0;
  std::uint32_t ord_ = 0;

  // Sending.
  SendWindow window_;
  std::size_t emss_ = 0;
  std::size_t mulpdu_ = 0;
  std::optional<mpa::RtrKind> rtr_due_;   // Initiator, peer-to-peer: in front of all else (RFC 6581 5)
  bool may_send_ = false;                 // Responder: not before the first valid FPDU (RFC 5044 7.1.2)
  std::optional<TimePoint> pause_until_;  // Initiator: no FPDU before (RnicOptions::pause_after_reply)
  std::uint64_t sent_octets_ = 0;         // in front of the window
  std::uint64_t window_base_ = 0;
  std::array<std::uint32_t, rdmap::kQueueCount> out_msn_{1, 1, 1, 1};
  std::deque<Posted> posted_;
  std::uint64_t first_number_ = 1;  // of posted_.front()
  std::uint64_t next_number_ = 1;   // first one that is not wholly in a window yet
  std::uint64_t next_done_ = 0;     // octets of it that are
  bool mid_posted_ = false;         // a message of ours is begun
  bool responses_next_ = true;      // whose turn it is: messages of both kinds alternate
  std::uint32_t next_identifier_ = 0;
  rdmap::TerminateOctets terminate_;
  bool terminate_due_ = false;
};

}  // namespace kbtp::rnic
