/* gap SECONDS: reads the TSC in a loop on one CPU (selected by taskset). A gap between two readings of more than 1000
 * ticks (about 0.4 us) and less than 100 us is time in which something else ran on the CPU. Prints gaps per second,
 * their mean length, and their share of the time. x86 only. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>
#include <x86intrin.h>

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec * 1e-9;
}

int main(int count, char **words)
{
	if (count != 2)
		return 2;
	setpriority(PRIO_PROCESS, 0, -20);
	static unsigned long gaps[1000000];
	unsigned long found = 0, begin = __rdtsc(), last = begin;
	double start = now(), seconds = atof(words[1]);
	while (found < 1000000) {
		unsigned long at = __rdtsc();
		if (at - last > 1000)
			gaps[found++] = at - last;
		last = at;
		/* The clock is read seldom, so that reading it causes no gaps. */
		if ((at & 0xfffff) < 64 && now() - start > seconds)
			break;
	}
	double took = now() - start, hz = (__rdtsc() - begin) / took, sum = 0;
	unsigned long short_ones = 0;
	for (unsigned long i = 0; i < found; i++) {
		double us = gaps[i] / hz * 1e6;
		if (us < 100)
			sum += us, short_ones++;
	}
	printf("%.0f gaps/s, mean %.2f us, %.3f %% of the CPU\n", short_ones / took, sum / (short_ones ? short_ones : 1), sum / took * 1e-4);
}
