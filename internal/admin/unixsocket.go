// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/xlb-project/xlb/internal/model"
)

// UnixScheme begins an address that is the path of a Unix socket, as unix:/run/xlb/admin.sock.
const UnixScheme = "unix:"

// UnixMode is the mode of the admin API's socket where no other is named.
const UnixMode fs.FileMode = 0o600

// lockTime is how long another daemon is waited for that takes a socket in the same directory; it needs a millisecond. Tests lengthen it.
var lockTime = time.Second

const (
	// lockPace is how often it is looked whether that one has ended.
	lockPace = 5 * time.Millisecond
	// dialTime bounds the attempt to connect that shows whether a process listens. The kernel answers it at once.
	dialTime = time.Second
)

// unixListener is the admin API's Unix socket.
type unixListener struct {
	*net.UnixListener
	path string
	// file is the socket's file, as it was bound. The socket keeps its inode while it is open, so no other file gets the number.
	file unixFile
	once sync.Once
}

// unixFile identifies a file.
type unixFile struct{ device, inode uint64 }

// ListenUnix takes a Unix socket for the admin API: path is absolute, mode has permissions alone, and 0 means UnixMode. A socket at which no process listens
// is replaced; any other file stays as it is, and is an error. The file goes with the listener, if it is still the listener's. At no time may a user connect
// whom the mode does not let in. Every error is a *ListenError.
func ListenUnix(ctx context.Context, path string, mode fs.FileMode) (net.Listener, error) {
	if mode == 0 {
		mode = UnixMode
	}
	l, err := listenUnix(ctx, path, mode)
	if err != nil {
		return nil, &ListenError{Address: UnixScheme + path, Err: err}
	}
	return l, nil
}

func listenUnix(ctx context.Context, path string, mode fs.FileMode) (*unixListener, error) {
	if err := model.CheckPipePath(path); err != nil {
		return nil, err
	}
	if err := checkDirectory(filepath.Dir(path)); err != nil {
		return nil, err
	}
	defer lockDirectory(ctx, filepath.Dir(path))()
	if err := removeStale(ctx, path); err != nil {
		return nil, err
	}
	l, err := bindUnix(ctx, path, mode)
	if err != nil {
		return nil, err
	}
	file, err := finishFile(path, mode)
	out := &unixListener{UnixListener: l, path: path, file: file}
	if err != nil {
		return nil, errors.Join(err, out.Close())
	}
	return out, nil
}

// checkDirectory refuses a directory in which every user could put a socket of theirs in the place of the daemon's.
func checkDirectory(dir string) error {
	info, err := os.Stat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("there is no directory %s; create it (systemd: RuntimeDirectory=), or choose another path", dir)
	case err != nil:
		return fmt.Errorf("directory: %w; choose a path in a directory that can be entered", err)
	case !info.IsDir():
		return fmt.Errorf("%s is no directory; choose another path", dir)
	case info.Mode().Perm()&0o002 != 0 && info.Mode()&fs.ModeSticky == 0:
		return fmt.Errorf("every user may write to directory %s, and could put another socket in this one's place; take that away (chmod o-w %s), or choose another path", dir, dir)
	}
	return nil
}

// lockDirectory has daemons that start at the same time take sockets of one directory one after another: else one could remove as stale what another one has
// just bound. Every user who may read the directory can hold such a lock for ever: after lockTime it is done without.
func lockDirectory(ctx context.Context, dir string) (unlock func()) {
	f, err := os.Open(dir)
	if err != nil {
		return func() {}
	}
	end := time.After(lockTime)
	for unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) != nil {
		select {
		case <-time.After(lockPace):
			continue
		case <-end:
		case <-ctx.Done():
		}
		break
	}
	// The lock goes with the descriptor.
	return func() { _ = f.Close() }
}

