// SPDX-License-Identifier: Apache-2.0

package node

import (
	"testing"
	"time"

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
