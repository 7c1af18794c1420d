// ask.c: an open-loop requester for DNS over UDP whose properties are changed one at a time, to see what makes a request dear for its server.
// cc -O2 -o ask ask.c -lm; ask ADDRESS PORT NAMES CPU SECONDS RATE [KEY=VALUE...], one line of result.
// gaps=poisson|even  batch=N (requests a sendmmsg)  single=0|1 (send(2) for each)  sockets=N  turn=N (requests a socket before the next)
// edns=0|1  cork=US (send only each US microseconds)  nap=0|1 (poll(2) while nothing is due)  read=N (answers a recvmmsg; 1: recv(2))
// look=N (looks for answers after each N requests)
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <math.h>
#include <poll.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

enum { MOST = 1024, NAMES = 65536, ROOM = 600 };
static uint8_t names[NAMES][ROOM];
static int lengths[NAMES], count;

static int64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static void read_names(const char *path, int edns) {
    FILE *file = fopen(path, "r");
    char name[300], kind[20];
    if (!file) { perror(path); exit(2); }
    while (count < NAMES && fscanf(file, "%299s %19s", name, kind) == 2) {
        uint8_t *at = names[count];
        memcpy(at, (uint8_t[]){0, 0, 1, 0, 0, 1, 0, 0, 0, 0, 0, (uint8_t)edns}, 12);
        int n = 12;
        for (char *label = strtok(name, "."); label; label = strtok(NULL, ".")) {
            at[n++] = (uint8_t)strlen(label);
            memcpy(at + n, label, strlen(label));
            n += (int)strlen(label);
        }
        at[n++] = 0;
        memcpy(at + n, (uint8_t[]){0, 1, 0, 1}, 4);
        n += 4;
        if (edns) { memcpy(at + n, (uint8_t[]){0, 0, 41, 4, 208, 0, 0, 0, 0, 0, 0}, 11); n += 11; }
        lengths[count++] = n;
    }
    fclose(file);
}

static const char *option(int argc, char **argv, const char *key, const char *usual) {
    size_t n = strlen(key);
    for (int i = 7; i < argc; i++)
        if (!strncmp(argv[i], key, n) && argv[i][n] == '=') return argv[i] + n + 1;
    return usual;
}

static long ticks_of(int cpu, int what) {   // what: 0 idle and iowait, 1 softirq, 2 irq, 3 all, 4 user, 5 system
    FILE *file = fopen("/proc/stat", "r");
    char line[400];
    long v[10] = {0}, found = -1;
    int n;
    while (fgets(line, sizeof line, file))
        if (sscanf(line, "cpu%d %ld %ld %ld %ld %ld %ld %ld %ld", &n, v, v + 1, v + 2, v + 3, v + 4, v + 5, v + 6, v + 7) == 9 && n == cpu) { found = 1; break; }
    fclose(file);
    if (found < 0) return 0;
    switch (what) {
        case 0: return v[3] + v[4];
        case 1: return v[6];
        case 2: return v[5];
        case 4: return v[0] + v[1];
        case 5: return v[2];
        default: return v[0] + v[1] + v[2] + v[3] + v[4] + v[5] + v[6] + v[7];
    }
}

