/* The profiler's options (options.h). They come from our own launcher: names are fixed, values were checked there. */
#include "options.h"
#include "dr_api.h"
#include <string.h>

options_t options = { .block_bytes = 64, .window_ns = 1000000, .series_bound = 16000000 };

static uint64_t
number(const char *text)
{
    uint64_t value = 0;
    while (*text >= '0' && *text <= '9')
        value = value * 10 + (uint64_t)(*text++ - '0');
    return value;
}

bool
options_parse(int argc, const char *argv[])
{
    for (int i = 1; i + 1 < argc; i += 2) {
        const char *name = argv[i], *value = argv[i + 1];
        if (strcmp(name, "-directory") == 0)
            dr_snprintf(options.directory, sizeof(options.directory), "%s", value);
        else if (strcmp(name, "-record") == 0)
            dr_snprintf(options.record, sizeof(options.record), "%s", value);
        else if (strcmp(name, "-recording") == 0)
            dr_snprintf(options.recording, sizeof(options.recording), "%s", value);
        else if (strcmp(name, "-ticks_per_second") == 0)
            options.ticks_per_second = number(value);
        else if (strcmp(name, "-window_ns") == 0)
            options.window_ns = number(value);
        else if (strcmp(name, "-window_instructions") == 0)
            options.window_instructions = number(value);
        else if (strcmp(name, "-series_bound") == 0)
            options.series_bound = number(value);
        else if (strcmp(name, "-block") == 0)
            options.block_bytes = (uint32_t)number(value);
        else if (strcmp(name, "-sharing") == 0)
            options.sharing = number(value) != 0;
        else if (strcmp(name, "-hot") == 0)
            options.hot = number(value) != 0;
        else if (strcmp(name, "-region") == 0)
            options.region = number(value) != 0;
        else if (strcmp(name, "-region_of_mpi") == 0)
            options.region_of_mpi = number(value) != 0;
        else if (strcmp(name, "-signal") == 0)
            options.signal = (uint32_t)number(value);
        else if (strcmp(name, "-burst_on_ns") == 0)
            options.burst_on_ns = number(value);
        else if (strcmp(name, "-burst_off_ns") == 0)
            options.burst_off_ns = number(value);
        else {
            dr_fprintf(STDERR, "cohabit: the profiler does not know the option %s\n", name);
            return false;
        }
    }
    options.whole = options.hot || options.record[0] != '\0' || options.recording[0] != '\0';
    return true;
}
