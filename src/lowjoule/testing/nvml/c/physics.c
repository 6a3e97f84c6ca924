/* What the boards draw: loads, limits and clocks in force, and the true energy. */
#include <math.h>
#include <string.h>

#include "fake.h"

int epoch_at(const Board *board, double time_s) {
    int low = 0, high = board->epochs; /* the last one that has begun, or the first */
    while (high - low > 1) {
        int middle = (low + high) / 2;
        if (board->epoch[middle].begin_s <= time_s)
            low = middle;
        else
            high = middle;
    }
    return low;
}

/* The lowest of the host's limit, another authority's, and what the module's leaves the GPU. */
static u32 cap_mw(const Board *board, const Epoch *epoch) {
    u32 limit_mw = epoch->limit_mw, beside_mw = (u32)(fmax(0.0, board->module_w) * 1000.0);
    if (epoch->other_limit_mw < limit_mw)
        limit_mw = epoch->other_limit_mw;
    if (board->module_limit_max_mw && epoch->module_limit_mw < limit_mw + beside_mw)
        limit_mw = epoch->module_limit_mw > beside_mw ? epoch->module_limit_mw - beside_mw : 0;
    return limit_mw;
}

static double cap_w(const Board *board, const Epoch *epoch) {
    return cap_mw(board, epoch) / 1000.0;
}

u32 clock_at_most(const u32 *clocks, int count, u32 wanted) {
    for (int i = 0; i < count; i++)
        if (clocks[i] <= wanted)
            return clocks[i];
    return count ? clocks[count - 1] : 0;
}

static u32 fastest_mhz(const Board *board) {
    return board->memory_clock_count ? board->graphics_clocks_mhz[0][0] : 0;
}

/* The clock that the lock alone allows under load. */
static u32 allowed_mhz(const Board *board, const Epoch *epoch) {
    u32 fastest = fastest_mhz(board);
    u32 wanted = epoch->sm_max_mhz && epoch->sm_max_mhz < fastest ? epoch->sm_max_mhz : fastest;
    return clock_at_most(board->graphics_clocks_mhz[0], board->graphics_clock_count[0], wanted);
}

/* What the board draws in `epoch` for a load of `load_w`. */
static double drawn_w(const Board *board, const Epoch *epoch, double load_w) {
    u32 fastest = fastest_mhz(board);
    if (board->clock_scales_power && fastest && load_w > board->idle_w)
        load_w = board->idle_w +
                 (load_w - board->idle_w) * allowed_mhz(board, epoch) / (double)fastest;
    return fmin(load_w, cap_w(board, epoch));
}

/* Energy of one pass of the load, from its begin to `time_s` into it. */
static double pass_j(const Board *board, const Epoch *epoch, double time_s) {
    const Point *points = board->point + epoch->load_first;
    double now_w = drawn_w(board, epoch, board->idle_w), sum_j = 0.0, from_s = 0.0;
    for (int i = 0; i < epoch->load_count && points[i].time_s < time_s; i++) {
        sum_j += now_w * (points[i].time_s - from_s);
        from_s = points[i].time_s;
        now_w = drawn_w(board, epoch, points[i].power_w);
    }
    return sum_j + now_w * (time_s - from_s);
}

/* Energy from the load's begin until `time_s`; negative before it. */
static double load_j(const Board *board, const Epoch *epoch, double time_s) {
    double into_s = time_s - epoch->load_begin_s, period_s = epoch->load_period_s;
    if (into_s < 0.0)
        return drawn_w(board, epoch, board->idle_w) * into_s;
    if (period_s <= 0.0)
        return pass_j(board, epoch, into_s);
    double passes = floor(into_s / period_s);
    double rest_s = fmax(0.0, into_s - passes * period_s);
    return passes * pass_j(board, epoch, period_s) + pass_j(board, epoch, rest_s);
}

static double span_j(const Board *board, const Epoch *epoch, double from_s, double to_s) {
    return load_j(board, epoch, to_s) - load_j(board, epoch, from_s);
}

/* Fill in the energies of all epochs up to `index`. */
static void know(Board *board, int index) {
    for (int i = board->epochs_known; i <= index; i++) {
        const Epoch *before = &board->epoch[i - 1];
        Epoch *epoch = &board->epoch[i];
        epoch->energy_j =
            before->energy_j + span_j(board, before, before->begin_s, epoch->begin_s);
    }
    if (board->epochs_known <= index)
        board->epochs_known = index + 1;
}

