/* The free-block ring of KBTP 3.3 as proto/memory/ring.cc runs it; shared.pml and direct.pml drive it.
 *
 * The including file defines F (blocks), N (slots, a power of two, N >= F), M and IDS (processes that touch the
 * ring, numbered from 1; `me` is the number of the one that executes an inline). Tickets are counted modulo M
 * instead of 2^32, so that a run goes round for ever in finitely many states; `tickets_unambiguous` proves that M is
 * large enough for the distances that occur.
 *
 * Switches that un-repair the ring, one at a time (docs/ring-model.md):
 *   LITERAL          a slot is free when it is merely consumed: the draft's 3.3 without E-3
 *   SPLIT            no mutex: the check and the two stores are steps of their own, and everybody polls
 *   LOSE_FREE_WAKE   a free checks its slot and enters the list of deferred frees in two critical sections
 *   LOSE_ALLOC_WAKE  an allocation checks its slot and enters the list of waiters in two critical sections
 *   NO_WAKE          consuming a slot does not look at the list of deferred frees
 *   NO_SEQUENCE      BIND compares the Block Offset alone: 6.6 without E-9
 * STORES_APART makes the two stores of a slot separate steps, for a model where somebody reads slots without the
 * mutex (an RDMA Read); otherwise a critical section is one step.
 */

#define T(x) ((x) % M)             /* ticket arithmetic */
#define AHEAD(a, b) T((a) + M - (b))
#define NONE F                     /* the Block Offset of all ones */

typedef Slot {
  byte sequence;
  byte block                       /* Block Offset */
};

Slot slot[N];
byte head;                         /* the next ticket of a FetchAdd on Head */
byte tail;
byte written_for[F];               /* ghost: the Tail ticket of a block's last free */

/* Where a block is when it is in no slot: */
byte deferred[F];                  /* Ring::deferred_: 1 + the Tail ticket it waits for, 0: not deferred */
byte user[F];                      /* the process it was handed to, 0: none */
byte hand[F];                      /* the process that has to free() it, 0: none */

/* What a process waits for. */
byte waiter[IDS + 1];              /* Ring::waiters_: 1 + its Head ticket, 0: none */
byte orphan[IDS + 1];              /* an abandoned one, ring.cc's empty Ready: 1 + Head ticket, 0: none */
byte grant[IDS + 1];               /* what Ready delivered: 1 + block, 0: nothing */

/* ---- properties: assertions with names, all of them or the one that a run asks for; each within a d_step, so that in
 * every state these are 1 ---- */

bit no_block_lost = 1, no_block_twice = 1, slot_free_for_ticket = 1, block_of_own_ticket = 1, no_lost_wakeup = 1,
    load_sees_own_store = 1, write_in_own_block = 1, honest_bind_accepted = 1, stale_bind_refused = 1,
    tickets_unambiguous = 1;
byte k, places;                    /* of the loops within d_steps, 0 outside */

#if defined(ALL) || defined(P_LOST)
#define NO_BLOCK_LOST(e) no_block_lost = (e); assert(no_block_lost)
#else
#define NO_BLOCK_LOST(e) skip
#endif
#if defined(ALL) || defined(P_TWICE)
#define NO_BLOCK_TWICE(e) no_block_twice = (e); assert(no_block_twice)
#else
#define NO_BLOCK_TWICE(e) skip
#endif
#if defined(ALL) || defined(P_SLOT)
#define SLOT_FREE_FOR_TICKET(e) slot_free_for_ticket = (e); assert(slot_free_for_ticket)
#else
#define SLOT_FREE_FOR_TICKET(e) skip
#endif
#if defined(ALL) || defined(P_TICKET)
#define BLOCK_OF_OWN_TICKET(e) block_of_own_ticket = (e); assert(block_of_own_ticket)
#else
#define BLOCK_OF_OWN_TICKET(e) skip
#endif
#if defined(ALL) || defined(P_WAKE)
#define NO_LOST_WAKEUP(e) no_lost_wakeup = (e); assert(no_lost_wakeup)
#else
#define NO_LOST_WAKEUP(e) skip
#endif
#if defined(ALL) || defined(P_DATA)
#define LOAD_SEES_OWN_STORE(e) load_sees_own_store = (e); assert(load_sees_own_store)
#else
#define LOAD_SEES_OWN_STORE(e) skip
#endif
#if defined(ALL) || defined(P_WRITE)
#define WRITE_IN_OWN_BLOCK(e) write_in_own_block = (e); assert(write_in_own_block)
#else
#define WRITE_IN_OWN_BLOCK(e) skip
#endif
#if defined(ALL) || defined(P_HONEST)
#define HONEST_BIND_ACCEPTED(e) honest_bind_accepted = (e); assert(honest_bind_accepted)
#else
#define HONEST_BIND_ACCEPTED(e) skip
#endif
#if defined(ALL) || defined(P_STALE)
#define STALE_BIND_REFUSED(e) stale_bind_refused = (e); assert(stale_bind_refused)
#else
#define STALE_BIND_REFUSED(e) skip
#endif

