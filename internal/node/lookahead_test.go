// SPDX-License-Identifier: Apache-2.0

package node

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
	l := looks{watches: map[config.File]*watchedFile{}, ahead: map[config.File]*found{}}
	f := config.File{Kind: config.Routes, Path: "/r"}
	none := map[config.File]bool{}

	w, first := l.watchAhead(f)
	l.keep(none)
	l.putAhead(w, &found{file: f})
	l.keep(none)
	if !first || l.takeAhead(f) == nil {
		t.Error("a look at other files has forgotten what was read ahead")
	}
	// It was taken, and then its configuration was replaced.
	if !l.keep(none) || len(l.watches) != 0 {
		t.Errorf("%d files are kept that nobody names", len(l.watches))
	}

	old, _ := l.watchAhead(f)
	old.ahead = time.Now().Add(-2 * spared)
	l.keep(none)
	l.putAhead(old, &found{file: f})
	l.arrive(old, &found{file: f})
	if l.takeAhead(f) != nil || len(l.takeArrived()) != 0 || len(l.ahead) != 0 {
		t.Error("what was read of a file that was forgotten has come")
	}
}

// What the control plane names is read while the stream goes on, and waited for before it is put in force.
func TestFilesAreReadBesideTheStream(t *testing.T) {
	d := &dynamic{stopped: make(chan struct{}), looks: looks{watches: map[config.File]*watchedFile{}, ahead: map[config.File]*found{}}}
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
		d.readAheadOf(files[i : i+1])
		if w := d.looks.watches[files[i]]; w.mu.TryLock() {
			t.Error("the stream has waited for a file")
			w.mu.Unlock()
		}
	}
	d.readAheadOf(nil)
	for _, w := range writers {
		w.Close()
	}
	d.awaitAhead()
	for _, f := range files {
		if d.looks.takeAhead(f) == nil {
			t.Errorf("%s was not waited for", f.Path)
		}
	}
	if len(d.looks.begun) != 0 {
		t.Errorf("%d rounds are kept", len(d.looks.begun))
	}
}
