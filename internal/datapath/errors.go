// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"errors"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// Unsupported reports whether an error of this package says that the kernel lacks what the programs need: a feature, or a
// verifier that understands them. A verifier refuses with EACCES too: ask this before asking for a lack of privileges.
func Unsupported(err error) bool {
	if errors.Is(err, ebpf.ErrNotSupported) {
		return true
	}
	// Every failed load is a VerifierError; EPERM comes before the verifier has looked.
	var refused *ebpf.VerifierError
	return errors.As(err, &refused) && !errors.Is(refused.Cause, unix.EPERM)
}
