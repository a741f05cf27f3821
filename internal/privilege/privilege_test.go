// SPDX-License-Identifier: Apache-2.0

package privilege

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// childVariable is set in the process that drops capabilities, which a process cannot take back.
const childVariable = "XLB_TEST_PRIVILEGE_CHILD"

func TestMain(m *testing.M) {
	if os.Getenv(childVariable) == "" {
		os.Exit(m.Run())
	}
	if err := child(); err != nil {
		fmt.Println(err)
		if errors.Is(err, unix.ENOTSUP) {
			os.Exit(notSupported)
		}
		os.Exit(1)
	}
}

const (
	remaining = 1<<unix.CAP_BPF | 1<<unix.CAP_NET_ADMIN | 1<<unix.CAP_CHECKPOINT_RESTORE
	// threads that are there before, and threadsLater that start afterwards.
	threads, threadsLater = 4, 8
	notSupported          = 3
)

// child drops capabilities, and prints the lines of each thread's status.
func child() error {
	stop := make(chan struct{})
	defer close(stop)
	startThreads(threads, stop)
	if err := Drop(remaining); err != nil {
		return err
	}
	startThreads(threadsLater, stop)
	files, err := filepath.Glob("/proc/self/task/*/status")
	for _, file := range files {
		text, readErr := os.ReadFile(file)
		err = errors.Join(err, readErr)
		for line := range strings.Lines(string(text)) {
			if strings.HasPrefix(line, "Cap") || strings.HasPrefix(line, "NoNewPrivs") {
				fmt.Print(line)
			}
		}
	}
	return err
}

// startThreads returns when so many threads are there, besides others, which end with stop.
func startThreads(n int, stop <-chan struct{}) {
	var begun sync.WaitGroup
	for range n {
		begun.Add(1)
		go func() {
			runtime.LockOSThread()
			begun.Done()
			<-stop
		}()
	}
	begun.Wait()
}

func TestAllThreadsHaveWhatIsLeft(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root, which has capabilities")
	}
	for _, tt := range []struct {
		name    string
		command []string
		// bounded: the bounding set is changed, too.
		bounded bool
	}{
		{"root", nil, true},
		{"without the right to change the bounding set", []string{"setpriv", "--bounding-set=-setpcap"}, false},
		{"ambient ones", []string{"setpriv", "--inh-caps=+bpf,+net_admin,+checkpoint_restore,+kill,+setpcap", "--ambient-caps=+bpf,+net_admin,+checkpoint_restore,+kill,+setpcap", "--reuid=65534", "--clear-groups"}, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			// A user other than root may not get at the test's own binary.
			self, err := os.Open("/proc/self/exe")
			if err != nil {
				t.Fatal(err)
			}
			defer self.Close()
			cmd := exec.Command("/proc/self/fd/3")
			if tt.command != nil {
				cmd = exec.Command(tt.command[0], append(tt.command[1:], "/proc/self/fd/3")...)
			}
			cmd.Env, cmd.ExtraFiles, cmd.Dir = append(os.Environ(), childVariable+"=1"), []*os.File{self}, "/"
			output, err := cmd.CombinedOutput()
			if cmd.ProcessState.ExitCode() == notSupported {
				t.Skipf("needs a binary without cgo, as the daemon is: %s", output)
			}
			if err != nil {
				t.Fatalf("%v:\n%s", err, output)
			}
			checkStatus(t, string(output), tt.bounded)
		})
	}
}

// checkStatus judges what the child has printed of its threads.
func checkStatus(t *testing.T, output string, bounded bool) {
	t.Helper()
	want := map[string]string{
		"CapInh": hex(0), "CapPrm": hex(remaining), "CapEff": hex(remaining), "CapBnd": hex(remaining), "CapAmb": hex(0), "NoNewPrivs": "1",
	}
	seen := map[string]int{}
	for line := range strings.Lines(output) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":\t")
		seen[name]++
		if name == "CapBnd" && !bounded {
			continue
		}
		if want[name] != value {
			t.Errorf("%s of a thread: got %q, want %q", name, value, want[name])
		}
	}
	for name := range want {
		if seen[name] < threads+threadsLater {
			t.Errorf("%s: %d threads have it, want %d or more:\n%s", name, seen[name], threads+threadsLater, output)
		}
	}
}

func hex(s Set) string { return fmt.Sprintf("%016x", uint64(s)) }

