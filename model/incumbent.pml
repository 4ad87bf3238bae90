/*
 * The protocol by which processes share one seat: leases, the line, wake-ups, what is given up.
 *
 * For the checker Spin. Three processes and one server; every script is one step, as on the server, and everything
 * between two scripts may happen in any order. `scripts/model` has it checked; docs/model.md says what is proved, what
 * is left out, and how to read an error.
 *
 *   Processes   try, stand in line, are woken, hold, renew, release, give up, are cancelled, try again.
 *   Faults      a process dies, with its inbox or silently; it stalls, or its network does; an answer is overdue, and
 *               its request is lost or arrives later, after others; an inbox is cut, noticed by the server or not;
 *               failover to a replica that lacks the last writes. FAULTS of them per run, at any moment.
 *   Time        in ticks of a third of a lease: also the time between two touches, two renewals, and the grace. It
 *               passes when nobody has anything to do at once; to let it pass all the same is a fault (a stall).
 *
 * The properties, by their names in the assertions below (promises and rules of the line: docs/protocol.md):
 *
 *   EXCLUSION   no two leases are valid at once                                            (P1)
 *   FENCE       each grant's fence is greater than all before, also after a failover       (P7)
 *   IN TURN     nobody is granted the seat past somebody who stands before him             (rule 1)
 *   WAKE-UP     the seat is not free for longer than PATIENCE ticks while somebody waits   (rules 2, 4)
 *   REMEMBERED  who waits is in the server's line, or put back into it within a touch      (rules 1, 4)
 *   GIVEN UP    a token whose leave or release has run never has the seat again            (P4, rule 6)
 *   NOBODY'S    a seat that nobody wants is free after a lease at most                     (P4)
 *
 * and, without time and faults (TIME=0): every run ends with everybody done, so the wake-ups alone suffice.
 *
 * Each rule of the protocol that is named below can be switched off by -D. Then some property breaks, or another rule
 * makes good for it: scripts/model and docs/model.md say which.
 */

/* ---- what is checked: scripts/model gives these ------------------------------------------------------------------ */
#ifndef TIME
#define TIME 1          /* whether time passes */
#endif
#ifndef FAULTS
#define FAULTS 2        /* how many in one run */
#endif
#ifndef HASTE
#define HASTE 1         /* whether waiters may give up, or be cancelled */
#endif
#ifndef FAILOVER
#define FAILOVER 0      /* whether there may be one; exclusion is not promised after it (that takes `durability`) */
#endif
#ifndef CLOCK_BACK
#define CLOCK_BACK 0    /* whether the server's clock may be set back, once */
#endif
#ifndef TTL_BACK
#define TTL_BACK 0      /* the same for what it does to the seat's TTL, which becomes longer */
#endif
#define FENCES (FAILOVER || CLOCK_BACK)
#ifndef ROUNDS
#define ROUNDS 1        /* how often each process stands for the seat */
#endif
#ifndef PATIENCE
#define PATIENCE (FAULTS + FAILOVER)    /* one grace for each thing that goes wrong */
#endif

