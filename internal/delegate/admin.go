// SPDX-License-Identifier: Apache-2.0

package delegate

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/xlb-project/xlb/internal/limits"
)

// adminClient asks one process of the delegate. The process may be anything, if it was taken over: an answer is bounded, and leads to no other request.
type adminClient struct{ http *http.Transport }

// newAdminClient asks at a Unix socket of a user.
func newAdminClient(socket string, user uint32) *adminClient {
	return &adminClient{&http.Transport{
		DisableKeepAlives: true, MaxResponseHeaderBytes: int64(limits.Delegate.HeadBytes),
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx, socket, user) },
	}}
}

// dial connects to a socket that a process of that user listens at. A delegate may put a link to another socket of the host in the path of its own.
func dial(ctx context.Context, socket string, user uint32) (net.Conn, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "unix", socket)
	if err != nil {
		return nil, err
	}
	listener, err := peerUser(conn)
	if err == nil && listener != user {
		err = fmt.Errorf("%s is a socket of user %d, not of the delegate's", socket, listener)
	}
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return conn, nil
}

// peerUser is the user that listened.
func peerUser(conn net.Conn) (user uint32, err error) {
	raw, err := conn.(*net.UnixConn).SyscallConn()
	if err != nil {
		return 0, err
	}
	var cred *unix.Ucred
	var inner error
	err = raw.Control(func(fd uintptr) { cred, inner = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) })
	if err = errors.Join(err, inner); err != nil {
		return 0, err
	}
	return cred.Uid, nil
}

// ask makes one request, and returns the body of a 200.
func (a *adminClient) ask(method, path string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(context.Background(), limits.Delegate.Whole)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, "http://delegate"+path, http.NoBody)
	if err != nil {
		return nil, err
	}
	answer, err := a.http.RoundTrip(r) // not by a http.Client, which follows redirects
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(io.LimitReader(answer.Body, int64(limits.Delegate.BodyBytes)))
	if err == nil && answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s %s: %s", method, path, answer.Status)
	}
	return body, err
}

// ready is nil when all listeners listen.
func (a *adminClient) ready() error {
	_, err := a.ask(http.MethodGet, "/ready")
	return err
}

// quit has the process end.
func (a *adminClient) quit() error {
	_, err := a.ask(http.MethodPost, "/quitquitquit")
	return err
}

// connections is the statistic of all listeners' connections.
const connections = "server.total_connections"

// busy reports whether a client is connected. A process that does not answer has no use for more time.
func (a *adminClient) busy() bool {
	body, err := a.ask(http.MethodGet, "/stats?filter=^"+connections+"$")
	if err != nil {
		return false
	}
	line, _, _ := bytes.Cut(body, []byte("\n"))
	count, found := bytes.CutPrefix(line, []byte(connections+": "))
	n, err := strconv.ParseUint(string(count), 10, 64)
	return found && err == nil && n > 0
}