double energy_j(Board *board, double time_s) {
    int index = epoch_at(board, time_s);
    const Epoch *epoch = &board->epoch[index];
    know(board, index);
    if (time_s < epoch->begin_s) /* before all: it was idle */
        return epoch->energy_j - board->idle_w * (epoch->begin_s - time_s);
    return epoch->energy_j + span_j(board, epoch, epoch->begin_s, time_s);
}

double asked_w(const Board *board, double time_s) {
    const Epoch *epoch = &board->epoch[epoch_at(board, time_s)];
    const Point *points = board->point + epoch->load_first;
    double into_s = time_s - epoch->load_begin_s, wanted_w = board->idle_w;
    if (epoch->load_period_s > 0.0 && into_s >= 0.0)
        into_s = fmod(into_s, epoch->load_period_s);
    for (int i = 0; i < epoch->load_count && points[i].time_s <= into_s; i++)
        wanted_w = points[i].power_w;
    return wanted_w;
}

double power_w(const Board *board, double time_s) {
    return drawn_w(board, &board->epoch[epoch_at(board, time_s)], asked_w(board, time_s));
}

u32 enforced_mw(const Board *board, double time_s) {
    return cap_mw(board, &board->epoch[epoch_at(board, time_s)]);
}

u32 sm_clock_mhz(const Board *board, double time_s) {
    const Epoch *epoch = &board->epoch[epoch_at(board, time_s)];
    const u32 *clocks = board->graphics_clocks_mhz[0];
    int count = board->graphics_clock_count[0];
    double wanted_w = asked_w(board, time_s);
    if (wanted_w <= board->idle_w) {
        u32 slowest = count ? clocks[count - 1] : 0;
        return clock_at_most(clocks, count,
                             epoch->sm_min_mhz > slowest ? epoch->sm_min_mhz : slowest);
    }
    double clock = allowed_mhz(board, epoch);
    if (wanted_w > cap_w(board, epoch)) /* the limit overrides a lock */
        clock *= cap_w(board, epoch) / wanted_w;
    return clock_at_most(clocks, count, (u32)clock);
}

u32 memory_clock_mhz(const Board *board, double time_s) {
    const Epoch *epoch = &board->epoch[epoch_at(board, time_s)];
    u32 wanted = epoch->memory_max_mhz ? epoch->memory_max_mhz : UINT32_MAX;
    return clock_at_most(board->memory_clocks_mhz, board->memory_clock_count, wanted);
}

/* Drop the older half of the epochs; the energies of the others stay. */
static void forget(Board *board) {
    int half = board->epochs / 2;
    know(board, board->epochs - 1);
    if (!board->reset_known)
        board->reset_j = energy_j(board, board->reset_s);
    board->reset_known = 1;
    memmove(board->epoch, board->epoch + half, (size_t)(board->epochs - half) * sizeof(Epoch));
    board->epochs -= half;
    board->epochs_known -= half;
    board->epochs_dropped += half;
}

int epoch_from(Board *board, double time_s) {
    if (board->epochs == MAX_EPOCHS)
        forget(board);
    int index = epoch_at(board, time_s);
    if (board->epoch[index].begin_s < time_s) {
        size_t later = (size_t)(board->epochs - index - 1);
        memmove(board->epoch + index + 2, board->epoch + index + 1, later * sizeof(Epoch));
        board->epoch[index + 1] = board->epoch[index];
        board->epoch[++index].begin_s = time_s;
        board->epochs++;
    }
    if (board->epochs_known > index)
        board->epochs_known = index > 0 ? index : 1; /* the first one's is 0, or was kept */
    return index;
}

void revert(Board *board, double time_s) {
    board->limit_requested_mw = board->limit_default_mw;
    board->module_limit_requested_mw = board->module_limit_default_mw;
    memset(board->profiles_requested, 0, sizeof board->profiles_requested);
    for (int i = epoch_from(board, time_s); i < board->epochs; i++) {
        Epoch *epoch = &board->epoch[i];
        epoch->limit_mw = board->limit_default_mw;
        epoch->module_limit_mw = board->module_limit_default_mw;
        epoch->sm_min_mhz = epoch->sm_max_mhz = 0;
        epoch->memory_min_mhz = epoch->memory_max_mhz = 0;
    }
    board->reset_s = time_s;
    board->reset_known = 0;
    board->frozen_s = -1.0;
    board->counter_step_j = 0.0;
}
