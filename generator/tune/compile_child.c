/* `mlpbwd __compile`: compiles one source after another for the tuner. */
#include <stdio.h>
#include <sys/resource.h>

#include "channel.h"
#include "device/device.h"
#include "tune.h"

/* Bounds this process and the compiler it starts even when the parent has died and can stop neither. */
static void limit_processor_time(double seconds) {
    struct rusage usage;
    struct rlimit limit;
    if (getrusage(RUSAGE_SELF, &usage) != 0 || getrlimit(RLIMIT_CPU, &limit) != 0)
        return;
    rlim_t wanted = (rlim_t)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) + (rlim_t)(seconds > 0 ? seconds : 0) + 2;
    if (limit.rlim_max == RLIM_INFINITY || wanted < limit.rlim_max)
        limit.rlim_cur = wanted;
    (void)setrlimit(RLIMIT_CPU, &limit); /* wall time is watched by the parent in any case */
}

static bool serve(channel *c, const channel_message *message) {
    const char *compiler, *target, *name;
    double limit;
    if (json_unpack(message->json, "{s:s,s:s,s:s,s:F}", "compiler", &compiler, "target", &target, "name", &name,
                    "limit", &limit) != 0 ||
        !message->bytes)
        return false;
    limit_processor_time(limit);
    dev_compile_request request = {compiler, target, message->bytes, name};
    dev_image image = {0};
    mlp_message why = {""};
    mlpbwd_status status = dev_compile(&request, &image, &why);
    const char *log = image.log ? image.log : "";
    json_t *answer = json_object();
    json_object_set_new(answer, "ok", json_boolean(status == MLPBWD_OK));
    json_object_set_new(answer, "reason", json_text(why.text));
    json_object_set_new(answer, "log", json_text(log));
    json_object_set_new(answer, "format", json_string(image.format));
    bool sent = channel_send(c, answer, status == MLPBWD_OK ? image.bytes : NULL, image.size);
    dev_image_free(&image);
    return sent;
}

int tune_compile_main(int argc, char **argv) {
    (void)argc;
    (void)argv;
    channel c;
    if (!channel_from_parent(&c))
        return 2;
    channel_message message;
    bool good = true;
    while (good && channel_receive(&c, -1, NULL, &message) == CHANNEL_MESSAGE) {
        good = serve(&c, &message);
        channel_message_free(&message);
    }
    channel_close(&c);
    return good ? 0 : 1;
}
