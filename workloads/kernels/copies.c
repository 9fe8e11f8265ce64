/* Processes in a ring, each of which copies from the next one's memory by process_vm_readv(2), as MPI libraries do with
 * large messages: no page is shared between them.
 *
 * Usage: copies [PROCESSES [ROUNDS [BYTES [MILLISECONDS]]]]   (the last: before they begin)
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

struct plan {
    int rounds;
    long bytes;
    char *memory, *copy;
};

/* Copies from `next` again and again; whether its memory was there each time. */
static int copy_from(const struct plan *plan, pid_t next, char expected)
{
    for (int round = 0; round < plan->rounds; round++) {
        struct iovec to = {plan->copy, plan->bytes}, from = {plan->memory, plan->bytes};
        if (process_vm_readv(next, &to, 1, &from, 1, 0) != plan->bytes)
            return perror("process_vm_readv"), 0;
        if (plan->copy[0] != expected || plan->copy[plan->bytes - 1] != expected)
            return 0;
    }
    return 1;
}

int main(int argc, char **argv)
{
    int processes = argc > 1 ? atoi(argv[1]) : 4, done[2];
    struct plan plan = {argc > 2 ? atoi(argv[2]) : 1000, argc > 3 ? atol(argv[3]) : 65536, 0, 0};
    pid_t process[processes], next;
    int go[processes][2];
    plan.memory = malloc(plan.bytes);
    plan.copy = malloc(plan.bytes);
    if (!plan.memory || !plan.copy || pipe(done))
        return perror("malloc or pipe"), 2;
    for (int number = 0; number < processes; number++) {
        if (pipe(go[number]) || (process[number] = fork()) < 0)
            return perror("pipe or fork"), 2;
        if (process[number])
            continue;
        for (int other = 0; other <= number; other++)
            close(go[other][1]);
        /* Anybody may read it, where Yama would let nobody. */
        prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
        memset(plan.memory, 'a' + number % 26, plan.bytes);
        int right = read(go[number][0], &next, sizeof next) == sizeof next &&
                    copy_from(&plan, next, 'a' + (number + 1) % processes % 26);
        /* Its memory is there until the others are done, too. */
        right &= write(done[1], "", 1) == 1 && read(go[number][0], &next, 1) == 0;
        _exit(!right);
    }
    /* All have filled their memory then. */
    usleep(1000 * (argc > 4 ? atol(argv[4]) : 200));
    char byte;
    int failed = 0;
    for (int number = 0; number < processes; number++) {
        next = process[(number + 1) % processes];
        failed |= write(go[number][1], &next, sizeof next) != sizeof next;
    }
    for (int number = 0; number < processes; number++)
        failed |= read(done[0], &byte, 1) != 1;
    for (int number = 0; number < processes; number++)
        close(go[number][1]);
    for (int number = 0; number < processes; number++) {
        int status;
        failed |= waitpid(process[number], &status, 0) < 0 || status != 0;
    }
    puts(failed ? "wrong" : "right");
    return failed;
}
