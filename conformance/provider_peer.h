// A Peer through an RDMA provider: verbs on whatever device there is, or the user-space RNIC. Its packets are
// the provider's, right by construction; what the target makes of them is in the capture as ever.
//
// The stream lives on the provider's first loop; what the peer does there it waits for.

#pragma once

#include <memory>

#include "conformance/peer.h"
#include "conformance/profile.h"
#include "proto/rdma/provider.h"

namespace kbtp::conformance {

class ProviderPeer final : public Peer {
 public:
  /// `provider` outlives the peer.
  ProviderPeer(rdma::Provider& provider, const SocketAddress& target, const Allowances& allowances);
  ~ProviderPeer() override;
  ProviderPeer(const ProviderPeer&) = delete;
  ProviderPeer& operator=(const ProviderPeer&) = delete;

  [[nodiscard]] bool open(const OnBound& on_bound) override;
  /// Set-up is the provider's, and done by open(): the Request is not sent.
  [[nodiscard]] bool establish(const mpa::StartupFrame& request) override;
  void send_messages(const std::vector<std::vector<std::byte>>& messages) override;
  [[nodiscard]] ExposedBuffer& expose(std::size_t size, Revocable revocable = Revocable::no) override;

  using Peer::pump;
  bool pump(const std::function<bool()>& done, Duration patience) override;
  [[nodiscard]] std::deque<std::vector<std::byte>>& messages() override { return messages_; }
  [[nodiscard]] std::size_t immediates() const override { return immediates_; }
  [[nodiscard]] bool ended() const override { return ended_; }
  [[nodiscard]] const std::string& trouble() const override { return trouble_; }
  void finish() override;
  void close() override;

 private:
  struct Link;

  [[nodiscard]] Duration patience() const override { return patience_; }
  void on_loop(const std::function<void(rdma::Stream& stream)>& task);
  bool wait_for_close();

  rdma::Provider& provider_;
  SocketAddress target_;
  Duration patience_;
  std::shared_ptr<Link> link_;  ///< the stream's handler, which lives until the stream is gone
  std::deque<std::vector<std::byte>> messages_;
  std::size_t immediates_ = 0;
  std::string trouble_;
  bool connected_ = false;  ///< there was an attempt, and close() has not waited for its end
  bool ended_ = true;
};

}  // namespace kbtp::conformance
