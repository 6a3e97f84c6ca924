/* The mapped file: attaching, locking, time, clients, and how every call begins and ends. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "fake.h"

static State *shared;
static int shared_file = -1;
static pid_t attached_pid;
static int references;
static int inside; /* calls in progress in this process */
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static Handle handles[MAX_BOARDS][MAX_INSTANCES + 1];

EXPORT void lowjoule_fake_sizes(u64 *sizes) {
    const u64 all[] = {sizeof(Point), sizeof(Epoch),  sizeof(Rule),  sizeof(FieldRule),
                       sizeof(Write), sizeof(Client), sizeof(Board), sizeof(State)};
    memcpy(sizes, all, sizeof all);
}

EXPORT int lowjoule_fake_inside(void) {
    return __atomic_load_n(&inside, __ATOMIC_SEQ_CST);
}

/* Another thread of the parent may have been in a call. */
static void after_fork(void) {
    static const pthread_mutex_t fresh = PTHREAD_MUTEX_INITIALIZER;
    mutex = fresh;
    inside = 0;
}

__attribute__((constructor)) static void prepare(void) {
    pthread_atfork(NULL, NULL, after_fork);
}

static void pause_s(double duration_s) {
    struct timespec left = {(time_t)duration_s,
                            (long)((duration_s - (double)(time_t)duration_s) * 1e9)};
    while (nanosleep(&left, &left) && errno == EINTR)
        ;
}

static void detach(void) {
    if (shared)
        munmap(shared, sizeof(State));
    if (shared_file >= 0)
        close(shared_file);
    shared = NULL;
    shared_file = -1;
}

static nvmlReturn_t attach(void) {
    const char *path = getenv("LOWJOULE_FAKE_NVML");
    struct stat status;
    shared_file = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
    if (shared_file < 0)
        return NVML_ERROR_DRIVER_NOT_LOADED;
    if (fstat(shared_file, &status) || (size_t)status.st_size != sizeof(State)) {
        detach();
        return NVML_ERROR_LIB_RM_VERSION_MISMATCH;
    }
    void *at = mmap(NULL, sizeof(State), PROT_READ | PROT_WRITE, MAP_SHARED, shared_file, 0);
    shared = at == MAP_FAILED ? NULL : at;
    if (!shared || shared->magic != FAKE_MAGIC || shared->version != FAKE_VERSION ||
        shared->size != sizeof(State)) {
        detach();
        return NVML_ERROR_LIB_RM_VERSION_MISMATCH;
    }
    attached_pid = getpid();
    return NVML_SUCCESS;
}

static void lock(void) {
    while (flock(shared_file, LOCK_EX) && errno == EINTR)
        ;
}

static void unlock(void) {
    flock(shared_file, LOCK_UN);
}