int main(int argc, char **argv) {
    if (argc < 7) { fprintf(stderr, "usage: ask ADDRESS PORT NAMES CPU SECONDS RATE [KEY=VALUE...]\n"); return 2; }
    int even = !strcmp(option(argc, argv, "gaps", "poisson"), "even");
    int batch = atoi(option(argc, argv, "batch", "64")), single = atoi(option(argc, argv, "single", "0"));
    int sockets = atoi(option(argc, argv, "sockets", "16")), turn = atoi(option(argc, argv, "turn", "32"));
    int nap = atoi(option(argc, argv, "nap", "0")), reads = atoi(option(argc, argv, "read", "64"));
    int64_t cork = atoll(option(argc, argv, "cork", "0")) * 1000;
    int look = atoi(option(argc, argv, "look", "0")), watched = atoi(option(argc, argv, "watch", "1"));
    read_names(argv[3], atoi(option(argc, argv, "edns", "0")));
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(atoi(argv[4]), &set);
    sched_setaffinity(0, sizeof set, &set);
    double seconds = atof(argv[5]), rate = atof(argv[6]);
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(argv[2]))};
    inet_pton(AF_INET, argv[1], &to.sin_addr);
    struct pollfd fds[MOST];
    for (int i = 0; i < sockets; i++) {
        int room = 4 << 20;
        fds[i] = (struct pollfd){.fd = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK, 0), .events = POLLIN};
        setsockopt(fds[i].fd, SOL_SOCKET, SO_RCVBUFFORCE, &room, sizeof room);
        if (connect(fds[i].fd, (void *)&to, sizeof to)) { perror("connect"); return 1; }
    }
    static struct mmsghdr out[MOST], in[MOST];
    static struct iovec ov[MOST], iv[MOST];
    static uint8_t answers[MOST][2048], asks[MOST][ROOM];
    for (int i = 0; i < MOST; i++) {
        ov[i].iov_base = asks[i];
        iv[i] = (struct iovec){answers[i], sizeof answers[i]};
        out[i].msg_hdr.msg_iov = &ov[i], out[i].msg_hdr.msg_iovlen = 1;
        in[i].msg_hdr.msg_iov = &iv[i], in[i].msg_hdr.msg_iovlen = 1;
    }
    srand48(1);
    long sent = 0, got = 0, calls = 0, receives = 0, at = 0;
    int64_t begin = now_ns() + 1000000, end = begin + (int64_t)(seconds * 1e9), gone = begin;
    double due = (double)begin;
    long before[6];
    for (int i = 0; i < 6; i++) before[i] = ticks_of(watched, i);
    int socket_now = 0, in_turn = 0, since_look = 0;
    int64_t now, late_sum = 0;
    while ((now = now_ns()) < end) {
        int n = 0;
        if (!cork || now >= gone + cork) {
            while (n < batch && due <= (double)now) {
                int which = (int)(at++ % count);
                memcpy(asks[n], names[which], (size_t)lengths[which]);
                asks[n][0] = (uint8_t)(at >> 8), asks[n][1] = (uint8_t)at;
                ov[n].iov_len = (size_t)lengths[which];
                late_sum += now - (int64_t)due;
                due += even ? 1e9 / rate : -log(1 - drand48()) * 1e9 / rate;
                n++;
            }
            if (n) gone = now;
        }
        for (int i = 0; i < n;) {
            int many = single ? 1 : n - i;
            int r = single ? (send(fds[socket_now].fd, asks[i], ov[i].iov_len, 0) > 0) : sendmmsg(fds[socket_now].fd, out + i, (unsigned)many, 0);
            calls++;
            if (r <= 0) { i += many; continue; }
            sent += r, i += r, in_turn += r;
            if (in_turn >= turn) socket_now = (socket_now + 1) % sockets, in_turn = 0;
        }
        since_look += n;
        if (n && since_look < look) continue;
        since_look = 0;
        int ready = poll(fds, (nfds_t)sockets, n || !nap ? 0 : 1);
        for (int i = 0; ready > 0 && i < sockets; i++) {
            if (!(fds[i].revents & POLLIN)) continue;
            int r = reads == 1 ? (recv(fds[i].fd, answers[0], sizeof answers[0], 0) > 0) : recvmmsg(fds[i].fd, in, (unsigned)reads, 0, NULL);
            receives++;
            if (r > 0) got += r;
        }
    }
    double spent = (double)(now_ns() - begin) * 1e-9;
    long after[6];
    for (int i = 0; i < 6; i++) after[i] = ticks_of(watched, i) - before[i];
    struct timespec rest = {0, 50000000};
    nanosleep(&rest, NULL);
    for (int i = 0; i < sockets; i++)
        for (int r; (r = recvmmsg(fds[i].fd, in, MOST, 0, NULL)) > 0;) got += r;
    double busy = 1 - (double)after[0] / (double)after[3];
    printf("sent %.0f/s answered %.5f a call %.2f a read %.2f late %.1f us | CPU busy %.3f us/request %.2f (softirq %.2f irq %.2f user %.2f system %.2f)\n",
           (double)sent / spent, (double)got / (double)(sent ? sent : 1), (double)sent / (double)(calls ? calls : 1), (double)got / (double)(receives ? receives : 1),
           (double)late_sum / (double)(sent ? sent : 1) * 1e-3, busy, busy * spent / (double)sent * 1e6, (double)after[1] * 1e4 / (double)sent,
           (double)after[2] * 1e4 / (double)sent, (double)after[4] * 1e4 / (double)sent, (double)after[5] * 1e4 / (double)sent);
    return 0;
}
