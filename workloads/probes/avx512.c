/* AVX-512 gathers, scatters, masked, compressing and expanding moves: a lane whose mask is off touches nothing. */
#include "probe.h"

#include <immintrin.h>

#define TARGET __attribute__((target("avx512f")))

enum { SCATTERED = 0, GATHERED = 16, LOADED = 32, STORED = 34, COMPRESSED = 36, EXPANDED = 38, WHOLE = 40, LINES = 42 };
#define EVEN_LANES 0x5555
#define LOWER_LANES 0x00ff

static unsigned char *data;

static unsigned char *line(unsigned number)
{
    return data + number * BLOCK;
}

TARGET static __m512i every_line(void)
{
    __m512i lane = _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
    return _mm512_mullo_epi32(lane, _mm512_set1_epi32(BLOCK));
}

TARGET static void write_all(void)
{
    __m512i threes = _mm512_set1_epi32(3);
    _mm512_mask_i32scatter_epi32(line(SCATTERED), EVEN_LANES, every_line(), threes, 1);
    store_blocks(line(GATHERED), LOADED + 2 - GATHERED, 3);
    store8(line(LOADED) + 56, 3);
    /* 64 bytes across two lines, of which the lower 32 are on. */
    _mm512_mask_storeu_epi32(line(STORED) + 32, LOWER_LANES, threes);
    /* Two lanes, put together at the end of a line. */
    _mm512_mask_compressstoreu_epi32(line(COMPRESSED) + 56, 0x8001, threes);
    store_blocks(line(EXPANDED), 2, 3);
    store8(line(EXPANDED) + 56, 0x0000000300000003);
    _mm512_storeu_si512(line(WHOLE) + 32, threes);
}

TARGET static int lane(__m512i vector, int number)
{
    int lanes[16];
    _mm512_storeu_si512(lanes, vector);
    return lanes[number];
}

TARGET static void read_all(void)
{
    __m512i got;
    /* Lines of odd lanes were not written. */
    probe_check(load8(line(SCATTERED)) == 3 && load8(line(SCATTERED + 1)) == 0, "vpscatterdd");
    got = _mm512_mask_i32gather_epi32(_mm512_setzero_si512(), 0xfffe, every_line(), line(SCATTERED), 1);
    probe_check(lane(got, 14) == 3 && lane(got, 15) == 0, "vpscatterdd, read by vpgatherdd");
    got = _mm512_mask_i32gather_epi32(_mm512_setzero_si512(), EVEN_LANES, every_line(), line(GATHERED), 1);
    probe_check(lane(got, 14) == 3 && lane(got, 13) == 0, "vpgatherdd of every other lane");
    got = _mm512_maskz_loadu_epi32(LOWER_LANES, line(LOADED) + 32);
    probe_check(lane(got, 6) == 3 && lane(got, 8) == 0, "vmovdqu32 load");
    probe_check((uint32_t)load8(line(STORED) + 32) == 3 && load8(line(STORED + 1)) == 0, "vmovdqu32 store");
    probe_check(load8(line(COMPRESSED) + 56) == 0x0000000300000003 && load8(line(COMPRESSED + 1)) == 0, "vpcompressd");
    got = _mm512_maskz_expandloadu_epi32(0x8001, line(EXPANDED) + 56);
    probe_check(lane(got, 0) == 3 && lane(got, 15) == 3 && lane(got, 1) == 0, "vpexpandd");
    got = _mm512_loadu_si512(line(WHOLE) + 32);
    __asm__ volatile("" : "+v"(got)); /* else compilers load the two lanes alone */
    probe_check(lane(got, 0) == 3 && lane(got, 15) == 3, "whole register across two lines");
}

static void body(unsigned thread)
{
    if (thread == 0)
        write_all();
    probe_barrier();
    if (thread == 1)
        read_all();
}

int main(void)
{
    if (!__builtin_cpu_supports("avx512f"))
        probe_skip("this processor has no AVX-512");
    data = probe_data(LINES);
    probe_threads(2, body);
    probe_expect(0, 1, 1, 8, 0);     /* scattered lane 0, read by itself */
    probe_expect(0, 1, 7, 7 * 4, 0); /* the other seven that were on */
    probe_expect(0, 1, 8, 8 * 4, 0); /* gathered */
    probe_expect(0, 1, 1, 32, 0);    /* masked load: the first line only */
    probe_expect(0, 1, 1, 8, 0);     /* masked store: the first line only */
    probe_expect(0, 1, 1, 8, 0);     /* compressed */
    probe_expect(0, 1, 1, 8, 0);     /* expanded: the first line only */
    probe_expect(0, 1, 2, 64, 0);    /* whole */
    return probe_finish("avx512");
}
