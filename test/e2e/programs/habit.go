// SPDX-License-Identifier: Apache-2.0

package programs

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/xlb-project/xlb/test/e2e/body"
)

// HabitSpec describes a client with a habit: a way to use its socket that
// applications have and HTTP does not need.
type HabitSpec struct {
	// Address of a server of package programs, of the kind "manners", or of a
	// service in front of it.
	Address string
	// Other is a second such server, which is not behind a service.
	Other string
	// Habit is one of Habits, or UploadInParts.
	Habit string
	// Manner of the server to write with; UploadInParts alone asks for one.
	Manner string
	// Limit is the time after which a call counts as hanging.
	Limit time.Duration
}

// HabitReport is the program's only answer.
type HabitReport struct {
	// Notes are what the application observed, one entry per observation, without
	// anything that varies from run to run.
	Notes []string
}

// Habits lists the names of all habits.
func Habits() []string {
	var all []string
	for _, kind := range habitKinds {
		for name := range kind {
			all = append(all, name)
		}
	}
	slices.Sort(all)
	return all
}

type habitKind map[string]func(h *habit) error

var habitKinds = []habitKind{receiveHabits, sendHabits, readyHabits, shareHabits, connectHabits, endHabits}

// habit is a client at work.
type habit struct {
	to, other netip.AddrPort
	manner    string

	mu    sync.Mutex // guards notes
	notes []string
}

func runHabit(s *stdio) error {
	if err := quiet(); err != nil {
		return err
	}
	var spec HabitSpec
	if err := s.spec(&spec); err != nil {
		return err
	}
	h := &habit{manner: spec.Manner}
	var err error
	if h.to, err = netip.ParseAddrPort(spec.Address); err != nil {
		return err
	}
	if h.other, err = netip.ParseAddrPort(spec.Other); err != nil {
		return err
	}
	work, err := habitOf(spec.Habit)
	if err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- work(h) }()
	select {
	case err := <-ended:
		if err != nil {
			h.note("then: %s", describe(err))
		}
	case <-time.After(spec.Limit):
		h.note("then: a call hangs")
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return s.answer(HabitReport{Notes: h.notes})
}

func habitOf(name string) (func(h *habit) error, error) {
	if name == UploadInParts {
		return uploadInParts, nil
	}
	for _, kind := range habitKinds {
		if work := kind[name]; work != nil {
			return work, nil
		}
	}
	return nil, fmt.Errorf("no habit %q", name)
}

func (h *habit) note(format string, args ...any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.notes = append(h.notes, fmt.Sprintf(format, args...))
}

// noteCall notes how a call ended: without an error, or with which.
func (h *habit) noteCall(what string, err error) {
	h.note("%s: %s", what, describe(err))
}

// describe names an error as errno(3) does.
func describe(err error) string {
	var errno syscall.Errno
	switch {
	case err == nil:
		return "ok"
	case errors.As(err, &errno):
		return unix.ErrnoName(errno)
	}
	return err.Error()
}

// dial connects a blocking socket.
func (h *habit) dial() (int, error) { return connectRaw(h.to) }

// A small question whose answer the server writes in one call.
const plainQuestion = "/plain?size=100&seed=1"

// partsQuestion has an answer that comes in two parts, with a pause between. lowWater is more than the first and less than
// the second: TCP wakes a reader only if so much is new.
const (
	partsQuestion = "/parts?size=8000&seed=2&pause=200"
	partsSize     = 8000
	lowWater      = partsSize / 2
)

// lateQuestion is answered after a moment.
const lateQuestion = "/plain?size=100&seed=3&delay=300"

// noAnswer comes to this question.
const noAnswer = "/" + WriteNothing + "?size=0&seed=0"

func getOf(path string) []byte {
	return []byte("GET " + path + " HTTP/1.1\r\nHost: e2e.test\r\n\r\n")
}

func postOf(path string, size int) []byte {
	return fmt.Appendf(nil, "POST %s HTTP/1.1\r\nHost: e2e.test\r\nContent-Length: %d\r\n\r\n", path, size)
}

// uploadOf is a body that the server digests.
func uploadOf(size int64) []byte {
	// Reading a deterministic body cannot fail.
	content, _ := io.ReadAll(body.New(uint64(size), size))
	return content
}

// ask makes one request and notes the answer.
func (h *habit) ask(fd int, path string) error {
	if err := sendAll(fd, getOf(path), 0); err != nil {
		return err
	}
	return h.noteAnswer(fd)
}

// noteAnswer reads a whole answer with plain reads and notes it.
func (h *habit) noteAnswer(fd int) error { return h.noteAnswerAfter(fd, nil) }

// noteAnswerAfter is noteAnswer when a part has been read already.
func (h *habit) noteAnswerAfter(fd int, part []byte) error {
	answer, err := readAnswer(fd, part)
	if err != nil {
		return err
	}
	h.note("answer: %s", answer)
	return nil
}

// UploadInParts is no habit of clients: it sends what shows how a server uses its sockets.
const UploadInParts = "upload in parts"

// uploadInParts sends head and body apart, the body in two parts with a pause between, for answers of several sizes.
func uploadInParts(h *habit) error {
	fd, err := h.dial()
	if err != nil {
		return err
	}
	content := uploadOf(10_000)
	for _, size := range []int{1, 300, 20_000} {
		head := postOf(fmt.Sprintf("/%s?seed=5&size=%d", h.manner, size), len(content))
		for _, part := range [][]byte{head, content[:3000], content[3000:]} {
			if err := sendAll(fd, part, 0); err != nil {
				return err
			}
			untilBlocked()
		}
		if err := h.noteAnswer(fd); err != nil {
			return err
		}
	}
	return nil
}

// readAnswer reads one answer and describes it: all of it that XLB must not
// change.
func readAnswer(fd int, part []byte) (string, error) {
	r := newReader(io.MultiReader(bytes.NewReader(part), blockingReader(fd)))
	response, err := http.ReadResponse(r, nil)
	if err != nil {
		return "", err
	}
	digest := sha256.New()
	n, err := io.Copy(digest, response.Body)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%d of %s, %d bytes %.12s, request had %.12s, oddities %q, %d bytes behind it",
		response.StatusCode, response.Header.Get(Identity), n, body.Sum(digest), response.Header.Get(UploadDigest), response.Header.Get(ReadOddly), r.Buffered()), nil
}

// setInt is setsockopt(2) for options of one int.
func setInt(fd, level, option, value int) error {
	return os.NewSyscallError("setsockopt", unix.SetsockoptInt(fd, level, option, value))
}

// setTimeout sets SO_RCVTIMEO or SO_SNDTIMEO.
func setTimeout(fd, option int, d time.Duration) error {
	timeout := unix.NsecToTimeval(d.Nanoseconds())
	return os.NewSyscallError("setsockopt", unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, option, &timeout))
}
