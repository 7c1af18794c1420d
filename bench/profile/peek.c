/* peek BYTES SECONDS: 64 KiB wait at a TCP socket on loopback. Copies their first BYTES again and again (MSG_PEEK) for
 * SECONDS. Prints BYTES, the number of calls and the CPU time of the thread (s). */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

static double at(clockid_t clock)
{
	struct timespec t;
	clock_gettime(clock, &t);
	return t.tv_sec + t.tv_nsec * 1e-9;
}

int main(int count, char **words)
{
	if (count != 3)
		return 2;
	size_t bytes = atoi(words[1]);
	double seconds = atof(words[2]);
	int listener = socket(AF_INET, SOCK_STREAM, 0), room = 1 << 20;
	struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t length = sizeof address;
	bind(listener, (void *)&address, length);
	listen(listener, 1);
	getsockname(listener, (void *)&address, &length);
	int sender = socket(AF_INET, SOCK_STREAM, 0);
	connect(sender, (void *)&address, sizeof address);
	int reader = accept(listener, 0, 0);
	static char memory[1 << 20];
	setsockopt(reader, SOL_SOCKET, SO_RCVBUF, &room, sizeof room);
	memset(memory, 7, sizeof memory);
	if (send(sender, memory, 65536, 0) != 65536)
		return 1;
	usleep(200000);
	unsigned long calls = 0;
	double begin = at(CLOCK_MONOTONIC), cpu_s = at(CLOCK_THREAD_CPUTIME_ID);
	while (at(CLOCK_MONOTONIC) - begin < seconds) {
		for (int i = 0; i < 50; i++, calls++)
			if (recv(reader, memory, bytes, MSG_PEEK) != (ssize_t)bytes)
				return 1;
	}
	printf("%zu %lu %.6f\n", bytes, calls, at(CLOCK_THREAD_CPUTIME_ID) - cpu_s);
}
