/* WAY THREADS FILE: runs the program THREADS with 3 threads as another process (fork, spawn, system) or as this one
   (exec, exec-thread: from a second thread). */
#include "record.h"
#include <spawn.h>

extern char **environ;
static char **arguments;

static void *run(void *unused) {
  (void)unused;
  execv(arguments[0], arguments);
  return NULL;
}

int main(int argc, char **argv) {
  if (argc != 4) return 2;
  static char *program[5];
  char *words[] = {argv[2], argv[3], "p", "3", NULL};
  memcpy(program, words, sizeof program);
  arguments = program;
  int status = 1;
  pid_t pid;
  if (strcmp(argv[1], "exec") == 0) {
    run(NULL);
  } else if (strcmp(argv[1], "exec-thread") == 0) {
    pthread_t thread;
    pthread_create(&thread, NULL, run, NULL);
    pthread_join(thread, NULL);
  } else if (strcmp(argv[1], "fork") == 0) {
    if ((pid = fork()) == 0) run(NULL);
    waitpid(pid, &status, 0);
  } else if (strcmp(argv[1], "spawn") == 0) {
    if (posix_spawn(&pid, program[0], NULL, NULL, program, environ) != 0) return 3;
    waitpid(pid, &status, 0);
  } else if (strcmp(argv[1], "system") == 0) {
    char line[8192];
    snprintf(line, sizeof line, "%s %s p 3; exit 0", argv[2], argv[3]);
    status = system(line);
  }
  return status;
}