/* ---- the rules, each with the place where it is kept ------------------------------------------------------------- */
#ifndef FROM_SEND
#define FROM_SEND 1     /* lease.py valid_until: measured from before the request was sent, not from its answer */
#endif
#ifndef ALLOWANCE
#define ALLOWANCE 1     /* lease.py valid_until: less what the clocks may drift; here they drift that much */
#endif
#ifndef TOMBSTONE
#define TOMBSTONE 1     /* leave.lua: a request that comes after its leave finds it */
#endif
#ifndef DOUBTFUL
#define DOUBTFUL 1      /* release.lua: the same, after a grant that was asked for twice */
#endif
#ifndef COMPARE
#define COMPARE 1       /* release.lua, extend.lua: only the own token's seat */
#endif
#ifndef BOUND
#define BOUND 1         /* prelude.lua bound: whoever meets the seat cuts its TTL to what its holder asked for */
#endif
#ifndef RELEASE_WAKES
#define RELEASE_WAKES 1 /* release.lua: walks the line */
#endif
#ifndef LEAVE_WAKES
#define LEAVE_WAKES 1   /* leave.lua: passes on what was due to the leaver */
#endif
#ifndef TOUCH_WALKS
#define TOUCH_WALKS 1   /* touch.lua: a seat that ran out is noticed */
#endif
#ifndef TOUCH_RECALLS
#define TOUCH_RECALLS 1 /* line.py _learn: who was dropped asks again */
#endif
#ifndef PROBE
#define PROBE 1         /* line.py _look_for_probe: a deaf inbox is connected anew */
#endif
#ifndef RELISTEN
#define RELISTEN 1      /* line.py listening: who was deaf asks again */
#endif
#ifndef HEAR_FIRST
#define HEAR_FIRST 1    /* line.py settled: subscribed and confirmed before it asks to stand */
#endif
#ifndef MUTE_FIRST
#define MUTE_FIRST 1    /* place.py asking: what happens after the request was sent is news */
#endif
#ifndef IN_TURN
#define IN_TURN 1       /* acquire.lua: a passer-by takes only what the line leaves */
#endif
#ifndef GRACE_ENDS
#define GRACE_ENDS 1    /* line.lua prune: who lets a wake-up pass is dropped */
#endif
#ifndef UNHEARD_GO
#define UNHEARD_GO 1    /* line.lua walk: whom nobody hears is dropped at once */
#endif
#ifndef UNKNOWN_LEAVES
#define UNKNOWN_LEAVES 1 /* line.py heard: a wake-up for nobody is passed on */
#endif
#ifndef ARRIVAL_KEPT
#define ARRIVAL_KEPT 1  /* place.py arrival: presented with each request */
#endif
#ifndef FENCE_TIME
#define FENCE_TIME 1    /* acquire.lua: not less than the server's time */
#endif
#ifndef FENCE_COUNTS
#define FENCE_COUNTS 1  /* acquire.lua: greater than the last one */
#endif

/* ---- sizes ------------------------------------------------------------------------------------------------------- */
#define N 3
#define LEASE 3         /* ticks; so that a renewal and a touch are due at each */
#define GRACE 1         /* how long a seat is kept for who was woken: until the next tick */
#define STALE 3         /* how long a process is believed in that does not touch */
#define DRIFT 1         /* ticks of a lease by which a process's clock is late: just what ALLOWANCE allows for */
#define PLACES (N * ROUNDS)                             /* place  1 + process + N * round */
#define TOKENS (N * (LATES + 2))                        /* token  1 + process + N * claim */
#define ARRIVALS (N * ROUNDS + FAULTS + FAILOVER)
#define LATES (FAULTS + FAILOVER + 1)
#define of(x) (((x) - 1) % N)                           /* whose token, whose place */
#define bit(x) (1 << (x))

mtype:script = { acquire, extend, release, leave };
mtype:answer = { granted, busy, yours, not_yours, over };
mtype:state = { idle, asking, waiting, held, extending, releasing, leaving, done, dead };
mtype:inbox = { unheard, heard, deaf };     /* as the server sees it; deaf: it is cut, and the server has not noticed */

/* ---- the server's keys ------------------------------------------------------------------------------------------- */
byte owner;                     /* seat: the token; 0 when free */
byte ttl;                       /* seat: ticks */
byte line[ARRIVALS + 1];        /* queue: the place that came at this arrival */
byte woken[PLACES + 1];         /* alive `w:`: 0 no, 1 the grace is over, else 1 + ticks */
byte believed[N];               /* alive `p:`: likewise */
int gone;                       /* the tombstones, a bit per token: none ends before the last copy has come */
#if FENCES
byte fence, clock;              /* the counter; the server's clock */
#endif

/* ---- the network ------------------------------------------------------------------------------------------------- */
typedef Request { mtype:script script; byte token, place, arrival; bool last, doubtful };
Request request[N];             /* on its way to the server, or answered; script 0: none */
mtype:answer answer[N];         /* on its way back; 0: none */
Request late[LATES];            /* nobody waits for these any more */
mtype:inbox inbox[N];
bool calling[PLACES + 1];       /* a wake-up for this place is on its way */

