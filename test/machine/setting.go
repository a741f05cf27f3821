// SPDX-License-Identifier: Apache-2.0

// Package machine changes settings of the whole machine, which namespaces do not hold apart, and puts them back. What is changed is written
// down first: after a kill -9 of the process, scripts/isolate --clean puts it back.
package machine

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/vishvananda/netns"
)

// Environment variables that scripts/isolate sets: the number of the run, the directory with a record for each run, and the file that is
// the machine's network namespace.
const (
	RunVariable     = "XLB_RUN"
	RecordsVariable = "XLB_RECORDS"
	NetworkVariable = "XLB_MACHINE_NETWORK"
)

// Setting is a setting that has been changed.
type Setting struct {
	file   *os.File
	former []byte
	// record holds path and former value; "" where an earlier change of this process, which ends later, has written it.
	record string
}

// Change writes a value to a file below /proc/sys, as the machine's own network namespace shows it. Another process that wants to change
// a setting of the machine waits until all settings of this one are restored, a minute at most: it would take the changed value for the
// former one. Errors: not root, no such setting, a value that the kernel refuses, another process that takes too long.
func Change(path, value string) (*Setting, error) {
	return changed(path, func(string) string { return value })
}

// Append is Change to the former value and a further word.
func Append(path, word string) (*Setting, error) {
	return changed(path, func(former string) string { return former + " " + word })
}

func changed(path string, value func(former string) string) (*Setting, error) {
	process.Lock()
	defer process.Unlock()
	if err := process.begin(); err != nil {
		return nil, fmt.Errorf("change %s: %w", path, err)
	}
	s, err := process.change(path, value)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("change %s: %w", path, err), process.end())
	}
	return s, nil
}

// Restore puts the former value back. Changes of a process end in reverse order; Restore returns an error for another order, and changes nothing.
func (s *Setting) Restore() error {
	process.Lock()
	defer process.Unlock()
	if n := len(process.changes); n == 0 || process.changes[n-1] != s {
		return fmt.Errorf("restore %s: it is not the last setting that was changed and is not restored", s.file.Name())
	}
	process.changes = process.changes[:len(process.changes)-1]
	_, err := s.file.WriteAt(s.former, 0)
	if err == nil && s.record != "" {
		err = os.Remove(s.record)
	}
	if err != nil {
		err = fmt.Errorf("restore %s: %w", s.file.Name(), err)
	}
	return errors.Join(err, s.file.Close(), process.end())
}

// process is what this process has changed, the last change at the end.
var process changes

type changes struct {
	sync.Mutex
	changes []*Setting
	// lock is that of all processes which change settings, while this one has changes.
	lock *os.File
	// record is the directory of the run.
	record string
}

// begin takes the lock, for the first change, and puts back what killed processes have changed: none that lives has the lock.
func (c *changes) begin() (err error) {
	if len(c.changes) > 0 {
		return nil
	}
	records := recordsDirectory()
	if err := os.MkdirAll(records, 0o755); err != nil {
		return err
	}
	if c.lock, err = takeLock(filepath.Join(records, "settings.lock")); err != nil {
		return err
	}
	if err = restoreOthers(records); err == nil {
		c.record, err = runRecord(records)
	}
	if err != nil {
		return errors.Join(err, c.end())
	}
	return nil
}

// end gives the lock back behind the last change, and removes the record if it is this process's own.
func (c *changes) end() (err error) {
	if len(c.changes) > 0 {
		return nil
	}
	if os.Getenv(RunVariable) == "" && c.record != "" {
		err = os.RemoveAll(c.record)
	}
	c.record = ""
	return errors.Join(err, c.lock.Close())
}

func (c *changes) change(path string, value func(former string) string) (*Setting, error) {
	file, err := open(path)
	if err != nil {
		return nil, err
	}
	s := &Setting{file: file}
	if s.former, err = read(file); err == nil {
		s.record, err = note(c.record, path, s.former)
	}
	if err == nil {
		_, err = file.WriteAt([]byte(value(string(bytes.TrimSpace(s.former)))), 0)
	}
	if err != nil {
		if s.record != "" {
			err = errors.Join(err, os.Remove(s.record))
		}
		return nil, errors.Join(err, file.Close())
	}
	c.changes = append(c.changes, s)
	return s, nil
}

// takeLock waits for other processes that change settings.
func takeLock(path string) (*os.File, error) {
	const patience = time.Minute
	lock, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	for deadline := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return lock, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) || time.Now().After(deadline) {
			return nil, errors.Join(fmt.Errorf("wait for other processes that change settings of the machine, which hold %s: %w", path, err), lock.Close())
		}
	}
}

