// SPDX-License-Identifier: Apache-2.0

package delegate

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"github.com/xlb-project/xlb/internal/delegate/twin"
)

// runDirectory is where the directories of delegates are: root alone writes there.
const runDirectory = "/run"

// Modes: the delegate reads what the daemon writes, and writes in its own directory alone. Others see nothing. The setgid bit has sockets that the delegate makes
// belong to the daemon's group, so that the daemon connects to them without CAP_DAC_OVERRIDE.
const (
	modeRead     fs.FileMode = 0o750
	modeOwn      fs.FileMode = 0o770 | fs.ModeSetgid
	modeReadFile fs.FileMode = 0o640
)

// directory has one directory for each process of a delegate.
type directory struct {
	path string
	user uint32
	next uint64
	// lock makes it this daemon's.
	lock *os.File
}

// newDirectory makes one for processes of a user, and removes those of daemons that have not done so.
func newDirectory(name string, user uint32) (*directory, error) {
	removeStale(runDirectory, removeTree)
	d := &directory{path: filepath.Join(runDirectory, name), user: user}
	lock, err := own(d.path)
	if err != nil {
		return nil, fmt.Errorf("directory of the delegate: %w; have %s writable for the daemon", err, runDirectory)
	}
	d.lock = lock
	if err := d.chown(d.path, os.Geteuid(), int(user), modeRead); err != nil {
		return nil, errors.Join(fmt.Errorf("directory of the delegate: %w", err), d.remove())
	}
	return d, nil
}

// make makes a directory that the delegate may read.
func (d *directory) make(path string) error {
	if err := os.Mkdir(path, 0o700); err != nil {
		return err
	}
	return d.chown(path, os.Geteuid(), int(d.user), modeRead)
}

// chown sets mode and owners. The mode comes first: the owner alone changes it.
func (d *directory) chown(path string, user, group int, mode fs.FileMode) error {
	if err := os.Chmod(path, mode); err != nil {
		return err
	}
	return os.Chown(path, user, group)
}

// write makes a directory with all that a process is started with.
func (d *directory) write(t *twin.Twin) (path string, err error) {
	d.next++
	path = filepath.Join(d.path, strconv.FormatUint(d.next, 10))
	if err := d.fill(path, t); err != nil {
		return "", errors.Join(fmt.Errorf("directory of the delegate: %w", err), removeTree(path))
	}
	return path, nil
}

func (d *directory) fill(path string, t *twin.Twin) error {
	own := filepath.Join(path, twin.Own)
	err := errors.Join(d.make(path), d.make(filepath.Join(path, twin.Copies)), os.Mkdir(own, 0o700), d.chown(own, int(d.user), os.Getegid(), modeOwn))
	if err != nil {
		return err
	}
	for _, f := range append([]twin.File{{Name: twin.BootstrapFile, Data: t.Bootstrap}}, t.Files...) {
		if err := d.writeFile(filepath.Join(path, f.Name), f.Data); err != nil {
			return err
		}
	}
	return nil
}

// writeFile writes a file that the delegate may read: keys may be among them, so that it has no moment at which others could.
func (d *directory) writeFile(path string, data []byte) error {
	if err := os.WriteFile(path, data, 0o600); err != nil {
		return err
	}
	return d.chown(path, os.Geteuid(), int(d.user), modeReadFile)
}

// remove removes it. Once it is this daemon's no more another daemon removes what is left.
func (d *directory) remove() error { return errors.Join(removeTree(d.path), d.lock.Close()) }

// removeTree removes a directory. What a delegate has made unreadable there stays.
func removeTree(path string) error { return os.RemoveAll(path) }
