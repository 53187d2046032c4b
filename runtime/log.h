/* Messages to the function of mlpbwd_set_log; silent by default. Thread-safe. */
#ifndef MLP_LOG_H
#define MLP_LOG_H
void log_message(const char *format, ...) __attribute__((format(printf, 1, 2)));
#endif
