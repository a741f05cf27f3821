// SPDX-License-Identifier: Apache-2.0

package pods

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// pod is a network namespace with a server.
type pod struct {
	identity string
	server   *server
	// pause is the pod's process, which ends with its standard input; nil: a thread alone is in the namespace.
	pause *exec.Cmd
	input io.Closer
}

// onThread runs do on a thread of its own, which ends with it.
func onThread(do func()) {
	go func() {
		runtime.LockOSThread()
		if unix.Gettid() != unix.Getpid() {
			do()
			return
		}
		// The first thread of the process does not end. While this goroutine has it, the next one gets another.
		defer runtime.UnlockOSThread()
		done := make(chan struct{})
		onThread(func() {
			defer close(done)
			do()
		})
		<-done
	}()
}

// enter moves the thread to a new network namespace, with a loopback interface that is up.
func enter() error {
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("make a network namespace (this needs root): %w", err)
	}
	return loopbackUp()
}

// loopbackUp sets the loopback interface of the thread's network namespace up.
func loopbackUp() error {
	lo, err := netlink.LinkByName("lo")
	if err == nil {
		err = netlink.LinkSetUp(lo)
	}
	if err != nil {
		return fmt.Errorf("set the loopback interface up: %w", err)
	}
	return nil
}

// newPod makes a pod of the thread's network namespace.
func newPod(identity string, server netip.AddrPort, ports int, hasProcess bool) (p *pod, err error) {
	p = &pod{identity: identity}
	if p.server, err = serve(identity, server, ports); err != nil {
		return nil, err
	}
	if !hasProcess {
		return p, nil
	}
	p.pause = exec.Command("cat")
	if p.input, err = p.pause.StdinPipe(); err == nil {
		err = p.pause.Start()
	}
	if err != nil {
		p.server.close()
		return nil, fmt.Errorf("start a pod's process: %w", err)
	}
	return p, nil
}

// close ends the pod's process and server.
func (p *pod) close() error {
	p.server.close()
	if p.pause == nil {
		return nil
	}
	p.input.Close()
	return p.pause.Wait()
}

const (
	// connectPause is between two attempts to connect. It is the thread's: a timer of the Go runtime has a millisecond.
	connectPause = 200 * time.Microsecond
	// connectPatience bounds one attempt.
	connectPatience = 5 * time.Second
)

// errNotServed says that no attempt to connect succeeded in time.
var errNotServed = errors.New("the namespace was not served in time")

// connect connects to an address that nothing has, every 0.2 ms until that succeeds: the namespace is served. It returns how long that took.
func connect(to netip.AddrPort, patience time.Duration) (conn net.Conn, took time.Duration, err error) {
	began := time.Now()
	for {
		conn, err = connectOnce(to)
		took = time.Since(began)
		switch {
		case err == nil:
			return conn, took, nil
		case !errors.Is(err, unix.ECONNREFUSED) && !errors.Is(err, unix.ENETUNREACH) && !errors.Is(err, unix.EINTR):
			return nil, took, err
		case took > patience:
			return nil, took, errNotServed
		}
		pause := unix.NsecToTimespec(int64(connectPause))
		// That it is interrupted makes a pause shorter.
		_ = unix.Nanosleep(&pause, nil)
	}
}

// connectOnce connects from the thread's network namespace.
func connectOnce(to netip.AddrPort) (net.Conn, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	patience := unix.NsecToTimeval(int64(connectPatience))
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_SNDTIMEO, &patience); err != nil {
		unix.Close(fd)
		return nil, err
	}
	if err := unix.Connect(fd, &unix.SockaddrInet4{Port: int(to.Port()), Addr: to.Addr().As4()}); err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("connect to %s: %w", to, err)
	}
	file := os.NewFile(uintptr(fd), "connection")
	defer file.Close()
	return net.FileConn(file)
}
