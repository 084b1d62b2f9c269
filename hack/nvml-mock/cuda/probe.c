/* Prints what a container with a GPU has: linked to libcuda.so.1 and libnvidia-ml.so.1 by name, it runs only if the
 * loader finds both. Every line is NAME VALUE. */

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int cuInit(unsigned flags);
int cuDriverGetVersion(int *version);
int cuDeviceGetCount(int *number);
int nvmlInitWithFlags(unsigned flags);
int nvmlShutdown(void);

int main(void)
{
    int version = -1, number = -1, index;
    char path[32];

    printf("cuInit %d\n", cuInit(0));
    cuDriverGetVersion(&version);
    printf("cuDriverGetVersion %d\n", version);
    cuDeviceGetCount(&number);
    printf("cuDeviceGetCount %d\n", number);
    printf("nvmlInitWithFlags %d\n", nvmlInitWithFlags(1));
    nvmlShutdown();
    for (index = 0; index < 8; index++) {
        int file;
        snprintf(path, sizeof(path), "/dev/nvidia%d", index);
        file = open(path, O_RDWR);
        /* Without the driver, a node that may be opened has no device. */
        printf("%s %s\n", path, file >= 0 || errno == ENXIO ? "may-open" : strerror(errno));
        if (file >= 0)
            close(file);
    }
    return 0;
}