func TestUsed(t *testing.T) {
	const (
		all     = Set(1<<41 - 1)
		without = all &^ (1<<unix.CAP_BPF | 1<<unix.CAP_PERFMON)
		three   = Set(1<<unix.CAP_BPF | 1<<unix.CAP_NET_ADMIN | 1<<unix.CAP_PERFMON)
		own     = three | 1<<unix.CAP_DAC_READ_SEARCH | 1<<unix.CAP_SYS_NICE | 1<<unix.CAP_NET_BIND_SERVICE | 1<<unix.CAP_LEASE
		both    = Set(1<<unix.CAP_SYS_ADMIN | 1<<unix.CAP_SYS_PTRACE)
		admin   = Set(1 << unix.CAP_SYS_ADMIN)
	)
	for _, tt := range []struct {
		name string
		have Set
		work Work
		want Set
	}{
		{"root serves pods", all, Work{Others: true}, own | both},
		{"root serves its own network namespace", all, Work{}, own},
		{"root runs a delegate", all, Work{Delegate: true}, own | 1<<unix.CAP_SETUID | 1<<unix.CAP_SETGID | 1<<unix.CAP_CHOWN | 1<<unix.CAP_KILL},
		{"the three", three, Work{}, three},
		{"the three, and pods", three, Work{Others: true, Delegate: true}, three},
		{"CAP_SYS_ADMIN in place of two", without, Work{}, own&without | admin},
		{"nothing", 0, Work{Others: true}, 0},
	} {
		if got := Used(tt.have, tt.work); got != tt.want {
			t.Errorf("%s: got %v, want %v", tt.name, got, tt.want)
		}
	}
}

func TestAbsent(t *testing.T) {
	const all = Set(1<<41 - 1)
	for _, tt := range []struct {
		name         string
		have         Set
		others, nice bool
		delegate     bool
		want         []string
	}{
		{"all", all, true, false, false, nil},
		{"no pods, which are to be served", all &^ (1 << unix.CAP_SYS_PTRACE), true, false, false, []string{"pods and containers (CAP_SYS_PTRACE)"}},
		{"none of two for one feature", all &^ (1<<unix.CAP_SYS_ADMIN | 1<<unix.CAP_SYS_PTRACE), true, false, false, []string{"pods and containers (CAP_SYS_ADMIN)"}},
		{"no pods, which are not to be served", all &^ (1<<unix.CAP_SYS_ADMIN | 1<<unix.CAP_SYS_PTRACE), false, false, false, nil},
		{"niceness", all &^ (1 << unix.CAP_SYS_NICE), false, false, false, []string{"precedence on a busy machine (CAP_SYS_NICE)"}},
		{"no delegate, which is to run", all &^ (1 << unix.CAP_CHOWN), false, true, true, []string{"a delegate (CAP_CHOWN)"}},
		{"no delegate, which is not to run", all &^ (1 << unix.CAP_CHOWN), false, true, false, nil},
		{"niceness by the limit", all &^ (1 << unix.CAP_SYS_NICE), false, true, false, nil},
	} {
		if got := Absent(tt.have, Work{Others: tt.others, Delegate: tt.delegate}, tt.nice); !slices.Equal(got, tt.want) {
			t.Errorf("%s: got %q, want %q", tt.name, got, tt.want)
		}
	}
}

func TestListHasWhatIsKeptAndWhatIsLacking(t *testing.T) {
	kept := func(names ...string) (list []string) {
		for _, name := range names {
			list = append(list, name+" true")
		}
		return list
	}
	const three = Set(1<<unix.CAP_BPF | 1<<unix.CAP_NET_ADMIN | 1<<unix.CAP_PERFMON)
	lacking := []string{"CAP_DAC_READ_SEARCH false", "CAP_SYS_NICE false", "CAP_NET_BIND_SERVICE false", "CAP_LEASE false"}
	for _, tt := range []struct {
		name         string
		have         Set
		others, nice bool
		delegate     bool
		want         []string
	}{
		{"the three", three, false, false, false, append(kept("CAP_BPF", "CAP_NET_ADMIN", "CAP_PERFMON"), lacking...)},
		{"the three, and the niceness by the limit", three, false, true, false, append(kept("CAP_BPF", "CAP_NET_ADMIN", "CAP_PERFMON"), lacking[0], lacking[2], lacking[3])},
		{"the three, and pods", three, true, false, false, append(append(kept("CAP_BPF", "CAP_NET_ADMIN", "CAP_PERFMON"), "CAP_SYS_ADMIN false", "CAP_SYS_PTRACE false"), lacking...)},
		{"CAP_SYS_ADMIN in place of two", 1<<unix.CAP_NET_ADMIN | 1<<unix.CAP_SYS_ADMIN, false, false, false, append(kept("CAP_NET_ADMIN", "CAP_SYS_ADMIN"), lacking...)},
	} {
		var got []string
		for _, c := range List(tt.have, Work{Others: tt.others, Delegate: tt.delegate}, tt.nice) {
			got = append(got, fmt.Sprintf("%s %v", c.Name, c.Held))
			if !c.Held && c.Feature == "" {
				t.Errorf("%s: there is nothing without %s", tt.name, c.Name)
			}
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("%s: got %q, want %q", tt.name, got, tt.want)
		}
	}
}

func TestString(t *testing.T) {
	for _, tt := range []struct {
		set  Set
		want string
	}{
		{0, "none"},
		{1<<unix.CAP_BPF | 1<<unix.CAP_NET_ADMIN, "CAP_BPF, CAP_NET_ADMIN"},
		{1<<unix.CAP_LEASE | 1<<unix.CAP_FOWNER, "CAP_LEASE, others (0x8)"},
	} {
		if got := tt.set.String(); got != tt.want {
			t.Errorf("%#x: got %q, want %q", uint64(tt.set), got, tt.want)
		}
	}
}
