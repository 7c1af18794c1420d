// loop ROUNDS SECONDS: what is left of a transaction when nothing but its four calls is: TCP on loopback, 64 bytes asked and
// answered, client on CPU 0, server on CPU 1, both under SCHED_FIFO 20. Interleaved in each round, a new connection and a new
// client process each time: the server as a thread of the client's process, as a process, as a thread with a table of
// descriptors of its own, as a process of its own that shares the client's memory.
// Prints half a round trip (median, quartiles) and the rate over that of threads in the same round (median, quartiles).
//   gcc -O2 -o loop loop.c -lpthread && sudo ./loop 60 0.12
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { THREADS, PROCESSES, DESCRIPTORS, MEMORY, KINDS };
enum { STACK = 1 << 20 };
static const char *names[KINDS] = {"threads", "processes", "threads, own descriptors", "processes, shared memory"};

static void fail(const char *what) { perror(what); exit(1); }

static void place(int cpu)
{
    cpu_set_t set;
    struct sched_param priority = {.sched_priority = 20};
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    if (sched_setaffinity(0, sizeof set, &set) || sched_setscheduler(0, SCHED_FIFO, &priority)) fail("place");
}

static double now_s(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + time.tv_nsec * 1e-9;
}

static void *serve(void *socket)
{
    char bytes[64];
    place(1);
    while (recv((int)(long)socket, bytes, sizeof bytes, 0) > 0) send((int)(long)socket, bytes, sizeof bytes, 0);
    return NULL;
}

static void *serve_apart(void *socket)
{
    if (unshare(CLONE_FILES)) fail("unshare");
    return serve(socket);
}

static int serve_cloned(void *socket)
{
    serve(socket);
    _exit(0);
}

static double transactions(int socket, double seconds)
{
    char bytes[64] = {0};
    long count = 0;
    double begin = now_s(), now = begin;
    while (now < begin + seconds) {
        if (send(socket, bytes, sizeof bytes, 0) < 0 || recv(socket, bytes, sizeof bytes, 0) <= 0) fail("transaction");
        count++;
        now = now_s();
    }
    return (now - begin) * 5e5 / count;
}

static void pair(int sockets[2])
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof at;
    int on = 1, listener = socket(AF_INET, SOCK_STREAM, 0);
    if (bind(listener, (void *)&at, length) || listen(listener, 1)) fail("listen");
    getsockname(listener, (void *)&at, &length);
    sockets[0] = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(sockets[0], (void *)&at, length)) fail("connect");
    sockets[1] = accept(listener, NULL, NULL);
    for (int end = 0; end < 2; end++) setsockopt(sockets[end], IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    close(listener);
}

// The client process: gives half a round trip (us) to the pipe.
static void client(int kind, int sockets[2], int result, double seconds)
{
    pthread_t thread;
    pid_t server = 0;
    if (kind == THREADS) {
        pthread_create(&thread, NULL, serve, (void *)(long)sockets[1]);
    } else if (kind == DESCRIPTORS) {
        pthread_create(&thread, NULL, serve_apart, (void *)(long)sockets[1]);
        // The table that is left belongs to one thread again.
        usleep(2000);
    } else if (kind == MEMORY) {
        char *stack = malloc(STACK);
        server = clone(serve_cloned, stack + STACK, CLONE_VM | SIGCHLD, (void *)(long)sockets[1]);
        if (server < 0) fail("clone");
    } else if ((server = fork()) == 0) {
        close(sockets[0]);
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        serve((void *)(long)sockets[1]);
        _exit(0);
    }
    place(0);
    transactions(sockets[0], 0.02);
    double half_us = transactions(sockets[0], seconds);
    if (write(result, &half_us, sizeof half_us) != sizeof half_us) fail("write");
    if (server) kill(server, SIGKILL);
    _exit(0);
}

static double one(int kind, double seconds)
{
    int sockets[2], result[2];
    double half_us = 0;
    pair(sockets);
    if (pipe(result)) fail("pipe");
    pid_t child = fork();
    if (child == 0) client(kind, sockets, result[1], seconds);
    close(sockets[0]);
    close(sockets[1]);
    close(result[1]);
    if (read(result[0], &half_us, sizeof half_us) != sizeof half_us) fail("read");
    close(result[0]);
    waitpid(child, NULL, 0);
    return half_us;
}

static int order(const void *a, const void *b) { return (*(double *)a > *(double *)b) - (*(double *)a < *(double *)b); }

static double quantile(const double *values, int count, double at)
{
    double sorted[count];
    memcpy(sorted, values, sizeof sorted);
    qsort(sorted, count, sizeof *sorted, order);
    return sorted[(int)(at * (count - 1) + 0.5)];
}

int main(int argc, char **argv)
{
    int rounds = argc > 1 ? atoi(argv[1]) : 60;
    double seconds = argc > 2 ? atof(argv[2]) : 0.12;
    if (rounds < 1 || rounds > 10000 || !(seconds > 0 && seconds < 60)) return fprintf(stderr, "loop ROUNDS SECONDS\n"), 2;
    double half_us[KINDS][rounds], ratio[rounds];
    for (int round = 0; round < rounds; round++)
        for (int place = 0; place < KINDS; place++) {
            int kind = (place + round) % KINDS;
            half_us[kind][round] = one(kind, seconds);
        }
    for (int kind = 0; kind < KINDS; kind++) {
        for (int round = 0; round < rounds; round++) ratio[round] = half_us[THREADS][round] / half_us[kind][round];
        printf("%-27s %.2f us (%.2f to %.2f), rate over threads %.3f (%.3f to %.3f)\n", names[kind],
               quantile(half_us[kind], rounds, 0.5), quantile(half_us[kind], rounds, 0.25), quantile(half_us[kind], rounds, 0.75),
               quantile(ratio, rounds, 0.5), quantile(ratio, rounds, 0.25), quantile(ratio, rounds, 0.75));
    }
}
