/* Lanes beside each other on one stream: live, fills, replays, and a person who skips. Two workers may take the same lane.
   A commit is one step here; what may happen within one is in ledger.pml and ranges.pml. See docs/model.md. */

#include "shared.pml"

#ifndef OFFSETS
#define OFFSETS 2
#endif
#ifndef BATCHES
#define BATCHES 4
#endif
#define LIVE 1
#define FILL 2
#define REPLAY 3
#define SKIPPED 9
#define UNCLAIMED 0

#ifdef DATA_ONLY          /* what the ledger says of its batches is not looked at */
#define BOOKS(name, holds) skip
#else
#define BOOKS(name, holds) PROMISE(name, holds)
#endif

/* The ledger. Coverage and claims by offset: whose it is. */
typedef Batch { byte state; byte lane; byte from; byte until; byte expects };
Batch batch[BATCHES + 1];
byte batches, position, owner[OFFSETS], claim[OFFSETS], pipeline_lock;

/* The target: how many rows of each record. */
byte rows[OFFSETS];

#ifdef NO_FENCE           /* the batch's state, read under its lock */
#define FENCED true
#else
#define FENCED (batch[b].state == PLANNED)
#endif
#ifdef NO_NEWEST          /* the trigger on commit rows */
#define PLANNED_STILL true
#else
#define PLANNED_STILL (batch[b].state == PLANNED)
#endif
#ifdef NO_COMPARE_AND_SET
#define STANDS true
#else
#define STANDS (batch[b].lane != LIVE || position == batch[b].from)
#endif
#ifdef NO_OWNER           /* what gives way is what the plan has seen, and nothing else lies there */
#define GIVES_WAY true
#else
#define GIVES_WAY (batch[b].lane == LIVE || owner[o] == batch[b].expects)
#endif
#ifdef NO_OFFSET_TWICE    /* the constraint on coverage: what has not given way keeps its offset */
#define FREE true
#else
#define FREE (!owner[o] || owner[o] == batch[b].expects)
#endif
#ifdef FILL_MOVES         /* a commit that is wrong */
#define MOVES true
#else
#define MOVES (batch[b].lane == LIVE)
#endif
#ifdef NO_GAP             /* the constraint on positions */
#define MAY_STAND true
#else
#define MAY_STAND (position >= before)
#endif

/* Claims of a batch that is over are released in the same transaction. */
inline release(which) {
    o = 0;
    do :: o < OFFSETS -> if :: claim[o] == which -> claim[o] = UNCLAIMED :: else fi; o++ :: else -> break od;
    o = 0
}

