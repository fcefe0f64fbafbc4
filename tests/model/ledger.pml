/* The commit protocol: attempts, token, row locks, staging, a COMMIT that is late, acknowledgements that are lost,
   clients that die, a second lane. Every -DNO_... takes one guard away. See docs/model.md. */

#ifndef OFFSETS
#define OFFSETS 2
#endif
#ifndef BATCHES
#define BATCHES 2
#endif
#ifndef TOKENS
#define TOKENS 2
#endif
#ifndef CRASHES
#define CRASHES 1
#endif
#ifndef LOSSES
#define LOSSES 1
#endif
#define RUNS 2
#define TABLES 8

#define PLANNED 1
#define COMMITTED 2
#define ABANDONED 3
#define FAILED 4

#define OPEN 1     /* a transaction: its client has not said COMMIT */
#define SENT 2     /* COMMIT is on its way, for as long as it likes */
#define DONE 3
#define REFUSED 4  /* by a constraint, at COMMIT */

typedef Batch { byte state; bit replays; byte from; byte until; byte token; byte expects; byte witness };
typedef Transaction { byte state; byte batch; byte token; byte copies; bit alone };  /* alone: its client is gone */

/* What the database holds. */
Batch batch[BATCHES + 1];
byte batches, tokens, position;
byte owner[OFFSETS];   /* coverage: which batch */
byte rows[OFFSETS];    /* the target's rows of each record */
byte staged[TABLES];   /* how often each record lies in a staging table */
byte whose[TOKENS + 1];   /* an attempt's batch */
bit closed[TOKENS + 1];
byte pipeline_lock, stream_lock, batch_lock[BATCHES + 1];
Transaction tx[RUNS];

/* What happened outside of it. */
byte told[TOKENS + 1];
byte crashes, losses;
bit told_truly;

#ifdef NO_OWN_COMMIT  /* looked for before the fence */
#define OWN(b, t) false
#else
#define OWN(b, t) (batch[b].state == COMMITTED && batch[b].witness == t)
#endif

#ifdef NO_STAGING_KEY
#define TABLE(b, t) b
#else
#define TABLE(b, t) t
#endif

inline release(w) {
    if :: tx[w].batch && batch_lock[tx[w].batch] == w + 1 -> batch_lock[tx[w].batch] = 0 :: else fi;
    if :: stream_lock == w + 1 -> stream_lock = 0 :: else fi
}

inline rolled_back(w, how) { release(w); tx[w].state = how; tx[w].batch = 0; tx[w].token = 0; tx[w].copies = 0; tx[w].alone = 0 }

inline tell(t, what) {
    d_step { told_truly = ((what == COMMITTED) == (batch[whose[t]].witness == t)); assert(told_truly); told_truly = 0; told[t] = what }
}

/* COMMIT has arrived: the deferred constraints, then everything at once. */
inline arrive(w) {
    d_step {
        bb = tx[w].batch; tt = tx[w].token; fine = 1;
#ifndef NO_PRIMARY_KEY
        if :: batch[bb].witness -> fine = 0 :: else fi;
#endif
        o = 0;
        do
        :: o < OFFSETS ->
            if
            :: o >= batch[bb].from && o < batch[bb].until ->
                if
#ifndef NO_OWNER
                :: batch[bb].replays && owner[o] != batch[bb].expects -> fine = 0
#endif
#ifndef NO_OFFSET_TWICE
                :: !batch[bb].replays && owner[o] -> fine = 0
#endif
                :: else
                fi
#ifndef NO_GAP
            :: !batch[bb].replays && o >= position && o < batch[bb].from && !owner[o] -> fine = 0
#endif
            :: else
            fi;
            o++
        :: else -> break
        od;
#ifndef NO_GAP
        if :: !batch[bb].replays && batch[bb].until < position -> fine = 0 :: else fi;
#ifdef REPLAY_MOVES
        if :: batch[bb].replays && batch[bb].until < position -> fine = 0 :: else fi;
#endif
#endif
        if
        :: !fine && tx[w].alone -> rolled_back(w, 0)
        :: !fine && !tx[w].alone -> rolled_back(w, REFUSED)
        :: else ->
#ifndef DATA_ONLY
            only_newest = (batch[bb].token == tt && batch[bb].state == PLANNED);
            assert(only_newest);
            told_failed_never_commits = (told[tt] != FAILED);
            assert(told_failed_never_commits);
            committed_once = (batch[bb].witness == 0);
            assert(committed_once);
#endif
            before = position;
            o = batch[bb].from;
            do
            :: o < batch[bb].until ->
                if
                :: batch[bb].replays ->
                    replaced_as_planned = (owner[o] == batch[bb].expects);
                    assert(replaced_as_planned);
                    rows[o] = tx[w].copies
                :: else -> rows[o] = rows[o] + tx[w].copies
                fi;
                no_duplicate = (rows[o] <= 1);
                assert(no_duplicate);
                owner[o] = bb;
                o++
            :: else -> break
            od;
#ifdef REPLAY_MOVES
            position = batch[bb].until;
#else
            if :: !batch[bb].replays -> position = batch[bb].until :: else fi;
#endif
            only_forward = (position >= before && (!batch[bb].replays || position == before));
            assert(only_forward);
            o = 0;
            do
            :: o < OFFSETS ->
                no_gap = ((o < position) == (rows[o] > 0 && owner[o] > 0));
                assert(no_gap);
                o++
            :: else -> break
            od;
            batch[bb].state = COMMITTED;
            batch[bb].witness = tt;
            closed[tt] = 1;
            if :: tx[w].alone -> rolled_back(w, 0) :: else -> rolled_back(w, DONE) fi
        fi;
        bb = 0; tt = 0; o = 0; fine = 0; before = 0
    }
}

