// SPDX-License-Identifier: Apache-2.0

package files

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// watched is a file and a clock.
type watched struct {
	*testing.T
	Watch
	path string
	now  time.Time
}

func watch(t *testing.T) *watched {
	return &watched{T: t, path: filepath.Join(t.TempDir(), "file"), now: time.Unix(1, 0)}
}

func (w *watched) write(text string) {
	w.Helper()
	if err := os.WriteFile(w.path, []byte(text), 0o600); err != nil {
		w.Fatal(err)
	}
}

// take looks after some time, and takes what is due.
func (w *watched) take(after time.Duration) (due bool) {
	w.Helper()
	w.now = w.now.Add(after)
	stamp, due := w.Due(w.path, w.now)
	if due && !w.Take(w.path, stamp) {
		w.Error("the file has changed meanwhile")
	}
	return due
}

func (w *watched) want(due bool, after time.Duration, what string) {
	w.Helper()
	if got := w.take(after); got != due {
		w.Errorf("%s, %v later: due %t, want %t", what, after, got, due)
	}
}

func TestFileThatIsWrittenInItsPlaceHasToBeQuiet(t *testing.T) {
	w := watch(t)
	w.write("first")
	w.want(true, 0, "never looked at")
	w.want(false, time.Hour, "as before")
	w.write("begun")
	w.want(false, 0, "written")
	w.want(false, QuietTime-1, "written")
	w.write("and ended")
	w.want(false, 1, "written again")
	w.want(false, QuietTime-1, "written again")
	w.want(true, 1, "written again")
	w.want(false, time.Hour, "as before")
}

func TestFileThatIsMovedIsDueAtOnce(t *testing.T) {
	w := watch(t)
	w.write("first")
	w.want(true, 0, "never looked at")
	if err := os.WriteFile(w.path+".new", []byte("other"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(w.path+".new", w.path); err != nil {
		t.Fatal(err)
	}
	w.want(true, 0, "moved")
	w.want(false, time.Hour, "as before")
}

// Kubernetes exchanges a link to a directory.
func TestFileBehindALinkThatIsExchangedIsDueAtOnce(t *testing.T) {
	w := watch(t)
	dir := t.TempDir()
	for _, name := range []string{"one", "two"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("same"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(filepath.Join(dir, "one"), w.path); err != nil {
		t.Fatal(err)
	}
	w.want(true, 0, "never looked at")
	if err := os.Symlink(filepath.Join(dir, "two"), w.path+".new"); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(w.path+".new", w.path); err != nil {
		t.Fatal(err)
	}
	w.want(true, 0, "exchanged")
}

// A writer that takes its time is waited for, but not for ever.
func TestFileIsDueWhenItsWriterHasClosedIt(t *testing.T) {
	w := watch(t)
	w.write("first")
	w.want(true, 0, "never looked at")
	for _, closes := range []bool{true, false} {
		f, err := os.OpenFile(w.path, os.O_WRONLY|os.O_TRUNC, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if _, err := f.WriteString("begun"); err != nil {
			t.Fatal(err)
		}
		w.want(false, 0, "written")
		w.want(false, 10*QuietTime, "open for writing")
		if closes {
			if err := f.Close(); err != nil {
				t.Fatal(err)
			}
			w.want(true, 0, "closed")
			continue
		}
		w.want(true, longestWriter, "open for writing")
	}
}

// A process that has had the file open for long, and writes nothing, does not keep the first look waiting.
func TestFileThatIsOpenForWritingIsDueAtTheFirstLookWhenItIsOld(t *testing.T) {
	w := watch(t)
	w.write("first")
	f, err := os.OpenFile(w.path, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	w.now = time.Now()
	w.want(false, 0, "open for writing")
	if err := os.Chtimes(w.path, time.Time{}, w.now.Add(-longestWriter)); err != nil {
		t.Fatal(err)
	}
	w.want(true, 0, "open for writing, and old")
}

func TestFileThatChangesWhileItIsReadIsNotTaken(t *testing.T) {
	w := watch(t)
	w.write("first")
	stamp, due := w.Due(w.path, w.now)
	if !due {
		t.Fatal("not due at the first look")
	}
	w.write("other, and longer")
	if w.Take(w.path, stamp) {
		t.Error("taken, though it has changed")
	}
	w.want(true, 0, "not taken yet")
}

func TestFileThatGoesIsDueWhenItStaysAway(t *testing.T) {
	w := watch(t)
	w.want(true, 0, "missing at the first look")
	w.want(false, time.Hour, "missing still")
	w.write("there")
	w.want(true, 0, "come")
	if err := os.Remove(w.path); err != nil {
		t.Fatal(err)
	}
	w.want(false, 0, "gone")
	w.want(true, QuietTime, "gone")
}

// A writer that comes while the lease is held waits for its end, and the kernel sends SIGIO, which must not end this process.
func TestWritersAndLooksDoNotHarmEachOther(t *testing.T) {
	const opens = 5000
	w := watch(t)
	w.write("first")
	done := make(chan error, 1)
	go func() {
		for range opens {
			f, err := os.OpenFile(w.path, os.O_WRONLY, 0)
			if err != nil {
				done <- err
				return
			}
			f.Close()
		}
		done <- nil
	}()
	stamp := StampOf(w.path)
	for looks := 0; ; looks++ {
		select {
		case err := <-done:
			if err != nil {
				t.Error(err)
			}
			t.Logf("%d looks", looks)
			return
		default:
			isWritten(w.path, stamp)
		}
	}
}