static double time_s(const State *state) {
    struct timespec now;
    if (state->is_virtual)
        return state->now_s;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* A child has its parent's handles and, through fork, its lock: neither is the child's own. */
static nvmlReturn_t check_process(void) {
    if (!shared)
        return NVML_ERROR_UNINITIALIZED;
    if (attached_pid == getpid())
        return NVML_SUCCESS;
    if (!shared->fork_safe)
        return NVML_ERROR_UNINITIALIZED;
    detach();
    return attach();
}

/* Wait as the rule says, without the lock, then fail as it says. */
static nvmlReturn_t obey(Call *call) {
    double delay_s = call->rule->delay_s;
    call->rule->calls++;
    if (delay_s > 0.0 && call->state->is_virtual)
        call->state->now_s += delay_s;
    else if (delay_s > 0.0) {
        unlock();
        pthread_mutex_unlock(&mutex);
        pause_s(delay_s);
        pthread_mutex_lock(&mutex);
        if (shared != call->state || check_process()) { /* another thread has shut down */
            call->state = NULL;
            return NVML_ERROR_UNINITIALIZED;
        }
        lock();
    }
    call->now_s = time_s(call->state);
    if (call->rule->left == 0)
        return NVML_SUCCESS;
    if (call->rule->left > 0)
        call->rule->left--;
    return call->rule->code;
}

static nvmlReturn_t begin_locked(Call *call, int function) {
    memset(call, 0, sizeof *call);
    call->function = function;
    __atomic_add_fetch(&inside, 1, __ATOMIC_SEQ_CST);
    pthread_mutex_lock(&mutex);
    nvmlReturn_t code = check_process();
    if (code)
        return code;
    lock();
    call->state = shared;
    call->now_s = time_s(shared);
    return NVML_SUCCESS;
}

nvmlReturn_t begin_system(Call *call, int function) {
    nvmlReturn_t code = begin_locked(call, function);
    if (code)
        return code;
    call->rule = &call->state->rules[function];
    return obey(call);
}

static int is_handle(const State *state, const Handle *handle) {
    const Handle *first = &handles[0][0];
    if (handle < first || handle >= first + MAX_BOARDS * (MAX_INSTANCES + 1))
        return 0;
    return handle->board < state->board_count;
}

nvmlReturn_t begin_any(Call *call, int function, nvmlDevice_t device) {
    nvmlReturn_t code = begin_locked(call, function);
    if (code)
        return code;
    if (!is_handle(call->state, device))
        return NVML_ERROR_INVALID_ARGUMENT;
    call->handle = device;
    call->board = &call->state->boards[device->board];
    call->rule = &call->board->rules[function];
    return obey(call);
}

nvmlReturn_t begin(Call *call, int function, nvmlDevice_t device) {
    nvmlReturn_t code = begin_any(call, function, device);
    if (!code && device->instance >= 0)
        return NVML_ERROR_NOT_SUPPORTED;
    return code;
}

nvmlReturn_t end(Call *call, nvmlReturn_t code) {
    if (call->state)
        unlock();
    pthread_mutex_unlock(&mutex);
    __atomic_sub_fetch(&inside, 1, __ATOMIC_SEQ_CST);
    return code;
}

nvmlReturn_t end_write(Call *call, nvmlReturn_t code, int64_t first, int64_t second) {
    if (call->state) {
        Write *write = &call->state->write[call->state->writes++ % MAX_WRITES];
        *write = (Write){call->now_s,   first,
                         second,        call->function,
                         call->handle ? call->handle->board : -1,
                         (int32_t)getpid(), code};
    }
    return end(call, code);
}

nvmlDevice_t handle_of(int board, int instance) {
    Handle *handle = &handles[board][instance + 1];
    *handle = (Handle){board, instance};
    return handle;
}

nvmlReturn_t copy_text(char *to, u32 size, const char *text) {
    size_t needed = strlen(text) + 1;
    if (!to)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (needed > size)
        return NVML_ERROR_INSUFFICIENT_SIZE;
    memcpy(to, text, needed);
    return NVML_SUCCESS;
}

/* Tear the driver down where its last client has gone. */
static void unload(State *state) {
    if (!state->unloads)
        return;
    for (int i = 0; i < state->board_count; i++)
        if (!state->boards[i].persistence)
            revert(&state->boards[i], time_s(state));
}

/* Forget the clients that have died; tell how many live. */
static int live_clients(State *state, int *died) {
    int live = 0;
    for (int i = 0; i < MAX_CLIENTS; i++) {
        Client *client = &state->clients[i];
        if (client->pid && kill(client->pid, 0) && errno == ESRCH) {
            *client = (Client){0, 0};
            *died = 1;
        }
        live += client->pid != 0;
    }
    return live;
}

static void count_client(State *state, int32_t change) {
    int32_t pid = (int32_t)getpid();
    Client *found = NULL;
    for (int i = 0; i < MAX_CLIENTS; i++) {
        Client *client = &state->clients[i];
        if (client->pid == pid)
            found = client;
        else if (!client->pid && (!found || found->pid != pid) && change > 0)
            found = client;
    }
    if (!found)
        return;
    found->references = found->pid == pid ? found->references + change : change;
    found->pid = found->references > 0 ? pid : 0;
}

static void detach_unused(void) {
    pthread_mutex_lock(&mutex);
    if (references == 0)
        detach();
    pthread_mutex_unlock(&mutex);
}

static nvmlReturn_t initialise(int function) {
    Call call = {0};
    int died = 0;
    __atomic_add_fetch(&inside, 1, __ATOMIC_SEQ_CST);
    pthread_mutex_lock(&mutex);
    if (shared && attached_pid != getpid()) { /* the parent's */
        detach();
        references = 0;
    }
    nvmlReturn_t code = shared ? NVML_SUCCESS : attach();
    if (code)
        return end(&call, code);
    lock();
    call.state = shared;
    call.function = function;
    call.rule = &shared->rules[function];
    code = obey(&call);
    if (call.state && !live_clients(shared, &died) && died)
        unload(shared);
    if (!code) {
        references++;
        count_client(shared, 1);
    }
    end(&call, code);
    detach_unused();
    return code;
}

EXPORT nvmlReturn_t nvmlInit_v2(void) {
    return initialise(F_nvmlInit_v2);
}

EXPORT nvmlReturn_t nvmlInitWithFlags(u32 flags) {
    (void)flags;
    return initialise(F_nvmlInitWithFlags);
}

EXPORT nvmlReturn_t nvmlShutdown(void) {
    Call call;
    int died = 0;
    nvmlReturn_t code = begin_system(&call, F_nvmlShutdown);
    if (code)
        return end(&call, code);
    count_client(call.state, -1);
    if (!live_clients(call.state, &died))
        unload(call.state);
    references--;
    end(&call, code);
    detach_unused();
    return code;
}

/* End this process's use of NVML whatever is switched on: for the end of a test. */
EXPORT void lowjoule_fake_leave(void) {
    Call call = {0};
    __atomic_add_fetch(&inside, 1, __ATOMIC_SEQ_CST);
    pthread_mutex_lock(&mutex);
    if (shared && attached_pid == getpid() && references > 0) {
        int died = 0;
        lock();
        count_client(shared, -references);
        if (!live_clients(shared, &died))
            unload(shared);
        unlock();
    }
    references = 0;
    detach();
    end(&call, NVML_SUCCESS);
}
