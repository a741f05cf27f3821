// SPDX-License-Identifier: Apache-2.0

package heels

import (
	"errors"
	"fmt"
	"os"
	"runtime"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"golang.org/x/sys/unix"
)

// namespace is a network namespace.
type namespace struct {
	file *os.File
	// cookie is the kernel's number of it.
	cookie uint64
}

// ownNamespace is that of the calling thread.
func ownNamespace() (*namespace, error) {
	cookie, err := netnsCookie()
	if err != nil {
		return nil, err
	}
	file, err := os.Open("/proc/thread-self/ns/net")
	if err != nil {
		return nil, fmt.Errorf("open the network namespace: %w", err)
	}
	return &namespace{file, cookie}, nil
}

func (n *namespace) close() {
	if n != nil {
		// It was only read.
		_ = n.file.Close()
	}
}

// isCurrent reports whether the calling thread is in it.
func (n *namespace) isCurrent() (bool, error) {
	var want, own unix.Stat_t
	err := errors.Join(unix.Fstat(int(n.file.Fd()), &want), unix.Stat("/proc/thread-self/ns/net", &own))
	return want.Ino == own.Ino, err
}

// enter makes the calling thread one of it, which takes a capability only if the thread is in another one.
func (n *namespace) enter() error {
	is, err := n.isCurrent()
	if err != nil || is {
		return err
	}
	return unix.Setns(int(n.file.Fd()), unix.CLONE_NEWNET)
}

// within runs do on a thread that is in it.
func (n *namespace) within(do func() error) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if is, err := n.isCurrent(); err != nil {
		return fmt.Errorf("look at the network namespace: %w", err)
	} else if is {
		return do()
	}
	done := make(chan error)
	go func() {
		// The thread is never given back: it ends with this function.
		runtime.LockOSThread()
		if err := n.enter(); err != nil {
			done <- fmt.Errorf("enter the network namespace: %w", err)
			return
		}
		done <- do()
	}()
	return <-done
}

// listsMaps reports whether the kernel lets an iterator run over what a map of sockets' storage holds. Some have that taken out: they answer EPERM to
// whatever is to run there.
func listsMaps() bool {
	p, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Name: "lists_maps", Type: ebpf.Tracing, AttachType: ebpf.AttachTraceIter, AttachTo: "bpf_sk_storage_map", License: "GPL",
		Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, 0), asm.Return()},
	})
	if err != nil {
		return false
	}
	p.Close()
	return true
}