/* ---- the processes ----------------------------------------------------------------------------------------------- */
mtype:state state[N];
byte round[N], claim[N];
byte place[N];                  /* its place in line; 0: none */
byte arrival[N];                /* what the server said; 0: nothing yet */
byte age[N];                    /* ticks since the request was sent */
byte valid[N];                  /* ticks for which its lease may be relied on */
bool doubtful[N];               /* its acquire was sent twice */
bool bell[N];                   /* it is worth asking again */
bool due[N];                    /* the timer: a touch, a renewal */
bool hasty[N];                  /* its time will be up, or it will be cancelled; no two of them at a time */
bool quits[N];                  /* it stops after this leave */
bool stalled[N];                /* it, or its network, takes its time, until it has done something */
byte faults = FAULTS;
byte started;                   /* they begin in the order of their numbers: any other is the same by other names */

#define me _pid
#define running(i) (state[i] != done && state[i] != dead)
#define token(i) (1 + (i) + N * claim[i])

/* ---- what only the properties know ------------------------------------------------------------------------------- */
int ended;                      /* tokens whose leave or release has run */
byte idling;                    /* ticks since when the seat is free though somebody waits */
byte unwanted;                  /* ticks since when the seat is nobody's */
bool missing[N];                /* who waits was not in line at the last tick */
#if FENCES
byte highest;
#endif
#if FAILOVER
mtype:replica = { follows, lags, leads };   /* lags: what is written from now on is not replicated any more */
mtype:replica replica = follows;
byte r_owner, r_ttl, r_line[ARRIVALS + 1], r_woken[PLACES + 1], r_believed[N], r_fence;
int r_gone;
#define PROMISED (replica != leads)
#else
#define PROMISED true
#endif

/* Names within one step. */
hidden byte a, b, c, x, p;
hidden int e;
hidden byte vacant, given, called, pruned, any;
hidden byte r_token, r_place, r_arrival;        /* ARGV of the script that runs */
hidden byte r_last, r_doubtful;
hidden mtype:answer reply;

/* ---- line.lua ---------------------------------------------------------------------------------------------------- */
inline forget(whom) {
    woken[whom] = 0;
    any = false;
    for (a : 1 .. ARRIVALS) {
        line[a] = (line[a] == whom -> 0 : line[a]);
        any = any || line[a]
    }
    if
    :: !any -> /* the queue is gone, and `alive` with it */
        for (a : 0 .. N - 1) { believed[a] = 0 }
        for (a : 1 .. PLACES) { woken[a] = 0 }
    :: else
    fi
}

/* A process that is past its deadline, or let a wake-up pass, loses all its places. */
inline prune() {
    pruned = false;
    for (b : 0 .. N - 1) {
        any = (believed[b] == 1);
        for (c : 1 .. PLACES) { any = any || (of(c) == b && woken[c] == 1 && GRACE_ENDS) }
        if
        :: any ->
            pruned = true;
            believed[b] = 0;
            for (c : 1 .. PLACES) {
                if
                :: of(c) == b -> forget(c)
                :: else
                fi
            }
        :: else
        fi
    }
}

/* Along the line while the seat is free: given to `whom`, or kept for who was woken, or for who is woken now. */
inline walk(whom) {
    vacant = (owner == 0);
    given = false;
    for (b : 1 .. ARRIVALS) {
        p = line[b];
        if
        :: !vacant || !p
        :: vacant && p && p == whom -> given = true; vacant = false
        :: vacant && p && p != whom && woken[p] -> vacant = false
        :: vacant && p && p != whom && !woken[p] && inbox[of(p)] == unheard && UNHEARD_GO -> forget(p)
        :: vacant && p && p != whom && !woken[p] && (inbox[of(p)] != unheard || !UNHEARD_GO) ->
            woken[p] = 1 + GRACE;
            calling[p] = calling[p] || inbox[of(p)] == heard;
            vacant = false
        fi
    }
}

inline find(whom) {
    x = 0;
    for (a : 1 .. ARRIVALS) { x = (line[a] == whom -> a : x) }
}

