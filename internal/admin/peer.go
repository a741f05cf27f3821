// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"

	"golang.org/x/sys/unix"
)

// peer is the user whose process has connected to the Unix socket, at that time.
type peer struct {
	uid uint32
	// valid: the kernel has reported it.
	valid bool
}

// overflowUID is the user that the kernel names in place of one who has no number in this user namespace (user_namespaces(7)): it may be any user.
const overflowUID = 65534

// unixConn is a connection of the Unix socket.
type unixConn struct {
	*net.UnixConn
	peer peer
}

// peerOf is whom SO_PEERCRED names. It is of the connect: what a process hands on to another one, or becomes, changes nothing.
func peerOf(conn *net.UnixConn) (p peer) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return peer{}
	}
	// A socket that is closed has no peer.
	_ = raw.Control(func(fd uintptr) {
		if c, err := unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED); err == nil {
			p = peer{uid: c.Uid, valid: true}
		}
	})
	return p
}

// mayChange reports whether a peer may change something of a daemon that runs as a user: root and that user may.
func (p peer) mayChange(own int) bool {
	return p.valid && (p.uid == 0 || int(p.uid) == own && p.uid != overflowUID)
}

type peerKey struct{}

// withPeer is a connection's context with its peer.
func withPeer(ctx context.Context, c net.Conn) context.Context {
	if limited, ok := c.(*limitedConn); ok {
		c = limited.Conn
	}
	if u, ok := c.(*unixConn); ok {
		return context.WithValue(ctx, peerKey{}, u.peer)
	}
	return ctx
}

// forPeers has other users than root and the daemon's own change nothing: the mode of the socket lets them in to read. No browser comes by a Unix socket, so
// every Host is answered.
func forPeers(next http.Handler) http.Handler {
	own := os.Geteuid()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p, _ := r.Context().Value(peerKey{}).(peer)
		if Changes(r) && !p.mayChange(own) {
			writeText(w, http.StatusForbidden, p.text()+": over this socket root and the daemon's own user ("+fmt.Sprint(own)+") alone change something, others read; ask as one of these\n")
			return
		}
		next.ServeHTTP(w, r)
	})
}

func (p peer) text() string {
	if !p.valid {
		return "a user that is not known"
	}
	return fmt.Sprintf("user %d", p.uid)
}
