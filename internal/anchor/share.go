// SPDX-License-Identifier: Apache-2.0

package anchor

import (
	"errors"
	"fmt"
	"net/netip"
	"os"

	"golang.org/x/sys/unix"

	"github.com/xlb-project/xlb/internal/limits"
	"github.com/xlb-project/xlb/internal/shares"
)

// share lets another daemon have a bound socket, with the connections that wait there: a daemon that starts beside another one, and the one
// that ends, leave no moment in which nobody listens (Envoy: hot restart).
//
// The socket is to be had at a name, that of a listening Unix socket in the abstract name space, which belongs to the network namespace as
// the address does. Who connects there, as the same user, gets both sockets: so every daemon that has them answers, and
// the name lasts until the last of them has closed it, in whatever way it ends. That tells who leaves whether others stay.
type share struct {
	// queue is the Unix socket.
	queue
	name  string
	bound int
}

// shareVersion is the byte that comes with the sockets: what they are, and in which order.
const shareVersion = 1

// errNoOtherDaemon says that no other daemon has the socket.
var errNoOtherDaemon = errors.New("no other daemon has it")

func shareName(a netip.AddrPort) string { return "@xlb/bound/" + a.String() }

// leavingName is the name by which the last daemon that has a bound socket says, once it gives the socket to nobody any more, that it is about to
// close it. It has that name before it gives up the other one, and until the socket is closed.
func leavingName(a netip.AddrPort) string { return "@xlb/leaving/" + a.String() }

// listenAt takes a name. The socket is to be closed.
func listenAt(name string) (fd int, err error) {
	fd, err = unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, fmt.Errorf("open Unix socket: %w", err)
	}
	err = unix.Bind(fd, &unix.SockaddrUnix{Name: name})
	if err == nil {
		err = unix.Listen(fd, unix.SOMAXCONN)
	}
	if err != nil {
		return -1, errors.Join(fmt.Errorf("listen at %s: %w", name, err), unix.Close(fd))
	}
	return fd, nil
}

// newShare offers a socket that no other daemon has.
func (s *Set) newShare(b *Bound) (*share, error) {
	name := shareName(b.address)
	fd, err := listenAt(name)
	if err != nil {
		return nil, err
	}
	sh := &share{queue: queue{set: s, fd: fd}, name: name, bound: b.fd}
	if err := sh.answer(); err != nil {
		return nil, err
	}
	return sh, nil
}

// answer begins to give the socket to those that ask.
func (sh *share) answer() error {
	if err := sh.watch(sh.acceptAll); err != nil {
		return errors.Join(err, unix.Close(sh.fd))
	}
	return nil
}

// takeBound gets the socket of an address from another daemon. errNoOtherDaemon: there is none.
func (s *Set) takeBound(a netip.AddrPort) (*Bound, error) {
	if a.Port() == 0 {
		return nil, errNoOtherDaemon // the kernel chooses one that nobody has
	}
	name := shareName(a)
	conn, err := knock(name)
	if err != nil {
		return nil, err
	}
	defer unix.Close(conn)
	bound, fd, err := receive(conn)
	if err != nil {
		return nil, fmt.Errorf("take it from another daemon: %w", err)
	}
	b := &Bound{queue: queue{set: s, fd: bound}, address: a, share: &share{queue: queue{set: s, fd: fd}, name: name, bound: bound}}
	err = checkBound(bound, a)
	if err == nil {
		err = b.share.answer()
	} else {
		err = errors.Join(err, unix.Close(fd))
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("take it from another daemon: %w", err), unix.Close(bound))
	}
	s.cfg.Logger.Info("another daemon has the socket of a listener, too; both take connections until one ends", "address", a.String())
	return b, nil
}

// checkBound fails for a socket that is not a listener's at that address.
func checkBound(fd int, a netip.AddrPort) error {
	sa, err := unix.Getsockname(fd)
	if err != nil {
		return os.NewSyscallError("getsockname", err)
	}
	protocol, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_PROTOCOL)
	if err != nil {
		return os.NewSyscallError("getsockopt", err)
	}
	if got := addrPort(sa); got != a || protocol != unix.IPPROTO_TCP {
		return fmt.Errorf("its socket is at %s, protocol %d", got, protocol)
	}
	return nil
}

// announceLeaving takes the name of who leaves. It fails where another daemon leaves, too, which says the same.
func announceLeaving(a netip.AddrPort) (end func()) {
	fd, err := listenAt(leavingName(a))
	if err != nil {
		return func() {}
	}
	return func() { unix.Close(fd) }
}

