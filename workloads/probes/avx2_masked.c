/* AVX2 masked moves: one access, as long as the lanes that are on; a lane whose mask is off touches nothing. */
#include "probe.h"

#include <immintrin.h>

#define TARGET __attribute__((target("avx2")))

enum { LOADED = 0, STORED = 2, LINES = 4 };

static unsigned char *data;

static unsigned char *line(unsigned number)
{
    return data + number * BLOCK;
}

TARGET static void write_all(void)
{
    store_blocks(data, STORED, 3);
    store8(line(LOADED) + 56, 3);
    /* 32 bytes across two lines, of which the lower 16 are on. */
    __m256i lower = _mm256_set_epi32(0, 0, 0, 0, -1, -1, -1, -1);
    _mm256_maskstore_epi32((int *)(line(STORED) + 48), lower, _mm256_set1_epi32(3));
}

TARGET static void read_all(void)
{
    __m256i lower = _mm256_set_epi32(0, 0, 0, 0, -1, -1, -1, -1), got;
    got = _mm256_maskload_epi32((const int *)(line(LOADED) + 48), lower);
    probe_check(_mm256_extract_epi32(got, 2) == 3 && _mm256_extract_epi32(got, 4) == 0, "vpmaskmovd load");
    probe_check(load8(line(STORED) + 56) == 0x0000000300000003, "vpmaskmovd store");
    probe_check(load8(line(STORED + 1)) == 0, "vpmaskmovd store, lanes that are off");
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
    if (!__builtin_cpu_supports("avx2"))
        probe_skip("this processor has no AVX2");
    data = probe_data(LINES);
    probe_threads(2, body);
    probe_expect(0, 1, 1, 16, 0); /* of the two lines only the first is read */
    probe_expect(0, 1, 1, 8, 0);
    return probe_finish("avx2_masked");
}
