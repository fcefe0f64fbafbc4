/* Two logs under one name: a topic is recreated or truncated and grows again; a person retires the stream.
   Every record has a number of its own, so that other records at the same offsets are told apart. See docs/model.md. */

#include "shared.pml"

#ifndef OFFSETS
#define OFFSETS 2
#endif
#ifndef RECORDS
#define RECORDS 4
#endif
#ifndef BREAKS
#define BREAKS 1     /* truncations and recreations */
#endif
#ifndef ELECTIONS
#define ELECTIONS 1  /* elections that lose nothing */
#endif
#ifndef ATTEMPTS
#define ATTEMPTS 3   /* of the live lane, and of the replay */
#endif
#define STREAMS (BREAKS + 1)
#define LIVE 0
#define REPLAY 1

#ifdef NO_ONE_LOG    /* the constraint on claims */
#define MAY_CLAIM(s) true
#else
#define MAY_CLAIM(s) (s == newest)
#endif

#ifdef KEEPS_IN_FLIGHT
#define MAY_KEEP(s) true
#else
#define MAY_KEEP(s) (lane == LIVE || !(batch[LIVE].state == PLANNED && batch[LIVE].stream == s))
#endif

/* The broker. */
byte ends, epoch = 1, topic = 1, written, breaks, elections;
byte record[OFFSETS], leader[OFFSETS];   /* at each offset: which record, and under which leader it was written */

/* The ledger: a stream's incarnation is its number. */
typedef Stream { byte start; byte position; byte epoch; byte topic; bit retired; byte row[OFFSETS] };
typedef Batch { byte state; byte stream; byte from; byte until; byte topic; byte token };
Stream stream[STREAMS + 1];
Batch batch[2];                          /* the live lane's and the replay's: one each */
byte newest = 1;

/* What a plan, and retire, see of a stream in one look. */
inline look(s) {
    broken = 0;
    if
#ifndef NO_IDENTITY
    :: stream[s].topic != topic -> broken = 1
#endif
#ifndef NO_END
    :: topic == stream[s].topic && ends < stream[s].position -> broken = 1
#endif
#ifndef NO_EPOCH
    :: stream[s].topic == topic && ends >= stream[s].position && stream[s].epoch != epoch && stream[s].position > stream[s].start ->
        if :: leader[stream[s].position - 1] > stream[s].epoch -> broken = 1 :: else fi
#endif
    :: else
    fi
}

active proctype broker() {
    byte o;
end:
    do
    :: d_step { ends < OFFSETS && written < RECORDS -> written++; record[ends] = written; leader[ends] = epoch; ends++ }
    :: d_step { elections < ELECTIONS -> elections++; epoch++ }
    :: atomic { breaks < BREAKS && ends > 0 -> breaks++;
        if
        :: topic++; o = 0; epoch = 1        /* recreated: epochs begin anew, too */
        :: epoch++; o = ends - 1; do :: o > 0 -> o-- :: break od  /* truncated, anywhere */
        fi;
        ends = o;
        do :: o < OFFSETS -> record[o] = 0; leader[o] = 0; o++ :: else -> break od; o = 0 }
    od
}