func isLeft(a netip.AddrPort) bool {
	fd, err := knock(leavingName(a))
	if err != nil {
		return false
	}
	unix.Close(fd)
	return true
}

// knock connects to who has a name. errNoOtherDaemon: no daemon of this user, or of root, does.
func knock(name string) (fd int, err error) {
	fd, err = unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, fmt.Errorf("open Unix socket: %w", err)
	}
	wait := unix.NsecToTimeval(int64(limits.Takeover.Whole))
	for _, option := range []int{unix.SO_RCVTIMEO, unix.SO_SNDTIMEO} {
		if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, option, &wait); err != nil {
			return -1, errors.Join(os.NewSyscallError("setsockopt", err), unix.Close(fd))
		}
	}
	err = uninterrupted(func() error { return unix.Connect(fd, &unix.SockaddrUnix{Name: name}) })
	if err != nil || !isTrusted(fd) {
		return -1, errors.Join(errNoOtherDaemon, unix.Close(fd))
	}
	return fd, nil
}

// uninterrupted makes a system call again that a signal has ended, as one of those by which the Go runtime interrupts goroutines: the kernel does not where a
// socket has a time limit.
func uninterrupted(call func() error) error {
	for {
		if err := call(); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// isTrusted tells whether the other end of a Unix socket belongs to the user that this process runs as, or to root.
func isTrusted(fd int) bool {
	peer, err := unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED)
	return err == nil && (peer.Uid == 0 || int(peer.Uid) == os.Geteuid())
}

var errNoSockets = errors.New("it has sent something else")

// receive gets the bound socket and that of its name.
func receive(conn int) (bound, name int, err error) {
	var version [1]byte
	control := make([]byte, unix.CmsgSpace(2*4))
	var n, controlled, flags int
	err = uninterrupted(func() (err error) {
		n, controlled, flags, _, err = unix.Recvmsg(conn, version[:], control, unix.MSG_CMSG_CLOEXEC)
		return err
	})
	if err != nil {
		return -1, -1, os.NewSyscallError("recvmsg", err)
	}
	fds, err := rightsIn(control[:controlled])
	if err != nil {
		return -1, -1, err
	}
	if n == 1 && version[0] == shareVersion && len(fds) == 2 && flags&unix.MSG_CTRUNC == 0 {
		return fds[0], fds[1], nil
	}
	err = errNoSockets
	for _, fd := range fds {
		err = errors.Join(err, unix.Close(fd))
	}
	return -1, -1, err
}

func rightsIn(control []byte) (fds []int, err error) {
	messages, err := unix.ParseSocketControlMessage(control)
	if err != nil {
		return nil, os.NewSyscallError("recvmsg", err)
	}
	for i := range messages {
		rights, err := unix.ParseUnixRights(&messages[i])
		if err != nil {
			return fds, os.NewSyscallError("recvmsg", err)
		}
		fds = append(fds, rights...)
	}
	return fds, nil
}

// acceptAll sends the sockets to those that ask.
func (sh *share) acceptAll() { sh.inPortions(&shares.Ticket{}, sh.accept) }

// accept is acceptLocked.
func (sh *share) accept(most int) (accepted int) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	accepted, _ = sh.acceptLocked(most, all, sh.sendTo)
	return accepted
}

// sendTo sends the sockets to a daemon of the same user, or of root. The caller holds mu.
func (sh *share) sendTo(conn int, _ netip.AddrPort) (open bool) {
	if isTrusted(conn) {
		// One that has gone needs nothing.
		_ = unix.Sendmsg(conn, []byte{shareVersion}, unix.UnixRights(sh.bound, sh.fd), nil, unix.MSG_NOSIGNAL)
	}
	unix.Close(conn)
	return false
}

// leave gives the name up, and reports whether another daemon has it still, and with it the socket. Of two that leave at one moment one finds
// itself alone, or both do.
func (sh *share) leave() (others bool) {
	if sh == nil {
		return false
	}
	_ = sh.closeSocket()
	fd, err := knock(sh.name)
	if errors.Is(err, errNoOtherDaemon) {
		return false
	}
	if err == nil {
		unix.Close(fd)
	}
	// Without a descriptor to find out by, another daemon may have it: to refuse connections there would end its service. Those that wait could not be accepted.
	return true
}
