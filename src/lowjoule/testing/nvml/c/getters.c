/* Functions that read a board. */
#include <string.h>

#include "fake.h"

/* A function that gives one number: its body computes `value` from `call`. */
#define NUMBER(name, type, value)                               \
    EXPORT nvmlReturn_t name(nvmlDevice_t device, type *number) \
    {                                                           \
        Call call;                                              \
        nvmlReturn_t code = begin(&call, F_##name, device);     \
        if (!code)                                              \
            *number = (type)(value);                            \
        return end(&call, code);                                \
    }

enum { REASON_IDLE = 0x1, REASON_POWER_CAP = 0x4, REASONS_ALL = 0x1ff };

static int is_idle(const Call *call) {
    return asked_w(call->board, call->now_s) <= call->board->idle_w;
}

static int nvml_index(const Call *call) {
    for (int i = 0; i < call->state->board_count; i++)
        if (call->state->order[i] == call->handle->board)
            return i;
    return 0;
}

static u64 throttle_reasons(const Call *call) {
    u64 reasons = call->board->throttle_reasons;
    if (is_idle(call))
        reasons |= REASON_IDLE;
    else if (1000.0 * asked_w(call->board, call->now_s) > enforced_mw(call->board, call->now_s))
        reasons |= REASON_POWER_CAP;
    return reasons;
}

static u32 usage_mw(const Call *call) {
    if (call->board->usage_is_average)
        return average_mw(call->board, call->now_s, 0.0);
    return instant_mw(call->board, call->now_s, 0.0);
}

NUMBER(nvmlDeviceGetMinorNumber, u32, call.handle->board)
NUMBER(nvmlDeviceGetIndex, u32, nvml_index(&call))
NUMBER(nvmlDeviceGetBrand, u32, call.board->brand)
NUMBER(nvmlDeviceGetArchitecture, u32, call.board->architecture)
NUMBER(nvmlDeviceGetPowerUsage, u32, usage_mw(&call))
NUMBER(nvmlDeviceGetTotalEnergyConsumption, u64, counter_mj(call.board, call.now_s))
NUMBER(nvmlDeviceGetPowerManagementLimit, u32, call.board->limit_requested_mw)
NUMBER(nvmlDeviceGetPowerManagementDefaultLimit, u32, call.board->limit_default_mw)
NUMBER(nvmlDeviceGetEnforcedPowerLimit, u32, enforced_mw(call.board, call.now_s))
NUMBER(nvmlDeviceGetPersistenceMode, u32, call.board->persistence)
NUMBER(nvmlDeviceGetCurrentClocksThrottleReasons, u64, throttle_reasons(&call))
NUMBER(nvmlDeviceGetCurrentClocksEventReasons, u64, throttle_reasons(&call))
NUMBER(nvmlDeviceGetSupportedClocksThrottleReasons, u64, REASONS_ALL)
NUMBER(nvmlDeviceGetSupportedClocksEventReasons, u64, REASONS_ALL)
NUMBER(nvmlDeviceGetPerformanceState, u32, is_idle(&call) ? 8 : 0)

EXPORT nvmlReturn_t nvmlDeviceGetCudaComputeCapability(nvmlDevice_t device, int *major,
                                                       int *minor) {
    Call call;
    nvmlReturn_t code = begin_any(&call, F_nvmlDeviceGetCudaComputeCapability, device);
    if (!code) {
        *major = (int)call.board->capability_major;
        *minor = (int)call.board->capability_minor;
    }
    return end(&call, code);
}

typedef struct {
    u64 total, free, used;
} Memory;

typedef struct {
    u32 version;
    u64 total, reserved, free, used;
} Memory2;

EXPORT nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, Memory *memory) {
    Call call;
    nvmlReturn_t code = begin_any(&call, F_nvmlDeviceGetMemoryInfo, device);
    if (!code) {
        u64 total = call.board->memory_bytes, used = call.board->memory_used_bytes;
        *memory = (Memory){total, total - used, used};
    }
    return end(&call, code);
}

