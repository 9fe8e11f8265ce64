/* String instructions. Each iteration is an access of its own, so the first read of a line has the size of one element;
 * what ends early has not read further; a count of 0 touches nothing. */
#include "probe.h"

#include <string.h>

static unsigned char *data;
static size_t used;

static unsigned char *lines(size_t count)
{
    unsigned char *at = data + used;
    used += count * BLOCK;
    return at;
}

static unsigned char *bytes_in, *bytes_out, *words_in, *words_out, *stored, *loaded, *found, *missing, *left, *right,
    *same_left, *same_right, *nothing;

/* All bytes 1, written 8 at a time. */
static void fill(unsigned char *at, size_t count)
{
    for (size_t i = 0; i < count * BLOCK; i += 8)
        store8(at + i, 0x0101010101010101);
}

static void write_all(void)
{
    fill(bytes_in, 4), fill(words_in, 4), fill(loaded, 3), fill(found, 4), fill(missing, 4), fill(nothing, 1);
    fill(left, 4), fill(right, 4), fill(same_left, 2), fill(same_right, 2);
    *(volatile unsigned char *)(found + 70) = 9;
    *(volatile unsigned char *)(right + 10) = 9;
    unsigned char *to = stored;
    size_t count = 4 * BLOCK / 8;
    __asm__ volatile("rep stosq" : "+D"(to), "+c"(count) : "a"((uint64_t)7) : "memory");
}

static void move(unsigned char *to, const unsigned char *from, size_t bytes)
{
    __asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(bytes) : : "memory");
}

static void move_words_down(unsigned char *to, const unsigned char *from, size_t bytes)
{
    size_t count = bytes / 8;
    to += bytes - 8, from += bytes - 8;
    __asm__ volatile("std\n\trep movsq\n\tcld" : "+D"(to), "+S"(from), "+c"(count) : : "memory", "cc");
}

static void load_words(const unsigned char *from, size_t bytes)
{
    uint64_t word, sum = 0;
    for (size_t i = 0; i < bytes; i += 8, sum += word)
        __asm__ volatile("lodsq" : "+S"(from), "=a"(word) : : "memory");
    probe_check(sum == bytes / 8 * 0x0101010101010101, "lodsq");
}

/* The bytes not scanned when `value` was met. */
static size_t scan(const unsigned char *at, size_t bytes, unsigned char value)
{
    __asm__ volatile("repne scasb" : "+D"(at), "+c"(bytes) : "a"(value) : "memory", "cc");
    return bytes;
}

static size_t compare(const unsigned char *a, const unsigned char *b, size_t bytes)
{
    __asm__ volatile("repe cmpsb" : "+S"(a), "+D"(b), "+c"(bytes) : : "memory", "cc");
    return bytes;
}

static void read_all(void)
{
    move(bytes_out, bytes_in, 4 * BLOCK);
    move_words_down(words_out, words_in, 4 * BLOCK);
    load_words(loaded, 3 * BLOCK);
    probe_check(load_blocks(stored, 4, 7), "stosq");
    probe_check(scan(found, 4 * BLOCK, 9) == 4 * BLOCK - 71, "scasb that finds");
    probe_check(scan(missing, 4 * BLOCK, 9) == 0, "scasb that does not find");
    probe_check(compare(left, right, 4 * BLOCK) == 4 * BLOCK - 11, "cmpsb that differs");
    probe_check(compare(same_left, same_right, 2 * BLOCK) == 0, "cmpsb that does not differ");
    move(nothing, nothing, 0);
    probe_check(scan(nothing, 0, 1) == 0, "scasb of nothing");
}

static void body(unsigned thread)
{
    if (thread == 0)
        write_all();
    probe_barrier();
    if (thread == 1)
        read_all();
    probe_barrier();
    if (thread == 0) {
        probe_check(load_blocks(bytes_out, 4, 0x0101010101010101), "movsb");
        probe_check(load_blocks(words_out, 4, 0x0101010101010101), "movsq");
    }
}

int main(void)
{
    data = probe_data(64);
    bytes_in = lines(4), bytes_out = lines(4), words_in = lines(4), words_out = lines(4), stored = lines(4);
    loaded = lines(3), found = lines(4), missing = lines(4), left = lines(4), right = lines(4);
    same_left = lines(2), same_right = lines(2), nothing = lines(1);
    probe_threads(2, body);
    probe_expect(0, 1, 4, 4 * 1, 0); /* movsb */
    probe_expect(0, 1, 4, 4 * 8, 0); /* movsq */
    probe_expect(0, 1, 4, 4 * 8, 0); /* stosq */
    probe_expect(0, 1, 3, 3 * 8, 0); /* lodsq */
    probe_expect(0, 1, 2, 2, 0);     /* scasb that finds, in the second line */
    probe_expect(0, 1, 4, 4, 0);     /* scasb that does not */
    probe_expect(0, 1, 2, 2, 0);     /* cmpsb that differs, in the first line of each */
    probe_expect(0, 1, 4, 4, 0);     /* cmpsb that does not */
    probe_expect(1, 0, 8, 8 * 8, 0); /* what was copied */
    return probe_finish("strings");
}
