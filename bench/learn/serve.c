// serve PORT WORK_US HOLD_MS: reads datagrams, works WORK_US on each, and once a second stops for HOLD_MS, as a lock does.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + 1e-9 * t.tv_nsec;
}

int main(int argc, char **argv) {
    if (argc < 4) return 2;
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(atoi(argv[1]))};
    double work = 1e-6 * atof(argv[2]), hold = 1e-3 * atof(argv[3]);
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    if (bind(fd, (struct sockaddr *)&at, sizeof at)) return 1;
    static char data[2048];
    // Work of a fixed number of turns, as a program's is.
    volatile unsigned long sink = 0;
    double begin = now();
    for (unsigned long i = 0; i < 20000000; i++) sink += i;
    unsigned long turns = work / ((now() - begin) / 20000000);
    double next = now() + 1;
    for (;;) {
        if (recv(fd, data, sizeof data, 0) < 0) continue;
        for (unsigned long i = 0; i < turns; i++) sink += i;
        if (hold > 0 && now() >= next) {
            usleep(hold * 1e6);
            next += 1;
        }
    }
}
