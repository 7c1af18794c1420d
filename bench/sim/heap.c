// M/M/1/B at rho = 0.8, B = 1024, with an event list in a binary heap, as textbooks write it: arrival and departure
// events, arrival times in a queue, latency and loss counted. Usage: heap PACKETS.
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define RING 1024
enum kind { ARRIVAL, DEPARTURE };
struct event { double at; enum kind kind; };

static struct event heap[16];
static int events;
static uint64_t s[4];

static uint64_t split_mix(uint64_t *x) {
    uint64_t z = (*x += 0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
}

static inline uint64_t rotl(uint64_t x, int k) { return (x << k) | (x >> (64 - k)); }

static inline double exponential(double mean) {
    uint64_t out = rotl(s[0] + s[3], 23) + s[0], t = s[1] << 17;
    s[2] ^= s[0]; s[3] ^= s[1]; s[1] ^= s[2]; s[0] ^= s[3]; s[2] ^= t; s[3] = rotl(s[3], 45);
    union { uint64_t u; double d; } x = { 0x3ff0000000000000 | (out >> 12) };
    return -mean * log(2.0 - x.d);
}

static void push(double at, enum kind kind) {
    int i = events++;
    while (i > 0 && heap[(i - 1) / 2].at > at) { heap[i] = heap[(i - 1) / 2]; i = (i - 1) / 2; }
    heap[i] = (struct event){ at, kind };
}

static struct event pop(void) {
    struct event top = heap[0], last = heap[--events];
    int i = 0;
    for (;;) {
        int child = 2 * i + 1;
        if (child >= events) break;
        if (child + 1 < events && heap[child + 1].at < heap[child].at) child++;
        if (heap[child].at >= last.at) break;
        heap[i] = heap[child];
        i = child;
    }
    heap[i] = last;
    return top;
}

int main(int argc, char **argv) {
    long packets = argc > 1 ? atol(argv[1]) : 10000000;
    uint64_t seed = 1;
    for (int w = 0; w < 4; w++) s[w] = split_mix(&seed);
    static double arrived[RING];
    long offered = 0, lost = 0, delivered = 0, head = 0, inside = 0;
    double latency = 0, now = 0;
    struct timespec from, to;
    clock_gettime(CLOCK_MONOTONIC, &from);
    push(exponential(1.0), ARRIVAL);
    while (offered < packets) {
        struct event event = pop();
        now = event.at;
        if (event.kind == ARRIVAL) {
            offered++;
            push(now + exponential(1.0), ARRIVAL);
            if (inside == RING) { lost++; continue; }
            arrived[(head + inside++) % RING] = now;
            if (inside == 1) push(now + exponential(0.8), DEPARTURE);
        } else {
            latency += now - arrived[head];
            head = (head + 1) % RING;
            delivered++;
            if (--inside > 0) push(now + exponential(0.8), DEPARTURE);
        }
    }
    clock_gettime(CLOCK_MONOTONIC, &to);
    double seconds = to.tv_sec - from.tv_sec + 1e-9 * (to.tv_nsec - from.tv_nsec);
    printf("{\"packets\": %ld, \"seconds\": %.6f, \"mean_latency\": %.4f, \"lost\": %ld}\n", packets, seconds,
           latency / delivered, lost);
    return 0;
}
