/* Code that comes into the program while it runs; see dlopen.c. */
#include <stddef.h>
#include <stdint.h>

/* The sum of the first words of `lines` 64-byte lines. */
uint64_t reader_sum(const volatile unsigned char *data, size_t lines)
{
    uint64_t sum = 0;
    for (size_t line = 0; line < lines; line++)
        sum += *(const volatile uint64_t *)(data + line * 64);
    return sum;
}