/* Reads what a batch claims, offset by offset; the log may change between any two. */
proctype worker(byte lane) {
    byte s, o, fine, staged[OFFSETS], i;
    byte seen_topic, seen_epoch, seen_end, seen_position, kept, token;
    bit changed;
    bit broken, not_retired, same_record, read_once, none_left_out;

again:
    skip;
    d_step { fine = 0; i = 0; o = 0; do :: o < OFFSETS -> staged[o] = 0; o++ :: else -> break od; o = 0; broken = 0; s = 0; token = 0; seen_topic = 0; seen_epoch = 0; seen_end = 0; seen_position = 0; kept = 0; changed = 0 };
    atomic {                                /* the look: one reading of the broker */
        s = newest;
        if
        :: lane == REPLAY && batch[REPLAY].state != PLANNED ->
            if
            :: true
#ifdef NO_NEWEST_STREAM
            :: newest > 1 -> s = 1
#endif
            fi
        :: lane == REPLAY && batch[REPLAY].state == PLANNED -> s = batch[REPLAY].stream
        :: else
        fi;
        look(s);
        seen_topic = topic; seen_epoch = epoch; seen_end = ends; seen_position = stream[s].position; kept = stream[s].epoch;
        changed = (!broken && topic == stream[s].topic && epoch != kept);
        if
        :: lane == LIVE && !broken && stream[s].position == ends ->
            o = 0;                          /* idle: everything that is in the log is in the target, once */
            do
            :: o < ends ->
                if
                :: o >= stream[s].start -> PROMISE(none_left_out, stream[s].row[o] == record[o])
                :: else -> i = 1; none_left_out = 0;
                    do :: i < s -> if :: stream[i].row[o] == record[o] -> none_left_out = 1 :: else fi; i++ :: else -> break od;
                    assert(none_left_out); i = 0
                fi;
                none_left_out = 0; o++
            :: else -> break
            od;
            o = 0
        :: else
        fi
    }
    if
    :: broken -> goto again_if_retired
    :: else
    fi;
    atomic {                                /* the batch and its claims, in a later transaction than the look */
        if
#ifndef NO_STALE_LOOK
        :: changed && (stream[s].position != seen_position || stream[s].epoch != kept) -> o = 99
#endif
        :: else ->
            if
            :: batch[lane].state == PLANNED ->
#ifndef NO_FENCE_ON_RESUME                  /* who resumes under another leader takes the batch from every older attempt */
                if :: changed -> token = batch[lane].token + 1; batch[lane].token = token :: else fi
#endif
            :: batch[lane].state != PLANNED && lane == LIVE && stream[s].position < seen_end && s == newest ->
                batch[lane].from = stream[s].position; batch[lane].until = stream[s].position + 1; fine = 1;
                if :: batch[lane].until < seen_end -> batch[lane].until = seen_end :: true fi
            :: batch[lane].state != PLANNED && lane == REPLAY && stream[s].position > stream[s].start && MAY_CLAIM(s) ->
                batch[lane].from = stream[s].start; batch[lane].until = stream[s].position; fine = 1
            :: else -> o = 99
            fi;
            /* The epoch of a log that was whole up to the position; not while a live batch reads past it. */
            if
            :: changed && seen_epoch > stream[s].epoch && stream[s].position == seen_position && MAY_KEEP(s) -> stream[s].epoch = seen_epoch
            :: else
            fi;
            if :: fine -> batch[lane].state = PLANNED; batch[lane].stream = s; batch[lane].topic = seen_topic :: else fi;
            fine = 0; token = 0
        fi;
        seen_topic = 0; seen_epoch = 0; seen_end = 0; seen_position = 0; kept = 0; changed = 0
    }
    if :: o == 99 -> goto idle :: else fi;

    atomic {                                /* an attempt is opened */
        if
        :: batch[lane].state != PLANNED || batch[lane].token >= ATTEMPTS -> goto idle
        :: else -> batch[lane].token++; token = batch[lane].token; s = batch[lane].stream; o = batch[lane].from
        fi
    }
    do
    :: o < batch[lane].until ->
        atomic { if :: o < ends -> staged[o] = record[o] :: else -> fine = 1 fi; o++ }
    :: else -> break
    od;
    if :: fine -> goto again :: else fi;

    atomic {                                /* validate: the look behind the read */
        if
        :: batch[lane].state != PLANNED || batch[lane].token != token -> fine = 1
#ifndef NO_LOOK_BEHIND
        :: batch[lane].state == PLANNED && batch[lane].token == token && batch[lane].topic != topic -> fine = 1
        :: batch[lane].state == PLANNED && batch[lane].token == token && batch[lane].topic == topic && stream[s].epoch < epoch ->
            if
            :: ends < batch[lane].until -> fine = 1
            :: else -> if :: leader[batch[lane].until - 1] > stream[s].epoch -> fine = 1 :: else fi
            fi
#endif
        :: else
        fi
    }
    if :: fine -> goto again :: else fi;

    atomic {                                /* commit, under the batch's row lock; a person may have been quicker */
        s = batch[lane].stream;
        if
#ifndef NO_FENCE
        :: batch[lane].state != PLANNED || batch[lane].token != token -> goto again
#endif
        :: else
        fi;
        PROMISE(not_retired, !stream[s].retired);
        o = batch[lane].from;
        do
        :: o < batch[lane].until ->
            if :: lane == REPLAY -> PROMISE(same_record, stream[s].row[o] == staged[o]); same_record = 0 :: else fi;
            stream[s].row[o] = staged[o];
            i = 1;
            do
            :: i <= STREAMS ->
                if :: i != s -> PROMISE(read_once, !staged[o] || stream[i].row[o] != staged[o]); read_once = 0 :: else fi; i++
            :: else -> break
            od;
            i = 0; o++
        :: else -> break
        od;
        if :: lane == LIVE -> stream[s].position = batch[lane].until :: else fi;
        batch[lane].state = COMMITTED; batch[lane].from = 0; batch[lane].until = 0; batch[lane].topic = 0; not_retired = 0
    }
    goto again;

idle:
    if
    :: written == RECORDS || ends == OFFSETS || lane == REPLAY
    :: goto again
    fi;
again_if_retired:
    skip;
    d_step { o = 0; i = 0; fine = 0; s = 0 }
    if
    :: goto again
    :: true                                 /* nobody retires it: it stands still, which is safe */
    fi
}

