/* Two timelines: the ledger goes back to a snapshot, and draws batch ids and tokens a second time.
   Clients of the lost timeline live on with what they remember. See docs/model.md. */

#include "shared.pml"

#ifndef TOKENS
#define TOKENS 2
#endif
#ifndef NONCES
#define NONCES 4
#endif
#define BATCHES 2

/* The ledger, all of which goes back: batches, attempts and their staging tables. */
typedef Ledger {
    byte batches; byte tokens;
    byte state[BATCHES + 1]; byte token[BATCHES + 1]; byte nonce[BATCHES + 1];   /* the fence */
    byte witness[BATCHES + 1];            /* the token of the commit row */
    byte attempt[TOKENS + 1];             /* the nonce of each attempt */
    byte staged[TOKENS + 1];              /* how many copies of the rows lie in its table */
};
Ledger now, snapshot;
bit kept, restored;

/* Outside of it. */
byte nonces;                              /* random: never drawn twice */
byte committed_as[BATCHES + 1];           /* the nonce of who committed it in the timeline of today */
bit own_timeline, told_truly, no_duplicate, none_left_out;

#ifdef NO_NONCE_IN_FENCE
#define NEWEST (now.state[b] == PLANNED && now.token[b] == t)
#else
#define NEWEST (now.state[b] == PLANNED && now.token[b] == t && now.nonce[b] == n)
#endif
#ifdef NO_SAME_TIMELINE                    /* the trigger on commit rows */
#define TIMELINE true
#else
#define TIMELINE (now.attempt[t] == n)
#endif
#ifdef NO_NONCE_IN_ANSWER
#define MINE (now.witness[b] == t)
#else
#define MINE (now.witness[b] == t && now.attempt[t] == n)
#endif
#ifdef NO_NONCE_IN_NAME
#define MY_TABLE (now.staged[t] < 3)
#else
#define MY_TABLE (now.attempt[t] == n)    /* else its table is gone with its timeline */
#endif
#ifdef NO_COUNT
#define COUNTED true
#else
#ifdef COUNTS_TOO_FEW_ALONE                /* rows more than were told are let through */
#define COUNTED (now.staged[t] >= 1)
#else
#define COUNTED (now.staged[t] == 1)
#endif
#endif

inline copy(into, from) {
    into.batches = from.batches; into.tokens = from.tokens; k = 1;
    do
    :: k <= BATCHES -> into.state[k] = from.state[k]; into.token[k] = from.token[k]; into.nonce[k] = from.nonce[k]; into.witness[k] = from.witness[k]; k++
    :: else -> break
    od;
    k = 1;
    do
    :: k <= TOKENS -> into.attempt[k] = from.attempt[k]; into.staged[k] = from.staged[k]; k++
    :: else -> break
    od;
    k = 0
}

/* Somebody takes a snapshot, and later goes back to it; once. */
active proctype restore() {
    byte k;
end:
    do
    :: d_step { !kept -> kept = 1; copy(snapshot, now) }
    :: d_step { kept && !restored -> restored = 1; copy(now, snapshot); k = 1;
        do :: k <= BATCHES -> if :: !now.witness[k] -> committed_as[k] = 0 :: else fi; k++ :: else -> break od; k = 0 }
    od
}

active [2] proctype client() {
    byte b, t, n;
again:
    skip;
    d_step { b = 0; t = 0; n = 0 }
    atomic {                              /* plan, and open an attempt; whose it was does not matter, a lease is a choice */
        if
        :: now.batches > 0 && now.state[now.batches] == PLANNED -> b = now.batches
        :: now.batches < BATCHES && (now.batches == 0 || now.state[now.batches] != PLANNED) ->
            now.batches++; b = now.batches; now.state[b] = PLANNED; now.token[b] = 0; now.nonce[b] = 0; now.witness[b] = 0
        :: true -> goto ends
        fi;
        if
        :: now.tokens == TOKENS || nonces == NONCES -> goto ends
        :: else -> now.tokens++; t = now.tokens; nonces++; n = nonces;
            now.attempt[t] = n; now.staged[t] = 0; now.token[b] = t; now.nonce[b] = n
        fi
    }
    atomic { if :: MY_TABLE -> now.staged[t]++ :: else fi }
commit:
    atomic {                              /* all under the batch's row lock; a restore ends every transaction */
        if
        :: NEWEST && TIMELINE && COUNTED ->
            PROMISE(own_timeline, now.attempt[t] == n && now.nonce[b] == n);
            PROMISE(no_duplicate, now.staged[t] <= 1);
            PROMISE(none_left_out, now.staged[t] >= 1);   /* a restore empties what was staged behind the snapshot */
            now.state[b] = COMMITTED; now.witness[b] = t; committed_as[b] = n
        :: else
        fi;
        own_timeline = 0; no_duplicate = 0; none_left_out = 0
    }
    if :: goto again :: true fi;          /* the answer came, or it did not */
    atomic {                              /* in doubt: the commit row is asked, in the timeline of today */
        if
        :: MINE -> PROMISE(told_truly, committed_as[b] == n)
        :: else
        fi;
        told_truly = 0
    }
    if :: goto again :: goto commit fi;
ends:
    skip
}