/* The server's time tells who came later. Here the least number does that is later than all that are known. */
inline find_end() {
    x = 0;
    for (a : 1 .. ARRIVALS) { x = (line[a] -> a : x) }
    for (a : 0 .. N - 1) {
        x = (arrival[a] > x -> arrival[a] : x);
        x = (request[a].arrival > x -> request[a].arrival : x)
    }
    for (a : 0 .. LATES - 1) { x = (late[a].arrival > x -> late[a].arrival : x) }
    x++
}

/* Takes a place, at the arrival that it says it had, if it says one. Who asks has heard its wake-up. */
inline stand(whom) {
    find(whom);
    if
    :: x == 0 && r_arrival -> x = r_arrival; line[x] = whom
    :: x == 0 && !r_arrival -> find_end(); assert(x <= ARRIVALS); line[x] = whom
    :: else
    fi;
    r_arrival = x;
    woken[whom] = 0;
    believed[of(whom)] = (r_last -> believed[of(whom)] : 1 + STALE)
}

/* line.lua without: what was due to who leaves goes to the next in line. */
inline leave_line(whom) {
    prune();
    if
    :: whom -> forget(whom)
    :: else
    fi;
    if
    :: LEAVE_WAKES -> walk(0)
    :: else
    fi
}

/* ---- acquire.lua ------------------------------------------------------------------------------------------------- */
/* The end of the script: the seat is r_token's. */
inline elect() {
    assert(!PROMISED || !(ended & bit(r_token)));                                   /* GIVEN UP */
    e = 0;
    for (a : 1 .. ARRIVALS) {
        e = e || (r_place && line[a] == r_place);
        assert(e || !line[a] || state[of(line[a])] == dead || inbox[of(line[a])] == unheard) /* IN TURN */
    }
    owner = r_token;
    ttl = LEASE;
    unwanted = 0;
#if FENCES
    clock++;                                         /* no two scripts run in one microsecond */
    x = (FENCE_TIME -> clock : 0);
    fence = (FENCE_COUNTS && fence >= x -> fence + 1 : x);
    assert(fence > highest);                                                        /* FENCE */
    highest = fence;
#endif
    reply = granted
}

/* prelude.lua bound: nobody relies on a seat for longer than what was asked for. */
inline cut_ttl() {
    ttl = (BOUND && ttl > LEASE -> LEASE : ttl)
}

inline run_acquire() {
    reply = busy;
    cut_ttl();
    if
    :: gone & bit(r_token) -> reply = over
    :: !(gone & bit(r_token)) && owner == r_token -> /* the answer was lost, and it asks again */
        if
        :: r_place -> leave_line(r_place)
        :: else
        fi;
        ttl = LEASE;
        unwanted = 0;
        reply = granted
    :: !(gone & bit(r_token)) && owner != r_token && !r_place -> /* one try without standing */
        vacant = (owner == 0);
        prune();
        if
        :: IN_TURN -> walk(0)
        :: else
        fi;
        if
        :: vacant -> elect()
        :: else
        fi
    :: !(gone & bit(r_token)) && owner != r_token && r_place ->
        called = woken[r_place];
        prune();
        called = called && !pruned;
        given = false;
        if
        :: called -> walk(r_place)
        :: else
        fi;
        if
        :: called && given
        :: else ->
            stand(r_place);
            given = false;
            if
            :: !called -> walk(r_place)
            :: else
            fi
        fi;
        if
        :: given -> elect(); forget(r_place)
        :: !given && r_last -> forget(r_place)
        :: else
        fi
    fi
}

/* ---- extend.lua, release.lua, leave.lua -------------------------------------------------------------------------- */
inline run_extend() {
    if
    :: owner == r_token || (owner && !COMPARE) -> ttl = LEASE; unwanted = 0; reply = yours
    :: else -> reply = not_yours
    fi
}

inline free_seat(sure) {
    if
    :: owner == r_token || sure -> owner = 0; ttl = 0; unwanted = 0
    :: else
    fi
}

