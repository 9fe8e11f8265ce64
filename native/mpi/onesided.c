/* One-sided communication: puts go from this rank to the target, gets the other way, fetching operations both ways. */
#include "calls.h"

static void
put(MPI_Win win, int rank, MPI_Count count, MPI_Datatype type)
{
    trace_end();
    count_peer(peers_of_win(win), rank, COHABIT_MPI_KIND_PUT, bytes_of(count, type), 1);
}

static void
got(MPI_Win win, int rank, MPI_Count count, MPI_Datatype type)
{
    trace_end();
    count_peer(peers_of_win(win), rank, COHABIT_MPI_KIND_GOT, bytes_of(count, type), 1);
}

/* MPI_NO_OP and MPI_REPLACE say whether something goes there; what was there always comes back. */
static void
fetched(MPI_Win win, int rank, MPI_Count put_count, MPI_Datatype put_type, MPI_Count count, MPI_Datatype type, MPI_Op op)
{
    if (op != real.no_op)
        put(win, rank, put_count, put_type);
    got(win, rank, count, type);
}

#define ONE_WAY(N)                                                                                                     \
    N count, MPI_Datatype type, int rank, MPI_Aint displacement, N target_count, MPI_Datatype target_type
#define ONE_WAY_ARGUMENTS origin, count, type, rank, displacement, target_count, target_type
#define FETCH(N)                                                                                                       \
    const void *origin, N count, MPI_Datatype type, void *result_buffer, N result_count, MPI_Datatype result_type,      \
        int rank, MPI_Aint displacement, N target_count, MPI_Datatype target_type, MPI_Op op, MPI_Win win
#define FETCH_ARGUMENTS                                                                                                \
    origin, count, type, result_buffer, result_count, result_type, rank, displacement, target_count, target_type, op, win
#define PUTS put(win, rank, count, type)
#define GETS got(win, rank, count, type)
#define FETCHES fetched(win, rank, count, type, target_count, target_type, op)

#define CALLS(SUFFIX, N)                                                                                               \
    CALL(Put##SUFFIX, (const void *origin, ONE_WAY(N), MPI_Win win), (ONE_WAY_ARGUMENTS, win), PUTS, NOTHING)          \
    CALL(Get##SUFFIX, (void *origin, ONE_WAY(N), MPI_Win win), (ONE_WAY_ARGUMENTS, win), GETS, NOTHING)                \
    CALL(Accumulate##SUFFIX, (const void *origin, ONE_WAY(N), MPI_Op op, MPI_Win win), (ONE_WAY_ARGUMENTS, op, win),   \
         PUTS, NOTHING)                                                                                                \
    CALL(Get_accumulate##SUFFIX, (FETCH(N)), (FETCH_ARGUMENTS), FETCHES, NOTHING)                                      \
    CALL(Rput##SUFFIX, (const void *origin, ONE_WAY(N), MPI_Win win, MPI_Request *request),                            \
         (ONE_WAY_ARGUMENTS, win, request), PUTS, NOTHING)                                                             \
    CALL(Rget##SUFFIX, (void *origin, ONE_WAY(N), MPI_Win win, MPI_Request *request),                                  \
         (ONE_WAY_ARGUMENTS, win, request), GETS, NOTHING)                                                             \
    CALL(Raccumulate##SUFFIX, (const void *origin, ONE_WAY(N), MPI_Op op, MPI_Win win, MPI_Request *request),          \
         (ONE_WAY_ARGUMENTS, op, win, request), PUTS, NOTHING)                                                         \
    CALL(Rget_accumulate##SUFFIX, (FETCH(N), MPI_Request *request), (FETCH_ARGUMENTS, request), FETCHES, NOTHING)
CALLS(, int)
#if LARGE_COUNT
CALLS(_c, MPI_Count)
#endif

CALL(Fetch_and_op,
     (const void *origin, void *result_buffer, MPI_Datatype type, int rank, MPI_Aint displacement, MPI_Op op,
      MPI_Win win),
     (origin, result_buffer, type, rank, displacement, op, win), fetched(win, rank, 1, type, 1, type, op), NOTHING)
CALL(Compare_and_swap,
     (const void *origin, const void *compared, void *result_buffer, MPI_Datatype type, int rank,
      MPI_Aint displacement, MPI_Win win),
     (origin, compared, result_buffer, type, rank, displacement, win), {
         /* Two values go there. */
         put(win, rank, 2, type);
         got(win, rank, 1, type);
     }, NOTHING)

CALL(Win_free, (MPI_Win * win), (win), peers_forget_win(*win), NOTHING)
WAITS(Win_fence, (int assertion, MPI_Win win), (assertion, win))
WAITS(Win_start, (MPI_Group group, int assertion, MPI_Win win), (group, assertion, win))
WAITS(Win_complete, (MPI_Win win), (win))
TIMED(Win_post, (MPI_Group group, int assertion, MPI_Win win), (group, assertion, win))
WAITS(Win_wait, (MPI_Win win), (win))
WAITS(Win_lock, (int kind, int rank, int assertion, MPI_Win win), (kind, rank, assertion, win))
WAITS(Win_unlock, (int rank, MPI_Win win), (rank, win))
WAITS(Win_lock_all, (int assertion, MPI_Win win), (assertion, win))
WAITS(Win_unlock_all, (MPI_Win win), (win))
WAITS(Win_flush, (int rank, MPI_Win win), (rank, win))
WAITS(Win_flush_all, (MPI_Win win), (win))
WAITS(Win_flush_local, (int rank, MPI_Win win), (rank, win))
WAITS(Win_flush_local_all, (MPI_Win win), (win))
