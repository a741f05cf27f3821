// SPDX-License-Identifier: Apache-2.0

package files

import (
	"errors"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"

	"github.com/xlb-project/xlb/test/suite"
)

// A read that a close ends leaves nothing behind, and the file may be tried again.
func TestReadThatTakesTooLongIsEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, w := io.Pipe()
		_, err := inTime("pipe", func(opened func(io.Closer)) ([]byte, error) {
			opened(r)
			return io.ReadAll(r)
		})
		if err == nil || !strings.Contains(err.Error(), "pipe: not read within 5s") {
			t.Errorf("got %v, want that it takes too long", err)
		}
		if _, err := w.Write([]byte("x")); !errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("write to what was closed: %v", err)
		}
		synctest.Wait()
		if _, err := inTime("pipe", func(func(io.Closer)) (int, error) { return 1, nil }); err != nil {
			t.Errorf("the second try: %v", err)
		}
	})
}

// One that nothing ends is not joined by others, until it ends.
func TestReadThatHangsIsTriedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		tries := atomic.Int32{}
		try := func() error {
			_, err := inTime("hangs", func(func(io.Closer)) (int, error) {
				tries.Add(1)
				<-release
				return 0, nil
			})
			return err
		}
		for range 3 {
			if err := try(); err == nil {
				t.Error("no error")
			}
		}
		if tries.Load() != 1 {
			t.Errorf("%d tries, want 1", tries.Load())
		}
		close(release)
		synctest.Wait()
		if err := try(); err != nil || tries.Load() != 2 {
			t.Errorf("after it has ended: %v, %d tries", err, tries.Load())
		}
	})
}

// Each file that hangs holds a thread, of which there are not many. When some have ended others are tried again.
func TestFilesThatHangAreNotTriedWithoutEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release, tries := make(chan struct{}), atomic.Int32{}
		try := func(path string) error {
			_, err := inTime(path, func(func(io.Closer)) (int, error) {
				tries.Add(1)
				<-release
				return 0, nil
			})
			return err
		}
		var all sync.WaitGroup
		for i := range maxHanging {
			all.Go(func() { _ = try(strconv.Itoa(i)) })
		}
		all.Wait()
		if err := try("one more"); err == nil || tries.Load() != maxHanging {
			t.Errorf("%v after %d tries, want %d", err, tries.Load(), maxHanging)
		}
		close(release)
		synctest.Wait()
		if err := try("one more"); err != nil {
			t.Errorf("after the others have ended: %v", err)
		}
	})
}

// So is a pipe whose writer says nothing.
func TestPipeWhoseWriterSaysNothingIsGivenUp(t *testing.T) {
	suite.Long(t, suite.Clock)
	path := t.TempDir() + "/pipe"
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	w, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	if _, err := Begin(path, 10); err == nil || !strings.Contains(err.Error(), "not read within") {
		t.Errorf("got %v, want that it takes too long", err)
	}
}