inline run_release() {
    free_seat(!COMPARE);
    gone = (r_doubtful && DOUBTFUL -> gone | bit(r_token) : gone);
    ended = ended | bit(r_token);
    prune();
    if
    :: RELEASE_WAKES -> walk(0)
    :: else
    fi;
    reply = over
}

inline run_leave() {
    if
    :: r_token ->
        free_seat(false);
        gone = (TOMBSTONE -> gone | bit(r_token) : gone);
        ended = ended | bit(r_token)
    :: else
    fi;
    leave_line(r_place);
    reply = over
}

inline serve(r) {
    r_token = r.token; r_place = r.place; r_arrival = r.arrival; r_last = r.last; r_doubtful = r.doubtful;
    if
    :: r.script == acquire -> run_acquire()
    :: r.script == extend -> run_extend()
    :: r.script == release -> run_release()
    :: r.script == leave -> run_leave()
    fi
}

inline forget_request(r) {
    r.script = 0; r.token = 0; r.place = 0; r.arrival = 0; r.last = 0; r.doubtful = 0
}

/* ---- a process --------------------------------------------------------------------------------------------------- */
/* e: the tokens that are on the way, or have the seat. A tombstone of any other does not matter any more, and its
   number can be used again: so more states are the same. */
inline tidy() {
    e = bit(owner);
    for (a : 0 .. N - 1) { e = e | (request[a].script -> bit(request[a].token) : 0) }
    for (a : 0 .. LATES - 1) { e = e | bit(late[a].token) }
#if FAILOVER
    e = e | bit(r_owner);
    r_gone = r_gone & e;
#endif
    gone = gone & e;
    ended = ended & e
}

inline new_claim() {
    tidy();
    claim[me] = 0;
    do
    :: e & bit(token(me)) -> claim[me]++
    :: else -> break
    od;
    assert(token(me) <= TOKENS);
    doubtful[me] = false
}

inline send(what, whose, where, final) {
    request[me].script = what;
    request[me].token = whose;
    request[me].place = where;
    request[me].arrival = (where && ARRIVAL_KEPT -> arrival[me] : 0);
    request[me].last = final;
    request[me].doubtful = (what == release && doubtful[me]);
    answer[me] = 0;
    age[me] = 0;
    stalled[me] = false
}

inline ask(final) {
    send(acquire, token(me), place[me], final);
    bell[me] = (MUTE_FIRST -> false : bell[me]);
    state[me] = asking
}

inline answered() {
    forget_request(request[me]);
    answer[me] = 0;
    age[me] = 0;
    stalled[me] = false
}

inline take_place(in_haste) {
    answered();
    place[me] = 1 + me + N * round[me];
    hasty[me] = in_haste;
    bell[me] = true;
    state[me] = waiting
}

/* store.py: what may have been taken is given back, what may yet arrive finds a tombstone. */
inline give_up(where) {
    send(leave, token(me), where, false);
    state[me] = leaving
}

/* Nobody waits for the request any more: if the server does not have it yet, it comes late, or never. */
inline abandon() {
    faults--;
    if
    :: !answer[me] ->
        x = 0;
        do
        :: late[x].script -> x++
        :: else -> break
        od;
        late[x].script = request[me].script;
        late[x].token = request[me].token;
        late[x].place = request[me].place;
        late[x].arrival = request[me].arrival;
        late[x].last = request[me].last;
        late[x].doubtful = request[me].doubtful
    :: else
    fi
}

/* lease.py: a lease may be relied on until the send time of the answered request + 0.99 TTL. */
#define LIFETIME (LEASE + DRIFT - ALLOWANCE - (FROM_SEND -> age[me] : 0))

/* An answer that comes when its lease is over is worth nothing. */
inline rely() {
    valid[me] = (LIFETIME > valid[me] -> LIFETIME : valid[me]);
    for (a : 0 .. N - 1) { assert(!PROMISED || a == me || !valid[me] || !valid[a]) }              /* EXCLUSION */
}

/* Elected and done, refused for the last time, cancelled, or lost. */
inline end_round() {
    answered();
    place[me] = 0; arrival[me] = 0; valid[me] = 0; hasty[me] = false;
    bell[me] = false; due[me] = false; quits[me] = false;
    new_claim();
    round[me]++;
    state[me] = (round[me] < ROUNDS -> idle : done)
}

