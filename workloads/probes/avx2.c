/* AVX2 gathers and masked moves: each element is an access of its own, and a lane whose mask is off touches nothing. */
#include "probe.h"

#include <immintrin.h>

#define TARGET __attribute__((target("avx2")))

enum { GATHERED = 0, HALF = 8, WIDE = 16, LOADED = 20, STORED = 22, LINES = 24 };

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
    __m256i all = _mm256_set1_epi32(-1), lower = _mm256_set_epi32(0, 0, 0, 0, -1, -1, -1, -1);
    __m256i every_line = _mm256_mullo_epi32(_mm256_set_epi32(7, 6, 5, 4, 3, 2, 1, 0), _mm256_set1_epi32(BLOCK));
    __m256i zero = _mm256_setzero_si256(), sum;
    sum = _mm256_mask_i32gather_epi32(zero, (const int *)line(GATHERED), every_line, all, 1);
    probe_check(_mm256_extract_epi32(sum, 0) == 3 && _mm256_extract_epi32(sum, 7) == 3, "vpgatherdd");
    sum = _mm256_mask_i32gather_epi32(zero, (const int *)line(HALF), every_line, lower, 1);
    probe_check(_mm256_extract_epi32(sum, 3) == 3 && _mm256_extract_epi32(sum, 4) == 0, "vpgatherdd of four lanes");
    __m256i wide = _mm256_set_epi64x(3 * BLOCK, 2 * BLOCK, BLOCK, 0);
    sum = _mm256_mask_i64gather_epi64(zero, (const long long *)line(WIDE), wide, all, 1);
    probe_check(_mm256_extract_epi64(sum, 3) == 3, "vpgatherqq");
    sum = _mm256_maskload_epi32((const int *)(line(LOADED) + 48), lower);
    probe_check(_mm256_extract_epi32(sum, 2) == 3 && _mm256_extract_epi32(sum, 4) == 0, "vpmaskmovd load");
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
    probe_expect(0, 1, 8, 8 * 4, 0);
    probe_expect(0, 1, 4, 4 * 4, 0);
    probe_expect(0, 1, 4, 4 * 8, 0);
    probe_expect(0, 1, 1, 16, 0); /* of the two lines only the first is read */
    probe_expect(0, 1, 1, 8, 0);
    return probe_finish("avx2");
}
