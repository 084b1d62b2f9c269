/*
 * A second implementation of NVML, which shares neither language nor bindings
 * nor the layout of a handle with the workspace's mock. One GPU of one clique,
 * through the functions that are not removed by a flag:
 *
 *   -DVERSION=n   the only version of the versioned info that is accepted
 *   -DNO_V        no versioned info
 *   -DNO_V1       no unversioned info
 *   -DOLD         first-generation names only
 *   -DSTRICT      an unknown form is an invalid argument
 */
#include <string.h>

#ifndef VERSION
#define VERSION 3
#endif

enum { SUCCESS = 0, UNINITIALIZED = 1, INVALID_ARGUMENT = 2, INSUFFICIENT_SIZE = 7, VERSION_MISMATCH = 25 };

struct gpu { char pad[24]; const char *name; };
static struct gpu gpu = {{0}, "NVIDIA GB200"};
static int sessions;

#if !defined(NO_V) || !defined(NO_V1)
static const unsigned char cluster[16] = {0xc0, 0xff, 0xee, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13};
#endif

static int text(struct gpu *it, const char *value, char *to, unsigned size) {
    if (!sessions) return UNINITIALIZED;
    if (it != &gpu || !to) return INVALID_ARGUMENT;
    if (strlen(value) >= size) return INSUFFICIENT_SIZE;
    /* The bytes after the end of a text are undefined. */
    memset(to, 0x5a, size);
    strcpy(to, value);
    return SUCCESS;
}

static int init(void) { sessions++; return SUCCESS; }
static int count(unsigned *to) { if (!sessions) return UNINITIALIZED; *to = 1; return SUCCESS; }
static int handle(unsigned index, struct gpu **to) {
    if (!sessions) return UNINITIALIZED;
    if (index) return INVALID_ARGUMENT;
    *to = &gpu;
    return SUCCESS;
}

#ifdef OLD
int nvmlInit(void) { return init(); }
int nvmlDeviceGetCount(unsigned *to) { return count(to); }
int nvmlDeviceGetHandleByIndex(unsigned index, struct gpu **to) { return handle(index, to); }
#else
int nvmlInitWithFlags(unsigned flags) { return flags == 1 ? init() : INVALID_ARGUMENT; }
int nvmlDeviceGetCount_v2(unsigned *to) { return count(to); }
int nvmlDeviceGetHandleByIndex_v2(unsigned index, struct gpu **to) { return handle(index, to); }
#endif
int nvmlShutdown(void) { if (!sessions) return UNINITIALIZED; sessions--; return SUCCESS; }
int nvmlDeviceGetName(struct gpu *it, char *to, unsigned size) { return text(it, it->name, to, size); }
int nvmlDeviceGetUUID(struct gpu *it, char *to, unsigned size) { return text(it, "GPU-foreign", to, size); }

#ifndef NO_V
int nvmlDeviceGetGpuFabricInfoV(struct gpu *it, unsigned char *to) {
    static const unsigned sizes[] = {0, 0, 36, 40};
    unsigned word, clique = 42, mask = 0x1aa;
    if (!sessions) return UNINITIALIZED;
    if (it != &gpu) return INVALID_ARGUMENT;
    memcpy(&word, to, 4);
    if (word != (sizes[VERSION] | VERSION << 24))
#ifdef STRICT
        return INVALID_ARGUMENT;
#else
        return VERSION_MISMATCH;
#endif
    memset(to + 4, 0, sizes[VERSION] - 4);
    memcpy(to + 4, cluster, 16);
    memcpy(to + 24, &clique, 4);
    to[28] = 3;
    memcpy(to + 32, &mask, 4);
    if (VERSION == 3) to[36] = 1;
    return SUCCESS;
}
#endif

#ifndef NO_V1
int nvmlDeviceGetGpuFabricInfo(struct gpu *it, unsigned char *to) {
    unsigned clique = 42;
    if (!sessions) return UNINITIALIZED;
    if (it != &gpu) return INVALID_ARGUMENT;
    memset(to, 0, 28);
    memcpy(to, cluster, 16);
    memcpy(to + 20, &clique, 4);
    to[24] = 3;
    return SUCCESS;
}
#endif
