/* Starts a program under the profiler: cohabit-dbi-launch DYNAMORIO_ROOT CLIENT CLIENT_OPTIONS DR_OPTIONS -- PROGRAM
 * ARGV0...
 *
 * It becomes the program (exec), so that process id, parent, terminal and exit status are the program's own. Exit
 * status where that fails: 125 the profiler cannot start, 126 the program cannot be run, 127 it was not found.
 */
#include "dr_api.h"
#include "dr_config.h"
#include "dr_inject.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int
fail(int status, const char *what, const char *why)
{
    fprintf(stderr, "cohabit: %s: %s\n", what, why);
    return status;
}

int
main(int argc, char **argv)
{
    if (argc < 8 || strcmp(argv[5], "--") != 0)
        return fail(125, "cohabit-dbi-launch", "started by hand; it is part of 'cohabit profile'");
    const char *root = argv[1], *client = argv[2], *client_options = argv[3], *dr_options = argv[4];
    /* What is run, and what the program is told of it: a name as it was typed, not as it was found. */
    const char *program = argv[6], **arguments = (const char **)&argv[7];
    void *data;
    int result = dr_inject_prepare_to_exec(program, arguments, &data);
    if (result != 0 && result != WARN_IMAGE_MACHINE_TYPE_MISMATCH_EXE)
        return fail(result == ENOENT ? 127 : 126, program, strerror(result));
    if (result == WARN_IMAGE_MACHINE_TYPE_MISMATCH_EXE)
        return fail(126, program, "not a program for this profiler's architecture (64-bit x86)");
    const char *process = dr_inject_get_image_name(data);
    if (dr_register_process(process, dr_inject_get_process_id(data), false, root, DR_MODE_CODE_MANIPULATION, false,
                            DR_PLATFORM_DEFAULT, dr_options) != DR_SUCCESS)
        return fail(125, process, "DynamoRIO's configuration cannot be written; is DYNAMORIO_CONFIGDIR writable?");
    if (dr_register_client(process, dr_inject_get_process_id(data), false, DR_PLATFORM_DEFAULT, 0, 0, client,
                           client_options) != DR_SUCCESS)
        return fail(125, client, "the profiler cannot be registered with DynamoRIO");
    if (!dr_inject_process_inject(data, false, NULL))
        return fail(125, root, "DynamoRIO cannot be loaded into the program");
    /* Not reached: the injection replaced this process. */
    dr_inject_process_exit(data, false);
    return 125;
}
