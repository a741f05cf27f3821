// SPDX-License-Identifier: Apache-2.0

// What runs in the pods. It is in C because a program in Go runs for a
// millisecond before its first instruction.
//
//   pod pause                    waits for its end
//   pod serve PORT NAME          answers requests with its name and the address
//                                that they come from
//   pod ask ADDRESS PORT COUNT   connects, which is the first thing it does, and
//                                asks so many times; prints each answer, or what
//                                failed, and "end"

#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
	MESSAGE_MAX = 4096,
	PATIENCE_S = 60
};

static int fail(const char *what)
{
	printf("%s: %s\n", what, errno ? strerror(errno) : "the connection has ended");
	return 1;
}

// receive_head reads up to the end of a head, which must be all that comes.
// It returns the length, or 0 at the end of the connection.
static size_t receive_head(int fd, char *head)
{
	size_t length = 0;

	errno = 0;
	while (length < MESSAGE_MAX - 1) {
		ssize_t n = read(fd, head + length, MESSAGE_MAX - 1 - length);

		if (n <= 0)
			return 0;
		length += n;
		head[length] = 0;
		if (strstr(head, "\r\n\r\n"))
			return length;
	}
	return 0;
}

static void converse(int fd, const char *name)
{
	char request[MESSAGE_MAX], answer[MESSAGE_MAX], from[INET_ADDRSTRLEN];
	struct sockaddr_in peer;
	socklen_t size = sizeof(peer);

	if (getpeername(fd, (struct sockaddr *)&peer, &size))
		return;
	inet_ntop(AF_INET, &peer.sin_addr, from, sizeof(from));
	while (receive_head(fd, request)) {
		int n = snprintf(answer, sizeof(answer),
				 "HTTP/1.1 200 OK\r\nX-Answer: %s from %s\r\nContent-Length: 0\r\n\r\n", name, from);

		if (write(fd, answer, n) != n)
			return;
	}
}

static int serve(const char *port, const char *name)
{
	struct sockaddr_in at = { .sin_family = AF_INET, .sin_port = htons(atoi(port)) };
	int on = 1, listener = socket(AF_INET, SOCK_STREAM, 0);

	signal(SIGCHLD, SIG_IGN);
	setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (bind(listener, (struct sockaddr *)&at, sizeof(at)) || listen(listener, SOMAXCONN))
		return fail("listen");
	puts("ready");
	for (;;) {
		int fd = accept(listener, NULL, NULL);

		if (fd < 0)
			return fail("accept");
		if (fork() == 0) {
			close(listener);
			converse(fd, name);
			_exit(0);
		}
		close(fd);
	}
}

static int ask(const char *address, const char *port, int count)
{
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons(atoi(port)) };
	char request[MESSAGE_MAX], answer[MESSAGE_MAX];
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	inet_pton(AF_INET, address, &to.sin_addr);
	if (connect(fd, (struct sockaddr *)&to, sizeof(to)))
		return fail("connect");
	// The first process of a PID namespace has no default actions: SIGALRM would not end it.
	struct timeval patience = { .tv_sec = PATIENCE_S };
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	int length = snprintf(request, sizeof(request), "GET / HTTP/1.1\r\nHost: %s\r\n\r\n", address);

	for (int i = 0; i < count; i++) {
		if (write(fd, request, length) != length)
			return fail("send");
		if (!receive_head(fd, answer))
			return fail("receive");
		char *said = strcasestr(answer, "x-answer: ");

		printf("%s\n", said ? strtok(said + strlen("x-answer: "), "\r") : strtok(answer, "\r"));
	}
	return 0;
}

int main(int argc, char **argv)
{
	setvbuf(stdout, NULL, _IOLBF, 0);
	if (argc == 5 && !strcmp(argv[1], "ask")) {
		int status = ask(argv[2], argv[3], atoi(argv[4]));

		puts("end");
		return status;
	}
	// For the same reason.
	signal(SIGTERM, _exit);
	if (argc == 4 && !strcmp(argv[1], "serve"))
		return serve(argv[2], argv[3]);
	if (argc == 2 && !strcmp(argv[1], "pause"))
		for (;;)
			pause();
	fputs("usage: pod pause | serve PORT NAME | ask ADDRESS PORT COUNT\n", stderr);
	return 2;
}
