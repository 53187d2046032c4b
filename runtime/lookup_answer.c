/* Answers: what they keep of a row, and how they look as JSON. */
#include "lookup_private.h"

#include <stdlib.h>
#include <string.h>

#include "import.h"

void lookup_answer_free(lookup_answer *answer) {
    const lookup_answer old = *answer;
    *answer = (lookup_answer){.median_us = -1};
    free(old.row_json);
    free(old.plan_json);
    free(old.database_path);
    if (old.forced)
        import_free(old.forced);
    free(old.forced);
}

/* JSON text of a column, or null for "". */
static json_t *parsed(const char *text) {
    json_t *value = text && text[0] ? json_loads(text, 0, NULL) : NULL;
    return value ? value : json_null();
}

mlpbwd_status lookup_keep_row(lookup_answer *answer, const db_plan_row *row, mlp_message *why) {
    lookup_answer made = {.median_us = row->median_us, /* of a default row tokens is what it was made for */
                          .measured_tokens = row->device_name[0] ? row->tokens : 0};
    json_t *kept = json_pack("{s:s, s:o, s:s, s:s, s:I, s:i, s:I, s:I, s:o, s:s, s:s}", "pipeline", row->pipeline,
                             "parameters", parsed(row->parameters), "arch", row->arch, "device", row->device_name,
                             "tokens", (json_int_t)row->tokens, "units", row->units, "hidden_size",
                             (json_int_t)row->hidden_size, "intermediate_size", (json_int_t)row->intermediate_size,
                             "measurement", parsed(row->measurement), "origin", row->origin, "date", row->date);
    made.row_json = kept ? json_dumps(kept, JSON_COMPACT) : NULL;
    json_decref(kept);
    made.plan_json = row->plan ? strdup(row->plan) : NULL;
    if (!made.row_json || (row->plan && !made.plan_json)) {
        free(made.row_json);
        free(made.plan_json);
        return mlp_fail(why, MLPBWD_OUT_OF_MEMORY, "no memory for a stored plan");
    }
    lookup_answer_free(answer);
    *answer = made;
    return MLPBWD_OK;
}

/* The figure as JSON, or null when nothing was measured. */
static json_t *median(double microseconds) {
    return microseconds >= 0 ? json_real(microseconds) : json_null();
}

char *lookup_answer_json(const lookup_request *request, const lookup_answer *answer) {
    const mlpbwd_problem *problem = request->problem;
    json_t *row = json_loads(answer->row_json, 0, NULL);
    json_t *report = json_pack(
        "{s:I, s:I, s:I, s:s, s:s, s:s, s:s, s:o, s:I, s:s}", "tokens", (json_int_t)lookup_tokens(request),
        "hidden_size", (json_int_t)problem->hidden_size, "intermediate_size", (json_int_t)problem->intermediate_size,
        "accuracy", accuracy_name(problem->accuracy), "activation", activation_name(problem->activation), "device",
        request->device->id, "match", answer->match, "median_us", median(answer->median_us), "measured_tokens",
        (json_int_t)answer->measured_tokens, "database", answer->database_path);
    static const char *const from_row[][2] = {{"pipeline", "pipeline"},
                                              {"parameters", "parameters"},
                                              {"arch", "arch"},
                                              {"measured_device", "device"},
                                              {"measured_units", "units"},
                                              {"measurement", "measurement"},
                                              {"origin", "origin"},
                                              {"date", "date"}};
    const json_t *measurement = json_object_get(row, "measurement");
    const bool measured = answer->median_us >= 0 && !json_is_true(json_object_get(measurement, "replayed"));
    const json_t *predicted = json_object_get(measurement, "predicted_us");
    char *text = NULL;
    bool complete = row && report && json_object_set_new(report, "measured", json_boolean(measured)) == 0 &&
                    (!predicted || json_object_set(report, "predicted_us", (json_t *)predicted) == 0);
    for (size_t i = 0; i < sizeof from_row / sizeof *from_row && complete; i++)
        complete = json_object_set(report, from_row[i][0], json_object_get(row, from_row[i][1])) == 0;
    if (complete)
        text = json_dumps(report, JSON_COMPACT);
    json_decref(row);
    json_decref(report);
    return text;
}
