/* Plain text tables. */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"

struct cli_table {
    size_t columns, count, capacity;
    char **cells; /* the headers first */
};

static void out_of_memory(void) {
    cli_error("out of memory");
    exit(EXIT_FAILED);
}

static void append(cli_table *table, char *cell) {
    if (table->count == table->capacity) {
        table->capacity = table->capacity * 2 + 64;
        char **grown = realloc(table->cells, table->capacity * sizeof *grown);
        if (grown == NULL) {
            out_of_memory();
        }
        table->cells = grown;
    }
    table->cells[table->count++] = cell;
}

void cli_cell(cli_table *table, const char *format, ...) {
    va_list arguments;
    char *cell = NULL;
    va_start(arguments, format);
    int length = vasprintf(&cell, format, arguments);
    va_end(arguments);
    if (length < 0) {
        out_of_memory();
    }
    append(table, cell);
}

cli_table *cli_table_new(const char *const *headers, size_t columns) {
    cli_table *table = calloc(1, sizeof *table);
    if (table == NULL) {
        out_of_memory();
        return NULL;
    }
    table->columns = columns;
    for (size_t i = 0; i < columns; i++) {
        cli_cell(table, "%s", headers[i]);
    }
    return table;
}

static bool is_number(const char *cell) {
    return cell[0] == '\0' || strcmp(cell, "-") == 0 || strspn(cell, "0123456789.+-%x") == strlen(cell);
}

void cli_table_print(cli_table *table, FILE *out) {
    size_t rows = table->count / table->columns;
    for (size_t row = 0; row < rows; row++) {
        for (size_t column = 0; column < table->columns; column++) {
            size_t width = 0;
            bool number = true;
            for (size_t other = 0; other < rows; other++) {
                const char *cell = table->cells[other * table->columns + column];
                width = strlen(cell) > width ? strlen(cell) : width;
                number = number && (other == 0 || is_number(cell));
            }
            const char *cell = table->cells[row * table->columns + column];
            bool last = column + 1 == table->columns;
            if (number) {
                (void)fprintf(out, "%*s", (int)width, cell);
            } else {
                (void)fprintf(out, "%-*s", last ? 0 : (int)width, cell);
            }
            (void)fputs(last ? "\n" : "  ", out);
        }
    }
    for (size_t i = 0; i < table->count; i++) {
        free(table->cells[i]);
    }
    free(table->cells);
    free(table);
}
