/* FILE PREFIX N: N threads with the main one; each looks at itself in its first statement. */
#include "record.h"

static struct seen seen[4096];

static void *body(void *index) {
  *(struct seen *)index = see();
  return NULL;
}

int main(int argc, char **argv) {
  struct seen start = see();
  if (argc != 4) return 2;
  int count = atoi(argv[3]);
  pthread_t threads[4096];
  char label[64];
  for (int i = 1; i < count; i++)
    if (pthread_create(&threads[i], NULL, body, &seen[i]) != 0) return 3;
  seen[0] = see();
  for (int i = 1; i < count; i++) pthread_join(threads[i], NULL);
  snprintf(label, sizeof label, "%sstart", argv[2]);
  write_line(argv[1], label, start);
  for (int i = 0; i < count; i++) {
    snprintf(label, sizeof label, "%s%d", argv[2], i);
    write_line(argv[1], label, seen[i]);
  }
  return 0;
}
