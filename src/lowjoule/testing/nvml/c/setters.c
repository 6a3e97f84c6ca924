/* Functions that write; every call is logged, whatever becomes of it. */
#include <string.h>

#include "fake.h"

enum { LIMIT_ID_FIRST = 0xffffff00, LIMIT_ID_TDP, LIMIT_ID_UNLIMITED };

static double clamped(const Call *call, double value) {
    if (!call->rule->clamps)
        return value;
    if (value < call->rule->clamp_low)
        return call->rule->clamp_low;
    return value > call->rule->clamp_high ? call->rule->clamp_high : value;
}

static nvmlReturn_t set_limit(Call *call, u32 limit_mw) {
    Board *board = call->board;
    limit_mw = (u32)clamped(call, limit_mw);
    if (limit_mw < board->limit_min_mw || limit_mw > board->limit_max_mw)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (call->rule->lies)
        return NVML_SUCCESS;
    board->limit_requested_mw = limit_mw;
    for (int i = epoch_from(board, call->now_s + call->rule->latency_s); i < board->epochs; i++)
        board->epoch[i].limit_mw = limit_mw;
    return NVML_SUCCESS;
}

static nvmlReturn_t set_module_limit(Call *call, u32 limit_mw) {
    Board *board = call->board;
    if (!board->module_limit_max_mw)
        return NVML_ERROR_NOT_SUPPORTED;
    limit_mw = (u32)clamped(call, limit_mw);
    if (limit_mw < board->module_limit_min_mw || limit_mw > board->module_limit_max_mw)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (call->rule->lies)
        return NVML_SUCCESS;
    board->module_limit_requested_mw = limit_mw;
    for (int i = epoch_from(board, call->now_s + call->rule->latency_s); i < board->epochs; i++)
        board->epoch[i].module_limit_mw = limit_mw;
    return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceSetPowerManagementLimit(nvmlDevice_t device, u32 limit_mw) {
    Call call;
    nvmlReturn_t code = begin(&call, F_nvmlDeviceSetPowerManagementLimit, device);
    return end_write(&call, code ? code : set_limit(&call, limit_mw), limit_mw, 0);
}

typedef struct {
    u32 version, scope, limit_mw;
} ScopedLimit;

EXPORT nvmlReturn_t nvmlDeviceSetPowerManagementLimit_v2(nvmlDevice_t device,
                                                         ScopedLimit *limit) {
    Call call;
    nvmlReturn_t code = begin(&call, F_nvmlDeviceSetPowerManagementLimit_v2, device);
    if (!code && limit->version != (sizeof *limit | 2u << 24))
        code = NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    else if (!code && limit->scope > 1)
        code = NVML_ERROR_NOT_SUPPORTED;
    if (!code)
        code = limit->scope ? set_module_limit(&call, limit->limit_mw)
                            : set_limit(&call, limit->limit_mw);
    return end_write(&call, code, limit->limit_mw, limit->scope);
}

static int is_symbol(u32 clock_mhz) {
    return clock_mhz > LIMIT_ID_FIRST && clock_mhz <= LIMIT_ID_UNLIMITED;
}

/* Turn symbols into clocks, or refuse. */
static nvmlReturn_t understand(u32 *low, u32 *high, u32 fastest) {
    if (is_symbol(*low) != is_symbol(*high))
        return NVML_ERROR_INVALID_ARGUMENT;
    if (is_symbol(*low))
        *low = *high = fastest;
    return *low > *high || *high == 0 ? NVML_ERROR_INVALID_ARGUMENT : NVML_SUCCESS;
}

static nvmlReturn_t check_lock(const Call *call, u32 *low, u32 *high, u32 fastest) {
    if (call->board->memory_clock_count == 0)
        return NVML_ERROR_NOT_SUPPORTED;
    nvmlReturn_t code = understand(low, high, fastest);
    *low = (u32)clamped(call, *low);
    *high = (u32)clamped(call, *high);
    return code;
}

static void lock_sm(Call *call, u32 low, u32 high) {
    Board *board = call->board;
    if (call->rule->lies)
        return;
    for (int i = epoch_from(board, call->now_s + call->rule->latency_s); i < board->epochs; i++) {
        board->epoch[i].sm_min_mhz = low;
        board->epoch[i].sm_max_mhz = high;
    }
}

static void lock_memory(Call *call, u32 low, u32 high) {
    Board *board = call->board;
    if (call->rule->lies)
        return;
    for (int i = epoch_from(board, call->now_s + call->rule->latency_s); i < board->epochs; i++) {
        board->epoch[i].memory_min_mhz = low;
        board->epoch[i].memory_max_mhz = high;
    }
}

EXPORT nvmlReturn_t nvmlDeviceSetGpuLockedClocks(nvmlDevice_t device, u32 low, u32 high) {
    Call call;
    u32 least = low, most = high;
    nvmlReturn_t code = begin(&call, F_nvmlDeviceSetGpuLockedClocks, device);
    if (!code)
        code = check_lock(&call, &least, &most, call.board->graphics_clocks_mhz[0][0]);
    if (!code)
        lock_sm(&call, least, most);
    return end_write(&call, code, low, high);
}

EXPORT nvmlReturn_t nvmlDeviceResetGpuLockedClocks(nvmlDevice_t device) {
    Call call;
    nvmlReturn_t code = begin(&call, F_nvmlDeviceResetGpuLockedClocks, device);
    if (!code)
        lock_sm(&call, 0, 0);
    return end_write(&call, code, 0, 0);
}

EXPORT nvmlReturn_t nvmlDeviceSetMemoryLockedClocks(nvmlDevice_t device, u32 low, u32 high) {
    Call call;
    u32 least = low, most = high;
    nvmlReturn_t code = begin(&call, F_nvmlDeviceSetMemoryLockedClocks, device);
    if (!code)
        code = check_lock(&call, &least, &most, call.board->memory_clocks_mhz[0]);
    if (!code)
        lock_memory(&call, least, most);
    return end_write(&call, code, low, high);
}

EXPORT nvmlReturn_t nvmlDeviceResetMemoryLockedClocks(nvmlDevice_t device) {
    Call call;
    nvmlReturn_t code = begin(&call, F_nvmlDeviceResetMemoryLockedClocks, device);
    if (!code)
        lock_memory(&call, 0, 0);
    return end_write(&call, code, 0, 0);
}

EXPORT nvmlReturn_t nvmlDeviceSetPersistenceMode(nvmlDevice_t device, u32 mode) {
    Call call;
    nvmlReturn_t code = begin(&call, F_nvmlDeviceSetPersistenceMode, device);
    if (!code && mode > 1)
        code = NVML_ERROR_INVALID_ARGUMENT;
    if (!code && !call.rule->lies)
        call.board->persistence = (int32_t)mode;
    return end_write(&call, code, mode, 0);
}
