// ask ADDRESS PORT NAMES SECONDS RATE [KEY=VALUE...]: an open-loop requester for DNS over UDP. Its properties can be
// changed one at a time, to see which of them makes a request expensive for the server (cost.py). NAMES is a file of
// names and types, one pair per line. Prints one line: rate, answered share, requests per send call, answers per
// receive call, mean lateness.
//     cc -O2 -o ask ask.c -lm
//   gaps=poisson|even  batch=N (most requests per sendmmsg)  single=0|1 (1: send(2) for each request)
//   turn=N (requests from one socket before the next)  read=N (most answers per recvmmsg; 1: recv(2))
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <math.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

enum { MOST = 64, SOCKETS = 16, NAMES = 65536, ROOM = 600 };
static uint8_t names[NAMES][ROOM];
static int lengths[NAMES], count;

static int64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static void read_names(const char *path) {
    FILE *file = fopen(path, "r");
    char name[300], kind[20];
    if (!file) { perror(path); exit(2); }
    while (count < NAMES && fscanf(file, "%299s %19s", name, kind) == 2) {
        uint8_t *at = names[count];
        memcpy(at, (uint8_t[]){0, 0, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0}, 12);
        int n = 12;
        for (char *label = strtok(name, "."); label; label = strtok(NULL, ".")) {
            at[n++] = (uint8_t)strlen(label);
            memcpy(at + n, label, strlen(label));
            n += (int)strlen(label);
        }
        at[n++] = 0;
        memcpy(at + n, (uint8_t[]){0, 1, 0, 1}, 4);
        n += 4;
        lengths[count++] = n;
    }
    fclose(file);
}

static const char *option(int argc, char **argv, const char *key, const char *usual) {
    size_t n = strlen(key);
    for (int i = 6; i < argc; i++)
        if (!strncmp(argv[i], key, n) && argv[i][n] == '=') return argv[i] + n + 1;
    return usual;
}

int main(int argc, char **argv) {
    if (argc < 6) { fprintf(stderr, "usage: ask ADDRESS PORT NAMES SECONDS RATE [KEY=VALUE...]\n"); return 2; }
    int even = !strcmp(option(argc, argv, "gaps", "poisson"), "even");
    int batch = atoi(option(argc, argv, "batch", "64")), single = atoi(option(argc, argv, "single", "0"));
    int turn = atoi(option(argc, argv, "turn", "32")), reads = atoi(option(argc, argv, "read", "64"));
    if (batch < 1 || batch > MOST || reads < 1 || reads > MOST) { fprintf(stderr, "ask: batch and read: expected 1 to %d\n", MOST); return 2; }
    read_names(argv[3]);
    double seconds = atof(argv[4]), rate = atof(argv[5]);
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(argv[2]))};
    inet_pton(AF_INET, argv[1], &to.sin_addr);
    struct pollfd fds[SOCKETS];
    for (int i = 0; i < SOCKETS; i++) {
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
    int64_t begin = now_ns() + 1000000, end = begin + (int64_t)(seconds * 1e9);
    double due = (double)begin;
    int socket_now = 0, in_turn = 0;
    int64_t now, late_sum = 0;
    while ((now = now_ns()) < end) {
        int n = 0;
        while (n < batch && due <= (double)now) {
            int which = (int)(at++ % count);
            memcpy(asks[n], names[which], (size_t)lengths[which]);
            asks[n][0] = (uint8_t)(at >> 8), asks[n][1] = (uint8_t)at;
            ov[n].iov_len = (size_t)lengths[which];
            late_sum += now - (int64_t)due;
            due += even ? 1e9 / rate : -log(1 - drand48()) * 1e9 / rate;
            n++;
        }
        for (int i = 0; i < n;) {
            int many = single ? 1 : n - i;
            int r = single ? (send(fds[socket_now].fd, asks[i], ov[i].iov_len, 0) > 0) : sendmmsg(fds[socket_now].fd, out + i, (unsigned)many, 0);
            calls++;
            if (r <= 0) { i += many; continue; }
            sent += r, i += r, in_turn += r;
            if (in_turn >= turn) socket_now = (socket_now + 1) % SOCKETS, in_turn = 0;
        }
        int ready = poll(fds, SOCKETS, 0);
        for (int i = 0; ready > 0 && i < SOCKETS; i++) {
            if (!(fds[i].revents & POLLIN)) continue;
            int r = reads == 1 ? (recv(fds[i].fd, answers[0], sizeof answers[0], 0) > 0) : recvmmsg(fds[i].fd, in, (unsigned)reads, 0, NULL);
            receives++;
            if (r > 0) got += r;
        }
    }
    double spent = (double)(now_ns() - begin) * 1e-9;
    struct timespec rest = {0, 50000000};
    nanosleep(&rest, NULL);
    for (int i = 0; i < SOCKETS; i++)
        for (int r; (r = recvmmsg(fds[i].fd, in, MOST, 0, NULL)) > 0;) got += r;
    printf("sent %.0f/s answered %.5f a call %.2f a read %.2f late %.1f us\n", (double)sent / spent, (double)got / (double)(sent ? sent : 1),
           (double)sent / (double)(calls ? calls : 1), (double)got / (double)(receives ? receives : 1), (double)late_sum / (double)(sent ? sent : 1) * 1e-3);
    return 0;
}
