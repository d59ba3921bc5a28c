# Linux rxe (kernel 6.1), software RoCEv2, between two guests of the lab: what `kbtp conform run --over rxe` knows of the
# target. Nothing has to be done for rxe's sake but to wait: guests run under plain emulation.
name = "rxe"

patience_ms = 10000

# The initiators that the target in the other guest is configured with, in two trust domains.
[identities]
first = "6b627470-0000-4000-8000-000000000001"
second = "6b627470-0000-4000-8000-000000000002"
foreign = "6b627470-0000-4000-8000-000000000003"
untrusted = "6b627470-0000-4000-8000-000000000004"
