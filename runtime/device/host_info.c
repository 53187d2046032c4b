/* Facts of the host, read from the kernel. */
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "host.h"

/* First line of a file without its end of line; false if it cannot be read. */
static bool read_line(const char *path, char *line, size_t capacity) {
    FILE *file = fopen(path, "re");
    if (!file)
        return false;
    bool found = fgets(line, (int)capacity, file) != NULL;
    if (fclose(file) != 0 || !found)
        return false;
    line[strcspn(line, "\n")] = 0;
    return true;
}

/* Processors this process may run on; *first becomes the lowest. The set grows until the kernel's fits. */
static int count_processors(int *first) {
    *first = 0;
    for (int capacity = CPU_SETSIZE; capacity <= 1 << 18; capacity *= 2) {
        cpu_set_t *set = CPU_ALLOC((size_t)capacity);
        if (!set)
            break;
        size_t bytes = CPU_ALLOC_SIZE((size_t)capacity);
        int count = -1;
        if (sched_getaffinity(0, bytes, set) == 0) {
            count = CPU_COUNT_S(bytes, set);
            for (int i = capacity - 1; i >= 0; i--)
                if (CPU_ISSET_S((size_t)i, bytes, set))
                    *first = i;
        }
        CPU_FREE(set);
        if (count > 0)
            return count;
        if (errno != EINVAL)
            break;
    }
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    return online > 0 ? (int)online : 1;
}

/* "32768K", "105M" in bytes; 0 if it is not a size. */
static int64_t parse_size(const char *text) {
    char *end;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    if (errno || value <= 0 || value > INT64_MAX >> 31)
        return 0;
    if (*end == 'K')
        return value << 10;
    if (*end == 'M')
        return value << 20;
    return *end == 'G' ? value << 30 : value;
}

static int64_t last_level_cache(int processor) {
    int64_t best_level = 0, bytes = 0;
    for (int index = 0; index < 16; index++) {
        char path[128], line[64];
        snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/cache/index%d/level", processor, index);
        if (!read_line(path, line, sizeof line))
            break;
        int64_t level = parse_size(line);
        snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/cache/index%d/size", processor, index);
        if (level >= best_level && read_line(path, line, sizeof line)) {
            best_level = level;
            bytes = parse_size(line);
        }
    }
    if (bytes)
        return bytes;
    long size = sysconf(_SC_LEVEL3_CACHE_SIZE);
    if (size <= 0)
        size = sysconf(_SC_LEVEL2_CACHE_SIZE);
    return size > 0 ? size : 0;
}

static void processor_name(char *name, size_t capacity, const struct utsname *machine) {
    char line[512];
    FILE *file = fopen("/proc/cpuinfo", "re");
    name[0] = 0;
    while (file && !name[0] && fgets(line, sizeof line, file)) {
        char *value = strchr(line, ':');
        if (!value || (strncmp(line, "model name", 10) != 0 && strncmp(line, "Hardware", 8) != 0))
            continue;
        value += 1 + strspn(value + 1, " \t");
        value[strcspn(value, "\n")] = 0;
        dev_copy_text(name, capacity, value);
    }
    if (file && fclose(file) != 0)
        name[0] = 0;
    if (!name[0])
        snprintf(name, capacity, "%s processor", machine->machine);
}

void host_fill_info(dev_info *info) {
    struct utsname machine;
    int first;
    memset(info, 0, sizeof *info);
    if (uname(&machine) != 0)
        memset(&machine, 0, sizeof machine);
    snprintf(info->id, sizeof info->id, "host");
    snprintf(info->backend, sizeof info->backend, "host");
    info->synchronous = true;
    processor_name(info->name, sizeof info->name, &machine);
    info->ladder_length = dev_host_ladder(info->ladder);
    snprintf(info->arch, sizeof info->arch, "%s", info->ladder[0]);
    info->units = count_processors(&first);
    long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    info->memory_bytes = pages > 0 && page > 0 ? (int64_t)pages * page : 0;
    info->l2_bytes = last_level_cache(first);
    char path[96], line[64];
    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/cpufreq/cpuinfo_max_freq", first);
    if (read_line(path, line, sizeof line))
        info->max_clock_mhz = (double)parse_size(line) / 1000.0; /* given in kHz */
    dev_copy_text(info->driver, sizeof info->driver, machine.release);
}
