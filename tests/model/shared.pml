/* Target-executed operations on the ring that all initiators share (KBTP 3.3, 3.4, 6.1, 6.3, 6.4), as proto/target
 * runs them: W workers, each an initiator's handle that is stored to and freed again and again, and L loaders that
 * LOAD any of these handles, pinned. Quotas sum to Q, which has to leave as many of the F blocks as may be
 * pinned at a time, PINS (the reserve R).
 *
 * Everybody may stop for good wherever the protocol lets him: a worker idle or with a bound block, a loader in the
 * middle of a LOAD (a peer that takes no octets). So whoever waits in a state where nothing moves any more (pan's
 * invalid end state) would have waited for ever.
 *
 * Switches: those of ring.pml, and
 *   SCRUB       a block is cleared before it returns (6.4)
 *   DEADLINE    an allocation may be given up while it waits (P-17); never worker 1's, and one ticket a worker
 *   NO_PIN      a freed block returns at once although a LOAD is being sent from it: 6.1 and 6.4 without E-5
 *   CLAIM_TORN  whoever gives a retired block back looks first and marks it given back in a second step
 *   NO_LINE     LOAD does not hold the handle's line while it pins; it reads the entry again instead (pins.h)
 *   NO_RECHECK  NO_LINE, and it does not read the entry again
 */
#ifdef NO_RECHECK
#define NO_LINE
#endif
#ifndef L
#define L 0
#endif
#define IDS (W + L)
#define M (4 * N)

#include "ring.pml"

byte usage;                      /* QuotaBook, all owners together */
bit waiting;                     /* worker 1 has a ticket and no block */

#if L > 0
/* The block table, by worker. Generation: of the bindings of a handle, modulo 2. */
bit valid[W + 1];
bit generation[W + 1];
byte bound[W + 1];
#define UNBIND valid[me] = 0; bound[me] = 0;      /* BlockTable::unbind */

byte octets[2 * F];              /* which store's octets lie in the two halves of a block */
byte pins[F];                    /* Pins::states_: number of pins */
bit retired[F];                  /* Pins::states_: kRetired */
byte pinned;                     /* Core::pinned_ */
#define STORE_OF(h, g) (2 * (h) + (g))

#ifdef SCRUB
#define SCRUBBED(n) octets[2 * (n)] = 0; octets[2 * (n) + 1] = 0
#else
#define SCRUBBED(n)
#endif

/* Pins::claim and Core::give_back */
inline claim(n) {
#ifdef CLAIM_TORN
  if
  :: retired[n] && pins[n] == 0 -> skip;
    d_step { retired[n] = 0; user[n] = 0; hand[n] = me }
  :: else
  fi;
#else
  d_step {
    if
    :: retired[n] && pins[n] == 0 -> retired[n] = 0; user[n] = 0; hand[n] = me; SCRUBBED(n)
    :: else
    fi
  }
#endif
  finish()
}
#else
#define UNBIND
#endif

