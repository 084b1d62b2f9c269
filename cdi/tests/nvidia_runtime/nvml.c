/* As much of NVML as NVIDIA's runtime needs on a host without GPUs. */
#include <string.h>

int nvmlInit_v2(void) { return 0; }
int nvmlInitWithFlags(unsigned flags) { return 0; }
int nvmlShutdown(void) { return 0; }
int nvmlSystemGetDriverVersion(char *text, unsigned size) {
    strncpy(text, "580.82.07", size);
    return 0;
}
int nvmlSystemGetCudaDriverVersion(int *version) {
    *version = 13000;
    return 0;
}
int nvmlDeviceGetCount_v2(unsigned *count) {
    *count = 0;
    return 0;
}
const char *nvmlErrorString(int code) { return "an error"; }
