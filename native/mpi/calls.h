/* Makes both functions, MPI_X and PMPI_X, of a call. */
#ifndef COHABIT_MPI_CALLS_H
#define COHABIT_MPI_CALLS_H

#include "library.h"

#define LIST(...) __VA_ARGS__
/* Defines PREFIX##NAME: BEFORE is what is counted at the start of the call, AFTER (with `result`) at its end. */
#define CALL_AS(PREFIX, NAME, PARAMETERS, ARGUMENTS, BEFORE, AFTER)                                                    \
    EXPORT int PREFIX##NAME(LIST PARAMETERS)                                                                           \
    {                                                                                                                  \
        static int (*next)(LIST PARAMETERS);                                                                           \
        if (__builtin_expect(next == NULL, 0))                                                                         \
            next = (int (*)(LIST PARAMETERS))next_function(#PREFIX #NAME);                                             \
        if (!enter(__builtin_return_address(0), __builtin_frame_address(0)))                                           \
            return next(LIST ARGUMENTS);                                                                               \
        BEFORE;                                                                                                        \
        int result = next(LIST ARGUMENTS);                                                                             \
        AFTER;                                                                                                         \
        leave();                                                                                                       \
        return result;                                                                                                 \
    }
#define CALL(NAME, PARAMETERS, ARGUMENTS, BEFORE, AFTER)                                                               \
    CALL_AS(MPI_, NAME, PARAMETERS, ARGUMENTS, BEFORE, AFTER)                                                          \
    CALL_AS(PMPI_, NAME, PARAMETERS, ARGUMENTS, BEFORE, AFTER)
#define NOTHING (void)0
/* Only the time that it takes is of interest. */
#define TIMED(NAME, PARAMETERS, ARGUMENTS) CALL(NAME, PARAMETERS, ARGUMENTS, NOTHING, NOTHING)
/* It waits for others. */
#define WAITS(NAME, PARAMETERS, ARGUMENTS) CALL(NAME, PARAMETERS, ARGUMENTS, NOTHING, round_over())
/* An operation that MPI_Start repeats: what BEFORE counts is kept with its request. */
#define REPEATED(NAME, PARAMETERS, ARGUMENTS, BEFORE)                                                                  \
    CALL(NAME, PARAMETERS, ARGUMENTS, { list_begin(); BEFORE; }, {                                                     \
        if (result == MPI_SUCCESS)                                                                                     \
            list_store(*request);                                                                                      \
        else                                                                                                           \
            list_drop();                                                                                               \
    })

#endif
