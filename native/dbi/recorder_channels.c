/* Recording what goes through pipes and sockets (recorder_channels.h). Compiled without vector registers. */
#include "recorder_channels.h"
#include "common.h"
#include "counting.h"
#include "dr_api.h"
#include "recorder_shared.h"
#include "recorder_state.h"
#include "system.h"
#include <asm/unistd.h>
#include <sys/socket.h>
#include <sys/uio.h>

/* What was sent at once: from where on, and up to where, of all that was sent. */
typedef struct {
    uint64_t start;
    uint64_t end;
    uint64_t writer; /* its number in the run, and its position behind the write, as recorder_state.h has them */
    uint64_t room; /* who had received what was in its memory before, as such; 0: nobody */
    uint32_t image; /* the number of its image, + 1 */
    uint32_t task; /* its number in that */
    uint32_t at; /* where it lies in the channel's memory */
    uint32_t bytes; /* there; 0: it is not recorded */
} piece_t;
#define PIECES 512u
/* Of one call, at most; the last of them has all the rest, of which no more is recorded. */
#define PIECES_OF_CALL 64u
/* A pipe holds so much, unless it is told otherwise: who sends more at once waits until some is received. */
#define PIPE_BYTES (64ull << 10)
#define LARGEST_PIECE_BYTES (1ull << 20)
#define LEAST_RING_BYTES (2 * PIPE_BYTES)
_Static_assert(2 * PIECES_OF_CALL * LARGEST_PIECE_BYTES <= COHABIT_CHANNEL_BYTES, "there is room twice for all of a call");

/* One direction of a channel. */
typedef struct channel {
    uint64_t key; /* 0: free */
    int lock;
    uint32_t number; /* among those of the run, + 1; 0: it has none yet */
    uint64_t sent; /* bytes; messages where each is received by itself; of an eventfd what was added */
    uint64_t received;
    uint64_t pieces; /* that were sent */
    uint64_t unread; /* number of the first that is not received as a whole */
    uint64_t next; /* where the next piece lies in the channel's memory */
    uint64_t ring; /* how much of that is used */
    uint64_t last; /* who has received last, as `writer` */
    uint64_t last_of[2]; /* in each half of the ring */
    piece_t piece[PIECES]; /* the last of them, by number */
} channel_t;
#define CHANNEL_BYTES (1ull << 15)
#define CHANNELS 4096u
#define TRIES 64u
_Static_assert(sizeof(channel_t) <= CHANNEL_BYTES, "a channel is no larger than its place");
/* Pieces that are looked at before the lock is given back. */
#define AT_ONCE 16u
#define LINE_BYTES 64u
/* Whoever has a lock for longer was killed: it is taken over. */
#define PATIENCE_NS 1000000000u
#define MAX_VECTOR 1024u

static void
lock(channel_t *channel)
{
    uint64_t since = 0;
    while (__atomic_exchange_n(&channel->lock, 1, __ATOMIC_ACQUIRE) != 0) {
        uint64_t now = system_monotonic_ns();
        since = since == 0 ? now : since;
        if (now - since > PATIENCE_NS)
            return;
        system_yield();
    }
}

static void
unlock(channel_t *channel)
{
    __atomic_store_n(&channel->lock, 0, __ATOMIC_RELEASE);
}

