// SPDX-License-Identifier: Apache-2.0

package source

import (
	"context"
	"errors"
	"os"
	"time"

	"github.com/xlb-project/xlb/internal/files"
	"github.com/xlb-project/xlb/internal/shutdown"
	"github.com/xlb-project/xlb/internal/source/intake"
)

// filePace is how often files are looked at.
const filePace = 250 * time.Millisecond

// ServeReloads loads the bootstrap again when its file has changed and when reload says so, until ctx ends. A configuration that is a text has no file.
// The file is read by another goroutine, which the end does not wait for: a read may take seconds.
func (s *Source) ServeReloads(ctx context.Context, reload <-chan os.Signal) {
	s.sizeBefore = files.StampOf(s.cfg.File.Path).Size
	tick, stop := s.cfg.NewTicker(filePace, func() bool { return len(s.cfg.File.Text) == 0 })
	defer stop()
	done := make(chan *loadedFile, 1)
	reads, asked := false, false
	for {
		select {
		case <-ctx.Done():
			return
		case loaded := <-done:
			if reads = false; loaded != nil {
				s.reload(loaded)
			}
			if !asked {
				continue
			}
		case <-reload:
			asked = true
		case <-tick:
		}
		if reads {
			continue
		}
		reads = true
		go func(asked bool) { done <- s.read(asked) }(asked)
		asked = false
	}
}

// read reads the file again, if it is due, or asked for. It is nil for one that is neither, and for one that changes while it is read: the watch reports it
// once more.
func (s *Source) read(asked bool) *loadedFile {
	file, now := &s.cfg.File, time.Now()
	stamp, due := s.watch.Due(file.Path, now)
	if !due && !asked {
		return nil
	}
	text, err := file.text()
	if !s.watch.Take(file.Path, stamp, err) {
		return nil
	}
	s.watch.Again(err, now)
	if err != nil {
		return &loadedFile{err: err}
	}
	loaded := file.parse(text)
	if loaded.err == nil && s.dynamic != nil {
		s.dynamic.files.ReadAhead(loaded.bootstrap.parsed.Files())
	}
	return &loaded
}

// reload puts in force what has been read. What cannot be used changes nothing.
func (s *Source) reload(loaded *loadedFile) {
	err := loaded.err
	if err == nil {
		err = s.replaceBootstrap(loaded.bootstrap)
	}
	if errors.Is(err, shutdown.ErrEnding) {
		return
	}
	if err != nil {
		s.cfg.Logger.Error("configuration refused; the one before stays in force", "file", s.cfg.File.Path, "err", err)
		s.intake.Refuse(s.bootstrapKey(), intake.RefusalOf(err), false)
	}
	s.giveBack()
}

func (s *Source) replaceBootstrap(b *Bootstrap) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	err := s.load(b)
	if err == nil {
		s.tookBootstrap(b)
	}
	return err
}

// largeFile is the size in bytes of a configuration that leaves much behind when it has been read.
const largeFile = 1 << 20

// giveBack returns the memory to the system that the reading of a large file has left, several times what is kept of it, and what a small one has made needless:
// the runtime would hold it until as much is used again.
func (s *Source) giveBack() {
	size := files.StampOf(s.cfg.File.Path).Size
	if max(size, s.sizeBefore) >= largeFile {
		s.freeMemory()
	}
	s.sizeBefore = size
}
