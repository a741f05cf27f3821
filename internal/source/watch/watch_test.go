// SPDX-License-Identifier: Apache-2.0

package watch

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/xlb-project/xlb/internal/config"
)

// What is read ahead outlives looks at the files that are in force; and once a file is forgotten, nothing that was read before comes of it.
func TestWhatIsReadAheadIsNotForgottenAndNeverOld(t *testing.T) {
	l := New(Config{})
	f := config.File{Kind: config.Routes, Path: "/r"}
	none := map[config.File]bool{}

	w, first := l.watchAhead(f)
	l.Keep(none)
	l.putAhead(w, &Content{File: f})
	l.Keep(none)
	if !first || l.TakeAhead(f) == nil {
		t.Error("a look at other files has forgotten what was read ahead")
	}
	// It was taken, and then its configuration was replaced.
	if !l.Keep(none) || len(l.watches) != 0 {
		t.Errorf("%d files are kept that no configuration names", len(l.watches))
	}

	old, _ := l.watchAhead(f)
	old.ahead = time.Now().Add(-2 * spared)
	l.Keep(none)
	l.putAhead(old, &Content{File: f})
	l.arrive(old, &Content{File: f})
	if l.TakeAhead(f) != nil || len(l.takeArrived()) != 0 || len(l.ahead) != 0 {
		t.Error("what was read of a file that was forgotten has come")
	}
}

// What the control plane names is read while the stream goes on, and waited for before it is put in force.
func TestFilesAreReadBesideTheStream(t *testing.T) {
	l := New(Config{Parse: func(f config.File, _ []byte) *Content { return &Content{File: f} }})
	var files []config.File
	var writers []*os.File
	for i := range 3 {
		path := filepath.Join(t.TempDir(), fmt.Sprint(i))
		if err := unix.Mkfifo(path, 0o600); err != nil {
			t.Fatal(err)
		}
		writer, err := os.OpenFile(path, os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		writers = append(writers, writer)
		files = append(files, config.File{Kind: config.Routes, Path: path})
		l.StartAhead(files[i : i+1])
		if w := l.watches[files[i]]; w.mu.TryLock() {
			t.Error("the stream has waited for a file")
			w.mu.Unlock()
		}
	}
	l.StartAhead(nil)
	for _, w := range writers {
		w.Close()
	}
	l.AwaitAhead()
	for _, f := range files {
		if l.TakeAhead(f) == nil {
			t.Errorf("%s was not waited for", f.Path)
		}
	}
	if len(l.pending) != 0 {
		t.Errorf("%d batches are kept", len(l.pending))
	}
}
