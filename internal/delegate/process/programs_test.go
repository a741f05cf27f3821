// SPDX-License-Identifier: Apache-2.0

package process

import (
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// programs are what this binary is when it is started in a Confinement.
var programs = map[string]func(args []string){
	"state":     printState,
	"exit":      func(args []string) { os.Exit(number(args[0])) },
	"signal":    func(args []string) { signalSelf(syscall.Signal(number(args[0]))) },
	"sleep":     func([]string) { fmt.Println("ready"); sleep() },
	"deaf":      deaf,
	"family":    func([]string) { family(); fmt.Println("ready"); sleep() },
	"orphans":   func([]string) { family() },
	"write":     func([]string) { fmt.Println("out"); fmt.Fprintln(os.Stderr, "err"); fmt.Print("last") },
	"reopen":    reopen,
	"long":      func([]string) { fmt.Print(strings.Repeat("x", 20*maxLine)); fmt.Println("y\nnext") },
	"endless":   func([]string) { endless("x") },
	"flood":     func([]string) { endless("line\n") },
	"bomb":      bomb,
	"memory":    takeMemory,
	"--version": func([]string) { fmt.Print("\nenvoy  version: 0123abc/1.29.3/Clean/RELEASE/BoringSSL\n\n") },
}

func number(text string) int {
	n, err := strconv.Atoi(text)
	if err != nil {
		panic(err)
	}
	return n
}

func sleep() { time.Sleep(time.Hour) }

// signalSelf ends by a signal that Go handles otherwise.
func signalSelf(s syscall.Signal) {
	signal.Reset(s)
	_ = syscall.Kill(os.Getpid(), s)
	sleep()
}

// deaf ignores whatever can be.
func deaf([]string) {
	signal.Ignore(syscall.SIGTERM, syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT)
	fmt.Println("child", os.Getpid())
	sleep()
}

// kin is how many children a program has.
const kin = 3

// family starts children in sessions of their own, and waits until they are deaf.
func family() {
	for range kin {
		r, w, err := os.Pipe()
		if err != nil {
			panic(err)
		}
		child(&os.ProcAttr{Files: []*os.File{nil, w, nil}, Sys: &syscall.SysProcAttr{Setsid: true}}, "deaf")
		w.Close()
		var line [64]byte
		n, err := r.Read(line[:])
		if err != nil {
			panic(err)
		}
		fmt.Print(string(line[:n]))
	}
}

func child(attr *os.ProcAttr, args ...string) {
	if _, err := os.StartProcess("/proc/self/exe", append([]string{argumentZero}, args...), attr); err != nil {
		panic(err)
	}
}

// bombSize is far beyond the bound that the test sets.
const bombSize = 200

func bomb([]string) {
	for range bombSize {
		if _, err := os.StartProcess("/proc/self/exe", []string{argumentZero, "deaf"}, &os.ProcAttr{}); err != nil {
			fmt.Println("refused:", err)
			sleep()
		}
	}
	fmt.Println("unbounded")
}

func takeMemory([]string) {
	var taken [][]byte
	for range 64 {
		b := make([]byte, 16<<20)
		for i := 0; i < len(b); i += 4096 {
			b[i] = 1
		}
		taken = append(taken, b)
	}
	fmt.Println("unbounded", len(taken))
}

func reopen([]string) {
	f, err := os.OpenFile("/dev/stdout", os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		panic(err)
	}
	fmt.Fprintln(f, "by /dev/stdout")
}

func endless(text string) {
	for much := []byte(strings.Repeat(text, 1000)); ; {
		if _, err := os.Stdout.Write(much); err != nil {
			panic(err)
		}
	}
}

// printState writes what a program has been given.
func printState(args []string) {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		panic(err)
	}
	fmt.Print(string(status))
	var core unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_CORE, &core); err != nil {
		panic(err)
	}
	keyring, err := unix.KeyctlGetKeyringID(unix.KEY_SPEC_SESSION_KEYRING, false)
	if err != nil {
		keyring = -1
	}
	dir, _ := os.Getwd()
	input, _ := os.Readlink("/proc/self/fd/0")
	session, _ := unix.Getsid(0)
	fmt.Printf("core:\t%d\nkeyring:\t%d\ndir:\t%s\ninput:\t%s\narguments:\t%q\n", core.Cur, keyring, dir, input, args)
	precedence, _ := unix.Getpriority(unix.PRIO_PROCESS, 0)
	fmt.Printf("niceness:\t%d\nspared:\t%s\n", 20-precedence, self.read("oom_score_adj"))
	fmt.Printf("environment:\t%d\nleader:\t%v\nfiles:\t%v\n", len(os.Environ()), session == os.Getpid(), inherited())
}

// inherited are files that are not closed with execution and that Go's runtime has not opened.
func inherited() (found []string) {
	for fd := 3; fd < 1024; fd++ {
		flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
		if err == nil && flags&unix.FD_CLOEXEC == 0 {
			found = append(found, strconv.Itoa(fd))
		}
	}
	return found
}
