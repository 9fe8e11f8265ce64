/* Signals that come while our code runs on behalf of a fragment.
 *
 * DynamoRIO delivers a signal once the thread leaves the code cache, and unlinks the fragment in which it came, so that the
 * thread does. One that comes in our code finds no fragment: in a loop that ends when a handler has run it would wait for
 * ever. So before our code goes back to a fragment it has that one unlinked, if a signal waits
 * (native/dynamorio/patches/signals-in-client-code.patch; of a DynamoRIO without it we are told of no signal). */
#ifndef COHABIT_DELIVERY_H
#define COHABIT_DELIVERY_H

#include "part.h"
#include "dr_api.h"

/* Positive while a signal waits for a thread. */
const signed char *delivery_pending(void *drcontext);

/* The calling thread goes back to a fragment, in which a signal that waits is to be delivered. The program's vector registers
 * are live. */
void delivery_unlink(byte *fragment);

/* A clean call of `code(about)` before `where`, which a signal that comes meanwhile does not get lost in. */
typedef void delivery_site_t(void *about);
void delivery_insert_call(void *drcontext, instrlist_t *block, instr_t *where, delivery_site_t *code, void *about);

#endif
