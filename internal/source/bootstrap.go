// SPDX-License-Identifier: Apache-2.0

package source

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/xlb-project/xlb/internal/config"
	"github.com/xlb-project/xlb/internal/files"
	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/shutdown"
	"github.com/xlb-project/xlb/internal/source/intake"
)

// File is where the bootstrap is, and how it is read.
type File struct {
	// Path of the Envoy bootstrap; with Text only a name for that.
	Path string
	// Text is the bootstrap itself, in YAML; empty: it is in the file.
	Text []byte
	// Node goes before what the bootstrap says of the node: the daemon's for the shared view, and a view's own for that.
	Node config.NodeName
	// EnvoyHeaders makes all listeners connection managers that set Envoy's headers (config.EnvoyHeaders).
	EnvoyHeaders bool
	// View has the configuration (config.ForView); the zero value is the shared one.
	View model.View
}

// Bootstrap is a bootstrap that has been loaded.
type Bootstrap struct {
	// Static is the configuration without what other sources have.
	Static *model.Config

	file   File
	parsed *config.Bootstrap
	// text is what was read, until the bootstrap is in force.
	text []byte
	// watch has seen the file before it was read: if it has changed meanwhile, it is due.
	watch *files.Watch
}

// Load reads the bootstrap. The error is shutdown.ErrEnding once ctx has ended, which waits for no file that hangs.
func Load(ctx context.Context, f File) (*Bootstrap, error) {
	loaded, ok := shutdown.Unless(ctx.Done(), func() loadedFile { return loadFirst(&f) })
	if !ok {
		return nil, shutdown.ErrEnding
	}
	return loaded.bootstrap, loaded.err
}

// loadedFile is a bootstrap, or why the file cannot be used.
type loadedFile struct {
	bootstrap *Bootstrap
	err       error
}

func loadFirst(f *File) loadedFile {
	watch, stamp := &files.Watch{}, files.StampOf(f.Path)
	text, err := f.text()
	if err != nil {
		return loadedFile{err: err}
	}
	loaded := f.parse(text)
	if loaded.err == nil {
		watch.Take(f.Path, stamp, nil)
		loaded.bootstrap.watch = watch
	}
	return loaded
}

func (f *File) text() ([]byte, error) {
	if len(f.Text) > 0 {
		return f.Text, nil
	}
	text, err := config.ReadText(f.Path)
	if err != nil {
		return nil, fmt.Errorf("read configuration: %w; name a readable Envoy v3 bootstrap", err)
	}
	return text, nil
}

func (f *File) parse(text []byte) loadedFile {
	b, err := config.ParseBootstrap(f.Path, text, config.EnvoyHeaders(f.EnvoyHeaders), config.AsNode(f.Node), config.ForView(f.View))
	if err != nil {
		return loadedFile{err: err}
	}
	static := b.Whole()
	if static == nil {
		static, err = b.Assemble(config.Resources{})
	}
	return loadedFile{&Bootstrap{Static: static, file: *f, parsed: b, text: text}, err}
}

var errOtherSources = errors.New("dynamic_resources, node, the cluster of the control plane, or what static clusters and listeners have from it differs from before; restart the daemon to change them")

// load puts another bootstrap in force. Needs s.mu.
func (s *Source) load(b *Bootstrap) error {
	switch {
	case s.dynamic != nil:
		return s.dynamic.load(b.parsed)
	case b.parsed.Dynamic != nil:
		return errOtherSources
	}
	return s.activate(b.Static)
}

// tookBootstrap notes what is to be shown of a bootstrap in force.
func (s *Source) tookBootstrap(b *Bootstrap) {
	s.showBootstrap(b.parsed)
	s.ignored.noteBootstrap(b.parsed)
	s.intake.Take(s.bootstrapKey(), digestText(b.parsed))
	if s.cfg.Took != nil {
		s.cfg.Took(b.text)
	}
	b.text = nil
	if s.dynamic == nil {
		s.intake.Take(intake.Whole, "")
	}
}

func (s *Source) bootstrapKey() intake.Key { return intake.BootstrapKey(s.cfg.File.Path) }

// digestText is the version of a bootstrap: what sha256sum begins with.
func digestText(b *config.Bootstrap) string {
	sum := b.Digest()
	return hex.EncodeToString(sum[:8])
}

// Text is what was read of a bootstrap that is not in force yet.
func (b *Bootstrap) Text() []byte { return b.text }

// BootstrapVersion is a number that differs between bootstraps: the first six bytes of the text's SHA-256, which a float64 holds.
func (s *Source) BootstrapVersion() uint64 {
	sum, err := hex.DecodeString(s.intake.Of(s.bootstrapKey()).Version)
	if err != nil || len(sum) < 8 {
		return 0
	}
	return binary.BigEndian.Uint64(sum) >> 16
}
