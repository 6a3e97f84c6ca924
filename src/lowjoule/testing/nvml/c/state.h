/* The state that all processes share, mapped from one file; layout.py declares the same.
 *
 * Python creates and describes it; this library reads it, and writes only what a driver would:
 * settings, counts of calls and the log of writes. Every access holds the file's lock (flock, so
 * that it goes with a process that is killed).
 */
#ifndef LOWJOULE_FAKE_STATE_H
#define LOWJOULE_FAKE_STATE_H

#include <stdint.h>

#define FAKE_MAGIC 0x4c4a4e56u
#define FAKE_VERSION 2u

enum {
    MAX_BOARDS = 16,
    MAX_INSTANCES = 7,
    MAX_FUNCTIONS = 96,
    MAX_EPOCHS = 4096,
    MAX_POINTS = 16384,
    MAX_WRITES = 4096,
    MAX_CLIENTS = 64,
    MAX_FIELD_RULES = 32,
    MAX_PIDS = 32,
    MAX_MEMORY_CLOCKS = 8,
    MAX_GRAPHICS_CLOCKS = 256,
};

typedef struct {
    double time_s; /* since the load began */
    double power_w;
} Point;

/* What holds from begin_s on. One that begins in the future is a setting that takes effect late. */
typedef struct {
    double begin_s;
    double energy_j; /* true energy until begin_s, where `epochs_known` says so */
    double load_begin_s;
    double load_period_s; /* 0: does not repeat */
    int32_t load_first;
    int32_t load_count;
    uint32_t limit_mw;       /* the host's, in force */
    uint32_t other_limit_mw; /* another authority's */
    uint32_t sm_min_mhz;     /* 0, 0: not locked */
    uint32_t sm_max_mhz;
    uint32_t memory_min_mhz;
    uint32_t memory_max_mhz;
    uint32_t module_limit_mw; /* of the GPU and what is beside it on the module */
    uint32_t padding;
} Epoch;

/* How one function behaves. */
typedef struct {
    int32_t code; /* returned while left is not 0 */
    int32_t left; /* how often; -1: always */
    int32_t lies; /* succeeds and does nothing */
    int32_t clamps;
    double delay_s;
    double latency_s;
    double clamp_low; /* in the function's own unit */
    double clamp_high;
    uint64_t calls;
} Rule;

typedef struct {
    uint32_t field; /* 0: free */
    int32_t scope;  /* -1: any */
    int32_t code;
    int32_t value_type; /* -1: the usual one */
} FieldRule;

typedef struct {
    double time_s;
    int64_t first;
    int64_t second;
    int32_t function;
    int32_t board;
    int32_t pid;
    int32_t code;
} Write;

typedef struct {
    int32_t pid; /* 0: free */
    int32_t references;
} Client;

typedef struct {
    char uuid[96];
    char name[96];
    char pci_bus_id[32];
    char serial[32];
    uint32_t architecture;
    uint32_t brand;
    uint32_t capability_major;
    uint32_t capability_minor;
    uint64_t memory_bytes;
    uint64_t memory_used_bytes;
    uint32_t limit_min_mw;
    uint32_t limit_max_mw;
    uint32_t limit_default_mw;
    uint32_t limit_requested_mw;
    uint32_t module_limit_min_mw; /* 0: the module has no limit of its own */
    uint32_t module_limit_max_mw;
    uint32_t module_limit_default_mw;
    uint32_t module_limit_requested_mw;
    int32_t power_smoothing; /* -1: the board has none */
    int32_t spare;
    int32_t persistence;
    int32_t instances; /* MIG; 0: off */
    int32_t temperature_c;
    int32_t utilisation_percent; /* -1: follows the load */
    uint64_t throttle_reasons;   /* beside those that follow from the load */
    double idle_w;
    double tick_period_s; /* 0: the counter is continuous */
    double tick_phase_s;
    double tick_jitter_s;
    double sensor_period_s; /* 0: the sensor is continuous */
    double sensor_phase_s;
    double sensor_window_s; /* 0: a point */
    double average_window_s;
    double counter_gain;
    double power_gain;
    double module_w;       /* what the module draws beside the GPU; negative: no such scope */
    double memory_w;       /* negative: no such scope */
    double reset_s;        /* when the counter was last 0 */
    double reset_j;        /* true energy until then, if known for it is long ago */
    double frozen_s;       /* negative: not frozen */
    double counter_step_j; /* added to the counter */
    double power_reading_w; /* what every power reading says; negative: the truth */
    int32_t reset_known;
    int32_t usage_is_average;
    int32_t clock_scales_power;
    int32_t process_count;
    int32_t processes[MAX_PIDS];
    int32_t memory_clock_count;
    uint32_t memory_clocks_mhz[MAX_MEMORY_CLOCKS]; /* highest first, as all clocks */
    int32_t graphics_clock_count[MAX_MEMORY_CLOCKS];
    uint32_t graphics_clocks_mhz[MAX_MEMORY_CLOCKS][MAX_GRAPHICS_CLOCKS];
    uint32_t profiles[8]; /* workload power profiles, as masks */
    uint32_t profiles_requested[8];
    FieldRule field_rules[MAX_FIELD_RULES];
    Rule rules[MAX_FUNCTIONS];
    int32_t epochs;
    int32_t epochs_known;
    int32_t epochs_dropped;
    int32_t points;
    Epoch epoch[MAX_EPOCHS];
    Point point[MAX_POINTS];
} Board;

typedef struct {
    uint32_t magic;
    uint32_t version;
    uint64_t size;
    int32_t is_virtual;
    int32_t unloads; /* the driver is torn down with its last client, persistence off */
    int32_t fork_safe;
    int32_t board_count;
    int32_t order[MAX_BOARDS]; /* board by NVML index */
    double now_s;              /* virtual time */
    char driver_version[80];
    char nvml_version[80];
    int32_t cuda_version;
    int32_t padding;
    uint64_t writes;
    Write write[MAX_WRITES]; /* a ring */
    Client clients[MAX_CLIENTS];
    Rule rules[MAX_FUNCTIONS]; /* of the functions that belong to no board */
    Board boards[MAX_BOARDS];
} State;

#endif