static channel_t *
find(uint64_t key, bool make)
{
    for (uint32_t tries = 0; tries < TRIES; tries++) {
        channel_t *channel = common_room(COMMON_CHANNELS_AT + (1 + (key + tries) % CHANNELS) * CHANNEL_BYTES);
        if (channel == NULL)
            return NULL;
        uint64_t found = __atomic_load_n(&channel->key, __ATOMIC_ACQUIRE);
        if (found == 0 && !make)
            return NULL;
        if (found == 0 && __atomic_compare_exchange_n(&channel->key, &found, key, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
            return channel;
        if (found == key)
            return channel;
    }
    return NULL;
}

/* The number of the channel, + 1; it is locked. */
static uint32_t
number_of(channel_t *channel)
{
    uint32_t *count = common_room(COMMON_CHANNELS_AT);
    if (channel->number == 0 && count != NULL)
        channel->number = __atomic_add_fetch(count, 1, __ATOMIC_RELAXED);
    return channel->number;
}

static uint64_t
least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* What a call sends or receives: through which descriptor, and how many bytes at most. */
typedef struct {
    uint64_t fd;
    uint64_t bytes;
} transfer_t;

static bool
of_vector(transfer_t *transfer, uint64_t address, uint64_t count)
{
    for (uint64_t i = 0; i < count && i < MAX_VECTOR; i++) {
        struct iovec one;
        if (!dr_safe_read((void *)(address + i * sizeof(one)), sizeof(one), &one, NULL))
            return false;
        transfer->bytes += one.iov_len;
    }
    return true;
}

/* False where the call does neither, or it cannot be told what. */
static bool
what_is_moved(int number, const uint64_t *argument, bool sends, transfer_t *transfer)
{
    struct msghdr message;
    *transfer = (transfer_t) { argument[0], 0 };
    switch (number) {
    case __NR_write:
    case __NR_read: transfer->bytes = argument[2]; return sends == (number == __NR_write);
    case __NR_sendto: transfer->bytes = argument[2]; return sends && argument[4] == 0;
    case __NR_recvfrom: transfer->bytes = argument[2]; return !sends && (argument[3] & MSG_PEEK) == 0;
    case __NR_writev:
    case __NR_readv: return sends == (number == __NR_writev) && of_vector(transfer, argument[1], argument[2]);
    case __NR_sendmsg:
    case __NR_recvmsg:
        return sends == (number == __NR_sendmsg) && (sends || (argument[2] & MSG_PEEK) == 0) &&
            dr_safe_read((void *)argument[1], sizeof(message), &message, NULL) && (!sends || message.msg_name == NULL) &&
            of_vector(transfer, (uint64_t)message.msg_iov, message.msg_iovlen);
    case __NR_sendfile: transfer->bytes = argument[3]; return sends;
    case __NR_vmsplice: return sends && of_vector(transfer, argument[1], argument[2]);
    case __NR_splice:
        transfer->fd = argument[sends ? 2 : 0];
        transfer->bytes = argument[4];
        return true;
    default: return false;
    }
}

/* What an eventfd's call writes or has read. */
static uint64_t
number_at(uint64_t address)
{
    uint64_t number = 0;
    return dr_safe_read((void *)address, sizeof(number), &number, NULL) ? number : 0;
}

/* What is sent and not yet received as a whole. */
static uint64_t
on_its_way(const channel_t *channel)
{
    uint64_t bytes = 0, kept = channel->pieces > PIECES ? channel->pieces - PIECES : 0;
    for (uint64_t i = channel->unread < kept ? kept : channel->unread; i < channel->pieces; i++)
        bytes += channel->piece[i % PIECES].bytes;
    return bytes;
}

/* Where a piece of so many bytes lies: behind the last, and at the beginning again where there is room twice for all
 * that is on its way. So the memory that is used is about what the kernel uses again and again. Whoever sends it waits
 * until what was in that half of the ring has been received, as it does for room in the kernel. */
static void
place(channel_t *channel, piece_t *piece, uint64_t bytes)
{
    uint64_t needed = 2 * (on_its_way(channel) + bytes), ring = LEAST_RING_BYTES;
    while (ring < needed && ring < COHABIT_CHANNEL_BYTES)
        ring *= 2;
    bool second = channel->next > ring / 2;
    if (channel->next + bytes > ring) {
        channel->next = 0;
        second = true;
    }
    bool begins = channel->next == 0, crosses = (begins || !second) && channel->next + bytes > ring / 2;
    if (ring != channel->ring || (begins && crosses))
        piece->room = channel->last;
    else if (begins || crosses)
        piece->room = channel->last_of[crosses];
    piece->at = (uint32_t)channel->next;
    channel->ring = ring;
    channel->next += bytes;
}

/* What lies there has been received by the task when it has come to that position. */
static void
received(const task_t *me, channel_t *channel, uint64_t at, uint64_t bytes, uint64_t position)
{
    uint64_t mine = (uint64_t)me->common << POSITION_BITS | position;
    uint64_t middle = channel->ring / 2;
    if (at < middle)
        channel->last_of[0] = mine;
    if (at + bytes > middle)
        channel->last_of[1] = mine;
    channel->last = mine;
}

void
recorder_channels_before(task_t *me, int number)
{
    struct recorder *recorder = me->recorder;
    transfer_t transfer;
    system_channel_t kind;
    uint32_t image = recorder_shared_number();
    if (recorder == NULL || recorder->in_run == NULL || image == 0 ||
        !what_is_moved(number, me->syscall_args, true, &transfer) || !system_channel((int)transfer.fd, &kind))
        return;
    channel_t *channel = find(kind.sends, true);
    if (channel == NULL)
        return;
    const bool counts = counting_on();
    uint64_t left = transfer.bytes, position = *recorder->position;
    lock(channel);
    recorder->sending = channel;
    recorder->sending_first = channel->pieces;
    /* A message, and what is added to an eventfd, is one piece, of so many units. */
    recorder->sending_units = kind.counts ? number_at(me->syscall_args[1]) : kind.messages;
    const bool whole = recorder->sending_units > 0;
    const uint64_t pipes = (left / PIECES_OF_CALL + PIPE_BYTES - 1) / PIPE_BYTES;
    const uint64_t largest = least(pipes == 0 ? PIPE_BYTES : pipes * PIPE_BYTES, LARGEST_PIECE_BYTES);
    for (uint32_t i = 0; i < PIECES_OF_CALL && (i == 0 || left > 0); i++) {
        uint64_t some = i + 1 == PIECES_OF_CALL || whole ? left : least(left, largest);
        uint64_t bytes = counts && number_of(channel) != 0 ? least(some, LARGEST_PIECE_BYTES) : 0;
        position += bytes > 0;
        uint64_t start = channel->sent;
        channel->sent += whole ? recorder->sending_units : some;
        piece_t piece = {
            .start = start,
            .end = channel->sent,
            .writer = (uint64_t)me->common << POSITION_BITS | position,
            .image = image,
            .task = me->id,
            .bytes = (uint32_t)bytes,
        };
        /* Each number in a line of its own: who reads one does not read the others. */
        place(channel, &piece, kind.counts && bytes > 0 ? LINE_BYTES : bytes);
        channel->piece[channel->pieces++ % PIECES] = piece;
        left -= some;
    }
    recorder->sending_last = channel->pieces;
    unlock(channel);
}

static void
accesses(task_t *me, const channel_t *channel, uint64_t at, uint64_t bytes, access_kind_t kind)
{
    uint64_t numbers[3] = { channel->number - 1, at, bytes };
    recorder_uses_channel(channel->number);
    recorder_add_event(me, COHABIT_EVENT_CHANNEL, kind, numbers, 3);
    ++*me->recorder->position;
}

/* A pipe may hold more small pieces than are known by themselves. So where many are on their way, one that came to lie
 * behind another of the same task becomes part of that: whoever receives some of it waits for both, which were there. */
static void
join_last(channel_t *channel, uint64_t number)
{
    if (number == 0 || channel->pieces != number + 1 || channel->pieces - channel->unread < PIECES / 2)
        return;
    piece_t *before = &channel->piece[(number - 1) % PIECES];
    const piece_t *piece = &channel->piece[number % PIECES];
    const bool whole = before->bytes == before->end - before->start && piece->bytes == piece->end - piece->start;
    if (!whole || piece->room != 0 || before->image != piece->image || before->task != piece->task || before->end != piece->start ||
        before->at + before->bytes != piece->at || before->bytes + piece->bytes > LARGEST_PIECE_BYTES)
        return;
    before->end = piece->end;
    before->bytes += piece->bytes;
    before->writer = piece->writer;
    channel->pieces--;
}

/* The call has sent so much, which may be less than it was to. */
static void
has_sent(task_t *me, uint64_t units)
{
    struct recorder *recorder = me->recorder;
    channel_t *channel = recorder->sending;
    piece_t written[PIECES_OF_CALL];
    uint32_t count = 0;
    recorder->sending = NULL;
    lock(channel);
    const uint64_t kept = channel->pieces > PIECES ? channel->pieces - PIECES : 0;
    uint64_t less = 0;
    for (uint64_t i = recorder->sending_first < kept ? kept : recorder->sending_first; i < channel->pieces; i++) {
        piece_t *piece = &channel->piece[i % PIECES];
        uint64_t size = piece->end - piece->start, sent = size;
        if (i < recorder->sending_last) {
            sent = least(size, units);
            units -= sent;
            if (recorder->sending_units == 0 || sent == 0)
                piece->bytes = (uint32_t)least(piece->bytes, sent);
            if (piece->bytes > 0)
                written[count++] = *piece;
        }
        piece->start -= less;
        piece->end = piece->start + sent;
        less += size - sent;
    }
    channel->sent -= less;
    if (recorder->sending_units == 0 && recorder->sending_last == recorder->sending_first + 1)
        join_last(channel, recorder->sending_first);
    unlock(channel);
    for (uint32_t i = 0; i < count; i++) {
        if (written[i].room != 0)
            recorder_add_wait_of_call(me, COHABIT_EVENT_WAIT_IN_RUN, written[i].room);
        accesses(me, channel, written[i].at, written[i].bytes, ACCESS_WRITE);
    }
}

static bool
is_own(const task_t *me, const piece_t *piece)
{
    return piece->image == recorder_shared_number() && piece->task == me->id;
}

/* Of the pieces that so much is of, those that fit into `found`, each cut to what is received of it; how many, and how
 * much they are. Under the same lock it is said who has received them: whoever sends next into their memory waits. */
static uint32_t
take(const task_t *me, channel_t *channel, uint64_t units, bool messages, piece_t *found, uint64_t *taken)
{
    uint32_t count = 0;
    uint64_t position = *me->recorder->position;
    const bool counts = counting_on();
    *taken = 0;
    if (channel->pieces > PIECES && channel->unread < channel->pieces - PIECES) {
        recorder_lost();
        channel->unread = channel->pieces - PIECES;
    }
    while (*taken < units && channel->unread < channel->pieces && count < AT_ONCE) {
        const piece_t *piece = &channel->piece[channel->unread % PIECES];
        if (channel->received < piece->start) /* what lies before was sent by nobody who was seen, or too long ago */
            channel->received = piece->start;
        if (piece->end > channel->received) {
            uint64_t some = least(piece->end - channel->received, units - *taken);
            uint64_t from = messages ? 0 : least(channel->received - piece->start, piece->bytes);
            found[count] = *piece;
            found[count].at += (uint32_t)from;
            found[count].bytes = messages ? piece->bytes : (uint32_t)least(some, piece->bytes - from);
            if (!counts)
                found[count].bytes = 0;
            if (found[count].bytes > 0 && !is_own(me, piece))
                received(me, channel, found[count].at, found[count].bytes, ++position);
            count++;
            channel->received += some;
            *taken += some;
        }
        if (piece->end <= channel->received)
            channel->unread++;
    }
    return count;
}

/* So much has been received: whether it was sent by tasks of the run. */
static bool
has_received(task_t *me, channel_t *channel, uint64_t units, bool messages)
{
    piece_t found[AT_ONCE];
    uint64_t taken = 0;
    bool any = false;
    for (; units > 0; units -= least(taken, units)) {
        lock(channel);
        uint32_t count = take(me, channel, units, messages, found, &taken);
        if (taken == 0) /* what else was sent there, nobody has seen: whatever comes next is later */
            channel->received = channel->sent;
        unlock(channel);
        if (taken == 0)
            break;
        any = true;
        for (uint32_t i = 0; i < count; i++) {
            const piece_t *piece = &found[i];
            if (is_own(me, piece))
                continue;
            if (piece->image == recorder_shared_number())
                recorder_add_wait_of_call(me, COHABIT_EVENT_WAIT, (uint64_t)piece->task << POSITION_BITS | (piece->writer & POSITION_MASK));
            else
                recorder_add_wait_of_call(me, COHABIT_EVENT_WAIT_IN_RUN, piece->writer);
            if (piece->bytes > 0)
                accesses(me, channel, piece->at, piece->bytes, ACCESS_READ);
        }
    }
    return any;
}

/* Whoever waits for a process's end waits for what its tasks did. */
static void
has_ended(task_t *me, int number, int64_t result)
{
    int32_t pid = (int32_t)result;
    if (number == __NR_waitid &&
        (me->syscall_args[2] == 0 || !dr_safe_read((void *)(me->syscall_args[2] + 12), sizeof(pid), &pid, NULL)))
        return;
    if (pid > 0)
        recorder_wait_for_process(me, (uint32_t)pid);
}

/* An eventfd may have the number of one that is gone: what was written to that, nobody reads any more. */
static void
is_new(int fd)
{
    system_channel_t kind;
    channel_t *channel = system_channel(fd, &kind) && kind.counts ? find(kind.receives, false) : NULL;
    if (channel == NULL)
        return;
    lock(channel);
    channel->received = channel->sent;
    channel->unread = channel->pieces;
    unlock(channel);
}

void
recorder_channels_after(task_t *me, int number, int64_t result)
{
    struct recorder *recorder = me->recorder;
    if (recorder == NULL)
        return;
    uint64_t bytes = result > 0 ? (uint64_t)result : 0;
    if (recorder->sending != NULL)
        has_sent(me, recorder->sending_units == 0 ? bytes : result >= 0 ? recorder->sending_units : 0);
    if (result < 0 || recorder->in_run == NULL)
        return;
    if (number == __NR_wait4 || number == __NR_waitid)
        has_ended(me, number, result);
    if (number == __NR_socketpair) {
        int pair[2];
        if (dr_safe_read((void *)me->syscall_args[3], sizeof(pair), pair, NULL))
            system_channel_pair(pair[0], pair[1]);
    }
    if (number == __NR_eventfd || number == __NR_eventfd2)
        is_new((int)result);
    transfer_t transfer;
    system_channel_t kind;
    if (bytes == 0 || !what_is_moved(number, me->syscall_args, false, &transfer) ||
        !system_channel((int)transfer.fd, &kind))
        return;
    channel_t *channel = find(kind.receives, false);
    uint64_t units = kind.counts ? number_at(me->syscall_args[1]) : kind.messages ? 1 : bytes;
    if (channel != NULL && has_received(me, channel, units, kind.messages || kind.counts))
        recorder->polled_ns = 0;
}

void
recorder_channels_polled(task_t *me, uint64_t ns, bool timed_out)
{
    struct recorder *recorder = me->recorder;
    if (recorder == NULL)
        return;
    uint64_t before = recorder->polled_ns;
    recorder->polled_ns = timed_out ? 0 : ns;
    if (before + (timed_out ? ns : 0) > 0)
        recorder_idle(me, before + (timed_out ? ns : 0));
}

void
recorder_channels_end(task_t *me)
{
    recorder_channels_polled(me, 0, true);
}