/* ---- what ring.cc asks of a slot ---- */

#define AT(t) slot[(t) % N]
/* Slot::ready_for */
#define READY(t) (AT(t).sequence == (t) && AT(t).block != NONE)
/* Slot::free_for */
#ifdef LITERAL
#define FREE_FOR(u) (AT(u).block == NONE)
#else
#define FREE_FOR(u) (AT(u).block == NONE && AT(u).sequence == T((u) + M - N))
#endif
/* Ring::issued: the signed distance is positive */
#define ISSUED(t) (AHEAD(head, t) > 0 && AHEAD(head, t) < M / 2)
/* Ring::match */
#ifdef NO_SEQUENCE
#define MATCH(t, b) (ISSUED(t) && AT(t).block == (b))
#else
#define MATCH(t, b) (ISSUED(t) && READY(t) && AT(t).block == (b))
#endif

#if F == 1
#define ANY(x) (x(0))
#elif F == 2
#define ANY(x) (x(0) || x(1))
#else
#define ANY(x) (x(0) || x(1) || x(2))
#endif

/* ---- 3.3 Initialization; blocks from `filled` on are where the including file puts them ---- */

inline ring_init(filled) {
  byte i;
  d_step {
    for (i : 0 .. N - 1) {
      if
      :: i < filled -> slot[i].sequence = i; slot[i].block = i
      :: else -> slot[i].sequence = T(i + M - N); slot[i].block = NONE
      fi
    }
    for (i : 0 .. F - 1) { written_for[i] = i }
    head = 0;
    tail = filled;
    i = 0
  }
}

/* ---- invariants, asked whenever the mutex is released ---- */

#define IN_SLOT(b) (slot[0].block == (b)) + (slot[1].block == (b))
#if N == 4
#define IN_SLOT2(b) + (slot[2].block == (b)) + (slot[3].block == (b))
#else
#define IN_SLOT2(b)
#endif

inline check_invariants() { /* within a d_step */
  for (k : 0 .. F - 1) {
    places = (deferred[k] != 0) + (user[k] != 0) + (hand[k] != 0) + IN_SLOT(k) IN_SLOT2(k);
    NO_BLOCK_LOST(places > 0);
    NO_BLOCK_TWICE(places < 2);
    NO_LOST_WAKEUP(!(deferred[k] != 0 && FREE_FOR(deferred[k] - 1)))
  }
  for (k : 1 .. IDS) {
    NO_LOST_WAKEUP(!(waiter[k] != 0 && READY(waiter[k] - 1)) && !(orphan[k] != 0 && READY(orphan[k] - 1)))
  }
  k = 0;
  places = 0
}

/* The counters may only be so far ahead of what still lies in the slots, or the modulus would mislead: tickets are
 * compared for equality, also less N, and by the sign of their difference where ISSUED is asked. */
#ifdef SIGNED
#define SPAN (M / 2)
#else
#define SPAN (M - N)
#endif
#define HEAD_BEYOND_TAIL (T(head + F + M - tail) > F)
inline check_span() {
#ifdef ALL
  for (k : 0 .. N - 1) {
    tickets_unambiguous = (AHEAD(tail, slot[k].sequence) < SPAN &&
                           (!HEAD_BEYOND_TAIL || AHEAD(head, slot[k].sequence) < SPAN));
    assert(tickets_unambiguous)
  }
  k = 0
#else
  skip
#endif
}

