// As `hot heap needed`, through a std::vector (main.c): the first thread writes 8,192 words, the second reads them.
#include <cstdint>
#include <cstdio>
#include <semaphore.h>
#include <thread>
#include <vector>

static constexpr unsigned WORDS = 8192, ROUNDS = 20;
static sem_t of_first, of_second;

__attribute__((noinline, noclone)) static std::vector<std::uint64_t>
make_words()
{
    return std::vector<std::uint64_t>(WORDS + 8);
}

int
main()
{
    std::vector<std::uint64_t> words = make_words();
    // Whole lines of it: where it begins is the allocator's choice.
    const auto start = (reinterpret_cast<std::uintptr_t>(words.data()) + 63) & ~std::uintptr_t{63};
    auto *from = reinterpret_cast<volatile std::uint64_t *>(start);
    std::uint64_t wrong = 0;
    sem_init(&of_first, 0, 1);
    sem_init(&of_second, 0, 0);
    std::thread second([&] {
        for (unsigned round = 1; round <= ROUNDS; round++) {
            sem_wait(&of_second);
            for (unsigned i = 0; i < WORDS; i++)
                wrong += from[i] != round;
            sem_post(&of_first);
        }
    });
    for (unsigned round = 1; round <= ROUNDS; round++) {
        sem_wait(&of_first);
        for (unsigned i = 0; i < WORDS; i++)
            from[i] = round;
        sem_post(&of_second);
    }
    second.join();
    std::printf("heap block allocated in ,%u,true\n", WORDS / 8 * ROUNDS);
    return wrong > 0;
}
