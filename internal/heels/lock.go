// SPDX-License-Identifier: Apache-2.0

package heels

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"github.com/xlb-project/xlb/internal/netns"
)

// pinLock is what keeps agents, and those who detach them, from changing the same pins at once, or telling the same ends. Whoever dies lets go.
type pinLock struct {
	fd int
}

// openLock is the lock of a pin directory that is there.
func openLock(dir string) (*pinLock, error) {
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &PinError{dir, err}
	}
	return &pinLock{fd}, nil
}

func (l *pinLock) close() { unix.Close(l.fd) }

// hold waits for the lock, and has it while do runs.
func (l *pinLock) hold(do func() error) error {
	if err := l.take(0); err != nil {
		return err
	}
	return errors.Join(do(), unix.Flock(l.fd, unix.LOCK_UN))
}

// try is hold for those who come again anyway: while another has the lock, it may be one who waits for us to end, nothing is done.
func (l *pinLock) try(do func() error) error {
	err := l.take(unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return nil
	}
	if err != nil {
		return err
	}
	return errors.Join(do(), unix.Flock(l.fd, unix.LOCK_UN))
}

func (l *pinLock) take(how int) error {
	for {
		err := unix.Flock(l.fd, unix.LOCK_EX|how)
		if !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// lockPins makes the pin directory if it is not there, and returns with its lock held. Whoever had it may have taken the directory away.
func lockPins(dir string) (*pinLock, error) {
	for {
		if err := checkPin(dir); err != nil {
			return nil, err
		}
		l, err := openLock(dir)
		if errors.Is(err, unix.ENOENT) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if err := l.take(0); err != nil {
			l.close()
			return nil, &PinError{dir, fmt.Errorf("lock: %w", err)}
		}
		if l.isOf(dir) {
			return l, nil
		}
		l.close()
	}
}

// isOf says whether the directory is still the one that was opened.
func (l *pinLock) isOf(dir string) bool {
	var own, now unix.Stat_t
	return unix.Fstat(l.fd, &own) == nil && unix.Stat(dir, &now) == nil && own.Ino == now.Ino && own.Dev == now.Dev
}

// checkNamespace refuses pins whose programs are in force in another network namespace: interfaces have the same numbers there, and whatever is written for this
// one would be wrong for those. What a namespace that is gone has left may be taken over.
func (k *Kernel) checkNamespace() error {
	own, err := netns.Cookie()
	if err != nil {
		return err
	}
	device, err := k.attachedElsewhere(own)
	if err != nil || device == "" {
		return err
	}
	return &PinError{k.pin, fmt.Errorf("an agent of another network namespace has programs in force at %s there; name another directory with --pin, or end that one: xlb heels detach --pin %s", device, k.pin)}
}

// attachedElsewhere names an interface at which programs are attached in another network namespace than the one of that cookie; "" if they are nowhere else.
func (k *Kernel) attachedElsewhere(netns uint64) (device string, err error) {
	c, err := k.control()
	if err != nil || c.Abi == 0 || c.Netns == netns {
		return "", err
	}
	names, err := k.linkNames()
	if err != nil {
		return "", err
	}
	for _, name := range names {
		if _, device, _ := strings.Cut(name, "-"); device != "" && k.isAttached(name) {
			return device, nil
		}
	}
	return "", nil
}

// isAttached says whether what a link was attached to is still there.
func (k *Kernel) isAttached(name string) bool { return k.placeOfPin(name) != 0 }

// placeOfPin is the number of what a pinned link is attached to; 0 when there is no such link, or that is gone.
func (k *Kernel) placeOfPin(name string) uint64 {
	l, err := link.LoadPinnedLink(filepath.Join(k.pin, name), nil)
	if err != nil {
		return 0
	}
	defer l.Close()
	place, err := placeOf(l)
	if err != nil {
		return 0
	}
	return place
}
