/* Ctrl-C: the first one asks for an orderly end, so that what was measured is kept; a later one ends at once. What
 * `timeout` and the like send twice in a row, to the process and to its group, is one. */
#include <signal.h>
#include <string.h>
#include <time.h>

#include "cli.h"

static const double ONE_PRESS = 0.5; /* seconds */

static volatile int interrupted;

static void on_signal(int number) {
    static struct timespec first;
    struct timespec now = {0};
    (void)clock_gettime(CLOCK_MONOTONIC, &now); /* cannot fail for this clock */
    double since = (double)(now.tv_sec - first.tv_sec) + 1e-9 * (double)(now.tv_nsec - first.tv_nsec);
    if (!interrupted) {
        first = now;
        interrupted = 1;
    } else if (since > ONE_PRESS) { /* delivered when this handler returns */
        (void)signal(number, SIG_DFL);
        (void)raise(number);
    }
}

void cli_catch_interrupts(void) {
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP};
    for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++) {
        struct sigaction present;
        struct sigaction action = {.sa_handler = on_signal};
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
