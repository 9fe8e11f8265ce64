/* The access stream: every access, in the order in which the detector took them (abi.h: cohabit_stream_t).
 *
 * One lock makes that order: it is held from the record to the end of the transition. Slow, and meant to be: what it
 * is for is comparing the inline detector with the reference, and feeding the simulator.
 */
#ifndef COHABIT_STREAM_H
#define COHABIT_STREAM_H

#include "shadow.h"

/* Begins the stream of this image in `directory`; also after fork. False, with a message, where it cannot be made. */
bool stream_open(const char *directory);

/* Notes an access; until stream_end no other task's is noted, nor taken by the detector. */
void stream_begin(const task_t *me, uint64_t address, uint64_t bytes, access_kind_t kind);
/* The same for the clearing of blocks [first, end). */
void stream_clear_begin(uint64_t first, uint64_t end);
void stream_end(void);

/* All memory starts clean. */
void stream_clear_all(void);
/* Another range of addresses is counted. */
void stream_only(uint64_t start, uint64_t bytes);

#endif
