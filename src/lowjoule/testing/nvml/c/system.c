/* Functions of the library and of the system, and the ways to a board. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "fake.h"

EXPORT const char *nvmlErrorString(nvmlReturn_t code) {
    static __thread char text[64];
    snprintf(text, sizeof text, "fake NVML: return code %d", code);
    return text;
}

EXPORT nvmlReturn_t nvmlSystemGetDriverVersion(char *version, u32 length) {
    Call call;
    nvmlReturn_t code = begin_system(&call, F_nvmlSystemGetDriverVersion);
    return end(&call, code ? code : copy_text(version, length, call.state->driver_version));
}

EXPORT nvmlReturn_t nvmlSystemGetNVMLVersion(char *version, u32 length) {
    Call call;
    nvmlReturn_t code = begin_system(&call, F_nvmlSystemGetNVMLVersion);
    return end(&call, code ? code : copy_text(version, length, call.state->nvml_version));
}

static nvmlReturn_t cuda_version(int function, int *version) {
    Call call;
    nvmlReturn_t code = begin_system(&call, function);
    if (!code)
        *version = call.state->cuda_version;
    return end(&call, code);
}

EXPORT nvmlReturn_t nvmlSystemGetCudaDriverVersion(int *version) {
    return cuda_version(F_nvmlSystemGetCudaDriverVersion, version);
}

EXPORT nvmlReturn_t nvmlSystemGetCudaDriverVersion_v2(int *version) {
    return cuda_version(F_nvmlSystemGetCudaDriverVersion_v2, version);
}

EXPORT nvmlReturn_t nvmlDeviceGetCount_v2(u32 *count) {
    Call call;
    nvmlReturn_t code = begin_system(&call, F_nvmlDeviceGetCount_v2);
    if (!code)
        *count = (u32)call.state->board_count;
    return end(&call, code);
}

EXPORT nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(u32 index, nvmlDevice_t *device) {
    Call call;
    nvmlReturn_t code = begin_system(&call, F_nvmlDeviceGetHandleByIndex_v2);
    if (!code && (int64_t)index >= call.state->board_count)
        code = NVML_ERROR_INVALID_ARGUMENT;
    if (!code)
        *device = handle_of(call.state->order[index], -1);
    return end(&call, code);
}

/* Write the UUID of an instance, made from its board's. */
static void instance_uuid(const Board *board, int instance, char text[128]) {
    const char *dash = strchr(board->uuid, '-');
    snprintf(text, 128, "MIG-%s-%d", dash ? dash + 1 : board->uuid, instance);
}

static nvmlReturn_t find_uuid(const State *state, const char *uuid, nvmlDevice_t *device) {
    char text[128];
    for (int i = 0; i < state->board_count; i++) {
        const Board *board = &state->boards[i];
        if (!strcmp(board->uuid, uuid)) {
            *device = handle_of(i, -1);
            return NVML_SUCCESS;
        }
        for (int instance = 0; instance < board->instances; instance++) {
            instance_uuid(board, instance, text);
            if (!strcmp(text, uuid)) {
                *device = handle_of(i, instance);
                return NVML_SUCCESS;
            }
        }
    }
    return NVML_ERROR_NOT_FOUND;
}

EXPORT nvmlReturn_t nvmlDeviceGetHandleByUUID(const char *uuid, nvmlDevice_t *device) {
    Call call;
    nvmlReturn_t code = begin_system(&call, F_nvmlDeviceGetHandleByUUID);
    if (!code)
        code = uuid ? find_uuid(call.state, uuid, device) : NVML_ERROR_INVALID_ARGUMENT;
    return end(&call, code);
}

typedef struct {
    unsigned domain, bus, device, function;
} Place;

static int place_of(const char *text, Place *place) {
    *place = (Place){0, 0, 0, 0};
    if (sscanf(text, "%x:%x:%x.%x", &place->domain, &place->bus, &place->device,
               &place->function) >= 3)
        return 1;
    place->domain = 0;
    return sscanf(text, "%x:%x.%x", &place->bus, &place->device, &place->function) >= 2;
}

static nvmlReturn_t find_place(const State *state, const char *text, nvmlDevice_t *device) {
    Place wanted, here;
    if (!text || !place_of(text, &wanted))
        return NVML_ERROR_INVALID_ARGUMENT;
    for (int i = 0; i < state->board_count; i++) {
        if (place_of(state->boards[i].pci_bus_id, &here) &&
            !memcmp(&here, &wanted, sizeof here)) {
            *device = handle_of(i, -1);
            return NVML_SUCCESS;
        }
    }
    return NVML_ERROR_NOT_FOUND;
}

EXPORT nvmlReturn_t nvmlDeviceGetHandleByPciBusId_v2(const char *id, nvmlDevice_t *device) {
    Call call;
    nvmlReturn_t code = begin_system(&call, F_nvmlDeviceGetHandleByPciBusId_v2);
    return end(&call, code ? code : find_place(call.state, id, device));
}

typedef struct {
    char legacy_bus_id[16];
    u32 domain, bus, device, device_id, subsystem_id;
    char bus_id[32];
} PciInfo;

