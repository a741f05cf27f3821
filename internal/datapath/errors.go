// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"errors"
	"slices"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// Unsupported reports whether an error of this package says that the kernel lacks what the programs need: a feature, or a
// verifier that understands them. A verifier refuses with EACCES too: ask this before asking for a lack of privileges.
func Unsupported(err error) bool {
	if errors.Is(err, ebpf.ErrNotSupported) {
		return true
	}
	// Every failed load is a VerifierError; EPERM comes before the verifier has looked, and the others are about resources of this process.
	var refused *ebpf.VerifierError
	return errors.As(err, &refused) && !isOneOf(refused.Cause, unix.EPERM, unix.ENOMEM, unix.EMFILE, unix.ENFILE)
}

// FastPathUnsupported reports whether an error of this package says that the fast path cannot run here, whatever
// the reason: the kernel lacks something, or does something wrong. Without the fast path a daemon
// may run all the same.
func FastPathUnsupported(err error) bool {
	var wrong *wrongKernelError
	return Unsupported(err) || errors.As(err, &wrong)
}

// wrongKernelError says what the kernel does otherwise than it should.
type wrongKernelError struct{ error }

func (e *wrongKernelError) Unwrap() error { return e.error }

func isOneOf(err error, list ...error) bool {
	return slices.ContainsFunc(list, func(one error) bool { return errors.Is(err, one) })
}
