/* The ring of one DIRECT_ALLOC initiator (KBTP 3.4, 6.6) with a quota of Q = F blocks: A agents of that initiator, each
 * with a handle of its own and at most one block or ticket, and a reaper that abandons tickets past their Ticket
 * Timeout. There is no clock: a ticket of agent A may be a slow one, and the reaper may act on that at any moment; the
 * others bind in time.
 *
 * An agent takes a ticket with FetchAdd, reads the slot without the mutex until it matches, writes the block, sends BIND;
 * later FREE. Every request takes one of C credits until its completion. Agents may stop for good while they hold no
 * ticket, as in shared.pml. M, a multiple of N, is given with the sizes.
 *
 * Switches: those of ring.pml, and
 *   WORDS        an RDMA Read brings the two words of a slot at different moments, either first; so the slot is read
 *                twice, and its two stores are apart
 *   EXECUTED     agents also use ALLOC_STORE, which takes its block from the same ring (G-26)
 *   STALE        an agent may send BIND again with a ticket that was bound before
 *   REATTACHED   agent 1 comes with a bound block: the ring is new and starts with one block less (G-24)
 *   OVER_QUOTA   agents take tickets without regard to the quota (G-49); run with -E, since such tickets wait for ever
 *   FREE_WAITS   FREE completes when its slot is written: 3.3 and 3.4 without E-6
 *   PROMPT       no ticket turns slow, so that none is abandoned
 *   NO_CONFIRM   (with WORDS) the slot is read only once, 6.6 asks for twice
 *   NO_REVOKE    a ticket is reclaimed while Writes can still reach its block (against 3.4)
 *   LATE_REFUSAL from the revocation to Ring::abandon a BIND is still looked at
 *   ALL_CREDITS  ALLOC_STORE may take the last credit while the initiator holds a ticket
 */
#define IDS (A + 1)
#ifdef WORDS
#define STORES_APART
#endif
#define SIGNED
#ifndef Q
#define Q F
#endif

#include "ring.pml"

byte usage;
byte credits = C;
byte ticket[IDS];                  /* by agent: 1 + the direct ticket that is taken and not bound, 0: none */
bit waiting;                       /* agent 1 has a ticket and no block */

/* Abandonment, of agent A alone */
bit slow;                          /* its Ticket Timeout may have run out */
bit revoked;                       /* none of its Writes can reach the partition any more */
bit given_up;                      /* Ring::abandon has said yes: BIND is TICKET_ABANDONED from now on */
bit reaping;

byte octets[F];                    /* whose octets lie in a block, 0: scrubbed */

byte reaped;                       /* 1 + the ticket that the reaper is about to abandon, 0: none */
byte sent;                         /* 1 + the ticket in agent A's BIND, 0: none */
#ifdef STALE
byte old_ticket[IDS], old_block[IDS];   /* of the last BIND: 1 + ticket, 0: none */
#define REMEMBER d_step { old_ticket[me] = t + 1; old_block[me] = mine }
#else
#define REMEMBER
#endif
/* A BIND or an abandonment may come late, but not so late that its ticket has become a coming one again: there that
 * takes 2^31 tickets, here M / 2 - F (G-32). Called with every FetchAdd on Head. */
#define OLD(t) ((t) != 0 && AHEAD(head, (t) - 1) >= M / 2 - F)
inline forget_old_tickets() {
  if
  :: OLD(reaped) && ticket[A] != reaped -> reaped = 0
  :: else
  fi;
  if
  :: OLD(sent) && ticket[A] != sent -> sent = 0
  :: else
  fi;
#ifdef STALE
  for (k : 1 .. A) {
    if
    :: OLD(old_ticket[k]) -> old_ticket[k] = 0; old_block[k] = 0
    :: else
    fi
  }
  k = 0
#endif
}

