/* Commits range by range: the tasks of an attempt commit what each has read; a newer attempt, a second try, a person, and
   the driver who closes the batch come in between. One batch; a range is of one stream. See docs/model.md. */

#include "shared.pml"

#ifndef TOKENS
#define TOKENS 2
#endif
#define RANGES 2
#define NOBODY 0

/* The ledger. */
byte state = PLANNED, token;
byte witness[RANGES];     /* the commit row of each range: whose attempt */
bit moved[RANGES];        /* whether its stream's position stands behind it */
byte rows[RANGES];        /* in the target: how often */
byte sharing;             /* how many tasks share the batch's row until their COMMIT */
byte trying[RANGES];      /* who holds the lock of a range */
bit told_failed[TOKENS + 1];

#ifdef NO_RANGE_LOCK      /* one try at a range at a time */
#define ALONE true
#else
#define ALONE (trying[r] == 0)
#endif
#ifdef NO_SHARE           /* the fence is read, and not kept until COMMIT */
#define SHARES 0
#else
#define SHARES 1
#endif
#ifdef NO_NEWEST          /* the trigger on commit rows: it looks, and shares the row itself, at once with COMMIT here */
#define ALLOWED true
#else
#define ALLOWED (token == t && state == PLANNED)
#endif
#ifdef NO_PRIMARY_KEY
#define FIRST true
#else
#define FIRST (witness[r] == NOBODY)
#endif
#ifdef NO_COMPARE_AND_SET
#define STANDS true
#else
#define STANDS (!moved[r])
#endif
#ifdef NO_OFFSET_TWICE    /* the constraint on coverage */
#define UNCOVERED true
#else
#define UNCOVERED (!moved[r])
#endif
#ifdef NO_COMMITTED_WHOLE /* the constraint on closing */
#define WHOLE true
#else
#define WHOLE (witness[0] != NOBODY && witness[1] != NOBODY)
#endif

/* One try at a range: its task may run twice at once, and any of them may stand still for as long as it likes. */
proctype task(byte t, r) {
    bit shares, fine, only_newest, no_duplicate, committed_once, told_truly;

end:
    atomic { token >= t && ALONE -> trying[r] = _pid }
#ifndef NO_FOUND
    if
    :: witness[r] != NOBODY -> atomic { PROMISE(told_truly, rows[r] == 1); told_truly = 0 }; goto over  /* found */
    :: else
    fi;
#endif
    skip;                       /* the rows are published, and nobody sees them */
    atomic {                    /* the fence */
        if
#ifndef NO_FENCE
        :: token != t || state != PLANNED -> goto over
#endif
        :: else -> shares = SHARES; sharing = sharing + shares
        fi
    }
    if :: goto dies :: true fi;
    atomic {                    /* COMMIT: the constraints, and everything at once */
        fine = ALLOWED && FIRST && STANDS && UNCOVERED;
        if
        :: fine ->
#ifndef DATA_ONLY
            PROMISE(only_newest, token == t && state == PLANNED);
            PROMISE(committed_once, witness[r] == NOBODY);
#endif
            rows[r]++;
            PROMISE(no_duplicate, rows[r] <= 1);
            witness[r] = t; moved[r] = 1
        :: else
        fi;
        fine = 0; only_newest = 0; no_duplicate = 0; committed_once = 0
    }
dies:                           /* its connection ends, and the server gives its locks back */
    skip;
over:
    atomic { sharing = sharing - shares; shares = 0; if :: trying[r] == _pid -> trying[r] = 0 :: else fi }
}

/* The driver of an attempt: opens it, and closes the batch when its tasks have told that all is done; it may go by less. */
proctype driver(byte t) {
    bit whole, only_newest;
end:
    atomic { token == t - 1 && sharing == 0 && state == PLANNED -> token = t };  /* the batch's row lock waits for who shares it */
#ifndef NO_WHOLE
end_with_ranges_left:
    (witness[0] != NOBODY && witness[1] != NOBODY);
#endif
    atomic {
        if
#ifndef NO_CLOSE_FENCE
        :: token != t || state != PLANNED -> skip
#endif
        :: else ->
            if
            :: sharing == 0 && WHOLE ->
                PROMISE(only_newest, token == t && state == PLANNED);
                state = COMMITTED;
                PROMISE(whole, rows[0] == 1 && rows[1] == 1)
            :: else
            fi
        fi;
        only_newest = 0; whole = 0
    }
}

/* A person abandons the batch: what is committed of it stays, and nothing more of it ever is. */
proctype person() {
    byte kept[RANGES];
    bit stays;
    if
    :: atomic { sharing == 0 && state == PLANNED -> state = ABANDONED; kept[0] = rows[0]; kept[1] = rows[1] };
        atomic { PROMISE(stays, rows[0] == kept[0] && rows[1] == kept[1]) }
    :: true
    fi
}

init { atomic {
    run driver(1); run driver(2); run person();
    run task(1, 0); run task(1, 0); run task(1, 1); run task(2, 0); run task(2, 1)
    } }
