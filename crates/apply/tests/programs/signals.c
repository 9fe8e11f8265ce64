/* WAY FILE: a life with signals. */
#include "record.h"
#include <dirent.h>
#include <stdatomic.h>

static atomic_int handled;

static void handler(int signal) {
  (void)signal;
  handled++;
}

static void *idle(void *unused) {
  (void)unused;
  pause();
  return NULL;
}

/* What /proc says of a process: its parent, process group and session. */
static int identity(pid_t pid, int *parent, int *group, int *session) {
  char path[64], line[512] = "";
  snprintf(path, sizeof path, "/proc/%d/stat", pid);
  FILE *in = fopen(path, "r");
  if (in == NULL) return 0;
  char *found = fgets(line, sizeof line, in);
  fclose(in);
  return found != NULL && sscanf(strrchr(line, ')') + 1, " %*c %d %d %d", parent, group, session) == 3;
}

/* Whether nobody is there to let this process group go on (setpgid(2)): the system then discards SIGTSTP. */
static int group_is_orphaned(void) {
  DIR *processes = opendir("/proc");
  int orphaned = 1;
  for (struct dirent *entry; processes != NULL && (entry = readdir(processes)) != NULL;) {
    int parent, group, session, parents_parent, parents_group, parents_session;
    if (identity(atoi(entry->d_name), &parent, &group, &session) && group == getpgrp() &&
        identity(parent, &parents_parent, &parents_group, &parents_session))
      orphaned &= parents_group == group || parents_session != session;
  }
  if (processes != NULL) closedir(processes);
  return orphaned;
}

static void *brief(void *unused) {
  return unused;
}

int main(int argc, char **argv) {
  if (argc != 3) return 2;
  const char *way = argv[1];
  if (strcmp(way, "handlers") == 0) {
    /* Each kind of signal there is: standard, real-time, SIGTRAP. */
    int signals[] = {SIGUSR1, SIGTRAP, SIGINT, SIGTERM, SIGCHLD, SIGRTMIN + 3, SIGTSTP};
    for (int i = 0; i < 7; i++) {
      signal(signals[i], handler);
      raise(signals[i]);
    }
    return handled == 7 ? 7 : 1;
  }
  if (strcmp(way, "stop") == 0) {
    /* A child stops this process and lets it go on, twice; a second thread stops with it. */
    pthread_t thread;
    pthread_create(&thread, NULL, idle, NULL);
    int rounds = 0;
    for (; rounds < 2; rounds++) {
      pid_t parent = getpid(), pid = fork();
      if (pid == 0) {
        for (;;) {
          char path[64], line[512] = "";
          snprintf(path, sizeof path, "/proc/%d/stat", parent);
          FILE *in = fopen(path, "r");
          if (in == NULL || fgets(line, sizeof line, in) == NULL) _exit(1);
          fclose(in);
          char state = strrchr(line, ')')[2];
          /* Traced, a group-stop shows as t; either way it lasts until SIGCONT. */
          if (state == 'T' || state == 't') {
            usleep(20000);
            kill(parent, SIGCONT);
            _exit(0);
          }
          usleep(1000);
        }
      }
      kill(parent, rounds == 0 || group_is_orphaned() ? SIGSTOP : SIGTSTP);
      int status;
      if (waitpid(pid, &status, 0) != pid || status != 0) return 1;
    }
    return 10 + rounds;
  }
  if (strcmp(way, "wait") == 0) {
    /* Says who it is when it is ready, and is ended by a signal or ends with the number handled. */
    char own[16];
    snprintf(own, sizeof own, "%d", getpid());
    signal(SIGUSR2, handler);
    pthread_t thread;
    pthread_create(&thread, NULL, idle, NULL);
    write_line(argv[2], own, see());
    while (handled == 0) usleep(1000);
    return 40 + handled;
  }
  if (strcmp(way, "child-stop") == 0) {
    /* A parent sees its child stop and go on. */
    int until_closed[2], status;
    char byte;
    if (pipe(until_closed) != 0) return 4;
    pid_t pid = fork();
    if (pid == 0) {
      close(until_closed[1]);
      raise(SIGSTOP);
      _exit(read(until_closed[0], &byte, 1) == 0 ? 5 : 6);
    }
    if (waitpid(pid, &status, WUNTRACED) != pid || !WIFSTOPPED(status) || WSTOPSIG(status) != SIGSTOP) return 1;
    kill(pid, SIGCONT);
    if (waitpid(pid, &status, WCONTINUED) != pid || !WIFCONTINUED(status)) return 2;
    close(until_closed[1]);
    if (waitpid(pid, &status, 0) != pid || !WIFEXITED(status)) return 3;
    return WEXITSTATUS(status);
  }
  if (strcmp(way, "abandon") == 0) {
    /* Ends while others create threads and processes as fast as they can. */
    for (int i = 0; i < 4; i++)
      if (fork() == 0) {
        for (int created = 0; created < 200; created++) {
          pthread_t thread;
          if (pthread_create(&thread, NULL, brief, NULL) != 0) _exit(1);
          pthread_detach(thread);
          if (fork() == 0) _exit(0);
        }
        _exit(0);
      }
    usleep(5000);
    return 6;
  }
  return 2;
}
