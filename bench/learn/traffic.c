// A sender (`traffic burst ...`) and a server (`traffic serve ...`) for tests of `learn` that are independent of
// netcliff.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + 1e-9 * t.tv_nsec;
}

enum { MOST = 256 };
static uint64_t state;

static double uniform(void) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return ((state >> 11) + 0.5) / 9007199254740992.0;
}

// burst ADDRESS PORT PPS SECONDS BATCH MOVES [SEED]: sends datagrams in Poisson batches, at a mean rate of PPS and with
// a mean batch size of BATCH. Payloads are 18 and 400 bytes in a mix that changes every second. The load oscillates by
// the share MOVES (0.3: +-30 %) with a period of 7 s. Prints the number of datagrams sent and the time taken (s).
static int burst(int argc, char **argv) {
    if (argc < 7) return 2;
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(atoi(argv[2]))};
    inet_pton(AF_INET, argv[1], &to.sin_addr);
    double pps = atof(argv[3]), seconds = atof(argv[4]), batch = atof(argv[5]), moves = atof(argv[6]);
    state = 88172645463325252ull ^ (argc > 7 ? strtoull(argv[7], 0, 10) * 2654435761ull : 1);
    int fd = socket(AF_INET, SOCK_DGRAM, 0), room = 4 << 20;
    setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &room, sizeof room);
    if (connect(fd, (struct sockaddr *)&to, sizeof to)) return 1;
    static char data[1472];
    static struct iovec parts[MOST];
    static struct mmsghdr messages[MOST];
    for (int i = 0; i < MOST; i++) {
        parts[i].iov_base = data;
        messages[i].msg_hdr.msg_iov = &parts[i];
        messages[i].msg_hdr.msg_iovlen = 1;
    }
    double begin = now(), next = begin, rested = begin, first = begin;
    unsigned long sent = 0;
    while (next < first + seconds) {
        double rate = pps * (1 + moves * sin(6.283185 * (next - begin) / 7));
        next -= log(uniform()) * batch / rate;
        int size = batch <= 1 ? 1 : 1 + (int)(log(uniform()) / log(1 - 1 / batch));
        if (size > MOST) size = MOST;
        double large = ((long)(next - begin)) % 3 * 0.2;
        for (int i = 0; i < size; i++) parts[i].iov_len = uniform() < large ? 400 : 18;
        // Sleep 0.1 ms every millisecond: the kernel would stop a real-time thread that never sleeps for 50 ms every
        // second (kernel.sched_rt_runtime_us).
        if (now() > rested + 1e-3) {
            struct timespec rest = {.tv_nsec = 100000};
            nanosleep(&rest, 0);
            rested = now();
        }
        // After a pause of the machine, the schedule continues from now, so that the sender does not catch up in a
        // burst.
        if (now() > next + 5e-4) begin += now() - next, next = now();
        while (now() < next) {
        }
        for (int done = 0; done < size;) {
            int n = sendmmsg(fd, messages + done, size - done, 0);
            if (n < 0) break;
            done += n;
            sent += n;
        }
    }
    printf("%lu %.6f\n", sent, now() - first);
    return 0;
}

// serve PORT WORK_US HOLD_MS: reads datagrams, computes for WORK_US after each, and sleeps for HOLD_MS once a second,
// like a thread that waits for a lock.
static int serve(int argc, char **argv) {
    if (argc < 4) return 2;
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(atoi(argv[1]))};
    double work = 1e-6 * atof(argv[2]), hold = 1e-3 * atof(argv[3]);
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    if (bind(fd, (struct sockaddr *)&at, sizeof at)) return 1;
    static char data[2048];
    // The work is a fixed number of iterations, as in a real program, so it takes longer when the CPU is slower.
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

int main(int argc, char **argv) {
    if (argc > 1 && !strcmp(argv[1], "burst")) return burst(argc - 1, argv + 1);
    if (argc > 1 && !strcmp(argv[1], "serve")) return serve(argc - 1, argv + 1);
    return 2;
}
