#include "sweep_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "device/device.h"

json_t *sweep_run(const tune_options *options) {
    json_t *summary = NULL;
    mlp_message why = {""};
    mlpbwd_status status = tune_run(options, &summary, &why);
    if (status != MLPBWD_OK)
        fail_msg("%s: %s", mlpbwd_status_string(status), why.text);
    return summary;
}

bool sweep_host_compiles(void) {
    char version[64];
    return dev_compiler_version("cc", version, sizeof version, NULL) == MLPBWD_OK;
}

bool sweep_was_child(int argc, char **argv, int *code) {
    if (argc > 1 && strcmp(argv[1], "__worker") == 0)
        *code = tune_worker_main(argc, argv);
    else if (argc > 1 && strcmp(argv[1], "__compile") == 0)
        *code = tune_compile_main(argc, argv);
    else
        return false;
    return true;
}