/* Ring::mutex_ */
#ifdef STORES_APART
bit mutex;
#define LOCK atomic { mutex == 0 -> mutex = 1 };
#define UNLOCK ; d_step { check_invariants(); mutex = 0 }
#else
#define LOCK atomic {
#define UNLOCK ; d_step { check_invariants() } }
#endif

/* FetchAdd, the masked addition abstracted to its Ticket. */
inline fetch_add_head(t) {
  d_step { t = head; head = T(head + 1); check_span() }
}
#define MINE(b) (hand[b] == me)
inline fetch_add_tail(u, b) { /* for one of the blocks that this process has to free */
  atomic {
    if
    :: MINE(0) -> b = 0
#if F > 1
    :: MINE(1) -> b = 1
#endif
#if F > 2
    :: MINE(2) -> b = 2
#endif
    fi;
    d_step { u = tail; written_for[b] = u; tail = T(tail + 1); check_span() }
  }
}

/* Ring::store_block. Every slot write passes here. */
inline store_block(u, b) {
  SLOT_FREE_FOR_TICKET(AT(u).block == NONE && AT(u).sequence == T(u + M - N));
  AT(u).block = b;
  hand[b] = 0
}

/* Ring::pop_deferred: the free that waits for ticket u. By the draft's letter any free that waits for the slot may
 * be tried again, so that there u becomes that free's ticket. */
inline pop_deferred(u, b) { /* out: the block or NONE */
  b = NONE;
#ifdef NO_WAKE
  skip
#else
  if
#ifdef LITERAL
#define WAITS(n) (deferred[n] != 0 && (deferred[n] - 1) % N == u % N)
#else
#define WAITS(n) (deferred[n] == u + 1)
#endif
  :: WAITS(0) -> b = 0
#if F > 1
  :: WAITS(1) -> b = 1
#endif
#if F > 2
  :: WAITS(2) -> b = 2
#endif
  :: else
  fi;
  if
  :: b != NONE -> d_step { u = deferred[b] - 1; deferred[b] = 0; hand[b] = me }
  :: else
  fi
#endif
}

/* Ring::place. A block of an abandoned ticket stays in the caller's hand; finish() frees it again. */
inline place(u, b) {
  do
  :: b == NONE -> break
  :: b != NONE && !FREE_FOR(u) ->
    d_step { deferred[b] = u + 1; hand[b] = 0 }
    break
  :: b != NONE && FREE_FOR(u) ->
    d_step { store_block(u, b) }
    d_step { /* Ring::store_sequence, and whoever waits for the ticket is served */
      AT(u).sequence = u;
      for (k : 1 .. IDS) {
        if
        :: waiter[k] == u + 1 ->
          waiter[k] = 0; grant[k] = b + 1; user[b] = k; AT(u).block = NONE;
          BLOCK_OF_OWN_TICKET(written_for[b] == u)
        :: orphan[k] == u + 1 ->
          orphan[k] = 0; hand[b] = me; AT(u).block = NONE;
          BLOCK_OF_OWN_TICKET(written_for[b] == u)
        :: else
        fi
      }
      k = 0
    }
    if
    :: AT(u).block == NONE -> u = T(u + N); pop_deferred(u, b)
    :: else -> break
    fi
  od;
  atomic { u = 0; b = 0 }
}

/* Ring::take: consumes the ready slot of ticket t for this process, and lets the free that waited for it in. */
inline take(t, taken) {
  d_step {
    taken = AT(t).block;
    BLOCK_OF_OWN_TICKET(written_for[taken] == t);
    AT(t).block = NONE;
    user[taken] = me;
    u = T(t + N)
  }
  pop_deferred(u, b);
  place(u, b)
}

/* Ring::free of every block that this process has in hand, which is Ring::finish too. */
inline finish() {
  do
  :: !ANY(MINE) -> break
  :: ANY(MINE) ->
    fetch_add_tail(u, b);
#ifdef SPLIT
    FREE_FOR(u);
    d_step { store_block(u, b); check_invariants() }
    d_step { AT(u).sequence = u; u = 0; b = 0 }
#elif defined(LOSE_FREE_WAKE)
    if
    :: FREE_FOR(u) -> LOCK place(u, b) UNLOCK
    :: !FREE_FOR(u) -> LOCK d_step { deferred[b] = u + 1; hand[b] = 0; u = 0; b = 0 } UNLOCK
    fi
#else
    LOCK place(u, b) UNLOCK
#endif
  od
}
