#include "tools/rnic_choices.h"

namespace kbtp::tools {

namespace {
// An FPDU that followed the Reply at once stalled in 3 of 8 tries, after this pause in none.
constexpr Duration kSiwPause = std::chrono::milliseconds(60);
// For when the peer was held up for longer than that.
constexpr Duration kSiwNudge = std::chrono::milliseconds(250);
}  // namespace

void RnicChoices::apply_to(rnic::RnicOptions& options) const {
  options.mpa_revision = static_cast<unsigned>(mpa_revision);
  if (allow_for == "siw") {
    options.one_fpdu_a_segment = true;
    options.pause_after_reply = kSiwPause;
  }
}

void RnicChoices::apply_to(initiator::ConnectOptions& options) const {
  if (allow_for == "siw") options.nudge_after = kSiwNudge;
}

void add_rnic_choices(CLI::App& app, RnicChoices& choices) {
  add_number(app, "--mpa-revision", choices.mpa_revision, 1, 2,
             "MPA revision of our start-up frames: 2 negotiates read depths (RFC 6581), 1 does not (2)");
  add_word(app, "--allow-for", choices.allow_for, {"siw"},
           "make allowances for a peer's defects; siw (Linux) takes a CRC in two TCP segments for wrong and "
           "misses an FPDU that follows its Reply at once");
}

}  // namespace kbtp::tools
