/* nvmlDeviceGetFieldValues: several numbers in one call, each with a return code of its own. */
#include <time.h>

#include "fake.h"

enum {
    FIELD_COUNTER = 83,
    FIELD_POWER_AVERAGE = 185,
    FIELD_POWER_INSTANT = 186,
    FIELD_LIMIT_MIN = 187,
    FIELD_LIMIT_MAX = 188,
    FIELD_LIMIT_DEFAULT = 189,
    FIELD_LIMIT_CURRENT = 190,
    FIELD_ENERGY = 191,
    FIELD_LIMIT_REQUESTED = 192,
    FIELD_SMOOTHING = 251,
};

enum { SCOPE_GPU = 0, SCOPE_MODULE = 1, SCOPE_MEMORY = 2 };

enum { TYPE_DOUBLE, TYPE_UINT, TYPE_ULONG, TYPE_ULONGLONG, TYPE_LONGLONG, TYPE_INT, TYPE_USHORT };

typedef struct {
    uint32_t field, scope;
    int64_t timestamp, latency_us;
    u32 type;
    nvmlReturn_t code;
    union {
        double number;
        u32 small;
        u64 large;
        long long whole;
        int little;
        unsigned short tiny;
    } value;
} Field;

static void put(Field *field, u64 value, u32 type) {
    field->type = type;
    field->value.large = 0;
    switch (type) {
    case TYPE_DOUBLE: field->value.number = (double)value; break;
    case TYPE_UINT: field->value.small = (u32)value; break;
    case TYPE_LONGLONG: field->value.whole = (long long)value; break;
    case TYPE_INT: field->value.little = (int)value; break;
    case TYPE_USHORT: field->value.tiny = (unsigned short)value; break;
    default: field->value.large = value;
    }
}

static nvmlReturn_t power(const Call *call, const Field *field, u64 *value) {
    Board *board = call->board;
    double extra_w = 0.0;
    if (field->scope == SCOPE_MEMORY && board->memory_w >= 0.0) {
        *value = constant_mw(board, board->memory_w);
        return NVML_SUCCESS;
    }
    if (field->scope == SCOPE_MODULE && board->module_w >= 0.0)
        extra_w = board->module_w;
    else if (field->scope != SCOPE_GPU)
        return NVML_ERROR_NOT_SUPPORTED;
    *value = field->field == FIELD_POWER_AVERAGE ? average_mw(board, call->now_s, extra_w)
                                                 : instant_mw(board, call->now_s, extra_w);
    return NVML_SUCCESS;
}

/* The counter is of the module where there is one, else of the GPU. */
static nvmlReturn_t energy(const Call *call, const Field *field, u64 *value) {
    uint32_t own = call->board->module_w >= 0.0 ? SCOPE_MODULE : SCOPE_GPU;
    if (field->field == FIELD_ENERGY && field->scope != own)
        return NVML_ERROR_NOT_SUPPORTED;
    *value = counter_mj(call->board, call->now_s);
    return NVML_SUCCESS;
}

static nvmlReturn_t module_limit(const Call *call, const Field *field, u64 *value) {
    const Board *board = call->board;
    switch (field->field) {
    case FIELD_LIMIT_MIN: *value = board->module_limit_min_mw; break;
    case FIELD_LIMIT_MAX: *value = board->module_limit_max_mw; break;
    case FIELD_LIMIT_DEFAULT: *value = board->module_limit_default_mw; break;
    case FIELD_LIMIT_CURRENT:
        *value = board->epoch[epoch_at(board, call->now_s)].module_limit_mw;
        break;
    default: *value = board->module_limit_requested_mw;
    }
    return NVML_SUCCESS;
}

static nvmlReturn_t smoothing(const Call *call, u64 *value) {
    if (call->board->power_smoothing < 0)
        return NVML_ERROR_NOT_SUPPORTED;
    *value = (u64)call->board->power_smoothing;
    return NVML_SUCCESS;
}

static nvmlReturn_t limit(const Call *call, const Field *field, u64 *value) {
    if (field->scope == SCOPE_MODULE && call->board->module_limit_max_mw)
        return module_limit(call, field, value);
    if (field->scope != SCOPE_GPU)
        return NVML_ERROR_NOT_SUPPORTED;
    switch (field->field) {
    case FIELD_LIMIT_MIN: *value = call->board->limit_min_mw; break;
    case FIELD_LIMIT_MAX: *value = call->board->limit_max_mw; break;
    case FIELD_LIMIT_DEFAULT: *value = call->board->limit_default_mw; break;
    case FIELD_LIMIT_CURRENT: *value = enforced_mw(call->board, call->now_s); break;
    default: *value = call->board->limit_requested_mw;
    }
    return NVML_SUCCESS;
}

static nvmlReturn_t find(const Call *call, const Field *field, u64 *value, u32 *type) {
    switch (field->field) {
    case FIELD_COUNTER:
    case FIELD_ENERGY: *type = TYPE_ULONGLONG; return energy(call, field, value);
    case FIELD_POWER_AVERAGE:
    case FIELD_POWER_INSTANT: *type = TYPE_UINT; return power(call, field, value);
    case FIELD_LIMIT_MIN:
    case FIELD_LIMIT_MAX:
    case FIELD_LIMIT_DEFAULT:
    case FIELD_LIMIT_CURRENT:
    case FIELD_LIMIT_REQUESTED: *type = TYPE_UINT; return limit(call, field, value);
    case FIELD_SMOOTHING: *type = TYPE_UINT; return smoothing(call, value);
    default: return NVML_ERROR_NOT_SUPPORTED;
    }
}

static const FieldRule *rule_of(const Board *board, const Field *field) {
    for (int i = 0; i < MAX_FIELD_RULES; i++) {
        const FieldRule *rule = &board->field_rules[i];
        if (rule->field == field->field && (rule->scope < 0 || (u32)rule->scope == field->scope))
            return rule;
    }
    return NULL;
}

static int64_t stamp_us(const Call *call) {
    struct timespec now;
    if (call->state->is_virtual)
        return (int64_t)(call->now_s * 1e6);
    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

static void fill(const Call *call, Field *field) {
    u64 value = 0;
    u32 type = TYPE_UINT;
    const FieldRule *rule = rule_of(call->board, field);
    field->timestamp = stamp_us(call);
    field->latency_us = 0;
    field->code = rule && rule->code ? rule->code : find(call, field, &value, &type);
    if (rule && rule->value_type >= 0)
        type = (u32)rule->value_type;
    put(field, field->code ? 0 : value, type);
}

EXPORT nvmlReturn_t nvmlDeviceGetFieldValues(nvmlDevice_t device, int count, Field *fields) {
    Call call;
    nvmlReturn_t code = begin(&call, F_nvmlDeviceGetFieldValues, device);
    if (!code && (count < 0 || !fields))
        code = NVML_ERROR_INVALID_ARGUMENT;
    for (int i = 0; !code && i < count; i++)
        fill(&call, &fields[i]);
    return end(&call, code);
}
