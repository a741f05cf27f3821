// SPDX-License-Identifier: Apache-2.0

package xds

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/xlb-project/xlb/internal/limits"
)

// probes find a server that is gone without a word, in 60 s. They are TCP's, which any server answers: many gRPC servers
// close connections of clients that send HTTP/2's PING as often.
var probes = net.KeepAliveConfig{Enable: true, Idle: 30 * time.Second, Interval: 10 * time.Second, Count: 3}

// Dial prepares a connection to a server, which is made with the first stream.
func Dial(s Server) (*grpc.ClientConn, error) { return dial(s) }

// dial prepares a connection, which is made with the first stream.
func dial(s Server) (*grpc.ClientConn, error) {
	options := []grpc.DialOption{
		grpc.WithTransportCredentials(security(s)),
		grpc.WithContextDialer(dialTCP),
		grpc.WithConnectParams(grpc.ConnectParams{MinConnectTimeout: limits.ControlPlane.Connect}),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(limits.ControlPlane.BodyBytes)),
		grpc.WithMaxHeaderListSize(uint32(limits.ControlPlane.HeadBytes)),
		grpc.WithNoProxy(),
		grpc.WithDisableServiceConfig(),
		grpc.WithIdleTimeout(0),
	}
	if s.Authority != "" {
		options = append(options, grpc.WithAuthority(s.Authority))
	}
	if s.KeepAlive > 0 {
		options = append(options, grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: s.KeepAlive, Timeout: s.KeepAliveTimeout}))
	}
	return grpc.NewClient(s.Address, options...)
}

func dialTCP(ctx context.Context, address string) (net.Conn, error) {
	dialer := net.Dialer{KeepAliveConfig: probes, Control: limitUnanswered}
	if path, ok := strings.CutPrefix(address, "unix:"); ok {
		conn, err := dialer.DialContext(ctx, "unix", strings.TrimPrefix(path, "//"))
		if errors.Is(err, fs.ErrPermission) {
			return nil, fmt.Errorf("%w; make the socket root's, or writable for all: the daemon has no CAP_DAC_OVERRIDE, of root neither", err)
		}
		return conn, err
	}
	return dialer.DialContext(ctx, "tcp", address)
}

// limitUnanswered bounds the time in which nothing is acknowledged: probes are not sent while something waits to be.
func limitUnanswered(network, _ string, c syscall.RawConn) error {
	if !strings.HasPrefix(network, "tcp") {
		return nil
	}
	var set error
	err := c.Control(func(fd uintptr) {
		set = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(limits.ControlPlane.Idle.Milliseconds()))
	})
	return cmp.Or(err, os.NewSyscallError("setsockopt TCP_USER_TIMEOUT", set))
}

func security(s Server) credentials.TransportCredentials {
	if s.TLS == nil {
		return insecure.NewCredentials()
	}
	nameless := s.TLS.Clone()
	nameless.ServerName = "" // it would become the authority
	return certified{credentials.NewTLS(nameless), s.TLS.ServerName}
}

// certified is TLS with a server whose certificate has another name than the authority of requests. gRPC would have one name for both.
type certified struct {
	credentials.TransportCredentials
	name string // empty: the authority's
}

// ClientHandshake checks the certificate for the name.
func (c certified) ClientHandshake(ctx context.Context, authority string, conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	if c.name != "" {
		authority = c.name
	}
	return c.TransportCredentials.ClientHandshake(ctx, authority, conn)
}

// Clone is what gRPC asks of credentials.
func (c certified) Clone() credentials.TransportCredentials {
	return certified{c.TransportCredentials.Clone(), c.name}
}

// converse keeps a stream to one of the servers. They are tried in their order, without a pause; when none is left, there is one before the first
// is tried again. A server that has answered is kept as long as its stream lasts.
func (c *Client) converse(ctx context.Context) {
	for ctx.Err() == nil {
		for i := range c.config.Servers {
			answered, err := c.talk(ctx, i)
			c.lost(i, err)
			if ctx.Err() != nil {
				return
			}
			c.log.Warn("stream to the management server ended", "server", c.config.Servers[i].Address, "error", err)
			if !answered {
				continue
			}
			if !tooMuch(err) { // else it would be the same at once
				c.pauses.Reset()
			}
			break
		}
		if !Sleep(ctx, c.pauses.Next()) {
			return
		}
	}
}

// lost notes that there is no stream.
func (c *Client) lost(server int, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.counted.streamFailures++
	c.link = link{server: c.config.Servers[server].Address, since: time.Now(), fault: err.Error()}
}

// talk has one stream with a server, and says whether the server has answered.
func (c *Client) talk(ctx context.Context, server int) (answered bool, err error) {
	to := c.config.Servers[server]
	conn, err := dial(to)
	if err != nil {
		return false, fmt.Errorf("dial %s: %w", to.Address, err)
	}
	defer conn.Close()
	ctx, cancel := context.WithCancel(metadata.NewOutgoingContext(ctx, metadata.New(to.Metadata)))
	defer cancel()
	w, err := open(ctx, conn, c.config.Delta)
	if err != nil {
		return false, fmt.Errorf("open a stream: %w", err)
	}
	c.mu.Lock()
	c.link = link{connected: true, server: to.Address, since: time.Now()}
	c.mu.Unlock()
	s := &stream{client: c, wire: w, server: server, queue: make(chan *request, maxQueue), node: c.config.Node}
	err = s.run(ctx, cancel)
	return s.heard, err
}

// tooMuch says whether the server sent more than is taken.
func tooMuch(err error) bool { return status.Code(err) == codes.ResourceExhausted }

// explain makes the end of a stream plain.
func explain(err error) error {
	if tooMuch(err) && strings.Contains(err.Error(), "larger than max") {
		return fmt.Errorf("a response is larger than %d MiB, more than is taken: %w", limits.ControlPlane.BodyBytes>>20, err)
	}
	return err
}