EXPORT nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t device, PciInfo *info) {
    Call call;
    Place place;
    nvmlReturn_t code = begin(&call, F_nvmlDeviceGetPciInfo_v3, device);
    if (code)
        return end(&call, code);
    place_of(call.board->pci_bus_id, &place);
    memset(info, 0, sizeof *info);
    info->domain = place.domain;
    info->bus = place.bus;
    info->device = place.device;
    snprintf(info->bus_id, sizeof info->bus_id, "%s", call.board->pci_bus_id);
    snprintf(info->legacy_bus_id, sizeof info->legacy_bus_id, "%04X:%02X:%02X.%X",
             place.domain & 0xffff, place.bus & 0xff, place.device & 0xff, place.function & 0xf);
    return end(&call, code);
}

EXPORT nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t device, char *uuid, u32 length) {
    Call call;
    char text[128];
    nvmlReturn_t code = begin_any(&call, F_nvmlDeviceGetUUID, device);
    if (code)
        return end(&call, code);
    if (device->instance >= 0)
        instance_uuid(call.board, device->instance, text);
    else
        snprintf(text, sizeof text, "%s", call.board->uuid);
    return end(&call, copy_text(uuid, length, text));
}

EXPORT nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t device, char *name, u32 length) {
    Call call;
    char text[128];
    nvmlReturn_t code = begin_any(&call, F_nvmlDeviceGetName, device);
    if (code)
        return end(&call, code);
    snprintf(text, sizeof text, "%s%s", call.board->name, device->instance >= 0 ? " MIG" : "");
    return end(&call, copy_text(name, length, text));
}

EXPORT nvmlReturn_t nvmlDeviceGetSerial(nvmlDevice_t device, char *serial, u32 length) {
    Call call;
    nvmlReturn_t code = begin(&call, F_nvmlDeviceGetSerial, device);
    return end(&call, code ? code : copy_text(serial, length, call.board->serial));
}

EXPORT nvmlReturn_t nvmlDeviceGetMigMode(nvmlDevice_t device, u32 *current, u32 *pending) {
    Call call;
    nvmlReturn_t code = begin(&call, F_nvmlDeviceGetMigMode, device);
    if (!code)
        *current = *pending = call.board->instances > 0;
    return end(&call, code);
}

EXPORT nvmlReturn_t nvmlDeviceGetMaxMigDeviceCount(nvmlDevice_t device, u32 *count) {
    Call call;
    nvmlReturn_t code = begin(&call, F_nvmlDeviceGetMaxMigDeviceCount, device);
    if (!code)
        *count = call.board->instances ? MAX_INSTANCES : 0;
    return end(&call, code);
}

EXPORT nvmlReturn_t nvmlDeviceGetMigDeviceHandleByIndex(nvmlDevice_t device, u32 index,
                                                        nvmlDevice_t *instance) {
    Call call;
    nvmlReturn_t code = begin(&call, F_nvmlDeviceGetMigDeviceHandleByIndex, device);
    if (!code && index >= MAX_INSTANCES)
        code = NVML_ERROR_INVALID_ARGUMENT;
    else if (!code && (int64_t)index >= call.board->instances)
        code = NVML_ERROR_NOT_FOUND;
    if (!code)
        *instance = handle_of(device->board, (int)index);
    return end(&call, code);
}

EXPORT nvmlReturn_t nvmlDeviceGetDeviceHandleFromMigDeviceHandle(nvmlDevice_t instance,
                                                                 nvmlDevice_t *device) {
    Call call;
    nvmlReturn_t code =
        begin_any(&call, F_nvmlDeviceGetDeviceHandleFromMigDeviceHandle, instance);
    if (!code && instance->instance < 0)
        code = NVML_ERROR_INVALID_ARGUMENT;
    if (!code)
        *device = handle_of(instance->board, -1);
    return end(&call, code);
}

EXPORT nvmlReturn_t nvmlDeviceIsMigDeviceHandle(nvmlDevice_t device, u32 *is_instance) {
    Call call;
    nvmlReturn_t code = begin_any(&call, F_nvmlDeviceIsMigDeviceHandle, device);
    if (!code)
        *is_instance = device->instance >= 0;
    return end(&call, code);
}

static nvmlReturn_t instance_id(int function, nvmlDevice_t device, u32 *id, int is_compute) {
    Call call;
    nvmlReturn_t code = begin_any(&call, function, device);
    if (!code && device->instance < 0)
        code = NVML_ERROR_NOT_SUPPORTED;
    if (!code) /* GPU instances are numbered from 1, each holds one compute instance */
        *id = is_compute ? 0 : (u32)device->instance + 1;
    return end(&call, code);
}

EXPORT nvmlReturn_t nvmlDeviceGetGpuInstanceId(nvmlDevice_t device, u32 *id) {
    return instance_id(F_nvmlDeviceGetGpuInstanceId, device, id, 0);
}

EXPORT nvmlReturn_t nvmlDeviceGetComputeInstanceId(nvmlDevice_t device, u32 *id) {
    return instance_id(F_nvmlDeviceGetComputeInstanceId, device, id, 1);
}
