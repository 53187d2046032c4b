/* NVML: the board's power limit, for reports. Everything works without it. */
#include <dlfcn.h>
#include <string.h>

#include "cuda_api.h"

static const api_name names[] = {
#define NVML_FUNCTION(name, parameters) {#name, offsetof(nvml_functions, name), false},
#include "cuda_api.def"
#undef NVML_FUNCTION
};

static bool describe_with(const nvml_functions *nvml, const char *bus_id, double *power_limit_w, double *max_clock_mhz,
                          char *driver, size_t capacity) {
    nvmlDevice_t device;
    unsigned value;
    char version[80];
    if (nvml->nvmlSystemGetDriverVersion(version, sizeof version) == 0 && strlen(version) < capacity)
        memcpy(driver, version, strlen(version) + 1);
    if (nvml->nvmlDeviceGetHandleByPciBusId_v2(bus_id, &device) != 0)
        return false;
    if (nvml->nvmlDeviceGetEnforcedPowerLimit(device, &value) == 0)
        *power_limit_w = value / 1000.0;
    if (nvml->nvmlDeviceGetMaxClockInfo(device, MLP_NVML_CLOCK_SM, &value) == 0)
        *max_clock_mhz = value;
    return true;
}

bool nvml_describe(const char *bus_id, double *power_limit_w, double *max_clock_mhz, char *driver, size_t capacity) {
    nvml_functions nvml;
    const char *missing;
    bool described = false;
    void *library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!library)
        return false;
    if (load_functions(library, names, sizeof names / sizeof names[0], &nvml, &missing) && nvml.nvmlInit_v2() == 0) {
        described = describe_with(&nvml, bus_id, power_limit_w, max_clock_mhz, driver, capacity);
        nvml.nvmlShutdown(); /* counted by NVML: another user in the process keeps it */
    }
    dlclose(library);
    return described;
}
