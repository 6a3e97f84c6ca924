/* What the files of the library share: NVML's types, and how a call begins and ends. */
#ifndef LOWJOULE_FAKE_H
#define LOWJOULE_FAKE_H

#include <stddef.h>

#include "functions.h"
#include "state.h"

#define EXPORT __attribute__((visibility("default")))

enum {
    NVML_SUCCESS = 0,
    NVML_ERROR_UNINITIALIZED = 1,
    NVML_ERROR_INVALID_ARGUMENT = 2,
    NVML_ERROR_NOT_SUPPORTED = 3,
    NVML_ERROR_NOT_FOUND = 6,
    NVML_ERROR_INSUFFICIENT_SIZE = 7,
    NVML_ERROR_DRIVER_NOT_LOADED = 9,
    NVML_ERROR_LIB_RM_VERSION_MISMATCH = 18,
    NVML_ERROR_ARGUMENT_VERSION_MISMATCH = 25,
};

typedef int nvmlReturn_t;
typedef unsigned int u32;
typedef unsigned long long u64;

/* A handle: a board, or an instance of it. */
typedef struct {
    int board;
    int instance; /* -1: the board itself */
} Handle;
typedef Handle *nvmlDevice_t;

enum {
#define X(name) F_##name,
    FUNCTIONS(X)
#undef X
    FUNCTION_COUNT
};

/* A call in progress. It holds the lock from `begin` to `end`, where `state` is set. */
typedef struct {
    State *state;
    Board *board;
    const Handle *handle;
    Rule *rule;
    int function;
    double now_s;
} Call;

/* state.c */
nvmlReturn_t begin_system(Call *call, int function);
nvmlReturn_t begin_any(Call *call, int function, nvmlDevice_t device); /* MIG instances as well */
nvmlReturn_t begin(Call *call, int function, nvmlDevice_t device);
nvmlReturn_t end(Call *call, nvmlReturn_t code);
nvmlReturn_t end_write(Call *call, nvmlReturn_t code, int64_t first, int64_t second);
nvmlDevice_t handle_of(int board, int instance);
nvmlReturn_t copy_text(char *to, u32 size, const char *text);

/* physics.c */
int epoch_at(const Board *board, double time_s);
int epoch_from(Board *board, double time_s);
double energy_j(Board *board, double time_s);
double asked_w(const Board *board, double time_s); /* by the load, whatever is in force */
double power_w(const Board *board, double time_s);
u32 enforced_mw(const Board *board, double time_s);
u32 sm_clock_mhz(const Board *board, double time_s);
u32 memory_clock_mhz(const Board *board, double time_s);
u32 clock_at_most(const u32 *clocks, int count, u32 wanted);
void revert(Board *board, double time_s);

/* sensors.c */
u64 counter_mj(Board *board, double time_s);
u32 instant_mw(Board *board, double time_s, double extra_w);
u32 average_mw(Board *board, double time_s, double extra_w);
u32 constant_mw(const Board *board, double true_w); /* what a sensor makes of it */

#endif