proctype worker(byte me) {
    byte b, from, until, expects, lane, o, before, seen[OFFSETS];
    bit fine, not_abandoned, replaced_as_planned, no_duplicate, only_forward, no_gap;

again:
    skip;
    d_step { b = 0; from = 0; until = 0; expects = 0; fine = 0; o = 0; do :: o < OFFSETS -> seen[o] = 0; o++ :: else -> break od; o = 0 }
    if
    :: lane = LIVE
    :: lane = FILL
    :: lane = REPLAY
    :: goto ends
    fi;
    atomic { pipeline_lock == 0 -> pipeline_lock = me };
#ifdef COVERAGE_FIRST
    d_step { do :: o < OFFSETS -> seen[o] = owner[o]; o++ :: else -> break od; o = 0; from = position };
#endif
    d_step {                    /* a statement: who works there */
        do
        :: o < OFFSETS ->
            if
#ifndef NO_LOOK
            :: claim[o] != UNCLAIMED -> fine = 1;   /* one unfinished batch is enough to leave its offset out */
                expects = expects | (1 << o)
#endif
            :: else
            fi;
            o++
        :: else -> break
        od;
        o = 0
    }
#ifndef COVERAGE_FIRST
    d_step { do :: o < OFFSETS -> seen[o] = owner[o]; o++ :: else -> break od; o = 0; from = position };
#endif
    atomic {                    /* what is to be done: the first offset of the lane that nobody works on */
        if
        :: batches == BATCHES -> fine = 0; pipeline_lock = 0; goto ends
        :: lane == LIVE && batches < BATCHES -> until = OFFSETS; o = from; fine = (from < OFFSETS && !(expects & (1 << o))); expects = 0
            if :: fine && from + 1 < until -> if :: until = from + 1 :: true fi :: else fi
        :: lane != LIVE && batches < BATCHES ->
            fine = 0;
            do
            :: o < OFFSETS ->
                if
                :: !(expects & (1 << o)) && ((lane == FILL && seen[o] == SKIPPED) || (lane == REPLAY && seen[o] && seen[o] != SKIPPED)) ->
                    fine = 1; break
                :: else -> o++
                fi
            :: else -> break
            od;
            if
            :: !fine -> expects = 0
            :: else -> from = o; until = o; expects = seen[o];
                do :: until < OFFSETS && seen[until] == expects -> until++ :: else -> break od;
                if :: lane == REPLAY -> from = batch[expects].from; until = batch[expects].until :: else fi
            fi
        fi;
        o = 0
    }
    if :: !fine -> atomic { pipeline_lock = 0; goto again_or_end } :: else fi;
    atomic {                    /* the batch, its claims, and the second look */
        o = from;
        do
        :: o < until ->
            if
#ifndef NO_CLAIMED_ONCE
            :: claim[o] != UNCLAIMED -> fine = 0
#endif
            :: else
            fi;
#ifndef NO_SECOND_LOOK
            if :: owner[o] != expects -> fine = 0 :: else fi;
#endif
            o++
        :: else -> break
        od;
#ifndef NO_CLAIM_POSITION
        if :: lane == LIVE && position != from -> fine = 0 :: else fi;
#endif
        if
        :: fine ->
            batches++; b = batches;
            batch[b].state = PLANNED; batch[b].lane = lane; batch[b].from = from; batch[b].until = until; batch[b].expects = expects;
            o = from;
            do :: o < until -> claim[o] = b; o++ :: else -> break od
        :: else
        fi;
        o = 0; pipeline_lock = 0
    }
    if :: !fine -> goto again_or_end :: else fi;

    atomic {                    /* commit, under the locks of batch and stream */
        fine = FENCED;
        if
        :: !fine -> goto again_or_end
        :: else
        fi;
        fine = STANDS && PLANNED_STILL;
        o = batch[b].from;
        do
        :: o < batch[b].until -> fine = fine && GIVES_WAY && FREE; o++
        :: else -> break
        od;
        before = position;
        if
        :: fine && MOVES -> position = batch[b].until
        :: else
        fi;
        fine = fine && MAY_STAND;
        if
        :: !fine -> position = before;  /* given up, and its claims with it */
            if :: batch[b].state == PLANNED -> batch[b].state = ABANDONED; release(b) :: else fi
        :: else ->
            BOOKS(not_abandoned, batch[b].state == PLANNED);
            o = batch[b].from;
            do
            :: o < batch[b].until ->
                BOOKS(replaced_as_planned, owner[o] == batch[b].expects);
                if :: batch[b].lane == REPLAY -> rows[o] = 1 :: else -> rows[o]++ fi;
                PROMISE(no_duplicate, rows[o] <= 1);
                owner[o] = b; o++
            :: else -> break
            od;
            PROMISE(only_forward, position >= before && (batch[b].lane == LIVE || position == before));
            o = 0;
            do
            :: o < OFFSETS ->
                PROMISE(no_gap, (o < position) == (owner[o] != 0) && (owner[o] != 0 && owner[o] != SKIPPED) == (rows[o] == 1));
                o++
            :: else -> break
            od;
            batch[b].state = COMMITTED; release(b)
        fi;
        o = 0; before = 0; not_abandoned = 0; replaced_as_planned = 0; no_duplicate = 0; only_forward = 0; no_gap = 0
    }
again_or_end:
    if :: goto again :: true fi;
ends:
    skip
}

/* A person skips, once: the batches at work there are abandoned, and the position stands behind what was skipped. */
proctype person() {
    byte from, until, o, i, at_work;
    bit told_truly, no_gap, fine;

    from = position;            /* before the lock: the broker is asked in between */
    atomic { pipeline_lock == 0 -> pipeline_lock = 3 };
    atomic {
        until = from + 1;
        if :: until < OFFSETS -> if :: until = OFFSETS :: true fi :: else fi;
        o = from;
        do
        :: o < until && o < OFFSETS -> if :: claim[o] != UNCLAIMED -> at_work = claim[o] :: else fi; o++
        :: else -> break
        od;
        o = 0
    }
    atomic {                    /* the batches' locks, the streams' locks, and all else until COMMIT */
        if
        :: until > OFFSETS -> fine = 0
        :: else ->
            fine = 1;
#ifndef NO_LOCKED_POSITION
            from = position;
#endif
            fine = (from < until);
#ifndef NO_PASS_OVER_COMPARED
            fine = fine && (position == from);
#endif
            o = from;
            do
            :: o < until ->
#ifndef NO_OFFSET_TWICE
                if :: owner[o] -> fine = 0 :: else fi;
#endif
                o++
            :: else -> break
            od;
            if
            :: fine ->
#ifndef NO_ABANDON
                if
#ifndef NO_STATE_LOOK
                :: at_work && batch[at_work].state != PLANNED -> skip
#endif
                :: else ->
                    if
                    :: at_work ->
                        PROMISE(told_truly, batch[at_work].state == PLANNED);
                        batch[at_work].state = ABANDONED; release(at_work)
                    :: else
                    fi
                fi;
#endif
                o = from;
                do :: o < until -> owner[o] = SKIPPED; o++ :: else -> break od;
                position = until;
                o = 0;
                do
                :: o < OFFSETS ->
                    PROMISE(no_gap, (o < position) == (owner[o] != 0) && (owner[o] != 0 && owner[o] != SKIPPED) == (rows[o] == 1));
                    o++
                :: else -> break
                od
            :: else
            fi
        fi;
        o = 0; told_truly = 0; no_gap = 0; pipeline_lock = 0
    }
}

init { atomic { run worker(1); run worker(2); run person() } }