/* The database's own side of two connections; what is under way may take its time. */
active proctype server() {
    byte bb, tt, o, before;
    bit fine, only_newest, told_failed_never_commits, committed_once, replaced_as_planned, no_duplicate, only_forward, no_gap;
end:
    do
    :: atomic { tx[0].state == SENT -> arrive(0) }
    :: atomic { tx[1].state == SENT -> arrive(1) }
    :: d_step { (tx[0].state == OPEN || tx[0].state == SENT) && tx[0].alone -> rolled_back(0, 0) }
    :: d_step { (tx[1].state == OPEN || tx[1].state == SENT) && tx[1].alone -> rolled_back(1, 0) }
    od
}

/* A client dies: its transaction goes on without it, and somebody begins anew. */
#define MAY_DIE if :: crashes < CRASHES -> goto dies :: true fi

proctype client(byte me) {
    byte b, t, p, x, i;

again:
    skip;
    d_step { b = 0; t = 0; p = 0; x = 0; i = 0 }
    if
    :: goto ends
    :: tx[me].state == 0 -> atomic { pipeline_lock == 0 -> pipeline_lock = me + 1 }
    fi;
    if
    :: goto plan_live
    :: goto plan_replay
    fi;

plan_live:
    skip;
#ifdef POSITIONS_FIRST
    p = position;
#endif
    d_step {                    /* a statement: the unfinished batch */
        i = 1;
        do
        :: i <= batches -> if :: batch[i].state == PLANNED && !batch[i].replays -> b = i :: else fi; i++
        :: else -> break
        od;
        i = 0
    }
    if :: b -> goto planned :: else fi;
#ifndef POSITIONS_FIRST
    p = position;               /* a later statement: where the streams stand */
#endif
#ifdef PLANNER_LEAVES_OUT
    if :: p + 1 < OFFSETS -> p++ :: else fi;
#endif
    if
    :: p == OFFSETS || batches == BATCHES -> goto nothing
    :: else -> x = p + 1
    fi;
    do
    :: x < OFFSETS -> x++
    :: break
    od;
    skip;
    d_step {                    /* the batch and its claims */
        if
#ifndef NO_CLAIM_POSITION
        :: position != p -> b = 0
#endif
        :: else -> batches++; b = batches; batch[b].state = PLANNED; batch[b].from = p; batch[b].until = x
        fi
    }
    if :: b -> goto planned :: else -> goto nothing fi;

plan_replay:
    skip;
#ifdef COVERAGE_FIRST
    x = owner[0];
#endif
    d_step {                    /* claims, and then who owns the first segment */
        i = 1;
        do
        :: i <= batches ->
            if
#ifndef NO_LOOK
            :: batch[i].state == PLANNED && batch[i].replays -> b = i
#endif
            :: else
            fi;
            i++
        :: else -> break
        od;
        i = 0;
#ifndef COVERAGE_FIRST
        x = owner[0]
#endif
    }
    if
    :: b -> goto planned
    :: !b && (!x || batches == BATCHES) -> goto nothing
    :: else
    fi;
    skip;
    d_step {                    /* its claims, and the second look */
        i = 1;
        do
        :: i <= batches ->
            if
#ifndef NO_CLAIMED_ONCE
            :: batch[i].state == PLANNED && batch[i].replays -> p = 1
#endif
            :: else
            fi;
            i++
        :: else -> break
        od;
        i = 0;
        if
        :: p -> skip
#ifndef NO_SECOND_LOOK
        :: !p && owner[0] != x -> skip
#endif
        :: else ->
            batches++; b = batches; batch[b].state = PLANNED; batch[b].replays = 1;
            batch[b].from = batch[x].from; batch[b].until = batch[x].until; batch[b].expects = x
        fi
    }
    if :: b -> goto planned :: else -> goto nothing fi;

nothing:
    pipeline_lock = 0;
    goto ends;

planned:
    skip;
    d_step { pipeline_lock = 0; p = 0; x = 0 }
    if :: goto ends :: true fi; /* busy: somebody's lease is live, or this one hands over */
    MAY_DIE;

    atomic {                    /* open an attempt, under the batch's row lock */
        batch_lock[b] == 0;
        if
        :: batch[b].state != PLANNED || tokens == TOKENS -> goto ends
        :: else -> tokens++; t = tokens; whose[t] = b; batch[b].token = t
        fi;
#ifndef NO_CLOSE
        i = 1;
        do
        :: i < t -> if :: whose[i] == b -> closed[i] = 1 :: else fi; i++
        :: else -> break
        od;
        i = 0
#endif
    }
    MAY_DIE;
    staged[TABLE(b, t)]++;      /* the tasks; no lock, no fence: a zombie does this, too */
    MAY_DIE;

commit:
    atomic {
        tx[me].state == 0;
#ifndef NO_LOCK
        batch_lock[b] == 0;
        batch_lock[b] = me + 1;
#endif
        tx[me].batch = b
    }
    if                          /* the fence */
#ifndef NO_OWN_COMMIT
    :: OWN(b, t) -> d_step { rolled_back(me, 0) } tell(t, COMMITTED); goto again
#endif
#ifndef NO_FENCE
    :: (batch[b].state != PLANNED || batch[b].token != t) && !OWN(b, t) -> d_step { rolled_back(me, 0) } tell(t, FAILED); goto again
#endif
#ifndef NO_CLOSE
    :: batch[b].token != t && closed[t] && batch[b].witness != t -> d_step { rolled_back(me, 0) } tell(t, FAILED); goto again
#endif
    :: else
    fi;
    if                          /* the streams' row locks; positions move by compare-and-set */
    :: batch[b].replays
    :: !batch[b].replays -> atomic { stream_lock == 0 -> stream_lock = me + 1 }
#ifndef NO_COMPARE_AND_SET
        if :: position != batch[b].from -> d_step { rolled_back(me, 0) } tell(t, FAILED); goto again :: else fi
#endif
    fi;
    atomic {                    /* rows, counted; commit rows, and the trigger on them */
        if
#ifndef NO_NEWEST
        :: (batch[b].token != t || batch[b].state != PLANNED) -> rolled_back(me, 0); tell(t, FAILED); goto again
#endif
#ifndef NO_COUNT
        :: staged[TABLE(b, t)] != 1 -> rolled_back(me, 0); tell(t, FAILED); goto again
#endif
        :: else -> tx[me].state = OPEN; tx[me].token = t; tx[me].copies = staged[TABLE(b, t)]
        fi
    }
    if :: crashes < CRASHES -> tx[me].alone = 1; goto dies :: true fi;
    tx[me].state = SENT;
    if :: crashes < CRASHES -> goto dies :: true fi;
    if
    :: tx[me].state == DONE -> tx[me].state = 0; tell(t, COMMITTED); goto again
    :: tx[me].state == REFUSED -> tx[me].state = 0;
        if :: batch[b].replays && batch[b].state == PLANNED && batch[b].token == t -> batch[b].state = ABANDONED :: else fi; /* CoverageMoved */
        tell(t, FAILED); goto again
    :: losses < LOSSES -> losses++ /* the acknowledgement will not come */
    fi;

    /* in doubt */
#ifdef NO_ASK
    tell(t, FAILED);
    goto unheard;
#endif
#ifdef BLIND_RETRY
    atomic { (tx[me].state == DONE || tx[me].state == REFUSED) -> tx[me].state = 0 }
    goto commit;
#endif
#ifndef NO_RESOLVE_LOCK
    do
    :: atomic { batch_lock[b] == 0 -> batch_lock[b] = me + 1; break }
    :: d_step { (tx[me].state == SENT) -> rolled_back(me, 0) }  /* whoever holds the lock is ended, being recorded */
    od;
#endif
    if
    :: batch[b].witness == t -> if :: batch_lock[b] == me + 1 -> batch_lock[b] = 0 :: else fi; tell(t, COMMITTED)
    :: batch[b].witness != t && (batch[b].witness || batch[b].state != PLANNED || batch[b].token != t) ->
        if :: batch_lock[b] == me + 1 -> batch_lock[b] = 0 :: else fi; tell(t, FAILED)
    :: else ->
        if
        :: closed[t] = 1;       /* the attempt is closed as failed in the same transaction */
            if :: batch_lock[b] == me + 1 -> batch_lock[b] = 0 :: else fi; tell(t, FAILED)
        :: if :: batch_lock[b] == me + 1 -> batch_lock[b] = 0 :: else fi;
            atomic { (tx[me].state != SENT) -> tx[me].state = 0 }
            goto commit         /* the same token tries again */
        fi
    fi;

unheard:
    skip;
    d_step { if :: tx[me].state == DONE || tx[me].state == REFUSED -> tx[me].state = 0 :: else -> tx[me].alone = (tx[me].state != 0) fi }
    goto again;

dies:
    skip;
    d_step {
        crashes++;
        if :: tx[me].state == DONE || tx[me].state == REFUSED -> tx[me].state = 0 :: else -> tx[me].alone = (tx[me].state != 0) fi
    }
    goto again;

ends:
    skip;
    d_step { if :: pipeline_lock == me + 1 -> pipeline_lock = 0 :: else fi }
}

init { atomic { run client(0); run client(1) } }
