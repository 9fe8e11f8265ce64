/* FILE ORDER: the main thread creates threads 1 and 2; each letter of ORDER (1 or 2) makes that one create its next
   child, in this order, whatever the scheduler does. */
#include "record.h"

static const char *order;
static int turn;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t turned = PTHREAD_COND_INITIALIZER;
static struct seen children[3], grandchildren[3][16];

static void *grandchild(void *seen) {
  *(struct seen *)seen = see();
  return NULL;
}

static void *child(void *number) {
  children[(long)number] = see();
  char own = '0' + (long)number;
  pthread_t threads[16];
  int created = 0;
  pthread_mutex_lock(&lock);
  while (order[turn] != 0) {
    if (order[turn] == own) {
      pthread_create(&threads[created], NULL, grandchild, &grandchildren[own - '0'][created]);
      created++;
      turn++;
      pthread_cond_broadcast(&turned);
    } else {
      pthread_cond_wait(&turned, &lock);
    }
  }
  pthread_mutex_unlock(&lock);
  for (int i = 0; i < created; i++) pthread_join(threads[i], NULL);
  return (void *)(long)created;
}

int main(int argc, char **argv) {
  if (argc != 3) return 2;
  order = argv[2];
  pthread_t threads[3];
  char label[16];
  /* Neither creates anything before both are there. */
  pthread_mutex_lock(&lock);
  for (long i = 1; i <= 2; i++) pthread_create(&threads[i], NULL, child, (void *)i);
  pthread_mutex_unlock(&lock);
  for (int i = 1; i <= 2; i++) {
    void *created;
    pthread_join(threads[i], &created);
    snprintf(label, sizeof label, "%d", i);
    write_line(argv[1], label, children[i]);
    for (int j = 0; j < (long)created; j++) {
      snprintf(label, sizeof label, "%d.%d", i, j);
      write_line(argv[1], label, grandchildren[i][j]);
    }
  }
  return 0;
}
