// Lindley's recursion for M/M/1 at rho = 0.8: the floor, nothing kept but the sum of waits.
// Usage: lindley PACKETS. With -DWIDE: 8 streams side by side, logarithms in blocks (-ffast-math vectorises them).
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#ifdef WIDE
#define LANES 8
#else
#define LANES 1
#endif
#define BLOCK 256

static uint64_t state[4][LANES];

static uint64_t split_mix(uint64_t *x) {
    uint64_t z = (*x += 0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
}

static inline uint64_t rotl(uint64_t x, int k) { return (x << k) | (x >> (64 - k)); }

static inline uint64_t next(int lane) {  // xoshiro256++
    uint64_t a = state[0][lane], b = state[1][lane], c = state[2][lane], d = state[3][lane];
    uint64_t out = rotl(a + d, 23) + a, t = b << 17;
    c ^= a; d ^= b; b ^= c; a ^= d; c ^= t; d = rotl(d, 45);
    state[0][lane] = a; state[1][lane] = b; state[2][lane] = c; state[3][lane] = d;
    return out;
}

static inline double unit(uint64_t bits) {  // (0, 1]
    union { uint64_t u; double d; } x = { 0x3ff0000000000000 | (bits >> 12) };
    return 2.0 - x.d;
}

int main(int argc, char **argv) {
    long packets = argc > 1 ? atol(argv[1]) : 10000000;
    uint64_t seed = 1;
    for (int lane = 0; lane < LANES; lane++) for (int w = 0; w < 4; w++) state[w][lane] = split_mix(&seed);
    struct timespec from, to;
    clock_gettime(CLOCK_MONOTONIC, &from);
    double wait = 0, sum = 0;
#ifdef WIDE
    static double service[BLOCK], gap[BLOCK];
    for (long done = 0; done < packets; done += BLOCK) {
        for (int i = 0; i < BLOCK; i += LANES) for (int l = 0; l < LANES; l++) service[i + l] = unit(next(l));
        for (int i = 0; i < BLOCK; i += LANES) for (int l = 0; l < LANES; l++) gap[i + l] = unit(next(l));
        for (int i = 0; i < BLOCK; i++) service[i] = log(gap[i]) - 0.8 * log(service[i]);
        for (int i = 0; i < BLOCK; i++) { sum += wait; double w = wait + service[i]; wait = w > 0 ? w : 0; }
    }
#else
    for (long i = 0; i < packets; i++) {
        sum += wait;
        double w = wait - 0.8 * log(unit(next(0))) + log(unit(next(0)));
        wait = w > 0 ? w : 0;
    }
#endif
    clock_gettime(CLOCK_MONOTONIC, &to);
    double seconds = to.tv_sec - from.tv_sec + 1e-9 * (to.tv_nsec - from.tv_nsec);
    printf("{\"packets\": %ld, \"seconds\": %.6f, \"mean_wait\": %.4f}\n", packets, seconds, sum / packets);
    return 0;
}