// removeStale makes room at a path: a socket at which no process listens is removed, and any other file is an error.
func removeStale(ctx context.Context, path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if info.Mode().Type() != fs.ModeSocket {
		return fmt.Errorf("there is a file that is no socket (%s), which stays as it is; remove it, or choose another path", kindOf(info.Mode()))
	}
	err = tryUnix(ctx, path)
	switch {
	case err == nil, errors.Is(err, unix.EAGAIN), errors.Is(err, unix.EPROTOTYPE):
		return syscall.EADDRINUSE
	case !errors.Is(err, unix.ECONNREFUSED):
		return fmt.Errorf("there is a socket, and whether a process listens at it is not known: %w; remove it, or choose another path", errno(err))
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("no process listens at the socket that is there, and it cannot be removed: %w; remove it, or choose another path", err)
	}
	return nil
}

// tryUnix connects to a Unix socket and hangs up. nil: a process listens.
func tryUnix(ctx context.Context, path string) error {
	conn, err := (&net.Dialer{Timeout: dialTime}).DialContext(ctx, "unix", path)
	if err != nil {
		return err
	}
	return conn.Close()
}

func kindOf(mode fs.FileMode) string {
	switch mode.Type() {
	case 0:
		return "a regular file"
	case fs.ModeDir:
		return "a directory"
	case fs.ModeSymlink:
		return "a symbolic link"
	}
	return "mode " + mode.String()
}

// bindUnix binds a socket whose file never has more permissions than mode: the kernel takes them, less the umask, from the socket itself (unix_bind_bsd of
// net/unix/af_unix.c).
func bindUnix(ctx context.Context, path string, mode fs.FileMode) (*net.UnixListener, error) {
	narrow := func(_, _ string, c syscall.RawConn) error {
		var failed error
		err := c.Control(func(fd uintptr) { failed = unix.Fchmod(int(fd), uint32(mode.Perm())) })
		return errors.Join(err, failed)
	}
	l, err := (&net.ListenConfig{Control: narrow}).Listen(ctx, "unix", path)
	if err != nil {
		return nil, fmt.Errorf("%w; choose a path where the daemon may make a socket", errno(err))
	}
	bound := l.(*net.UnixListener)
	// It would remove whatever is there by then.
	bound.SetUnlinkOnClose(false)
	return bound, nil
}

// finishFile gives the file that was bound what the umask has taken of its mode, and returns which it is. It is held meanwhile: another file that was put
// there keeps its mode.
func finishFile(path string, mode fs.FileMode) (unixFile, error) {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return unixFile{}, err
	}
	defer unix.Close(fd)
	var s unix.Stat_t
	if err := unix.Fstat(fd, &s); err != nil {
		return unixFile{}, err
	}
	if s.Mode&unix.S_IFMT != unix.S_IFSOCK || int(s.Uid) != os.Geteuid() {
		return unixFile{}, errors.New("another file was put in the place of the socket; choose a path in a directory that no other user writes to")
	}
	if s.Mode&uint32(fs.ModePerm) != uint32(mode.Perm()) {
		err = unix.Chmod("/proc/self/fd/"+strconv.Itoa(fd), uint32(mode.Perm()))
	}
	return unixFile{s.Dev, s.Ino}, err
}

// Close removes the file, if it is still the listener's, and then closes the socket: in this order, since another daemon replaces a socket at which no process
// listens, and since a file of another's may have the same number as soon as the socket is closed.
func (l *unixListener) Close() error {
	l.once.Do(l.removeFile)
	return l.UnixListener.Close()
}

func (l *unixListener) removeFile() {
	var s unix.Stat_t
	if unix.Lstat(l.path, &s) != nil || l.file != (unixFile{s.Dev, s.Ino}) {
		return
	}
	// One that stays, as in a directory that cannot be written any more, is replaced by the next daemon.
	_ = os.Remove(l.path)
}

// Accept returns a connection whose peer is known.
func (l *unixListener) Accept() (net.Conn, error) {
	conn, err := l.AcceptUnix()
	if err != nil {
		return nil, err
	}
	return &unixConn{UnixConn: conn, peer: peerOf(conn)}, nil
}