/* A new claim; its place in line is the old one. */
inline again() {
    answered();
    new_claim();
    bell[me] = (place[me] != 0);
    state[me] = (place[me] -> waiting : idle)
}

/* touch.lua and line.py; its way there and back takes no time here, for nobody waits for it. */
inline touch() {
    due[me] = false;
    stalled[me] = false;
    prune();
    find(place[me]);
    if
    :: x -> believed[me] = 1 + STALE
    :: else -> bell[me] = bell[me] || TOUCH_RECALLS
    fi;
    if
    :: TOUCH_WALKS -> walk(0)
    :: else
    fi;
    cut_ttl();
    if
    :: inbox[me] == deaf && PROBE -> inbox[me] = unheard /* to be connected anew */
    :: else
    fi
}

inline cut_inbox(i, now_it_is) {
    inbox[i] = now_it_is;
    for (a : 1 .. PLACES) { calling[a] = calling[a] && of(a) != i };
    skip
}

inline die(its_inbox) {
    faults--;
    cut_inbox(me, its_inbox);
    if
    :: answer[me] -> answered()
    :: else
    fi;
    place[me] = 0; arrival[me] = 0; age[me] = 0; valid[me] = 0; hasty[me] = false; doubtful[me] = false;
    bell[me] = false; due[me] = false; quits[me] = false; stalled[me] = false;
    state[me] = dead
}

#define told(s, r) (state[me] == s && answer[me] == r)
#define any_hasty (hasty[0] || hasty[1] || hasty[2])
#define overdue(s) (faults && state[me] == s && request[me].script)

active [N] proctype Process() {
    state[me] = idle; inbox[me] = unheard;
    do
    /* A first try stands in no line, and listens to nothing. */
    :: d_step { state[me] == idle && me <= started -> started = (me == started -> me + 1 : started); ask(false) }

    :: d_step { told(asking, granted) && LIFETIME > 0 ->
        rely(); answered();
        place[me] = 0; arrival[me] = 0; bell[me] = false; due[me] = false; hasty[me] = false;
        state[me] = held }
    /* Granted too late to be of use: no election. */
    :: d_step { told(asking, granted) && LIFETIME <= 0 -> give_up(place[me]) }
    :: d_step { told(asking, busy) && doubtful[me] -> /* a copy that comes when the seat is free must not take it */
        arrival[me] = request[me].arrival;
        quits[me] = request[me].last;
        x = (request[me].last -> place[me] : 0);
        give_up(x) }
    :: d_step { told(asking, busy) && !doubtful[me] && request[me].last -> end_round() }
    :: d_step { told(asking, busy) && !doubtful[me] && !request[me].last && place[me] ->
        arrival[me] = request[me].arrival;
        bell[me] = bell[me] && MUTE_FIRST;
        answered();
        state[me] = waiting }
    :: d_step { told(asking, busy) && !doubtful[me] && !place[me] -> take_place(false) }
    :: d_step { told(asking, busy) && !doubtful[me] && !place[me] && HASTE && !any_hasty -> take_place(true) }
    :: d_step { overdue(asking) -> /* sent again, by a fresh connection */
        abandon();
        doubtful[me] = true;
        send(acquire, token(me), place[me], request[me].last) }
    /* Given up: with a new claim it asks again, or not, when it was cancelled. */
    :: d_step { overdue(asking) -> abandon(); give_up(place[me]) }
    :: d_step { overdue(asking) -> abandon(); quits[me] = true; give_up(place[me]) }

    :: d_step { told(leaving, over) && quits[me] -> end_round() }
    :: d_step { overdue(leaving) && quits[me] -> abandon(); end_round() }
    :: d_step { told(leaving, over) && !quits[me] -> again() }
    :: d_step { overdue(leaving) && !quits[me] -> abandon(); again() }

    /* In line: it asks when called, for the last time when its time is up; or is cancelled. */
    :: d_step { state[me] == waiting && bell[me] && (inbox[me] != unheard || arrival[me] || !HEAR_FIRST) -> ask(false) }
    :: d_step { state[me] == waiting && arrival[me] && hasty[me] -> ask(true) }
    :: d_step { state[me] == waiting && arrival[me] && hasty[me] ->
        quits[me] = true;
        send(leave, 0, place[me], false);
        state[me] = leaving }
    :: d_step { state[me] == waiting && due[me] -> touch() }

    /* A renewal; one that fails is tried again as long as the lease lasts. */
    :: d_step { state[me] == held && valid[me] && due[me] ->
        due[me] = false;
        send(extend, token(me), 0, false);
        state[me] = extending }
    :: d_step { told(extending, yours) -> rely(); answered(); state[me] = held }
    :: d_step { told(extending, not_yours) -> end_round() }
    :: d_step { overdue(extending) -> abandon(); answered(); due[me] = true; state[me] = held }
    :: d_step { state[me] == held -> /* the work is done, or the lease has run out */
        valid[me] = 0; due[me] = false;
        send(release, token(me), 0, false);
        state[me] = releasing }
    :: d_step { overdue(releasing) -> abandon(); send(release, token(me), 0, false) }
    :: d_step { overdue(releasing) -> abandon(); end_round() }
    :: d_step { told(releasing, over) -> end_round() }

    /* Killed: its connections are closed; or its machine is gone, and nobody notices. */
    :: d_step { faults && running(me) && state[me] != idle -> die(unheard) }
    :: d_step { faults && running(me) && inbox[me] == heard && place[me] -> die(deaf) }
    :: !running(me) -> break
    od
}

