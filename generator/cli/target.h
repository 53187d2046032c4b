/* A device without its hardware: what `query --device` takes beside cuda:N and host. */
#ifndef MLP_CLI_TARGET_H
#define MLP_CLI_TARGET_H

#include "cli.h"
#include "db.h"
#include "device/device.h"

/* Fills *info for `name`: an architecture (sm_90a, x86-64-v3), of which then any device is meant (name = architecture,
 * units 0), or the name of a device that one of the databases has rows of. Neither: MLPBWD_NO_DEVICE saying what would
 * be right. */
mlpbwd_status target_describe(const char *name, db *const *databases, size_t count, const cli_options *options,
                              dev_info *info, mlp_message *why);

#endif
