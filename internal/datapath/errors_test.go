// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"errors"
	"fmt"
	"testing"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

func TestUnsupportedTellsTheKernelFromThePrivileges(t *testing.T) {
	tests := []struct {
		name string
		err  error
		want bool
	}{
		{"missing feature", fmt.Errorf("load: %w", ebpf.ErrNotSupported), true},
		{"verifier that does not understand", fmt.Errorf("load: %w", &ebpf.VerifierError{Cause: unix.EACCES, Log: []string{"R2 unbounded"}}), true},
		{"program type that is not known", &ebpf.VerifierError{Cause: unix.EINVAL}, true},
		{"load without privileges", fmt.Errorf("load: %w", &ebpf.VerifierError{Cause: unix.EPERM}), false},
		{"load without memory", &ebpf.VerifierError{Cause: unix.ENOMEM}, false},
		{"load without descriptors", &ebpf.VerifierError{Cause: unix.EMFILE}, false},
		{"any other call without privileges", fmt.Errorf("create map: %w", unix.EPERM), false},
		{"anything else", errors.New("attach"), false},
		{"nothing", nil, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := Unsupported(tt.err); got != tt.want {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}
