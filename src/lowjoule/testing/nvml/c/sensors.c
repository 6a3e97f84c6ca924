/* What the board's counter and sensors say of the truth. */
#include <math.h>

#include "fake.h"

/* A number in [0, 1) that is always the same for `count`. */
static double noise(int64_t count) {
    uint64_t bits = (uint64_t)count + 0x9e3779b97f4a7c15u;
    bits = (bits ^ (bits >> 30)) * 0xbf58476d1ce4e5b9u;
    bits = (bits ^ (bits >> 27)) * 0x94d049bb133111ebu;
    return (double)((bits ^ (bits >> 31)) >> 11) / 9007199254740992.0;
}

/* When a thing of this period was last refreshed. */
static double last_tick_s(double time_s, double period_s, double phase_s, double jitter_s) {
    if (period_s <= 0.0)
        return time_s;
    /* a time that was meant to be a tick counts as one, whatever rounding did to it */
    int64_t count = (int64_t)floor((time_s - phase_s) / period_s + 1e-9);
    double tick_s = phase_s + (double)count * period_s + jitter_s * noise(count);
    if (tick_s > time_s && jitter_s > 0.0) {
        count--;
        tick_s = phase_s + (double)count * period_s + jitter_s * noise(count);
    }
    return fmin(tick_s, time_s);
}

u64 counter_mj(Board *board, double time_s) {
    if (board->frozen_s >= 0.0)
        time_s = fmin(time_s, board->frozen_s);
    double tick_s =
        last_tick_s(time_s, board->tick_period_s, board->tick_phase_s, board->tick_jitter_s);
    if (tick_s < board->reset_s)
        tick_s = board->reset_s;
    double reset_j = board->reset_known ? board->reset_j : energy_j(board, board->reset_s);
    double true_j = energy_j(board, tick_s) - reset_j;
    if (board->module_w > 0.0)
        true_j += board->module_w * (tick_s - board->reset_s);
    double shown_mj = 1000.0 * (board->counter_gain * true_j + board->counter_step_j);
    return shown_mj > 0.0 ? (u64)floor(shown_mj + 1e-6) : 0;
}

/* The mean of the last `window_s`, or the power at one time where that is 0. */
static double mean_w(Board *board, double to_s, double window_s) {
    if (window_s <= 0.0)
        return power_w(board, to_s);
    return (energy_j(board, to_s) - energy_j(board, to_s - window_s)) / window_s;
}

u32 constant_mw(const Board *board, double true_w) {
    if (board->power_reading_w >= 0.0)
        return (u32)llround(1000.0 * board->power_reading_w);
    return (u32)llround(1000.0 * fmax(0.0, board->power_gain * true_w));
}

static double refreshed_s(const Board *board, double time_s) {
    return last_tick_s(time_s, board->sensor_period_s, board->sensor_phase_s, 0.0);
}

u32 instant_mw(Board *board, double time_s, double extra_w) {
    double mean = mean_w(board, refreshed_s(board, time_s), board->sensor_window_s);
    return constant_mw(board, extra_w + mean);
}

u32 average_mw(Board *board, double time_s, double extra_w) {
    double mean = mean_w(board, refreshed_s(board, time_s), board->average_window_s);
    return constant_mw(board, extra_w + mean);
}
