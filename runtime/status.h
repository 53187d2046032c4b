/* The one place where an internal failure becomes mlpbwd_last_error(). */
#ifndef MLP_STATUS_H
#define MLP_STATUS_H

#include "message.h"

/* Ends a public call: keeps why's text as this thread's last error if status is a failure, else makes it "". Returns
 * status. Allocates nothing for success or for a text under 240 bytes; why is not read on success. */
mlpbwd_status status_report(mlpbwd_status status, const mlp_message *why);

#endif
