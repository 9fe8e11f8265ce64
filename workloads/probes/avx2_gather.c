/* AVX2 gathers: each element is an access of its own, and a lane whose mask is off touches nothing. */
#include "probe.h"

#include <immintrin.h>

#define TARGET __attribute__((target("avx2")))

enum { GATHERED = 0, HALF = 8, WIDE = 16, LINES = 20 };

static unsigned char *data;

static unsigned char *line(unsigned number)
{
    return data + number * BLOCK;
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
}

static void body(unsigned thread)
{
    if (thread == 0)
        store_blocks(data, LINES, 3);
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
    return probe_finish("avx2_gather");
}
