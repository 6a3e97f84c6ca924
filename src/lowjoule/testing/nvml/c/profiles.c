/* Workload power profiles: masks of profiles that a board has, was asked for, and enforces. */
#include <string.h>

#include "fake.h"

enum { PROFILES = 255 };

typedef struct {
    u32 bits[8];
} Mask;

typedef struct {
    u32 version, id, priority;
    Mask conflicts;
} Profile;

typedef struct {
    u32 version;
    Mask available;
    Profile profiles[PROFILES];
} ProfilesInfo;

typedef struct {
    u32 version;
    Mask available, requested, enforced;
} CurrentProfiles;

typedef struct {
    u32 version;
    Mask requested;
} RequestedProfiles;

static nvmlReturn_t check(const Call *call, u32 version, size_t size) {
    static const u32 none[8];
    if (!memcmp(call->board->profiles, none, sizeof none))
        return NVML_ERROR_NOT_SUPPORTED;
    return version == (size | 1u << 24) ? NVML_SUCCESS : NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
}

static int has(const u32 *bits, int id) {
    return bits[id / 32] >> (id % 32) & 1;
}

/* Each profile conflicts with all others, and the one of the lowest number wins. */
static void describe(const Board *board, int id, Profile *profile) {
    profile->version = sizeof *profile | 1u << 24;
    profile->id = (u32)id;
    profile->priority = (u32)id;
    memcpy(profile->conflicts.bits, board->profiles, sizeof board->profiles);
    profile->conflicts.bits[id / 32] &= ~(1u << (id % 32));
}

EXPORT nvmlReturn_t nvmlDeviceWorkloadPowerProfileGetProfilesInfo(nvmlDevice_t device,
                                                                  ProfilesInfo *info) {
    Call call;
    nvmlReturn_t code = begin(&call, F_nvmlDeviceWorkloadPowerProfileGetProfilesInfo, device);
    if (!code)
        code = check(&call, info->version, sizeof *info);
    if (!code) {
        memcpy(info->available.bits, call.board->profiles, sizeof call.board->profiles);
        for (int id = 0; id < PROFILES; id++)
            if (has(call.board->profiles, id))
                describe(call.board, id, &info->profiles[id]);
    }
    return end(&call, code);
}

EXPORT nvmlReturn_t nvmlDeviceWorkloadPowerProfileGetCurrentProfiles(nvmlDevice_t device,
                                                                     CurrentProfiles *current) {
    Call call;
    nvmlReturn_t code = begin(&call, F_nvmlDeviceWorkloadPowerProfileGetCurrentProfiles, device);
    if (!code)
        code = check(&call, current->version, sizeof *current);
    if (code)
        return end(&call, code);
    const u32 *requested = call.board->profiles_requested;
    memcpy(current->available.bits, call.board->profiles, sizeof call.board->profiles);
    memcpy(current->requested.bits, requested, sizeof call.board->profiles_requested);
    memset(&current->enforced, 0, sizeof current->enforced);
    for (int id = 0; id < PROFILES; id++)
        if (has(requested, id)) {
            current->enforced.bits[id / 32] |= 1u << (id % 32);
            break;
        }
    return end(&call, code);
}

static nvmlReturn_t change(int function, nvmlDevice_t device, const RequestedProfiles *wanted) {
    Call call;
    int adds = function == F_nvmlDeviceWorkloadPowerProfileSetRequestedProfiles;
    nvmlReturn_t code = begin(&call, function, device);
    if (!code)
        code = check(&call, wanted->version, sizeof *wanted);
    for (int i = 0; !code && i < 8; i++)
        if (wanted->requested.bits[i] & ~call.board->profiles[i])
            code = NVML_ERROR_INVALID_ARGUMENT;
    for (int i = 0; !code && !call.rule->lies && i < 8; i++) {
        u32 *bits = &call.board->profiles_requested[i];
        *bits = adds ? *bits | wanted->requested.bits[i] : *bits & ~wanted->requested.bits[i];
    }
    return end_write(&call, code, wanted->requested.bits[0], wanted->requested.bits[1]);
}

EXPORT nvmlReturn_t nvmlDeviceWorkloadPowerProfileSetRequestedProfiles(
    nvmlDevice_t device, RequestedProfiles *wanted) {
    return change(F_nvmlDeviceWorkloadPowerProfileSetRequestedProfiles, device, wanted);
}

EXPORT nvmlReturn_t nvmlDeviceWorkloadPowerProfileClearRequestedProfiles(
    nvmlDevice_t device, RequestedProfiles *wanted) {
    return change(F_nvmlDeviceWorkloadPowerProfileClearRequestedProfiles, device, wanted);
}
