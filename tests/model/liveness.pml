/* Liveness: faults are few, and then the position comes to the end, whatever is scheduled, as long as nobody is left out
   for ever (weak fairness). Every -DNO_... takes away what progress rests on. See docs/model.md. */

#include "shared.pml"

#ifndef OFFSETS
#define OFFSETS 2
#endif
#ifndef CRASHES
#define CRASHES 1
#endif
#ifndef LOSSES
#define LOSSES 1
#endif
#define LONG 2        /* after so many takeovers a lease is longer than a batch takes */
#define NOBODY 9

#ifdef TAKES_TURNS    /* a lease keeps nobody out */
#define MAY_WAIT false
#else
#define MAY_WAIT (planned && leased && newest != me)
#endif

#define OPEN 1
#define SENT 2
#define DONE 3

byte position, newest = NOBODY, takeovers, crashes, losses, lock;
bit planned, leased;
byte tx[3];           /* by client, from 1 */
bit alone[3];         /* its client is gone, and the server does not know yet */
bit dead[3];          /* who is gone stays gone: somebody else has to go on */

ltl arrives { <> (position == OFFSETS) }

/* Leases run out, connections end, a COMMIT arrives: what nobody's code has to do. */
active proctype server() {
end:
    do
#ifdef NO_EXPIRY
    :: atomic { false -> skip }
#else
#ifdef NO_DOUBLING
    :: atomic { leased -> leased = 0 }
#else
    :: atomic { leased && (takeovers < LONG || dead[newest]) -> leased = 0 }
#endif
#endif
    od
}

/* One connection's own side: its COMMIT arrives; a transaction whose client is silent is rolled back. */
active [2] proctype session() {
end:
    do
    :: atomic { tx[_pid] == SENT -> position++; planned = 0; leased = 0; newest = NOBODY; takeovers = 0; lock = 0;
        if :: alone[_pid] -> tx[_pid] = 0; alone[_pid] = 0 :: else -> tx[_pid] = DONE fi }
#ifndef NO_IDLE_END
    :: atomic { alone[_pid] && tx[_pid] == OPEN -> tx[_pid] = 0; alone[_pid] = 0; lock = 0 }
#endif
    :: atomic { alone[_pid] && tx[_pid] == 0 -> alone[_pid] = 0 }
    od
}

proctype client(byte me) {
again:
    do
    :: atomic { position == OFFSETS -> goto ends }
    :: atomic { tx[me] == 0 && !alone[me] && position < OFFSETS && !MAY_WAIT ->  /* plan, take the lease, open an attempt */
        if :: planned && newest != me -> if :: takeovers < LONG -> takeovers++ :: else fi :: else fi;
        planned = 1; leased = 1; newest = me; break }
    od;
    skip;                                   /* stage */
    if :: atomic { crashes < CRASHES -> crashes++; alone[me] = 1; dead[me] = 1; goto ends } :: true fi;
    atomic { lock == 0 ->                   /* commit, under the batch's row lock */
        if
        :: !planned || newest != me -> goto again
        :: else -> lock = me; tx[me] = OPEN
        fi }
    if :: atomic { crashes < CRASHES -> crashes++; alone[me] = 1; dead[me] = 1; goto ends } :: true fi;
    if
    :: atomic { losses < LOSSES -> losses++;  /* the COMMIT never arrives */
#ifdef NO_PATIENCE
        false
#else
        tx[me] = 0; lock = 0; goto again      /* the resolver ends the session that holds the lock, and tries again */
#endif
        }
    :: tx[me] = SENT
    fi;
    atomic { tx[me] == DONE -> tx[me] = 0 }
    goto again;
ends:
    skip
}

init { atomic { run client(1); run client(2) } }
