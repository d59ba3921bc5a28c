# Linux siw (kernel 6.1) as the target's RNIC: what `kbtp conform run --over siw` does for its sake, so that its known
# defects hide nothing else. Each allowance has a case that does without it; docs/peers.md tells the defects.
name = "siw"

# The guest runs under plain emulation: what takes a millisecond on a machine can take a hundred there.
patience_ms = 6000

[allowances]
# An FPDU that follows the MPA Reply at once may lie unread until the next one (case mpa.fpdus-after-reply).
pause_after_reply_ms = 150
# Pad and CRC in two TCP segments are taken for a CRC error (case mpa.split-trailer).
whole_trailers = true
# Terminates are laid out by little-endian bit fields (case rdmap.terminate.layout).
swapped_terminates = true

# The initiators that the target in the guest is configured with; it has one trust domain, whose pool the first two may
# read (DIRECT_LOAD).
[identities]
first = "6b627470-0000-4000-8000-000000000001"
second = "6b627470-0000-4000-8000-000000000002"
untrusted = "6b627470-0000-4000-8000-000000000004"