#ifdef OVER_QUOTA
#define WITHIN_QUOTA true
#else
#define WITHIN_QUOTA (usage < Q)
#endif
#define HOLDS_TICKET (ticket[1] != 0 || ticket[A] != 0 || (A > 2 && ticket[2] != 0))
#ifdef ALL_CREDITS
#define MAY_ALLOC_STORE (credits > 0)
#else
#define MAY_ALLOC_STORE (credits > 1 || (credits == 1 && !HOLDS_TICKET))
#endif
#define NEW_SESSION                                                     \
  d_step {                                                              \
    slow = (me == A -> 0 : slow);                                       \
    revoked = (me == A -> 0 : revoked);                                 \
    given_up = (me == A -> 0 : given_up)                                \
  }
#define REVOKED (me == A && revoked)
#ifdef NO_REVOKE
#define REVOKE
#else
#define REVOKE revoked = 1
#endif
#ifdef LATE_REFUSAL
#define ABANDONING false
#else
#define ABANDONING REVOKED
#endif

proctype Agent(byte me) {
  byte t, u, b;
  byte mine = NONE;
#ifdef REATTACHED
  if
  :: me == 1 -> mine = F - 1; goto bound
  :: else
  fi;
#endif
again:
  if
  :: goto end_stopped
  :: atomic {
      (me != A || !reaping) && WITHIN_QUOTA -> usage++;
      NEW_SESSION;
      fetch_add_head(t);           /* by the RNIC: never under the mutex */
      d_step {
        ticket[me] = t + 1;
        waiting = (me == 1 -> 1 : waiting);
        forget_old_tickets()
      }
#ifndef PROMPT
      if
      :: me == A && orphan[me] == 0 -> slow = 1
      :: skip
      fi
#endif
    }
#ifdef EXECUTED
  :: atomic { (me != A || !reaping) && WITHIN_QUOTA && MAY_ALLOC_STORE -> usage++; credits--; NEW_SESSION }
    goto executed
#endif
#ifdef STALE
  :: LOCK
      old_ticket[me] != 0 && (me != A || !reaping);
      NEW_SESSION;
      d_step { STALE_BIND_REFUSED(!MATCH(old_ticket[me] - 1, old_block[me])) }
      if
      :: MATCH(old_ticket[me] - 1, old_block[me]) -> t = old_ticket[me] - 1; take(t, mine); usage++
      :: else
      fi;
      atomic { old_ticket[me] = 0; old_block[me] = 0; t = 0 }
    UNLOCK;
    if
    :: mine != NONE -> goto bound
    :: else -> goto again
    fi
#endif
  fi;

read_slot:
#ifdef WORDS /* two words, either of them first */
  if
  :: AT(t).sequence == t ->
    if
    :: AT(t).block != NONE -> mine = AT(t).block
    :: AT(t).block == NONE -> goto read_slot
    fi
  :: d_step { AT(t).block != NONE -> mine = AT(t).block }
    if
    :: AT(t).sequence == t
    :: AT(t).sequence != t && AT(t).block != mine -> mine = NONE; goto read_slot
    :: REVOKED -> goto again_without
    fi
  :: REVOKED -> goto again_without
  fi;
#ifndef NO_CONFIRM
  if
  :: AT(t).sequence == t -> skip;
    if
    :: AT(t).block == mine
    :: AT(t).block != mine -> mine = NONE; goto read_slot
    fi
  :: AT(t).block == mine -> skip;
    if
    :: AT(t).sequence == t
    :: AT(t).sequence != t -> mine = NONE; goto read_slot
    fi
  :: AT(t).sequence != t || AT(t).block != mine -> mine = NONE; goto read_slot
  fi;
#endif
#else
  if
  :: d_step { READY(t) -> mine = AT(t).block }
  :: REVOKED -> goto again_without
  fi;
#endif

  /* RDMA Write of the block; without effect once it is revoked */
  atomic {
    waiting = (me == 1 -> 0 : waiting);
    if
    :: REVOKED
    :: else ->
      d_step { WRITE_IN_OWN_BLOCK(AT(t).sequence == t && AT(t).block == mine); octets[mine] = me }
    fi
  }

  if /* BIND */
  :: d_step { credits > 0 && ABANDONING -> credits--; mine = NONE }      /* TICKET_ABANDONED */
  :: d_step { credits > 0 && !ABANDONING -> credits--; sent = (me == A -> t + 1 : sent) }
    LOCK                                     /* Ring::consume */
      d_step { HONEST_BIND_ACCEPTED(MATCH(t, mine) || (me == A && (revoked || given_up))) }
      if
      :: MATCH(t, mine) && (me != A || sent != 0) ->
        ticket[me] = 0;
        take(t, mine);
        REMEMBER
      :: else -> mine = NONE
      fi;
      sent = (me == A -> 0 : sent)
    UNLOCK
  fi;
  finish();
  if
  :: mine == NONE -> atomic { credits++; t = 0; goto again }
  :: mine != NONE ->
    atomic {
      credits++;
      t = 0
    }
  fi;
  goto bound;

#ifdef EXECUTED
executed: /* ALLOC_STORE: Ring::allocate */
  LOCK
    fetch_add_head(t);
    d_step { forget_old_tickets() }
    if
    :: READY(t) -> take(t, mine)
    :: else -> d_step { waiter[me] = t + 1; waiting = (me == 1 -> 1 : waiting) }
    fi
  UNLOCK;
  finish();
  if
  :: mine != NONE
  :: mine == NONE && grant[me] != 0 -> atomic { mine = grant[me] - 1; grant[me] = 0 }
  fi;
  atomic {
    waiting = (me == 1 -> 0 : waiting);
    t = 0;
    octets[mine] = me;
    credits++
  }
#endif

bound:
  if
  :: goto end_bound
  :: skip
  fi;
  d_step { LOAD_SEES_OWN_STORE(octets[mine] == me) }
  /* FREE */
#ifdef FREE_WAITS
  d_step { credits > 0 -> credits--; t = mine; user[mine] = 0; hand[mine] = me; octets[mine] = 0; mine = NONE }
  finish();
  atomic { deferred[t] == 0 -> t = 0 }
#else
  d_step { credits > 0 -> credits--; user[mine] = 0; hand[mine] = me; octets[mine] = 0; mine = NONE }
  finish();
#endif
  atomic { usage--; credits++ }
  goto again;

again_without: /* the session has ended; whoever comes back comes with a new one */
  atomic { t = 0; mine = NONE }
  goto again;
end_stopped:
end_bound:
  false
}