proctype Worker(byte me) {
  byte t, u, b;
  byte mine = NONE;
again:
  if
  :: atomic { usage < Q -> usage++ }          /* Core::take_unit */
  :: goto end_stopped
  fi;

  /* Ring::allocate */
#ifdef SPLIT
  atomic { fetch_add_head(t); waiting = (me == 1 -> 1 : waiting) }
  READY(t);
  mine = AT(t).block;
  d_step {
    AT(t).block = NONE;
    user[mine] = me;
    check_invariants();
    BLOCK_OF_OWN_TICKET(written_for[mine] == t)
  }
#elif defined(LOSE_ALLOC_WAKE)
  fetch_add_head(t);
  if
  :: READY(t) -> LOCK take(t, mine) UNLOCK
  :: !READY(t) -> LOCK waiter[me] = t + 1 UNLOCK
  fi;
#else
  LOCK
    fetch_add_head(t);
    if
    :: READY(t) -> take(t, mine)
    :: else -> d_step { waiter[me] = t + 1; waiting = (me == 1 -> 1 : waiting) }
    fi
  UNLOCK;
#endif
#ifndef SPLIT
  finish();
  do
  :: mine != NONE -> break
  :: d_step { mine == NONE && grant[me] != 0 -> mine = grant[me] - 1; grant[me] = 0 }
#ifdef DEADLINE
  :: atomic { mine == NONE && waiter[me] != 0 && me != 1 && orphan[me] == 0 ->
    orphan[me] = waiter[me];       /* AllocStoreOperation::starved, Ring::abandon of a pending ticket */
    waiter[me] = 0;
    t = 0;
    usage--;
    goto again }
#endif
  od;
#endif
  atomic { waiting = (me == 1 -> 0 : waiting); t = 0 }

#if L > 0
  octets[2 * mine] = STORE_OF(me, 1 - generation[me]);
  octets[2 * mine + 1] = STORE_OF(me, 1 - generation[me]);
  d_step { valid[me] = 1; generation[me] = 1 - generation[me]; bound[me] = mine }   /* BlockTable::bind */
#endif
  if
  :: goto end_bound
  :: skip
  fi;
  /* FREE. Without loaders in the model the unit of usage comes back first, as when a pin holds the block back; that
   * allows all that free.cc's order does. */
#if L > 0 && !defined(NO_PIN)
  d_step { UNBIND b = mine; mine = NONE }
  d_step { retired[b] = 1 }        /* Pins::retire */
  claim(b);
  atomic { usage--; b = 0; u = 0 }
#else
  d_step { UNBIND user[mine] = 0; hand[mine] = me; mine = NONE; usage-- }
  finish();
  atomic { b = 0; u = 0 }
#endif
  goto again;
end_stopped:
end_bound:
  false
}

#if L > 0
proctype Loader(byte me) {
  byte h, u, b;
  byte from = NONE;
  bit g;
again:
  /* A LOAD is in its handle's line while it reads the entry and pins, so that a FREE of the handle comes before or
   * after: one step here. */
  atomic {
    if
    :: goto end_stopped
    :: valid[1] && pinned < PINS -> h = 1
#if W > 1
    :: valid[2] && pinned < PINS -> h = 2
#endif
#if W > 2
    :: valid[3] && pinned < PINS -> h = 3
#endif
    fi;
    pinned++;                      /* Core::try_pin */
    from = bound[h];
    g = generation[h]
#ifndef NO_LINE
    ; pins[from]++
#endif
  }
#ifdef NO_LINE
  pins[from]++;
#ifndef NO_RECHECK
  if
  :: valid[h] && bound[h] == from && generation[h] == g
  :: else -> goto unpin
  fi;
#endif
#endif
  /* The Write is sourced piece by piece. */
  d_step { LOAD_SEES_OWN_STORE(octets[2 * from] == STORE_OF(h, g)) }
  if
  :: goto end_stalled
  :: skip
  fi;
  d_step { LOAD_SEES_OWN_STORE(octets[2 * from + 1] == STORE_OF(h, g)) }
unpin: /* Pins::unpin */
  atomic {
    pins[from]--;
    if
    :: retired[from] && pins[from] == 0 -> g = 1
    :: else -> g = 0
    fi
  }
  if
  :: g -> claim(from)
  :: else
  fi;
  atomic { pinned--; from = NONE; g = 0; h = 0; u = 0; b = 0 }   /* Core::unpin */
  goto again;
end_stopped:
end_stalled:
  false
}
#endif

init {
  byte p;
  atomic {
    ring_init(F);
    p = 1;
    do
    :: p <= W -> run Worker(p); p++
    :: else -> break
    od;
#if L > 0
    do
    :: p <= IDS -> run Loader(p); p++
    :: else -> break
    od;
#endif
    p = 0
  }
}

#ifdef SERVED
/* No starvation: worker 1's allocation is served, however long the others go on. */
ltl served { [] <> !waiting }
#endif
