/* Signals that all threads have blocked, and wait for: with sigwait, sigtimedwait and sigsuspend, sent to a thread and to
 * the process, before the wait and during it. Thread 0 writes a line and signals thread 1, which reads it and answers. */
#include "probe.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

/* To a thread, and as many to the process. */
#define SIGNALS 50

static unsigned char *data;
static pthread_t threads[2];
static volatile sig_atomic_t handled;

static void handler(int signal)
{
    (void)signal;
    handled++;
}

static sigset_t only(int signal)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, signal);
    return set;
}

static void wait_for(int signal)
{
    sigset_t set = only(signal);
    int got = 0;
    probe_check(sigwait(&set, &got) == 0 && got == signal, "the signal that sigwait returns");
}

static void asks(void)
{
    for (unsigned line = 0; line < 2 * SIGNALS; line++) {
        store8(data + line * BLOCK, line + 1);
        if (line % 2 == 0)
            pthread_kill(threads[1], SIGUSR1);
        else
            kill(getpid(), SIGUSR2);
        wait_for(SIGRTMIN);
    }
}

static void answers(void)
{
    for (unsigned line = 0; line < 2 * SIGNALS; line++) {
        sigset_t both = only(SIGUSR1);
        sigaddset(&both, SIGUSR2);
        siginfo_t info = {0};
        int got = sigwaitinfo(&both, &info);
        probe_check(got == (line % 2 == 0 ? SIGUSR1 : SIGUSR2) && info.si_signo == got, "what sigwaitinfo returns");
        probe_check(load8(data + line * BLOCK) == line + 1, "the line read after the signal");
        pthread_kill(threads[0], SIGRTMIN);
    }
}

/* Sent to the process by a thread that never waits for it, before another has ever done so. */
static void what_came_to_another(unsigned thread)
{
    if (thread == 0) {
        kill(getpid(), SIGQUIT);
        kill(getpid(), SIGURG);
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    probe_barrier();
    if (thread == 0)
        return;
    wait_for(SIGQUIT);
    int before = handled;
    sigset_t set = only(SIGURG);
    pthread_sigmask(SIG_UNBLOCK, &set, NULL);
    probe_check(handled == before + 1, "the signal that was unblocked is handled");
    pthread_sigmask(SIG_BLOCK, &set, NULL);
}

/* Sent before it is waited for: it is pending, and ends each kind of wait at once. */
static void what_has_come(void)
{
    sigset_t set = only(SIGHUP), pending;
    struct timespec no_time = {0}, long_time = {.tv_sec = 60};
    probe_check(sigtimedwait(&set, NULL, &no_time) == -1 && errno == EAGAIN, "there is no signal yet");
    raise(SIGHUP);
    probe_check(sigpending(&pending) == 0 && sigismember(&pending, SIGHUP) == 1, "the signal is pending");
    probe_check(sigismember(&pending, SIGTERM) == 0, "another is not");
    probe_check(sigtimedwait(&set, NULL, &long_time) == SIGHUP, "sigtimedwait finds it");
    probe_check(sigpending(&pending) == 0 && sigismember(&pending, SIGHUP) == 0, "it is taken");
    raise(SIGHUP);
    pthread_sigmask(SIG_SETMASK, NULL, &set);
    sigdelset(&set, SIGHUP);
    probe_check(sigsuspend(&set) == -1 && errno == EINTR && handled == 1, "sigsuspend ends with its handler");
    for (int i = 0; i < 3; i++)
        pthread_sigqueue(pthread_self(), SIGRTMIN + 1, (union sigval){.sival_int = i});
    for (int i = 0; i < 3; i++) {
        siginfo_t info = {0};
        set = only(SIGRTMIN + 1);
        probe_check(sigwaitinfo(&set, &info) == SIGRTMIN + 1 && info.si_value.sival_int == i, "real-time signals in order");
    }
}

static void body(unsigned thread)
{
    threads[thread] = pthread_self();
    probe_barrier();
    if (thread == 0)
        asks();
    else
        answers();
    probe_barrier();
    if (thread == 1)
        what_has_come();
    probe_barrier();
    what_came_to_another(thread);
}

int main(void)
{
    sigset_t all;
    sigfillset(&all);
    struct sigaction handles = {.sa_handler = handler};
    if (pthread_sigmask(SIG_BLOCK, &all, NULL) || sigaction(SIGHUP, &handles, NULL) || sigaction(SIGURG, &handles, NULL))
        probe_die("signals");
    data = probe_data(2 * SIGNALS);
    probe_threads(2, body);
    probe_expect(0, 1, 2 * SIGNALS, 2 * SIGNALS * 8, 0);
    return probe_finish("signals_waited_for");
}