/* The Ticket Timeout of agent A's ticket: revoke, then Ring::abandon. */
proctype Reaper(byte me) {
  byte t, u, b;
  byte mine = NONE;
end_idle:
  do
  :: atomic { slow && ticket[A] != 0 -> reaping = 1; reaped = ticket[A]; REVOKE }
    LOCK
      if
      :: reaped == 0                         /* bound, and too long ago for the model */
      :: reaped != 0 ->
        t = reaped - 1;
        if
        :: READY(t) -> take(t, mine); d_step { user[mine] = 0; hand[mine] = me; mine = NONE; given_up = 1 }
        :: !READY(t) && AHEAD(AT(t).sequence, t) < M / 2      /* bound */
        :: !READY(t) && AHEAD(AT(t).sequence, t) >= M / 2 -> d_step { orphan[A] = t + 1; given_up = 1 }
        fi;
        atomic { ticket[A] = 0; reaped = 0; t = 0 }
      fi
    UNLOCK;
    finish();
    atomic { usage = usage - given_up; slow = 0; reaping = 0 }
  od
}

init {
  byte p;
  atomic {
#ifdef REATTACHED
    ring_init(F - 1);
    user[F - 1] = 1;
    usage = 1;
    octets[F - 1] = 1;
#else
    ring_init(F);
#endif
    p = 1;
    do
    :: p <= A -> run Agent(p); p++
    :: else -> break
    od;
    run Reaper(IDS);
    p = 0
  }
}

#ifdef SERVED
/* No starvation: agent 1's ticket gets its block, however long the others go on. */
ltl served { [] <> !waiting }
#endif
