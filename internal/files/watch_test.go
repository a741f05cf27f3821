// SPDX-License-Identifier: Apache-2.0

package files

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
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
	if due && !w.Take(w.path, stamp, nil) {
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
	if w.Take(w.path, stamp, nil) {
		t.Error("taken, though it has changed")
	}
	w.want(true, 0, "not taken yet")
}

// As rsync --inplace --times does, and cp --preserve over a file of the same length.
func TestFileWithTheFormerSizeAndTimeIsAnotherOne(t *testing.T) {
	w := watch(t)
	w.write("first")
	then := time.Unix(1e9, 0)
	if err := os.Chtimes(w.path, then, then); err != nil {
		t.Fatal(err)
	}
	w.want(true, 0, "never looked at")
	w.write("other")
	if err := os.Chtimes(w.path, then, then); err != nil {
		t.Fatal(err)
	}
	w.want(false, 0, "written")
	w.want(true, QuietTime, "written")
}

// Whoever may read it now has not written it.
func TestFileWhosePermissionsChangeIsDue(t *testing.T) {
	w := watch(t)
	w.write("first")
	w.want(true, 0, "never looked at")
	if err := os.Chmod(w.path, 0o400); err != nil {
		t.Fatal(err)
	}
	w.want(false, 0, "changed")
	w.want(true, QuietTime, "changed")
}

// A process that writes the file anew all the time does not keep it from being read for ever.
func TestFileThatIsNeverQuietIsDueAfterAMinute(t *testing.T) {
	const pace = QuietTime / 2
	w := watch(t)
	w.write("first")
	w.want(true, 0, "never looked at")
	for round := range 2 {
		for passed := time.Duration(0); passed < longestWriter; passed += pace {
			w.write(strings.Repeat("x", int(passed/pace)%7+round))
			w.want(false, pace, "never quiet")
		}
		w.write("after a minute")
		f, err := os.OpenFile(w.path, os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		w.want(false, pace, "never quiet, and open for writing")
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		w.want(true, 0, "never quiet, and whole at the moment")
	}
}

// Files that are looked at for each connection may have been quiet for long at the first look.
func TestFileThatWasWrittenLongAgoIsDueAtOnce(t *testing.T) {
	w := watch(t)
	w.write("first")
	w.now = time.Now()
	w.want(true, 0, "never looked at")
	w.write("other")
	w.now = time.Now()
	w.want(true, QuietTime, "written a second before")
}

// The file is as it was when there are descriptors again.
func TestFileThatCouldNotBeReadIsDueAgain(t *testing.T) {
	w := watch(t)
	w.write("first")
	w.want(true, 0, "never looked at")
	w.Again(withoutDescriptors(t, w.path), w.now)
	w.want(false, retryPace-1, "not read for want of descriptors")
	w.want(true, 1, "not read for want of descriptors")
	w.want(false, time.Hour, "read at last")
	w.Again(errors.New("line 3: no such field"), w.now)
	w.want(false, time.Hour, "refused")
}

// withoutDescriptors is the error of reading a file when there are no descriptors.
func withoutDescriptors(t *testing.T, path string) error {
	t.Helper()
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	none := unix.Rlimit{Cur: 0, Max: limit.Max}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &none); err != nil {
		t.Fatal(err)
	}
	_, failed := Read(path, Text)
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	if failed == nil {
		t.Fatal("read without a descriptor")
	}
	return failed
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

// A read that was given up may end a moment later, and until then nothing is known of the file: what has come of it is told all the same.
func TestWhatWasNotReadInTimeIsTaken(t *testing.T) {
	path := t.TempDir() + "/pipe"
	if err := unix.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	var one Watch
	now := time.Now()
	stamp, due := one.Due(path, now)
	if !due {
		t.Fatal("a pipe is not due")
	}
	var both Set
	if !both.Due([]string{path}, now) {
		t.Fatal("a set with a pipe is not due")
	}
	underWay.add(path)
	defer underWay.remove(path)
	_, err := Begin(path, 1)
	if one.Take(path, stamp, nil) || both.Take([]string{path}, nil) {
		t.Error("a file of which nothing is known was taken for what it was")
	}
	if !one.Take(path, stamp, err) || !both.Take([]string{path}, err) {
		t.Errorf("%v is not told", err)
	}
}