/* ---- what surrounds them ----------------------------------------------------------------------------------------- */
#define its (_pid - N)          /* the process whose wire and inbox this is */

/* What reaches the server is served at any time, in any order. */
active [N] proctype Wire() {
end:
    do
    :: d_step { request[its].script && !answer[its] ->
        serve(request[its]);
        if
        :: state[its] == dead -> forget_request(request[its])
        :: else -> answer[its] = reply; request[its].arrival = r_arrival
        fi }
    od
}

active proctype Late() {
end:
    do
    :: d_step { late[0].script -> serve(late[0]); forget_request(late[0]); tidy() }
#if LATES > 1
    :: d_step { late[1].script -> serve(late[1]); forget_request(late[1]); tidy() }
#endif
#if LATES > 2
    :: d_step { late[2].script -> serve(late[2]); forget_request(late[2]); tidy() }
#endif
#if LATES > 3
    :: d_step { late[3].script -> serve(late[3]); forget_request(late[3]); tidy() }
#endif
    od
}

#define ours (_pid - N - N - 1)

/* inbox.py and line.py heard. */
inline call(whom) {
    calling[whom] = false;
    if
    :: place[ours] == whom -> bell[ours] = true
    :: place[ours] != whom && UNKNOWN_LEAVES -> leave_line(whom)
    :: else
    fi
}

active [N] proctype Inbox() {
end:
    do
    :: d_step { calling[1 + ours] -> call(1 + ours) }
#if ROUNDS > 1
    :: d_step { calling[1 + ours + N] -> call(1 + ours + N) }
#endif
    :: d_step { inbox[ours] == unheard && place[ours] ->
        inbox[ours] = heard;
        bell[ours] = bell[ours] || RELISTEN }
    :: d_step { faults && inbox[ours] == heard && place[ours] -> faults--; cut_inbox(ours, deaf) }
    :: d_step { faults && inbox[ours] == heard && place[ours] -> faults--; cut_inbox(ours, unheard) }
    od
}

#if TIME
/* Whether a process has something to do, or its network has, before time passes. */
#define called_out(i) (calling[1 + i] || calling[1 + i + N * (ROUNDS - 1)])
#define has_to_do(i) (state[i] != dead && (request[i].script || called_out(i) || (inbox[i] == unheard && place[i]) || \
    (state[i] == waiting && (bell[i] || due[i])) || (state[i] == held && (due[i] || !valid[i]))))