/* A person: asks the broker, then closes the stream and opens its successor in one transaction. */
active proctype person() {
    byte s, begins, seen, o;
    bit broken;
end:
    do
    :: newest < STREAMS ->
        atomic {
            s = newest; look(s);
            if :: !broken && batch[LIVE].state == PLANNED && batch[LIVE].stream == s && topic == stream[s].topic && ends < batch[LIVE].until -> broken = 1
            :: else fi;
            seen = stream[s].position;
            if
            :: topic != stream[s].topic -> begins = 0
            :: topic == stream[s].topic && ends >= stream[s].position && !(stream[s].position > stream[s].start && leader[stream[s].position - 1] > stream[s].epoch) -> begins = stream[s].position
            :: else ->                      /* the truncation: the first record of a later leader */
                begins = 0;
                do
                :: begins < ends && leader[begins] <= stream[s].epoch -> begins++
                :: else -> break
                od
            fi;
#ifdef FROM_LOG_START
            begins = 0;
#endif
            o = topic
        }
        if
        :: !broken -> skip
        :: else ->
            atomic {
                if
                :: stream[s].position != seen  /* it moved meanwhile: nothing is changed */
                :: else ->
#ifndef NO_ABANDON
                    if :: batch[LIVE].state == PLANNED && batch[LIVE].stream == s -> batch[LIVE].state = ABANDONED :: else fi;
                    if :: batch[REPLAY].state == PLANNED && batch[REPLAY].stream == s -> batch[REPLAY].state = ABANDONED :: else fi;
#endif
                    if
#ifndef NO_FREED
                    :: (batch[LIVE].state == PLANNED && batch[LIVE].stream == s) || (batch[REPLAY].state == PLANNED && batch[REPLAY].stream == s)
                                            /* the constraint: a new incarnation while the old one is claimed */
#endif
                    :: else ->
                        stream[s].retired = 1; newest++;
                        stream[newest].start = begins; stream[newest].position = begins;
                        stream[newest].epoch = epoch; stream[newest].topic = o
                    fi
                fi
            }
        fi;
        d_step { s = 0; begins = 0; seen = 0; broken = 0; o = 0 }
    od
}

init { atomic { stream[1].epoch = 1; stream[1].topic = 1; run worker(LIVE); run worker(REPLAY);
#ifdef TWO
    run worker(LIVE)
#endif
    } }
