// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "oracle.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

#define MAX_ORACLES 8

struct oracle {
	const char *name;
	int to;
	int from;
};

static struct oracle oracles[MAX_ORACLES];
static int count = -1;

static void die(const char *what)
{
	perror(what);
	abort();
}

static void start(struct oracle *o)
{
	int to[2], from[2];
	pid_t pid;

	if (pipe(to) || pipe(from))
		die("oracle: pipe");
	pid = fork();
	if (pid < 0)
		die("oracle: fork");
	if (!pid) {
		dup2(to[0], STDIN_FILENO);
		dup2(from[1], STDOUT_FILENO);
		close(to[1]);
		close(from[0]);
		execl("/bin/sh", "sh", "-c", o->name, (char *)NULL);
		_exit(127);
	}
	close(to[0]);
	close(from[1]);
	o->to = to[1];
	o->from = from[0];
}

/* The commands are separated by colons; the first call starts them. */
static void start_all(void)
{
	char *list = getenv("XLB_ORACLES"), *name;

	count = 0;
	list = list ? strdup(list) : NULL;
	for (name = list ? strtok(list, ":") : NULL; name && count < MAX_ORACLES; name = strtok(NULL, ":")) {
		oracles[count].name = name;
		start(&oracles[count++]);
	}
}

static void send_all(const struct oracle *o, const void *data, size_t size)
{
	const char *p = data;
	ssize_t n;

	for (; size; p += n, size -= n) {
		n = write(o->to, p, size);
		if (n <= 0)
			die(o->name);
	}
}

static void ask(const struct oracle *o, enum oracle_kind kind, const uint8_t *data, size_t size, uint32_t head,
		uint64_t body)
{
	uint32_t header[3] = { kind, size, head };
	uint8_t answer;

	send_all(o, header, sizeof(header));
	send_all(o, &body, sizeof(body));
	send_all(o, data, size);
	if (read(o->from, &answer, 1) != 1)
		die(o->name);
	if (answer == 1)
		return;
	fprintf(stderr, "fuzz: wrong: %s does not agree with %u and %#llx\n", o->name, head, (unsigned long long)body);
	abort();
}

void oracle_agrees(enum oracle_kind kind, const uint8_t *data, size_t size, uint32_t head, uint64_t body)
{
	if (count < 0)
		start_all();
	for (int i = 0; i < count; i++)
		ask(&oracles[i], kind, data, size, head, body);
}