EXPORT nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device, Memory2 *memory) {
    Call call;
    nvmlReturn_t code = begin_any(&call, F_nvmlDeviceGetMemoryInfo_v2, device);
    if (!code && memory->version != (sizeof *memory | 2u << 24))
        code = NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    if (!code) {
        u64 total = call.board->memory_bytes, used = call.board->memory_used_bytes;
        *memory = (Memory2){memory->version, total, 0, total - used, used};
    }
    return end(&call, code);
}

EXPORT nvmlReturn_t nvmlDeviceGetPowerManagementLimitConstraints(nvmlDevice_t device, u32 *low,
                                                                 u32 *high) {
    Call call;
    nvmlReturn_t code = begin(&call, F_nvmlDeviceGetPowerManagementLimitConstraints, device);
    if (!code) {
        *low = call.board->limit_min_mw;
        *high = call.board->limit_max_mw;
    }
    return end(&call, code);
}

/* Copy a list as NVML does: its size goes back where there is no room for it. */
static nvmlReturn_t copy_list(u32 *count, u32 *to, const u32 *from, int size) {
    u32 room = *count;
    *count = (u32)size;
    if (size == 0)
        return NVML_SUCCESS;
    if (!to || room < (u32)size)
        return NVML_ERROR_INSUFFICIENT_SIZE;
    memcpy(to, from, (size_t)size * sizeof *to);
    return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetSupportedMemoryClocks(nvmlDevice_t device, u32 *count,
                                                       u32 *clocks) {
    Call call;
    nvmlReturn_t code = begin(&call, F_nvmlDeviceGetSupportedMemoryClocks, device);
    if (!code)
        code = copy_list(count, clocks, call.board->memory_clocks_mhz,
                         call.board->memory_clock_count);
    return end(&call, code);
}

EXPORT nvmlReturn_t nvmlDeviceGetSupportedGraphicsClocks(nvmlDevice_t device, u32 memory_mhz,
                                                         u32 *count, u32 *clocks) {
    Call call;
    nvmlReturn_t code = begin(&call, F_nvmlDeviceGetSupportedGraphicsClocks, device);
    if (code)
        return end(&call, code);
    for (int i = 0; i < call.board->memory_clock_count; i++)
        if (call.board->memory_clocks_mhz[i] == memory_mhz)
            return end(&call, copy_list(count, clocks, call.board->graphics_clocks_mhz[i],
                                        call.board->graphics_clock_count[i]));
    return end(&call, NVML_ERROR_NOT_FOUND);
}

enum { CLOCK_MEMORY = 2, CLOCK_VIDEO = 3, CLOCK_CURRENT = 0, CLOCK_BOOST_MAX = 3 };

static nvmlReturn_t current_clock(const Call *call, u32 type, u32 *clock) {
    if (type > CLOCK_VIDEO)
        return NVML_ERROR_INVALID_ARGUMENT;
    *clock = type == CLOCK_MEMORY ? memory_clock_mhz(call->board, call->now_s)
                                  : sm_clock_mhz(call->board, call->now_s);
    return NVML_SUCCESS;
}

static nvmlReturn_t maximal_clock(const Call *call, u32 type, u32 *clock) {
    if (type > CLOCK_VIDEO)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (call->board->memory_clock_count == 0)
        return NVML_ERROR_NOT_SUPPORTED;
    *clock = type == CLOCK_MEMORY ? call->board->memory_clocks_mhz[0]
                                  : call->board->graphics_clocks_mhz[0][0];
    return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetClockInfo(nvmlDevice_t device, u32 type, u32 *clock) {
    Call call;
    nvmlReturn_t code = begin(&call, F_nvmlDeviceGetClockInfo, device);
    return end(&call, code ? code : current_clock(&call, type, clock));
}

EXPORT nvmlReturn_t nvmlDeviceGetMaxClockInfo(nvmlDevice_t device, u32 type, u32 *clock) {
    Call call;
    nvmlReturn_t code = begin(&call, F_nvmlDeviceGetMaxClockInfo, device);
    return end(&call, code ? code : maximal_clock(&call, type, clock));
}

EXPORT nvmlReturn_t nvmlDeviceGetClock(nvmlDevice_t device, u32 type, u32 id, u32 *clock) {
    Call call;
    nvmlReturn_t code = begin(&call, F_nvmlDeviceGetClock, device);
    if (!code && id == CLOCK_CURRENT)
        code = current_clock(&call, type, clock);
    else if (!code && id == CLOCK_BOOST_MAX)
        code = maximal_clock(&call, type, clock);
    else if (!code)
        code = NVML_ERROR_NOT_SUPPORTED;
    return end(&call, code);
}

EXPORT nvmlReturn_t nvmlDeviceGetTemperature(nvmlDevice_t device, u32 sensor, u32 *celsius) {
    Call call;
    nvmlReturn_t code = begin(&call, F_nvmlDeviceGetTemperature, device);
    if (!code && sensor != 0)
        code = NVML_ERROR_INVALID_ARGUMENT;
    if (!code)
        *celsius = (u32)call.board->temperature_c;
    return end(&call, code);
}

typedef struct {
    u32 version, sensor;
    int celsius;
} Temperature;

EXPORT nvmlReturn_t nvmlDeviceGetTemperatureV(nvmlDevice_t device, Temperature *temperature) {
    Call call;
    nvmlReturn_t code = begin(&call, F_nvmlDeviceGetTemperatureV, device);
    if (!code && temperature->version != (sizeof *temperature | 1u << 24))
        code = NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    else if (!code && temperature->sensor != 0)
        code = NVML_ERROR_INVALID_ARGUMENT;
    if (!code)
        temperature->celsius = call.board->temperature_c;
    return end(&call, code);
}

typedef struct {
    u32 gpu, memory;
} Utilisation;

EXPORT nvmlReturn_t nvmlDeviceGetUtilizationRates(nvmlDevice_t device, Utilisation *rates) {
    Call call;
    nvmlReturn_t code = begin(&call, F_nvmlDeviceGetUtilizationRates, device);
    if (!code && call.board->instances > 0) /* no such number where the board is shared out */
        code = NVML_ERROR_NOT_SUPPORTED;
    if (!code) {
        int given = call.board->utilisation_percent;
        u32 gpu = given >= 0 ? (u32)given : is_idle(&call) ? 0 : 100;
        *rates = (Utilisation){gpu, gpu / 2};
    }
    return end(&call, code);
}

typedef struct {
    u32 pid;
    u64 memory_bytes;
    u32 gpu_instance, compute_instance;
} Process;

static nvmlReturn_t processes(int function, nvmlDevice_t device, u32 *count, Process *to) {
    Call call;
    nvmlReturn_t code = begin_any(&call, function, device);
    if (code)
        return end(&call, code);
    u32 room = *count, size = (u32)call.board->process_count;
    *count = size;
    if (size > 0 && (!to || room < size))
        return end(&call, NVML_ERROR_INSUFFICIENT_SIZE);
    for (u32 i = 0; i < size; i++)
        to[i] = (Process){(u32)call.board->processes[i],
                          call.board->memory_used_bytes / size, UINT32_MAX, UINT32_MAX};
    return end(&call, NVML_SUCCESS);
}

EXPORT nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v2(nvmlDevice_t device, u32 *count,
                                                            Process *to) {
    return processes(F_nvmlDeviceGetComputeRunningProcesses_v2, device, count, to);
}

EXPORT nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t device, u32 *count,
                                                            Process *to) {
    return processes(F_nvmlDeviceGetComputeRunningProcesses_v3, device, count, to);
}

EXPORT nvmlReturn_t nvmlDeviceGetGraphicsRunningProcesses_v3(nvmlDevice_t device, u32 *count,
                                                             Process *to) {
    Call call;
    (void)to;
    nvmlReturn_t code = begin_any(&call, F_nvmlDeviceGetGraphicsRunningProcesses_v3, device);
    if (!code)
        *count = 0;
    return end(&call, code);
}
