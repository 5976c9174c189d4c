/* The time of day of one process, set by a file: preloaded, it adds the seconds that the file names
 * to what the kernel says. Durations (the monotonic clock) stay true. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static long offset_s(const struct timespec *coarse)
{
    static _Atomic long known, read_at = -1;
    if (read_at != coarse->tv_sec) { /* once a second is enough */
        char text[32] = {0};
        const char *path = getenv("CHAOS_CLOCK");
        int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
        read_at = coarse->tv_sec;
        if (file >= 0) {
            if (read(file, text, sizeof text - 1) > 0)
                known = atol(text);
            close(file);
        }
    }
    return known;
}

static int real_gettime(clockid_t clock, struct timespec *at)
{
    static int (*_Atomic real)(clockid_t, struct timespec *);
    if (!real)
        real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    return real(clock, at);
}

int clock_gettime(clockid_t clock, struct timespec *at)
{
    int failed = real_gettime(clock, at);
    if (!failed && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
        at->tv_sec += offset_s(at);
    return failed;
}

int gettimeofday(struct timeval *restrict at, void *restrict zone)
{
    struct timespec now;
    (void)zone;
    clock_gettime(CLOCK_REALTIME, &now);
    at->tv_sec = now.tv_sec;
    at->tv_usec = now.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *at)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (at)
        *at = now.tv_sec;
    return now.tv_sec;
}
