/* Rows that are written once: tasks copy them into their table, where a view hides the batch until its commit; a newer
   attempt, a second try, a person, reap and a reader come in between. One batch of two ranges, of one record each. The second
   attempt gives no row of range 1: its code is another. See docs/model.md. */

#include "shared.pml"

#define TOKENS 2
#define RANGES 2
#define PLACE(t, r) ((t) * RANGES + (r))
#define GIVES(t, r) ((t) == 1 || (r) == 0)

/* The ledger, and the table behind the view. */
byte state = PLANNED, token, ready;    /* ready: the attempt whose tasks may begin */
bit unseen;                            /* the row that hides the batch from the view */
byte held[RANGES];                     /* rows of the batch in the table, by range */
bit landed[6];                         /* the ranges that an attempt has copied */
byte sharing;                          /* how many tasks share the batch's row until their COMMIT */
byte trying[RANGES];                   /* who holds the lock of a range */

#ifdef NO_SHARE           /* the fence is read, and not kept until COMMIT */
#define SHARES 0
#else
#define SHARES 1
#endif
#ifdef NO_NEWEST          /* the trigger on what has landed */
#define ALLOWED true
#else
#define ALLOWED (token == t && state == PLANNED)
#endif
#ifdef NO_LANDED_IS_HIDDEN
#define UNSEEN true
#else
#define UNSEEN (unseen)
#endif
#ifdef NO_KEY             /* the unique index of the table */
#define FREE true
#else
#define FREE (!GIVES(t, r) || held[r] == 0)
#endif
#ifdef NO_LANDED_ONCE
#define FIRST true
#else
#define FIRST (!landed[PLACE(t, r)])
#endif
#ifdef NO_SHOWN_BY_COMMIT
#define SHOWN true
#else
#define SHOWN (!unseen)
#endif
#ifdef NO_SHOWN_WITH_COMMIT
#define EMPTY true
#else
#define EMPTY (held[0] == 0 && held[1] == 0)
#endif

/* One try at a range: its task may run twice, and any of them may stand still for as long as it likes. */
proctype task(byte t, r) {
    bit shares, fine, only_newest, no_duplicate;

end:
    atomic { ready >= t && trying[r] == 0 -> trying[r] = _pid }
#ifndef NO_FOUND
    if
    :: landed[PLACE(t, r)] -> goto over
    :: else
    fi;
#endif
    fine = 1;
#ifndef NO_LOOK
    atomic { fine = (held[r] == 0) };   /* the rows of the range, its own left out: another attempt's are among them */
    if :: !fine -> goto over :: else fi;
#endif
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
        fine = ALLOWED && UNSEEN && FREE && FIRST;
        if
        :: fine ->
            PROMISE(only_newest, token == t && state == PLANNED);
            held[r] = held[r] + GIVES(t, r);
            PROMISE(no_duplicate, held[r] <= 1);
            landed[PLACE(t, r)] = 1
        :: else
        fi;
        only_newest = 0; no_duplicate = 0
    }
dies:                           /* its connection ends, and the server gives its locks back */
    skip;
over:
    atomic { fine = 0; sharing = sharing - shares; shares = 0; if :: trying[r] == _pid -> trying[r] = 0 :: else fi }
}

/* The driver of an attempt: opens it, deletes what older ones have left, and commits when all ranges have landed. */
proctype driver(byte t) {
    bit shown, whole;
end:
    atomic {                    /* the batch's row lock waits for who shares it */
        token == t - 1 && sharing == 0 && state == PLANNED -> token = t;
#ifndef NO_HIDE
        unseen = 1
#endif
    };
    atomic {
#ifndef NO_CLEAR
        if :: token == t && state == PLANNED -> held[0] = 0; held[1] = 0 :: else fi;
#endif
        ready = (ready > t -> ready : t)
    };
end_with_ranges_left:
    (landed[PLACE(t, 0)] && landed[PLACE(t, 1)]);
    atomic {
        if
        :: token == t && state == PLANNED && sharing == 0 ->
#ifndef NO_UNHIDE
            unseen = 0;
#endif
            if
            :: SHOWN ->
                state = COMMITTED;
                PROMISE(shown, !unseen);
                PROMISE(whole, held[0] == GIVES(t, 0) && held[1] == GIVES(t, 1))
            :: else
            fi
        :: else
        fi;
        shown = 0; whole = 0
    }
}

/* A person abandons the batch, and reap deletes what is hidden of it. */
proctype person() {
    if
    :: atomic { sharing == 0 && state == PLANNED -> state = ABANDONED };
        atomic {
#ifndef NO_REAP_CLEAR
            held[0] = 0; held[1] = 0;
#endif
            if :: EMPTY -> unseen = 0 :: else fi
        }
    :: true
    fi
}

/* Whoever looks at the view, at any time. */
proctype reader() {
    bit not_early;
    atomic { PROMISE(not_early, unseen || state == COMMITTED || held[0] + held[1] == 0); not_early = 0 }
}

init { atomic {
    run driver(1); run driver(2); run person(); run reader();
    run task(1, 0); run task(1, 0); run task(1, 1); run task(2, 0); run task(2, 1)
    } }
