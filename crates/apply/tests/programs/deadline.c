/* Schedules itself by deadline, and then creates a thread, which is not. 77 where it may not. */
#include <pthread.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

struct attributes { /* sched_setattr(2) */
  uint32_t size, policy;
  uint64_t flags;
  int32_t nice;
  uint32_t priority;
  uint64_t runtime_ns, deadline_ns, period_ns;
};

static void *body(void *unused) {
  return unused;
}

int main(void) {
  struct attributes attributes = {sizeof attributes, 6, 1, 0, 0, 1000000, 100000000, 100000000};
  if (syscall(SYS_sched_setattr, 0, &attributes, 0) != 0) return 77;
  pthread_t thread;
  if (pthread_create(&thread, NULL, body, NULL) != 0) return 1;
  return pthread_join(thread, NULL);
}
