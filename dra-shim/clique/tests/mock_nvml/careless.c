/*
 * A third implementation of NVML, with deviations from nvml.h: two GPUs of one
 * clique, with the behaviour of these flags:
 *
 *   -DCOUNT=n         the number of GPUs that is returned
 *   -DINIT=n          what initialising returns
 *   -DRETURNS=n       what each call on a device returns
 *   -DNO_NUL          texts are copied without their end
 *   -DLONG_NAME       a product name longer than any buffer, cut without an end
 *   -DREVERSED        the first GPU has the last handle
 *   -DNULL_HANDLE     the first GPU has the handle 0
 *   -DANY_VERSION     the version word is neither read nor kept
 *   -DSTATE, STATUS, MASK, SUMMARY, CLIQUE=n, -DZERO_UUID   the contents of the info
 *   -DINIT_V2, -DCOUNT_V1, -DHANDLE_V1   other generations of a name
 *   -DUNDEFINED       calls a function that no library has
 *   -DLIBM            calls a function of libm
 */
#include <string.h>

#ifndef COUNT
#define COUNT 2
#endif
#ifndef INIT
#define INIT 0
#endif
#ifndef RETURNS
#define RETURNS 0
#endif
#ifndef STATE
#define STATE 3
#endif
#ifndef STATUS
#define STATUS 0
#endif
#ifndef MASK
#define MASK 0x1aa
#endif
#ifndef SUMMARY
#define SUMMARY 1
#endif
#ifndef CLIQUE
#define CLIQUE 7
#endif

#ifdef INIT_V2
int nvmlInit_v2(void) { return INIT; }
#else
int nvmlInitWithFlags(unsigned flags) { (void)flags; return INIT; }
#endif
int nvmlShutdown(void) { return 0; }

#ifdef COUNT_V1
int nvmlDeviceGetCount(unsigned *to) { *to = COUNT; return 0; }
#else
int nvmlDeviceGetCount_v2(unsigned *to) { *to = COUNT; return 0; }
#endif

static int handle(unsigned index, void **to) {
    unsigned long it = index + 1;
#ifdef REVERSED
    it = COUNT - index;
#endif
#ifdef NULL_HANDLE
    it = index;
#endif
    *to = (void *)it;
    return 0;
}
#ifdef HANDLE_V1
int nvmlDeviceGetHandleByIndex(unsigned index, void **to) { return handle(index, to); }
#else
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **to) { return handle(index, to); }
#endif

static int text(const char *value, char *to, unsigned size) {
#ifdef NO_NUL
    memcpy(to, value, strlen(value));
#else
    strncpy(to, value, size);
#endif
    return RETURNS;
}

#ifdef UNDEFINED
int function_of_no_library(void);
#endif
#ifdef LIBM
double tgamma(double);
#endif

int nvmlDeviceGetName(void *it, char *to, unsigned size) {
    (void)it;
#ifdef UNDEFINED
    if (function_of_no_library()) return 1;
#endif
#ifdef LIBM
    if (tgamma(size) < 0) return 1;
#endif
#ifdef LONG_NAME
    return memset(to, 'N', size) ? RETURNS : 1;
#endif
    return text("NVIDIA GB300", to, size);
}

int nvmlDeviceGetUUID(void *it, char *to, unsigned size) {
    char uuid[] = "GPU-0";
    uuid[4] += (unsigned long)it;
    return text(uuid, to, size);
}

int nvmlDeviceGetGpuFabricInfoV(void *it, unsigned *to) {
    unsigned char *bytes = (unsigned char *)to;
    (void)it;
#ifdef ANY_VERSION
    to[0] = 0;
#else
    if (to[0] != (40 | 3 << 24)) return 25;
#endif
#ifdef ZERO_UUID
    memset(to + 1, 0, 16);
#else
    memset(to + 1, 0xc1, 16);
#endif
    to[5] = STATUS;
    to[6] = CLIQUE;
    bytes[28] = STATE;
    to[8] = MASK;
    bytes[36] = SUMMARY;
    return RETURNS;
}