// restoreOthers puts back what the records of settings say.
func restoreOthers(records string) error {
	left, err := filepath.Glob(filepath.Join(records, "*", "settings", "*"))
	if err != nil {
		return err
	}
	for _, record := range left {
		text, err := os.ReadFile(record)
		if err != nil {
			return err
		}
		path, value, whole := strings.Cut(strings.TrimSpace(string(text)), "\n")
		if !whole || filepath.Clean(path) != path || !strings.HasPrefix(path, "/proc/sys/") || strings.HasSuffix(record, ".new") {
			continue // scripts/isolate tells of it.
		}
		file, err := open(path)
		if err != nil {
			return err
		}
		_, err = file.WriteAt([]byte(value), 0)
		if err := errors.Join(err, file.Close(), os.Remove(record)); err != nil {
			return fmt.Errorf("put back %s, which a killed run has changed: %w", path, err)
		}
	}
	return nil
}

// read returns what is in a file of the kernel, which tells no size.
func read(file *os.File) ([]byte, error) {
	text := make([]byte, 4096)
	n, err := file.ReadAt(text, 0)
	if n == 0 {
		return nil, fmt.Errorf("read it: %w", err)
	}
	return text[:n], nil
}

// note writes the former value down. A record is whole, or is not there; the first one of a setting is what the machine had.
func note(directory, path string, former []byte) (string, error) {
	record := filepath.Join(directory, "settings", strings.ReplaceAll(strings.TrimPrefix(path, "/"), "/", "_"))
	if _, err := os.Stat(record); err == nil {
		return "", nil
	}
	if err := os.WriteFile(record+".new", fmt.Appendf(nil, "%s\n%s\n", path, bytes.TrimSpace(former)), 0o600); err != nil {
		return "", err
	}
	return record, os.Rename(record+".new", record)
}

// runRecord is the directory of the run. A process that scripts/isolate has not started has one itself.
func runRecord(records string) (string, error) {
	if run := os.Getenv(RunVariable); run != "" {
		return filepath.Join(records, run), nil
	}
	directory := filepath.Join(records, strconv.Itoa(os.Getpid()))
	if err := os.MkdirAll(filepath.Join(directory, "settings"), 0o755); err != nil {
		return "", err
	}
	owner, err := owner()
	if err != nil {
		return "", err
	}
	return directory, os.WriteFile(filepath.Join(directory, "born"), []byte(owner), 0o600)
}

// owner tells this process from all others, in the way of scripts/isolate.
func owner() (string, error) {
	stat, err := os.ReadFile("/proc/self/stat")
	if err != nil {
		return "", err
	}
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", err
	}
	namespace, err := os.Readlink("/proc/self/ns/pid")
	if err != nil {
		return "", err
	}
	// proc_pid_stat(5): the name of the program, which may hold spaces, ends at the last bracket; the begin is the 20th field behind it.
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	return fmt.Sprintf("%d %s %s %s\n", os.Getpid(), bytes.TrimSpace(boot), namespace, fields[19]), nil
}

func recordsDirectory() string { return cmp.Or(os.Getenv(RecordsVariable), "/run/xlb-test") }

// started is the network namespace in which the process began, wherever its threads are now.
var started, errStarted = netns.Get()

// open opens a file below /proc/sys as the machine's network namespace has it. The namespace of the thread that opens decides.
func open(path string) (file *os.File, err error) {
	machine, err := network()
	if err != nil {
		return nil, fmt.Errorf("open the network namespace of the machine: %w", err)
	}
	if machine != started {
		defer machine.Close()
	}
	runtime.LockOSThread()
	own, err := netns.Get()
	if err != nil {
		runtime.UnlockOSThread()
		return nil, fmt.Errorf("open the current network namespace: %w", err)
	}
	defer own.Close()
	if err := netns.Set(machine); err != nil {
		runtime.UnlockOSThread()
		return nil, fmt.Errorf("enter the network namespace of the machine: %w", err)
	}
	file, err = os.OpenFile(path, os.O_RDWR, 0)
	if back := netns.Set(own); back != nil {
		// The thread stays locked: no other goroutine may run in the wrong namespace.
		return file, errors.Join(err, fmt.Errorf("leave the network namespace of the machine: %w", back))
	}
	runtime.UnlockOSThread()
	return file, err
}

// network is the machine's network namespace: the one that scripts/isolate left, or that of the process.
func network() (netns.NsHandle, error) {
	if path := os.Getenv(NetworkVariable); path != "" {
		return netns.GetFromPath(path)
	}
	return started, errStarted
}
