// SPDX-License-Identifier: Apache-2.0

package programs

import "github.com/xlb-project/xlb/test/uring"

// uringPump waits for each of its operations.
type uringPump struct{ *uring.Socket }

func newURingPump(fd int) (pump, error) {
	s, err := uring.New(fd)
	return uringPump{s}, err
}

func (u uringPump) read(p []byte) (int, error) { return u.Read(p) }

func (u uringPump) write(p []byte) (int, error) { return u.Write(p) }

func (u uringPump) close() error { return u.Close() }
