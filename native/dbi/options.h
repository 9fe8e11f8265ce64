/* What the command line asked of the profiler; set once, before any thread runs. */
#ifndef COHABIT_OPTIONS_H
#define COHABIT_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

typedef struct {
    char directory[400];       /* where parts go */
    uint64_t ticks_per_second; /* of the time-stamp counter */
    uint64_t window_ns;
    uint64_t window_instructions; /* windows of so many instructions of a task; 0: of window_ns */
    uint64_t series_bound; /* rows of the series before windows are doubled; 0: no series */
    uint32_t block_bytes;
    bool sharing;
    bool hot;
    bool region;        /* count only within cohabit_roi_begin/_end (or after a signal) */
    bool region_of_mpi; /* and between MPI_Init and MPI_Finalize */
    uint32_t signal;    /* number of the signal that starts and stops counting; 0: none */
    uint64_t burst_on_ns;
    uint64_t burst_off_ns;
    char record[400]; /* directory for the access stream; empty: none */
    char recording[400]; /* directory for what tasks do (recorder.h); empty: none */
    bool whole; /* every access is a piece of a span, also where the ones before it leave nothing to count: hot, record, recording */
} options_t;

extern options_t options;

/* Parses "-name value" pairs as the launcher passes them. False, with a message, on an unknown one. */
bool options_parse(int argc, const char *argv[]);

#endif
