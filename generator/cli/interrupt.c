/* Ctrl-C: the first one asks for an orderly end, so that what was measured is kept; the second one ends at once. */
#include <signal.h>
#include <string.h>

#include "cli.h"

static volatile int interrupted;

static void on_signal(int number) {
    (void)number;
    interrupted = 1;
}

void cli_catch_interrupts(void) {
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP};
    for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++) {
        struct sigaction present;
        struct sigaction action = {.sa_handler = on_signal, .sa_flags = (int)SA_RESETHAND};
        (void)sigemptyset(&action.sa_mask);
        /* A signal that the caller ignores (nohup) stays ignored. */
        if (sigaction(signals[i], NULL, &present) == 0 && present.sa_handler != SIG_IGN) {
            (void)sigaction(signals[i], &action, NULL);
        }
    }
}

const volatile int *cli_interrupted(void) {
    return &interrupted;
}