#define stalls(i) (has_to_do(i) && !stalled[i])
#define stalling (stalls(0) + stalls(1) + stalls(2))

inline run_down(timer, least) {
    timer = (timer > least -> timer - 1 : timer)
}

/* Everybody has done what there was to do, or is stalled: the moment to see who waits in vain. */
inline check_time() {
    any = false;
    e = false;
    for (b : 0 .. N - 1) {
        if
        :: state[b] == waiting && !stalled[b] ->
            any = true;
            find(place[b]);
            assert(x || !missing[b]);                                               /* REMEMBERED */
            missing[b] = (x == 0)
        :: else -> missing[b] = false
        fi;
        e = e || (owner == token(b) && (state[b] == asking || state[b] == held || state[b] == extending
            || state[b] == releasing))
    }
    idling = (any && !owner -> idling + 1 : 0);
    assert(idling <= PATIENCE);                                                     /* WAKE-UP */
    unwanted = (owner && !e && (any || !TTL_BACK) -> unwanted + 1 : 0);
    assert(unwanted <= LEASE + TTL_BACK)            /* and a touch, which cuts it */   /* NOBODY'S */
}

inline tick() {
    check_time();
    run_down(ttl, 0);
    owner = (ttl -> owner : 0);
    unwanted = (ttl -> unwanted : 0);
    for (a : 1 .. PLACES) { run_down(woken[a], 1) }
    for (a : 0 .. N - 1) {
        run_down(believed[a], 1);
        run_down(valid[a], 0);
        age[a] = ((state[a] == asking || state[a] == extending) && age[a] < LEASE + 1 -> age[a] + 1 : age[a]);
        due[a] = due[a] || state[a] == waiting || (state[a] == held && valid[a])
    }
#if FAILOVER
    run_down(r_ttl, 0);
    r_owner = (r_ttl -> r_owner : 0);
    for (a : 1 .. PLACES) { run_down(r_woken[a], 1) }
    for (a : 0 .. N - 1) { run_down(r_believed[a], 1) }
#endif
}

/* Time passes for the server and for all processes alike; who has something to do yet is stalled by it. */
active proctype Clock() {
end:
    do
    :: d_step { stalling <= faults ->
        faults = faults - stalling;
        for (b : 0 .. N - 1) { stalled[b] = has_to_do(b) }
        tick();
        skip }
    od
}
#endif

#if FAILOVER
/* At some moment the replica falls behind for good; at a later one it is the primary. */
active proctype Failover() {
    d_step {
        replica = lags;
        r_owner = owner; r_ttl = ttl; r_gone = gone; r_fence = fence;
        for (a : 1 .. ARRIVALS) { r_line[a] = line[a] }
        for (a : 1 .. PLACES) { r_woken[a] = woken[a] }
        for (a : 0 .. N - 1) { r_believed[a] = believed[a] }
    }
    d_step {
        replica = leads;
        owner = r_owner; ttl = r_ttl; gone = r_gone; fence = r_fence;
        r_owner = 0; r_ttl = 0; r_gone = 0; r_fence = 0;
        for (a : 1 .. ARRIVALS) { line[a] = r_line[a]; r_line[a] = 0 }
        for (a : 1 .. PLACES) { woken[a] = r_woken[a]; r_woken[a] = 0 }
        for (a : 0 .. N - 1) {
            believed[a] = r_believed[a]; r_believed[a] = 0;
            /* All connections break: what was under way is sent again. */
            doubtful[a] = doubtful[a] || (request[a].script == acquire && !answer[a]);
            if
            :: inbox[a] == heard -> inbox[a] = unheard
            :: else
            fi
        }
        for (a : 1 .. PLACES) { calling[a] = false }
        clock++;
        unwanted = 0; idling = 0
    }
}
#endif

#if CLOCK_BACK
active proctype Backwards() {
    d_step { clock > 1 -> clock = clock - 2 }
}
#endif

#if TTL_BACK
/* The server's clock is set back by a lease: the seat lives longer by that. */
active proctype Longer() {
    d_step { owner -> ttl = ttl + LEASE; unwanted = 0 }
}
#endif
