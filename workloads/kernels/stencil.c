/* A tight five-point stencil on a square grid, rows dealt to threads in slabs: what instrumentation costs where every
 * instruction counts, and what shadow memory costs where threads touch all of a large array.
 *
 *     stencil THREADS SIDE SWEEPS [SHARED]
 *
 * SIDE is the grid's edge in doubles, two grids of SIDE * SIDE * 8 bytes. With SHARED, after the sweeps every thread
 * reads that many of the first rows, so that their blocks have all threads as readers. Prints a checksum that does not
 * depend on the number of threads.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

static double *grid[2];
static size_t side;
static unsigned threads, sweeps, shared_rows;
static pthread_barrier_t barrier;

static void sweep(const double *from, double *to, size_t first, size_t last)
{
    for (size_t row = first; row < last; row++) {
        const double *up = from + (row - 1) * side, *here = from + row * side, *down = from + (row + 1) * side;
        double *out = to + row * side;
        for (size_t column = 1; column + 1 < side; column++)
            out[column] = 0.25 * (up[column] + down[column] + here[column - 1] + here[column + 1]);
    }
}

static double sum_rows(size_t rows)
{
    double sum = 0;
    for (size_t i = 0; i < rows * side; i++)
        sum += ((volatile double *)grid[0])[i];
    return sum;
}

static void *body(void *argument)
{
    size_t me = (size_t)argument;
    size_t first = 1 + (side - 2) * me / threads, last = 1 + (side - 2) * (me + 1) / threads;
    for (size_t i = first * side; i < last * side; i++)
        grid[0][i] = grid[1][i] = (double)(i % 97);
    pthread_barrier_wait(&barrier);
    for (unsigned i = 0; i < sweeps; i++) {
        sweep(grid[i % 2], grid[1 - i % 2], first, last);
        pthread_barrier_wait(&barrier);
    }
    if (shared_rows > 0 && sum_rows(shared_rows) < 0)
        puts("negative"); /* cannot be: keeps the sum */
    return NULL;
}

int main(int count, char **arguments)
{
    if (count < 4 || count > 5) {
        fprintf(stderr, "usage: %s THREADS SIDE SWEEPS [SHARED]\n", arguments[0]);
        return 2;
    }
    threads = (unsigned)atoi(arguments[1]);
    side = (size_t)atol(arguments[2]);
    sweeps = (unsigned)atoi(arguments[3]);
    shared_rows = count > 4 ? (unsigned)atoi(arguments[4]) : 0;
    pthread_t *handles = calloc(threads, sizeof *handles);
    for (int i = 0; i < 2; i++)
        grid[i] = calloc(side * side, sizeof(double));
    if (threads == 0 || side < 3 || shared_rows > side || handles == NULL || grid[0] == NULL || grid[1] == NULL) {
        fprintf(stderr, "%s: cannot be done\n", arguments[0]);
        return 1;
    }
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 256 * 1024);
    pthread_barrier_init(&barrier, NULL, threads);
    for (size_t i = 1; i < threads; i++) {
        if (pthread_create(&handles[i], &attributes, body, (void *)i) != 0) {
            fprintf(stderr, "%s: no more threads\n", arguments[0]);
            exit(1);
        }
    }
    body(NULL);
    for (size_t i = 1; i < threads; i++)
        pthread_join(handles[i], NULL);
    printf("%.17g\n", sum_rows(side));
    return 0;
}
