// SPDX-License-Identifier: Apache-2.0

package files

import (
	"errors"
	"time"
)

// Set watches files that are of use together only, as a certificate and its key. The zero value has seen nothing; it is not safe for concurrent use, and
// its paths are the same each time, of which some may be empty.
type Set struct {
	watches []Watch
	stamps  []Stamp
}

// Due reports whether any of the files differs from what was taken last, and all are whole, as Watch.Due says.
func (s *Set) Due(paths []string, now time.Time) bool {
	if s.watches == nil {
		s.watches, s.stamps = make([]Watch, len(paths)), make([]Stamp, len(paths))
	}
	some, all := false, true
	for i, path := range paths {
		w := &s.watches[i]
		stamp, due := w.Due(path, now)
		s.stamps[i] = stamp
		some = some || due
		all = all && (due || w.known && stamp == w.taken)
	}
	return some && all
}

// Take notes that the files have been read as they were when they were due. It reports false, and notes nothing, if any of them is another one now: what
// was read may be parts of several rotations, as when the directory was exchanged that all of them lie in. The error is as for Watch.Take.
func (s *Set) Take(paths []string, err error) bool {
	for i, path := range paths {
		if !errors.Is(err, errHangs) && StampOf(path) != s.stamps[i] {
			return false
		}
	}
	for i := range s.watches {
		s.watches[i].take(s.stamps[i])
	}
	return true
}

// Again is as Watch.Again.
func (s *Set) Again(err error, now time.Time) {
	for i := range s.watches {
		s.watches[i].Again(err, now)
	}
}
