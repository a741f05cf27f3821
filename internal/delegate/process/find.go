// SPDX-License-Identifier: Apache-2.0

package process

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// findRemedy ends the errors of programs that cannot be had.
const findRemedy = "install Envoy, or name it with --delegate"

// Find returns the absolute path of a program that Start accepts. A name with a slash is a path; one without is looked for in PATH. The error says what is
// wrong with it, and the remedy.
func Find(name string) (string, error) {
	path, err := exec.LookPath(name)
	if err == nil {
		path, err = filepath.Abs(path)
	}
	if err != nil {
		return "", fmt.Errorf("find the program %q: %w; %s", name, withoutName(err), findRemedy)
	}
	program, err := openProgram(path)
	if err != nil {
		return "", err
	}
	program.Close()
	return path, nil
}

// withoutName is the reason that package exec gives, without the name, which the caller gives in its own way.
func withoutName(err error) error {
	if named := (*exec.Error)(nil); errors.As(err, &named) {
		return named.Err
	}
	return err
}

// Bits of a file's mode: others may execute it, and not the owner alone may write to it.
const (
	othersExecute  = 0o001
	notOwnersWrite = 0o022
)

// openProgram opens a file that is to be executed by pathOf, and refuses one that a confined user could not execute, or that others than its owner could
// exchange. It does not need to be readable, nor its directory to be entered by that user.
func openProgram(path string) (*os.File, error) {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open the program %s: %w; %s", path, err, findRemedy)
	}
	program := os.NewFile(uintptr(fd), path)
	if err := checkProgram(program); err != nil {
		program.Close()
		return nil, fmt.Errorf("the program %s %w", path, err)
	}
	return program, nil
}

// checkProgram returns an error that continues a sentence about the program.
func checkProgram(program *os.File) error {
	info, err := program.Stat()
	if err != nil {
		return fmt.Errorf("cannot be looked at: %w", err)
	}
	mode := info.Mode()
	switch {
	case !mode.IsRegular():
		return fmt.Errorf("is not a regular file (%s); %s", mode.Type(), findRemedy)
	case mode&othersExecute == 0:
		return fmt.Errorf("has the mode %#o: the user that it is to run as may not execute it; chmod o+x", mode.Perm())
	case mode&notOwnersWrite != 0:
		return fmt.Errorf("has the mode %#o: others than its owner may change it; chmod go-w", mode.Perm())
	case isScript(program):
		return errors.New("is a script, which has no way to itself when it runs confined; name the program that it starts with --delegate")
	}
	return nil
}

// isScript reports a file that begins with "#!". One that cannot be read may still be executed.
func isScript(program *os.File) bool {
	text, err := os.Open(pathOf(program))
	if err != nil {
		return false
	}
	defer text.Close()
	var first [2]byte
	_, err = text.ReadAt(first[:], 0)
	return err == nil && string(first[:]) == "#!"
}

// pathOf is a path that leads to an open file, whatever the directories above it allow. A child that has inherited the file finds it there, too, until it
// has executed: /proc/self is then its own.
func pathOf(f *os.File) string { return fmt.Sprintf("/proc/self/fd/%d", f.Fd()) }
